//! PostgreSQL's hash of texts, `hashtextextended`, by which the first groups of a unit are taken.

/// The hash of a text under a deterministic collation.
///
/// # Reference
/// Bob Jenkins, `lookup3.c` (2006, public domain), whose two words PostgreSQL joins to one
/// (`src/common/hashfn.c`, `hash_bytes_extended`), on a little-endian machine.
pub fn of_text(text: &[u8], seed: i64) -> i64 {
    let start = 0x9e37_79b9_u32
        .wrapping_add(text.len() as u32)
        .wrapping_add(3_923_095);
    let mut state = [start; 3];
    if seed != 0 {
        let seed = seed as u64;
        state[0] = state[0].wrapping_add((seed >> 32) as u32);
        state[1] = state[1].wrapping_add(seed as u32);
        mix(&mut state);
    }
    let mut blocks = text.chunks_exact(12);
    for block in &mut blocks {
        for (word, bytes) in state.iter_mut().zip(block.chunks_exact(4)) {
            *word = word.wrapping_add(little_endian(bytes));
        }
        mix(&mut state);
    }
    // The lowest byte of the last word is left for the length.
    let shifts = [0, 0, 8];
    for ((word, bytes), shift) in state
        .iter_mut()
        .zip(blocks.remainder().chunks(4))
        .zip(shifts)
    {
        *word = word.wrapping_add(little_endian(bytes) << shift);
    }
    finish(&mut state);
    ((u64::from(state[1]) << 32) | u64::from(state[2])) as i64
}

/// Up to four bytes, the first as the lowest.
fn little_endian(bytes: &[u8]) -> u32 {
    let all = bytes.iter().rev();
    all.fold(0, |word, byte| (word << 8) | u32::from(*byte))
}

fn mix([a, b, c]: &mut [u32; 3]) {
    for (turns, step) in [4, 6, 8, 16, 19, 4].into_iter().zip(0..) {
        let (x, y, z) = match step % 3 {
            0 => (&mut *a, &mut *b, &mut *c),
            1 => (&mut *b, &mut *c, &mut *a),
            _ => (&mut *c, &mut *a, &mut *b),
        };
        // x -= z; x ^= rot(z, turns); z += y
        *x = x.wrapping_sub(*z) ^ z.rotate_left(turns);
        *z = z.wrapping_add(*y);
    }
}

fn finish([a, b, c]: &mut [u32; 3]) {
    for (turns, step) in [14, 11, 25, 16, 4, 14, 24].into_iter().zip(0..) {
        let (x, y) = match step % 3 {
            0 => (&mut *c, &*b),
            1 => (&mut *a, &*c),
            _ => (&mut *b, &*a),
        };
        // x ^= y; x -= rot(y, turns)
        *x = (*x ^ y).wrapping_sub(y.rotate_left(turns));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `SELECT hashtextextended(text, seed)` prints them on PostgreSQL 15.
    #[test]
    fn hashes_are_those_of_postgresql() {
        for (text, seed, hash) in VALUES {
            assert_eq!(of_text(text.as_bytes(), *seed), *hash, "{text:?} {seed}");
        }
    }

    const VALUES: &[(&str, i64, i64)] = &[
        ("", 0, -6_939_563_903_564_495_251),
        ("", 1, -150_071_773_020_461_347),
        ("", -7, 7_897_695_672_827_216_937),
        ("", 4_611_686_018_427_400_249, -8_057_217_048_385_423_962),
        ("a", 0, 3_591_986_179_850_072_241),
        ("ab", 0, 2_833_316_173_711_343_549),
        ("abc", 0, -6_747_756_470_228_489_321),
        ("1994", 0, -3_834_030_809_777_905_458),
        ("12345", 0, -4_619_177_982_457_060_005),
        ("1994-0", 0, 1_447_820_332_299_173_460),
        ("1994-01", 0, 4_404_802_887_038_433_666),
        ("12345678", 0, -2_672_274_306_434_209_449),
        ("123456789", 0, 5_342_912_370_613_372_840),
        ("1994-01-01", 0, -2_537_711_477_572_830_323),
        ("abcdefghijk", 0, 3_112_909_444_737_856_467),
        ("abcdefghijk", 1, 8_196_382_510_784_792_041),
        ("abcdefghijk", -7, -7_800_407_695_651_034_862),
        (
            "abcdefghijk",
            4_611_686_018_427_400_249,
            -6_491_286_459_920_451_538,
        ),
        ("abcdefghijkl", 0, -7_556_637_188_122_330_412),
        ("abcdefghijkl", 1, -6_429_754_808_531_195_817),
        ("abcdefghijkl", -7, -2_179_186_698_317_225_985),
        (
            "abcdefghijkl",
            4_611_686_018_427_400_249,
            -1_523_108_942_437_082_782,
        ),
        ("abcdefghijklm", 0, 8_871_624_171_452_417_744),
        ("abcdefghijklm", 1, 3_808_842_878_744_369_845),
        ("abcdefghijklm", -7, -1_749_882_020_453_869_955),
        (
            "abcdefghijklm",
            4_611_686_018_427_400_249,
            4_626_843_202_850_568_771,
        ),
        (
            "zürich und Köln, im Jahr 1994",
            0,
            -8_467_723_586_701_704_627,
        ),
        ("zürich und Köln, im Jahr 1994", 1, -952_719_134_648_146_776),
        (
            "zürich und Köln, im Jahr 1994",
            -7,
            7_711_843_727_251_845_684,
        ),
        (
            "zürich und Köln, im Jahr 1994",
            4_611_686_018_427_400_249,
            3_212_791_139_246_307_481,
        ),
        (
            "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
            0,
            -8_843_098_534_198_874_925,
        ),
    ];
}

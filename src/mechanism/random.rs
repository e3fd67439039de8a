//! The only source of random bits: the operating system's CSPRNG.

use std::fmt;

use rand::TryRng;
use rand::rngs::SysRng;
use zeroize::Zeroize;

/// A source of independent, uniform 64-bit words.
///
/// # Requires
///
/// Words are independent and uniform on all 2^64 values, and unpredictable to every analyst:
/// somebody who predicts them subtracts the noise. A source that cannot deliver fails; it never
/// repeats, pads or falls back to something weaker.
pub trait Randomness {
    /// The next word.
    ///
    /// # Errors
    ///
    /// [`RandomError`] when the source has none to give. The caller gives up the answer; the charge
    /// stands.
    fn next_u64(&mut self) -> Result<u64, RandomError>;

    /// The next `count` bits, 1 to 64: a number below 2^count. By default the low bits of a word.
    ///
    /// # Errors
    ///
    /// As [`Self::next_u64`].
    fn next_bits(&mut self, count: u32) -> Result<u64, RandomError> {
        Ok(lowest(self.next_u64()?, count))
    }
}

/// The lowest `count` bits, 1 to 64.
fn lowest(word: u64, count: u32) -> u64 {
    word & (u64::MAX >> (u64::BITS - count))
}

impl<R: Randomness + ?Sized> Randomness for &mut R {
    fn next_u64(&mut self) -> Result<u64, RandomError> {
        (**self).next_u64()
    }

    fn next_bits(&mut self, count: u32) -> Result<u64, RandomError> {
        (**self).next_bits(count)
    }
}

/// A source that hands out words in parts: a draw of noise mostly asks for a few bits, and the
/// operating system takes its time for each word.
///
/// # Guarantee
///
/// Bits of a source of independent, uniform words are independent and uniform: each bit of a word
/// is handed out once at most. Those that are left are overwritten when the value is dropped.
pub struct Parts<'r, R: Randomness + ?Sized> {
    source: &'r mut R,
    /// Bits not handed out yet, the next one lowest; 0 above them.
    kept: u64,
    left: u32,
}

impl<'r, R: Randomness + ?Sized> Parts<'r, R> {
    /// Reads nothing yet.
    pub fn new(source: &'r mut R) -> Self {
        Self {
            source,
            kept: 0,
            left: 0,
        }
    }
}

impl<R: Randomness + ?Sized> Randomness for Parts<'_, R> {
    fn next_u64(&mut self) -> Result<u64, RandomError> {
        self.source.next_u64()
    }

    fn next_bits(&mut self, count: u32) -> Result<u64, RandomError> {
        // A request for more than half a word draws a new word. The rest of an earlier word is kept
        // for smaller requests.
        if count > u64::BITS / 2 && count > self.left {
            return Ok(lowest(self.source.next_u64()?, count));
        }
        if count > self.left {
            self.kept = self.source.next_u64()?;
            self.left = u64::BITS;
        }
        let bits = lowest(self.kept, count);
        self.kept = self.kept.checked_shr(count).unwrap_or(0);
        self.left -= count;
        Ok(bits)
    }
}

impl<R: Randomness + ?Sized> Drop for Parts<'_, R> {
    fn drop(&mut self) {
        self.kept.zeroize();
    }
}

/// The random source failed; there is no answer without noise.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no random bits: {reason}")]
pub struct RandomError {
    pub reason: String,
}

const BUFFER_BYTES: usize = 4096;
const WORD_BYTES: usize = 8;

/// The operating system's CSPRNG, read 4 KiB at a time.
///
/// One system call a page instead of one a word: a draw takes two to five words. Every word
/// is overwritten as soon as it is handed out and the rest when the value is dropped, so a later
/// read of this memory finds neither past noise nor noise to come. Not `Clone`: a copy would repeat
/// its words. Make one for each release, and none before a `fork`.
pub struct OsRandomness {
    buffer: Box<[u8; BUFFER_BYTES]>,
    /// Byte offset of the first word not handed out; `BUFFER_BYTES` when there is none.
    next: usize,
}

impl OsRandomness {
    /// Reads nothing yet: the first failure shows at the first word.
    pub fn new() -> Self {
        Self {
            buffer: Box::new([0; BUFFER_BYTES]),
            next: BUFFER_BYTES,
        }
    }

    fn next_from<S: TryRng>(&mut self, source: &mut S) -> Result<u64, RandomError> {
        if self.next == BUFFER_BYTES {
            if let Err(error) = source.try_fill_bytes(&mut *self.buffer) {
                // A failed read may have filled a part; it is as good as nothing.
                self.buffer.zeroize();
                return Err(RandomError {
                    reason: error.to_string(),
                });
            }
            self.next = 0;
        }
        let word = &mut self.buffer[self.next..self.next + WORD_BYTES];
        let mut bytes = [0; WORD_BYTES];
        bytes.copy_from_slice(word);
        word.zeroize();
        self.next += WORD_BYTES;
        Ok(u64::from_ne_bytes(bytes))
    }
}

impl Drop for OsRandomness {
    fn drop(&mut self) {
        self.buffer.zeroize();
    }
}

impl Default for OsRandomness {
    fn default() -> Self {
        Self::new()
    }
}

impl Randomness for OsRandomness {
    fn next_u64(&mut self) -> Result<u64, RandomError> {
        self.next_from(&mut SysRng)
    }
}

/// Shows nothing of the buffer: it is noise to come.
impl fmt::Debug for OsRandomness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OsRandomness")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives the words 1, 2, 3, ... for `pages` pages, then fails half way through a page.
    struct Failing {
        pages: u32,
        word: u64,
    }

    impl TryRng for Failing {
        type Error = std::fmt::Error;

        fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
            Err(std::fmt::Error)
        }

        fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
            Err(std::fmt::Error)
        }

        fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Self::Error> {
            if self.pages == 0 {
                bytes[..BUFFER_BYTES / 2].fill(7);
                return Err(std::fmt::Error);
            }
            self.pages -= 1;
            for chunk in bytes.chunks_exact_mut(WORD_BYTES) {
                self.word += 1;
                chunk.copy_from_slice(&self.word.to_ne_bytes());
            }
            Ok(())
        }
    }

    #[test]
    fn a_word_is_handed_out_once_and_overwritten() {
        let mut source = Failing { pages: 2, word: 0 };
        let mut random = OsRandomness::new();
        for expected in 1..=1024 {
            assert_eq!(random.next_from(&mut source).unwrap(), expected);
            assert!(
                random.buffer[..random.next].iter().all(|&byte| byte == 0),
                "what was handed out is gone"
            );
        }
    }

    #[test]
    fn a_failing_source_fails_closed_and_stays_failed() {
        let mut source = Failing { pages: 1, word: 0 };
        let mut random = OsRandomness::new();
        for _ in 0..512 {
            random.next_from(&mut source).unwrap();
        }
        for _ in 0..3 {
            let error = random.next_from(&mut source).unwrap_err();
            assert!(error.to_string().starts_with("no random bits: "), "{error}");
            assert!(
                random.buffer.iter().all(|&byte| byte == 0),
                "a half-filled page is not kept"
            );
        }
    }

    #[test]
    fn the_operating_system_gives_words_without_panic() {
        let mut random = OsRandomness::default();
        let words: Vec<u64> = (0..5000).map(|_| random.next_u64().unwrap()).collect();
        let ones: u32 = words.iter().map(|word| word.count_ones()).sum();
        // 320,000 fair bits: standard deviation 283; six of them is a false alarm once in 5e8 runs.
        assert!(
            (i64::from(ones) - 160_000).abs() < 1_700,
            "{ones} ones of 320000"
        );
        let mut sorted = words;
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), 5000, "a word came twice");
    }

    /// Gives the words of a list, then fails.
    struct Words(Vec<u64>);

    impl Randomness for Words {
        fn next_u64(&mut self) -> Result<u64, RandomError> {
            self.0.pop().ok_or_else(|| RandomError {
                reason: "no word".to_owned(),
            })
        }
    }

    #[test]
    fn each_bit_of_a_word_is_handed_out_once() {
        let word = 0x0123_4567_89ab_cdef;
        let mut words = Words(vec![7, word]);
        let mut parts = Parts::new(&mut words);
        let mut given = 0u64;
        let mut at = 0;
        for count in [1, 2, 3, 10, 16, 31, 1] {
            given |= parts.next_bits(count).unwrap() << at;
            at += count;
        }
        assert_eq!((at, given, parts.kept, parts.left), (64, word, 0, 0));
        assert_eq!(parts.next_bits(3), Ok(7));
        assert_eq!((parts.kept, parts.left), (0, 61));
        // More than are left: a word is drawn for them, and what is left stays.
        assert!(parts.next_bits(62).is_err());
        assert_eq!(parts.next_bits(61), Ok(0));
        assert!(parts.next_bits(1).is_err());
    }

    #[test]
    fn whole_words_leave_what_is_kept() {
        let mut words = Words(vec![5, u64::MAX, 0b1101]);
        let mut parts = Parts::new(&mut words);
        assert_eq!(parts.next_bits(2), Ok(0b01));
        assert_eq!(parts.next_bits(64), Ok(u64::MAX));
        assert_eq!(parts.next_bits(2), Ok(0b11));
        assert_eq!(parts.next_u64(), Ok(5));
        assert_eq!(parts.left, 60);
    }

    #[test]
    fn debug_shows_no_word() {
        assert_eq!(format!("{:?}", OsRandomness::new()), "OsRandomness");
    }
}

//! A small generator of reproducible choices (splitmix64).

#[derive(Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// True once in `n` times.
    pub fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub fn pick<'v, T: ?Sized>(&mut self, values: &[&'v T]) -> &'v T {
        values[self.below(values.len())]
    }
}

/// One seed that never changes; `PGVEIL_SEED=today` adds one of today, and a number there repeats a
/// failure.
pub fn seeds() -> Vec<u64> {
    const SAME: u64 = 20_261_121;
    match std::env::var("PGVEIL_SEED").as_deref() {
        Err(_) => vec![SAME],
        Ok("today") => vec![
            SAME,
            u64::from(std::process::id()) ^ rand::random::<u64>() >> 20,
        ],
        Ok(seed) => vec![seed.parse().expect("PGVEIL_SEED is a number or `today`")],
    }
}

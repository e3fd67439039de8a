//! A made-up library: its members, and what they borrowed in the first half of 2024. Every run
//! makes the same rows.

use std::fmt::Write;

/// Statements before and after the rows, a line each.
pub const SCHEMA: &str = "CREATE SCHEMA library;
CREATE TABLE library.members (member_id integer PRIMARY KEY, branch text NOT NULL, \
    birth_year smallint NOT NULL, minutes_away smallint NOT NULL, joined date NOT NULL);
CREATE TABLE library.loans (loan_id integer PRIMARY KEY, member_id integer NOT NULL REFERENCES \
    library.members, day date NOT NULL, genre text NOT NULL, days_kept smallint NOT NULL);
ANALYZE library.members, library.loans;
";

/// The number of members, which the policy tells pgveil.
pub const MEMBERS: usize = 16_000;

/// The days from Monday 2024-01-01 to Sunday 2024-06-30.
pub const DAYS: usize = 182;

const BRANCHES: [&str; 4] = ["harbour", "hill", "market", "station"];
const MEMBERS_OF: [u64; 4] = [35, 25, 30, 10];
/// The first and the last birth year of an age group.
const BORN: [(u64, u64); 5] = [
    (1930, 1959),
    (1960, 1984),
    (1985, 1999),
    (2000, 2009),
    (2010, 2019),
];
/// How many of each age group a branch has.
const AGES_OF: [[u64; 5]; 4] = [
    [20, 30, 25, 15, 10],
    [35, 30, 15, 10, 10],
    [20, 25, 25, 10, 20],
    [8, 17, 40, 27, 8],
];
const MINUTES_OF: [u64; 4] = [10, 17, 6, 13];

const GENRES: [&str; 6] = ["comics", "crime", "fiction", "history", "science", "travel"];
/// What an age group reads.
const READ_BY: [[u64; 6]; 5] = [
    [2, 30, 25, 25, 6, 12],
    [5, 25, 28, 15, 10, 17],
    [12, 15, 28, 8, 20, 17],
    [25, 10, 30, 5, 25, 5],
    [55, 3, 25, 2, 15, 0],
];

/// On Sundays there is a machine at the door.
const WEEKDAYS: [u64; 7] = [7, 8, 9, 8, 10, 12, 4];
/// Exams in February and June, Easter at the end of March.
const WEEKS: [u64; 26] = [
    7, 8, 9, 10, 12, 14, 13, 9, 8, 8, 9, 9, 5, 7, 9, 10, 10, 9, 8, 9, 11, 13, 14, 13, 9, 7,
];
const BUSIEST: u64 = 12 * 14;

/// SplitMix64 (Steele, Lea and Flood 2014): rows that look like chance, and are always the same.
struct Rows(u64);

impl Rows {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    fn between(&mut self, (low, high): (u64, u64)) -> u64 {
        low + self.below(high - low + 1)
    }

    /// One of these, as often as its weight says.
    fn pick<const N: usize, T: Copy>(&mut self, values: &[T; N], weights: &[u64; N]) -> T {
        let mut left = self.below(weights.iter().sum());
        let picked = values.iter().zip(weights).find(|(_, weight)| {
            let is_here = left < **weight;
            left = left.saturating_sub(**weight);
            is_here
        });
        picked.map_or(values[0], |(value, _)| *value)
    }

    /// A day from `first` on, more often in busy weeks.
    fn day(&mut self, first: usize) -> usize {
        loop {
            let day = first + self.below((DAYS - first) as u64) as usize;
            let busy = WEEKDAYS[day % 7] * WEEKS[day / 7];
            if self.below(BUSIEST) < busy {
                return day;
            }
        }
    }

    /// How many loans a member has: many have none, some have many.
    fn loans(&mut self) -> u64 {
        match self.below(100) {
            0..35 => 0,
            35..70 => self.between((1, 4)),
            _ => self.between((4, 12)),
        }
    }
}

/// A day of the half year as PostgreSQL reads it.
pub fn date(day: usize) -> String {
    let mut left = day;
    for (month, length) in [31, 29, 31, 30, 31, 30].into_iter().enumerate() {
        if left < length {
            return format!("2024-{:02}-{:02}", month + 1, left + 1);
        }
        left -= length;
    }
    format!("2024-07-{:02}", left + 1)
}

/// The rows as CSV, with a heading. Referenced tables first.
pub fn tables() -> [(&'static str, Vec<u8>); 2] {
    let mut rows = Rows(2024);
    let mut members = String::from("member_id,branch,birth_year,minutes_away,joined\n");
    let mut loans = String::from("loan_id,member_id,day,genre,days_kept\n");
    let mut loan = 0;
    for member in 1..=MEMBERS {
        let branch = rows.pick(&[0, 1, 2, 3], &MEMBERS_OF);
        let ages = rows.pick(&[0, 1, 2, 3, 4], &AGES_OF[branch]);
        let born = rows.between(BORN[ages]);
        let slower = if born < 1960 { 5 } else { 0 };
        let minutes = MINUTES_OF[branch] + slower + rows.below(12);
        let is_new = rows.below(4) == 0;
        let first = if is_new { rows.day(0) } else { 0 };
        let joined = match is_new {
            true => date(first),
            false => {
                let (year, month) = (rows.between((2012, 2023)), rows.between((1, 12)));
                format!("{year}-{month:02}-{:02}", rows.between((1, 28)))
            }
        };
        let name = BRANCHES[branch];
        // Writing to a String does not fail.
        let _ = writeln!(members, "{member},{name},{born},{minutes},{joined}");
        for _ in 0..rows.loans() {
            loan += 1;
            let day = date(rows.day(first));
            let genre = rows.pick(&GENRES, &READ_BY[ages]);
            let kept = 1 + rows.below(14) + rows.below(15);
            let _ = writeln!(loans, "{loan},{member},{day},{genre},{kept}");
        }
    }
    [
        ("library.members", members.into_bytes()),
        ("library.loans", loans.into_bytes()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_half_year() {
        let days = [0, 30, 31, 59, 60, DAYS - 1, DAYS].map(date);
        assert_eq!(
            days,
            [
                "2024-01-01",
                "2024-01-31",
                "2024-02-01",
                "2024-02-29",
                "2024-03-01",
                "2024-06-30",
                "2024-07-01"
            ]
        );
    }

    /// Whoever changes the rows changes the pictures in docs too.
    #[test]
    fn rows_are_the_same_each_time() {
        let [(_, members), (_, loans)] = tables();
        let lines = |text: &[u8]| text.iter().filter(|byte| **byte == b'\n').count() - 1;
        assert_eq!(lines(&members), MEMBERS);
        let [(_, again), (_, loans_again)] = tables();
        assert!(members == again && loans == loans_again);
        // FNV-1a, which needs no crate.
        let digest = members
            .iter()
            .chain(&loans)
            .fold(0xcbf2_9ce4_8422_2325_u64, |digest, byte| {
                (digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
            });
        assert_eq!((lines(&loans), digest), (51_975, 0xc59c_6275_c168_549e));
    }

    /// What the policy says of the rows is so.
    #[test]
    fn rows_are_within_the_policys_bounds() {
        let [(_, members), (_, loans)] = tables();
        let number = |text: &str| -> u64 { text.parse().unwrap() };
        for line in std::str::from_utf8(&members).unwrap().lines().skip(1) {
            let cells: Vec<&str> = line.split(',').collect();
            assert!(BRANCHES.contains(&cells[1]), "{line}");
            assert!((1930..=2019).contains(&number(cells[2])), "{line}");
            assert!(number(cells[3]) <= 60, "{line}");
        }
        let mut of_member = vec![0; MEMBERS + 1];
        for line in std::str::from_utf8(&loans).unwrap().lines().skip(1) {
            let cells: Vec<&str> = line.split(',').collect();
            of_member[number(cells[1]) as usize] += 1;
            assert!(GENRES.contains(&cells[3]), "{line}");
            assert!((1..=28).contains(&number(cells[4])), "{line}");
        }
        assert!(of_member.iter().all(|loans| *loans <= 60));
    }
}

//! The proof for running totals of docs/periods.md, tried on schedules: whatever rows come when,
//! and whichever proxy draws when, what one unit adds to all rows together is no longer than the
//! first columns. Exact integers. Each rule that the proof needs is left out once, and is missed.

use std::collections::BTreeSet;

use num_bigint::BigUint;
use pgveil::mechanism::SquareRoot;

use super::neighbour::random::{Random, seeds};

/// A rule that is broken, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Broken {
    Nothing,
    /// A draw takes the row that is asked for alone, in any order.
    AnyOrder,
    /// A snapshot is opened after the draw is recorded.
    LateSnapshot,
    /// A draw is recorded whatever was drawn since its snapshot was opened.
    NoComparison,
    Deletion,
    /// An older copy of the ledger takes its place: rows are drawn again.
    OlderLedger,
    /// The rank of rows that the question's condition leaves, which may change.
    RankAfterCondition,
    /// The last periods of a unit in place of the first.
    LastPeriods,
    /// A row has later periods too, which are not closed.
    OpenPeriods,
    /// A draw takes the last row once more, with fresh noise.
    DrawnAgain,
}

const BREAKS: [Broken; 9] = [
    Broken::AnyOrder,
    Broken::LateSnapshot,
    Broken::NoComparison,
    Broken::Deletion,
    Broken::OlderLedger,
    Broken::RankAfterCondition,
    Broken::LastPeriods,
    Broken::OpenPeriods,
    Broken::DrawnAgain,
];

/// The rows of the unit in the tables, as far as they matter: its periods, whether the question's
/// condition holds in a period, and what it adds to it.
#[derive(Clone)]
struct Tables {
    periods: BTreeSet<usize>,
    matching: Vec<bool>,
    values: Vec<i64>,
}

#[derive(Clone, Default)]
struct Proxy {
    /// Where the ledger was when it asked, and the last period that is wanted.
    asked: Option<(usize, usize)>,
    snapshot: Option<Tables>,
    recorded: Option<(usize, usize)>,
}

struct Story<'a> {
    root: &'a SquareRoot,
    counted: usize,
    broken: Broken,
    tables: Tables,
    drawn_to: usize,
    drawn: BTreeSet<usize>,
    older: usize,
    /// The first period of the rows: the one after the last draw that was lost.
    block: usize,
    squares: BigUint,
}

impl Story<'_> {
    /// What the unit adds to the rows of a draw.
    fn read(&mut self, recorded: (usize, usize), tables: &Tables) {
        let (first, end) = match (self.broken, recorded) {
            (Broken::DrawnAgain, (first, end)) => (first.saturating_sub(1), end),
            (_, recorded) => recorded,
        };
        let last = match self.broken {
            Broken::OpenPeriods => tables.matching.len(),
            _ => end,
        };
        let is_ranked = |period: &usize| match self.broken {
            Broken::RankAfterCondition => tables.matching[*period],
            _ => true,
        };
        let ranked = tables.periods.range(..last).copied().filter(is_ranked);
        let ranked: Vec<usize> = match self.broken {
            Broken::LastPeriods => ranked.rev().take(self.counted).collect(),
            _ => ranked.take(self.counted).collect(),
        };
        for row in first..end {
            let part = |period: &usize| {
                let age = match self.broken {
                    Broken::OpenPeriods => row.saturating_sub(*period),
                    _ => match row.checked_sub(*period) {
                        Some(age) => age,
                        None => return 0,
                    },
                };
                let is_in = *period >= self.block && tables.matching[*period];
                // Below 2^20.
                let entry = i64::try_from(self.root.entry(age)).unwrap();
                i64::from(is_in) * entry * tables.values[*period]
            };
            let sum: i64 = ranked.iter().map(part).sum();
            self.squares += BigUint::from(sum.unsigned_abs()).pow(2);
        }
    }

    fn record(&mut self, proxy: &mut Proxy) {
        let Some((seen, wanted)) = proxy.asked else {
            return;
        };
        if self.broken == Broken::AnyOrder {
            proxy.recorded = self.drawn.insert(wanted).then_some((wanted, wanted + 1));
            return;
        }
        let is_as_seen = seen == self.drawn_to || self.broken == Broken::NoComparison;
        if is_as_seen && wanted >= self.drawn_to {
            proxy.recorded = Some((self.drawn_to, wanted + 1));
            self.drawn_to = wanted + 1;
        }
    }

    fn step(&mut self, proxy: &mut Proxy, random: &mut Random) {
        let mut steps: [u8; 3] = [0, 1, 2];
        if self.broken == Broken::LateSnapshot {
            steps = [0, 2, 1];
        }
        let done = [
            proxy.asked.is_some(),
            proxy.snapshot.is_some(),
            proxy.recorded.is_some(),
        ];
        match steps.into_iter().find(|step| !done[usize::from(*step)]) {
            Some(0) => {
                let ahead = random.below(4).min(random.below(4));
                let last = self.tables.matching.len() - 1;
                let wanted = match self.broken {
                    Broken::AnyOrder => random.below(last + 1),
                    _ => (self.drawn_to + ahead).min(last),
                };
                proxy.asked = Some((self.drawn_to, wanted));
            }
            Some(1) => proxy.snapshot = Some(self.tables.clone()),
            Some(_) => {
                self.record(proxy);
                if proxy.recorded.is_none() {
                    *proxy = Proxy::default();
                }
            }
            None => {
                let Proxy {
                    snapshot, recorded, ..
                } = std::mem::take(proxy);
                let (Some(tables), Some(recorded)) = (snapshot, recorded) else {
                    return;
                };
                match random.once_in(9) {
                    // It dies before its statement runs: rows begin anew.
                    true => self.block = self.block.max(recorded.1),
                    false => self.read(recorded, &tables),
                }
            }
        }
    }
}

/// How values are: one each time, or any that a clip leaves, which change while rows come.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Values {
    Ones,
    Any,
}

/// The squared length of what the unit adds to all rows, of one random schedule.
fn length(
    random: &mut Random,
    root: &SquareRoot,
    (periods, counted): (usize, usize),
    (values, broken): (Values, Broken),
) -> BigUint {
    let mut story = Story {
        root,
        counted,
        broken,
        tables: Tables {
            periods: BTreeSet::new(),
            matching: vec![true; periods],
            values: vec![1; periods],
        },
        drawn_to: 0,
        drawn: BTreeSet::new(),
        older: 0,
        block: 0,
        squares: BigUint::ZERO,
    };
    let mut proxies = vec![Proxy::default(); 2];
    for _ in 0..periods * 8 {
        match random.below(10) {
            // Late rows, and rows of the days to come.
            0 => {
                story.tables.periods.insert(random.below(periods));
            }
            1 => {
                let next = (story.drawn_to + random.below(2)).min(periods - 1);
                story.tables.periods.insert(next);
            }
            2 if broken == Broken::Deletion => {
                story.tables.periods.pop_first();
            }
            2 if broken == Broken::OlderLedger => story.drawn_to = story.older,
            2 if values == Values::Any => {
                let value = random.below(3) as i64 - 1;
                story.tables.values[random.below(periods)] = value;
            }
            // A row of another table changes, for which nobody promises anything.
            3 if values == Values::Any || broken == Broken::RankAfterCondition => {
                story.tables.matching[random.below(periods)] = random.once_in(2);
            }
            4 => story.older = story.drawn_to,
            _ => {
                let at = random.below(2);
                let mut proxy = std::mem::take(&mut proxies[at]);
                story.step(&mut proxy, random);
                proxies[at] = proxy;
            }
        }
    }
    story.squares
}

fn worst(
    (periods, counted): (usize, usize),
    (values, broken): (Values, Broken),
    schedules: usize,
) -> BigUint {
    let root = SquareRoot::new(u32::try_from(periods).unwrap());
    let mut random = Random::new(seeds()[0]);
    let of = (periods, counted);
    let lengths = (0..schedules).map(|_| length(&mut random, &root, of, (values, broken)));
    lengths.max().unwrap()
}

/// The squared length that the noise hides.
fn hidden((periods, counted): (usize, usize)) -> BigUint {
    let root = SquareRoot::new(u32::try_from(periods).unwrap());
    root.sensitivity(u32::try_from(counted).unwrap()).pow(2)
}

#[test]
fn what_one_unit_adds_to_all_rows_is_hidden() {
    for values in [Values::Ones, Values::Any] {
        for counted in 1..=4 {
            let of = (9, counted);
            assert!(worst(of, (values, Broken::Nothing), 6_000) <= hidden(of));
        }
        for counted in [1, 2, 7, 30] {
            let of = (90, counted);
            assert!(worst(of, (values, Broken::Nothing), 150) <= hidden(of));
        }
    }
}

/// A unit that is there from the first period on, drawn day by day: 1.580 and 2.951 for 90 periods.
#[test]
fn the_bound_is_attained() {
    for (counted, wanted) in [(1, 1.580), (2, 2.951)] {
        let root = SquareRoot::new(90);
        let mut story = Story {
            root: &root,
            counted,
            broken: Broken::Nothing,
            tables: Tables {
                periods: (0..90).collect(),
                matching: vec![true; 90],
                values: vec![1; 90],
            },
            drawn_to: 0,
            drawn: BTreeSet::new(),
            older: 0,
            block: 0,
            squares: BigUint::ZERO,
        };
        for row in 0..90 {
            let tables = story.tables.clone();
            story.read((row, row + 1), &tables);
        }
        let length = root.sensitivity(counted as u32);
        assert!(story.squares > (&length - 1u32).pow(2) && story.squares <= length.pow(2));
        let length: f64 = length.to_string().parse().unwrap();
        assert!((length / f64::from(1 << 20) - wanted).abs() < 5e-4);
    }
}

/// A row that comes before each draw moves a unit's only period to an earlier place: with the rows
/// in their order it fades, in the other order each row has it anew.
#[test]
fn late_rows_are_harmless_in_their_order_alone() {
    let root = SquareRoot::new(90);
    let square = |entry: u64| BigUint::from(entry).pow(2);
    // The newest row first: the age is zero in each.
    let backwards: BigUint = (0..90).map(|_| square(root.entry(0))).sum();
    assert!(backwards > hidden((90, 1)) * 30u32);
    // In order, each row read after a row came to the period before all others.
    let forwards: BigUint = (45..90)
        .map(|row| square(root.entry(row - (89 - row))))
        .sum();
    assert!(forwards <= hidden((90, 1)));
}

/// Each of the rules is needed.
#[test]
fn a_schedule_finds_each_rule_that_is_left_out() {
    for broken in BREAKS {
        for counted in [1, 2] {
            let of = (9, counted);
            let worst = worst(of, (Values::Ones, broken), 6_000);
            assert!(worst > hidden(of), "{broken:?}, {counted}");
        }
    }
}

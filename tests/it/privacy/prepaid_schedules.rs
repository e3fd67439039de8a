//! The proof of docs/periods.md, tried on schedules: whatever rows come when, and whichever proxy
//! draws when, one unit is read in at most `per_unit` periods. Each rule that the proof needs is
//! left out once, and is missed.

use std::collections::BTreeSet;

use super::neighbour::random::{Random, seeds};

const PERIODS: usize = 9;

/// A rule that is broken, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Broken {
    Nothing,
    /// The first periods among those of the draw, not of all since the beginning.
    RankInDraw,
    /// The last periods of a unit in place of the first.
    LastPeriods,
    /// A draw takes the periods that are asked for alone, in any order.
    AnyOrder,
    /// A snapshot is opened after the draw is recorded.
    LateSnapshot,
    /// A draw is recorded whatever was drawn since its snapshot was opened.
    NoComparison,
    /// Rows are deleted.
    Deletion,
    /// An older copy of the ledger takes its place.
    OlderLedger,
    /// The rank of rows that the question's condition leaves, which may change.
    RankAfterCondition,
}

/// The state of one schedule: the periods in which the unit has rows; whether the question's
/// condition holds in a period; the ledger; and what the draws have read.
struct Story {
    rows: BTreeSet<usize>,
    matching: [bool; PERIODS],
    drawn_to: usize,
    drawn: BTreeSet<usize>,
    older: usize,
    counted: usize,
}

/// A proxy on its way through a draw.
#[derive(Clone, Default)]
struct Proxy {
    /// Where the ledger was when it asked, and the last period that is wanted.
    asked: Option<(usize, usize)>,
    snapshot: Option<(BTreeSet<usize>, [bool; PERIODS])>,
    recorded: Option<(usize, usize)>,
}

impl Story {
    /// The periods of a draw in which the unit is read.
    fn read(&mut self, proxy: &Proxy, per_unit: usize, broken: Broken) {
        let (Some((first, end)), Some((rows, matching))) = (proxy.recorded, &proxy.snapshot) else {
            return;
        };
        let counts = |period: &usize| match broken {
            Broken::RankAfterCondition => matching[*period],
            _ => true,
        };
        let ranked: Vec<usize> = match broken {
            Broken::RankInDraw => rows.range(first..end).copied().collect(),
            Broken::LastPeriods => rows.range(..end).rev().copied().collect(),
            _ => rows.iter().copied().filter(counts).collect(),
        };
        let kept = ranked.iter().take(per_unit);
        let is_read = |at: &&usize| (first..end).contains(*at) && matching[**at];
        self.counted += kept.filter(is_read).count();
    }

    /// Whether the ledger records the draw.
    fn record(&mut self, proxy: &mut Proxy, broken: Broken) {
        let Some((seen, wanted)) = proxy.asked else {
            return;
        };
        if broken == Broken::AnyOrder {
            proxy.recorded = self.drawn.insert(wanted).then_some((wanted, wanted + 1));
            return;
        }
        let is_as_seen = seen == self.drawn_to || broken == Broken::NoComparison;
        if !is_as_seen || wanted < self.drawn_to {
            return;
        }
        proxy.recorded = Some((self.drawn_to, wanted + 1));
        self.drawn_to = wanted + 1;
    }
}

/// In how many periods the unit is read, of one random schedule.
fn counted(random: &mut Random, per_unit: usize, broken: Broken) -> usize {
    let mut story = Story {
        rows: BTreeSet::new(),
        matching: [true; PERIODS],
        drawn_to: 0,
        drawn: BTreeSet::new(),
        older: 0,
        counted: 0,
    };
    let mut proxies = vec![Proxy::default(); 2];
    for _ in 0..60 {
        match random.below(8) {
            0 | 1 => {
                story.rows.insert(random.below(PERIODS));
            }
            2 if broken == Broken::Deletion => {
                story.rows.pop_first();
            }
            2 if broken == Broken::OlderLedger => {
                story.drawn_to = story.older;
            }
            // A row of another table changes, for which nobody promises anything.
            2 => story.matching[random.below(PERIODS)] = random.once_in(2),
            3 => story.older = story.drawn_to,
            _ => {
                let proxy = &mut proxies[random.below(2)];
                let mut steps: [u8; 3] = [0, 1, 2];
                if broken == Broken::LateSnapshot {
                    steps = [0, 2, 1];
                }
                let done = [
                    proxy.asked.is_some(),
                    proxy.snapshot.is_some(),
                    proxy.recorded.is_some(),
                ];
                match steps.into_iter().find(|step| !done[usize::from(*step)]) {
                    Some(0) => proxy.asked = Some((story.drawn_to, random.below(PERIODS))),
                    Some(1) => proxy.snapshot = Some((story.rows.clone(), story.matching)),
                    Some(_) => {
                        story.record(proxy, broken);
                        if proxy.recorded.is_none() {
                            *proxy = Proxy::default();
                        }
                    }
                    None => {
                        let ready = std::mem::take(proxy);
                        // It may die before its statement runs.
                        if !random.once_in(6) {
                            story.read(&ready, per_unit, broken);
                        }
                    }
                }
            }
        }
    }
    story.counted
}

fn worst(per_unit: usize, broken: Broken) -> usize {
    let mut random = Random::new(seeds()[0]);
    let schedules = (0..20_000).map(|_| counted(&mut random, per_unit, broken));
    schedules.max().unwrap_or(0)
}

#[test]
fn one_unit_is_read_in_as_many_periods_as_are_paid_for() {
    for per_unit in 1..=4 {
        assert_eq!(worst(per_unit, Broken::Nothing), per_unit);
    }
}

/// Each of the rules is needed.
#[test]
fn a_schedule_finds_each_rule_that_is_left_out() {
    for broken in [
        Broken::RankInDraw,
        Broken::LastPeriods,
        Broken::AnyOrder,
        Broken::LateSnapshot,
        Broken::NoComparison,
        Broken::Deletion,
        Broken::OlderLedger,
        Broken::RankAfterCondition,
    ] {
        for per_unit in [1, 2] {
            let worst = worst(per_unit, broken);
            assert!(worst > per_unit, "{broken:?}: {worst} of {per_unit}");
        }
    }
}

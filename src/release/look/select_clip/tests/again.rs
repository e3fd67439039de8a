//! Whether intervals hold that rest on several looks: the first ones showed too little, and their
//! numbers are averaged with those of the next. They were low by chance, more often than high.
//! Seeds are fixed: the same looks are drawn each time.

use super::super::*;
use super::laws::{Found, Law, MU, draw_look, length, lost_of_groups, noise_of, units_of};
use super::{binned, histogram, seeded};
use crate::mechanism::testing::Seeded;

/// What the next look has to hold more than it would show, as `FailedLook::would_show` asks of one
/// at the same epsilon.
const MARGIN: f64 = (SEEN + 1.0) / SEEN;

/// How often the question is asked at most.
const ASKED: usize = 4;

/// The look at this truth that leads to an answer, and its number; `None` where the question is
/// refused free before that.
fn looks(
    (plain, deviation): (&Histogram, f64),
    truth: &[f64],
    choice_of: &dyn Fn(&Histogram) -> Option<Choice>,
    random: &mut Seeded,
) -> Option<(usize, Choice)> {
    let mut held: Option<Histogram> = None;
    for asked in 1..=ASKED {
        let drawn = draw_look((plain, deviation), truth, random);
        let seen = match &held {
            Some(held) if drawn.is_plausibly_of_the_same_rows(held) => drawn.combine(held)?,
            Some(_) | None => drawn,
        };
        if let Some(choice) = choice_of(&seen) {
            return Some((asked, choice));
        }
        let next = Histogram {
            deviation: MARGIN * combined_deviation(seen.deviation, deviation),
            ..seen.clone()
        };
        choice_of(&next)?;
        held = Some(seen);
    }
    None
}

/// Answers that rest on one look, and on several.
#[derive(Default)]
struct ByLooks {
    once: Found,
    again: Found,
}

/// Asks about tables of this law until this many answers rest on several looks.
fn ask(
    law: Law,
    (groups, favourite): (usize, f64),
    answers: usize,
    random: &mut Seeded,
) -> ByLooks {
    let (deviation, sums) = noise_of(groups, MU);
    let (plain, clips) = histogram(vec![0.0; 56], deviation);
    let (mut found, mut tables) = (ByLooks::default(), 0);
    while found.again.looks < answers as f64 {
        tables += 1;
        assert!(tables < 100 * answers, "{law:?} in {groups} groups");
        let units = units_of(law, (groups, favourite), random);
        let (bins, truth) = binned(units.iter().map(|unit| length(unit)), &plain, &clips);
        let choice_of = |seen: &Histogram| choose(seen, &clips, sums).ok();
        let looked = looks((&plain, deviation), &truth, &choice_of, random);
        let Some((asked, Choice { candidate, cut })) = looked else {
            continue;
        };
        let lost = lost_of_groups(&units, &bins, clips[candidate.0], &clips);
        let found = match asked {
            1 => &mut found.once,
            _ => &mut found.again,
        };
        found.looks += 1.0;
        found.compare((&cut, sums.noise), &lost, random);
    }
    found
}

/// Laws of so few units that one look often shows too little, but for units of two kinds: noise
/// hides so few long ones, whatever the number of looks.
const LAWS: [Law; 9] = [
    Law::LogNormal(40, 0.4),
    Law::LogNormal(60, 0.8),
    Law::LogNormal(60, 1.3),
    Law::LogNormal(100, 1.5),
    Law::Pareto(40, 1.3),
    Law::Pareto(40, 1.5),
    Law::Pareto(40, 2.0),
    Law::Glued(60, 1.3),
    Law::Glued(60, 2.0),
];

/// Laws of more units, for questions by groups, which have more noise and a smaller look.
const LAWS_IN_GROUPS: [Law; 4] = [
    Law::LogNormal(80, 0.4),
    Law::LogNormal(120, 1.3),
    Law::Pareto(80, 1.3),
    Law::Pareto(80, 1.5),
];

/// At least 93 of 100 intervals hold of answers that rest on several looks, and about as many
/// as of those to the same questions that rest on one look. If 95 of 100 hold, as was found with
/// other seeds, one seed in 250 has so few.
#[test]
fn intervals_hold_after_looks_that_saw_too_little() {
    let mut random = seeded(20_261_132);
    let (mut again, mut once, mut shapes) = (0.0, 0.0, Vec::new());
    for (groups, laws) in [
        ((1, 0.0), &LAWS[..]),
        ((2, 0.0), &LAWS[..]),
        ((12, 0.5), &LAWS_IN_GROUPS[..]),
    ] {
        let asked: Vec<ByLooks> = laws
            .iter()
            .map(|law| ask(*law, groups, 40, &mut random))
            .collect();
        let mean =
            |of: &dyn Fn(&ByLooks) -> f64| asked.iter().map(of).sum::<f64>() / asked.len() as f64;
        let of_shape = [
            mean(&|asked| asked.again.coverage()),
            mean(&|asked| asked.once.coverage()),
        ];
        again += of_shape[0] / 3.0;
        once += of_shape[1] / 3.0;
        shapes.push((groups, of_shape));
    }
    assert!(again >= 0.93, "{again}, {once}, {shapes:?}");
    assert!(again > once - 0.03, "{again}, {once}, {shapes:?}");
}

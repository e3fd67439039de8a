//! Every aggregate that a look serves, where the look sees that nothing may be cut and no noise is
//! drawn: the answers are PostgreSQL's own.

use std::sync::Arc;

use pgveil::parse::{Statement, parse};
use pgveil::policy::ClipChoice;

use super::scripted::Scripted;
use super::{numbers, requester, seeded_veil};
use crate::fixture::Veil;

/// An aggregate, and PostgreSQL's expression for it where that has another name.
const AGGREGATES: [(&str, Option<&str>); 31] = [
    ("count(*)", None),
    ("count(amount)", None),
    ("count(*) FILTER (WHERE week = 3)", None),
    ("sum(amount)", None),
    ("sum(amount) FILTER (WHERE week < 9)", None),
    ("sum(week)", None),
    ("sum(20 - amount)", None),
    ("avg(amount)", None),
    ("avg(amount) FILTER (WHERE store < 20)", None),
    ("avg(week)", None),
    ("var_pop(amount)", None),
    ("var_samp(amount)", None),
    ("variance(amount)", None),
    ("stddev_pop(week)", None),
    ("stddev_samp(amount)", None),
    ("stddev(amount) FILTER (WHERE store < 20)", None),
    ("covar_pop(amount, week)", None),
    ("covar_samp(week, amount)", None),
    ("corr(amount, week)", None),
    ("regr_avgx(amount, week)", None),
    ("regr_avgy(amount, week)", None),
    ("regr_count(amount, week)", None),
    ("regr_intercept(amount, week)", None),
    ("regr_r2(amount, week)", None),
    ("regr_slope(amount, week)", None),
    ("regr_sxx(amount, week)", None),
    ("regr_sxy(amount, week)", None),
    ("regr_syy(amount, week)", None),
    ("bool_or(amount > 5)::int", None),
    ("every(week > 2)::int", None),
    (
        "pgveil.geomean(greatest(amount, 1))",
        Some("exp(avg(ln(greatest(amount, 1))))"),
    ),
];

/// An epsilon: the average of a few rows is NULL at a lower one, by the noise that is planned.
const PRECISE: f64 = 70.0;

const KEYS: [&str; 2] = ["1", "week % 3"];

/// Draws that let the look see many units at the ceiling of each block, and nothing else of noise.
async fn all_at_the_ceiling(veil: &Veil, sql: &str) -> Vec<i128> {
    let statements = parse(sql).unwrap();
    let [Statement::Query(query)] = statements.as_slice() else {
        panic!("one query is wanted: {sql}")
    };
    let asked = requester(PRECISE, ClipChoice::Auto);
    let planned = veil.engine.plan(&asked, query).await;
    let (plan, _) = planned.unwrap_or_else(|error| panic!("{sql}: {:?}", error.report()));
    let [release] = plan.releases() else {
        panic!("one release is wanted: {sql}")
    };
    let look = release.look().unwrap_or_else(|| panic!("no look: {sql}"));
    let looked_at = look.blocks.iter().filter(|block| block.bins.has_choice());
    let mut draws = Vec::new();
    for block in looked_at {
        let bins = block.bins.candidates().div_ceil(2);
        draws.resize(draws.len() + bins - 1, 0);
        // The ceiling, and what is past it.
        draws.extend([1_000_000 << look.counts.refine, 0]);
    }
    draws
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nothing_is_cut_every_aggregate_is_postgresqls() {
    let sampler = Scripted::default();
    let made = sampler.clone();
    let veil = seeded_veil(Arc::new(move || Box::new(made.clone()))).await;
    let mut unlike = Vec::new();
    for (aggregate, own) in AGGREGATES {
        for key in KEYS {
            let asked = |value: &str| match key {
                "1" => format!("SELECT 1, {value} FROM retail.line"),
                key => format!("SELECT {key}, {value} FROM retail.line GROUP BY 1 ORDER BY 1"),
            };
            let sql = asked(aggregate);
            sampler.begin(all_at_the_ceiling(&veil, &sql).await);
            let shown = veil
                .rows_as(&requester(PRECISE, ClipChoice::Auto), &sql)
                .await;
            let shown = shown.unwrap_or_else(|error| panic!("{sql}: {:?}", error.report()));
            let direct = veil.direct(&asked(own.unwrap_or(aggregate))).await;
            let is_alike = |(shown, direct): (&String, &String)| {
                let (found, exact) = (numbers(shown), numbers(direct));
                let [key, found] = found[..] else {
                    return false;
                };
                key == exact[0] && (found - exact[1]).abs() <= 1e-4 * exact[1].abs().max(1e-3)
            };
            let is_whole = shown.len() == direct.len();
            if !is_whole || !shown.iter().zip(&direct).all(is_alike) {
                unlike.push(format!("{sql}: {shown:?}, {direct:?}"));
            }
        }
    }
    assert!(unlike.is_empty(), "{}", unlike.join("\n"));
}

//! Why an answer differs from PostgreSQL's where no noise is added: one of few promised reasons,
//! read off the plan and the rows.

use pgveil::analyze::KeyRule;
use pgveil::parse::{Statement, parse};
use pgveil::rewrite::{ChoiceKind, Plan};

use super::outcome::{normal, theirs};
use crate::fixture::Veil;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Groups that the policy lists are shown where no row is in them.
    EmptyGroups,
    /// The analyst's own SQL joins, counts or cuts such groups.
    EmptyGroupsAbove,
    /// Groups of too few units are not shown.
    Threshold,
    /// PostgreSQL's LIMIT takes any of the rows that are alike, or has no order at all.
    Limit,
    /// The sum of no rows is 0: NULL in its place would reveal that there is none.
    SumOfNothing,
    /// A quantile or an end is one of the grid's points, near the rank.
    Chosen,
    /// The catalogs are the shadow's.
    Catalog,
}

type Rows = Vec<Vec<String>>;

/// Rows of the first that are not in the second, each as often as it is in excess.
fn beyond(rows: &Rows, others: &Rows) -> Rows {
    let mut others = others.clone();
    let left = rows
        .iter()
        .filter(|row| match others.iter().position(|other| other == *row) {
            Some(at) => {
                others.swap_remove(at);
                false
            }
            None => true,
        });
    left.cloned().collect()
}

fn rules(plan: &Plan) -> impl Iterator<Item = &KeyRule> {
    plan.releases()
        .iter()
        .flat_map(|release| release.keys())
        .map(|(_, rule)| rule)
}

pub async fn cause(
    veil: &Veil,
    sql: &str,
    ours: &[String],
    of_postgresql: &[String],
) -> Option<Cause> {
    let statements = parse(sql).ok()?;
    let [Statement::Query(query)] = statements.as_slice() else {
        return None;
    };
    let Ok((plan, _)) = veil.engine.plan(&Veil::requester(), query).await else {
        return sql.contains("pg_catalog").then_some(Cause::Catalog);
    };
    let (ours, of_postgresql) = (normal(ours), normal(of_postgresql));
    let (extra, missing) = (beyond(&ours, &of_postgresql), beyond(&of_postgresql, &ours));
    let is_listed = rules(&plan).any(|rule| matches!(rule, KeyRule::Domain(_)));
    let is_thresholded = rules(&plan).any(|rule| matches!(rule, KeyRule::Threshold));
    if missing.is_empty() && is_listed {
        return Some(Cause::EmptyGroups);
    }
    if extra.is_empty() && is_thresholded {
        return Some(Cause::Threshold);
    }
    // Rows in order, and NULL before which anything may stand.
    let paired = ours.len() == of_postgresql.len();
    let zero = |(ours, theirs): (&Vec<String>, &Vec<String>)| {
        ours.iter()
            .zip(theirs)
            .all(|(a, b)| a == b || (b == "∅" && a == "0"))
    };
    if paired && ours.iter().zip(&of_postgresql).all(zero) {
        return Some(Cause::SumOfNothing);
    }
    if let Some(cut) = sql
        .to_uppercase()
        .rfind(" LIMIT ")
        .or_else(|| sql.to_uppercase().rfind(" FETCH FIRST "))
    {
        let all = normal(&theirs(veil, &sql[..cut]).await.ok()?);
        if paired && beyond(&ours, &all).is_empty() {
            return Some(Cause::Limit);
        }
        let of_all = normal(&veil.rows_as(&Veil::requester(), &sql[..cut]).await.ok()?);
        if is_listed && beyond(&all, &of_all).is_empty() {
            return Some(Cause::EmptyGroups);
        }
    }
    let is_chosen = plan
        .releases()
        .iter()
        .flat_map(|r| r.choices())
        .any(|part| matches!(part.kind, ChoiceKind::Choice { .. }));
    let number = |text: &str| text.parse::<f64>().is_ok();
    let near = |(ours, theirs): (&Vec<String>, &Vec<String>)| {
        ours.iter()
            .zip(theirs)
            .all(|(a, b)| a == b || (number(a) && number(b)))
    };
    if is_chosen && paired && ours.iter().zip(&of_postgresql).all(near) {
        return Some(Cause::Chosen);
    }
    // Only where the outer query uses the groups.
    let outer = plan.outer().to_string();
    let is_made_of = ["GROUP BY", "JOIN", "LIMIT"]
        .iter()
        .any(|word| outer.contains(word));
    (is_listed && is_made_of && paired).then_some(Cause::EmptyGroupsAbove)
}

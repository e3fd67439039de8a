//! GROUP BY: plain keys, or grouping sets over them.

use sqlparser::ast;

use crate::ir::{GroupingSet, KeyId, SetId};
use crate::refusal::{Refusal, reason};
use crate::resolve::syntax::{query_of, quote_name};

/// Most grouping sets of one release. Each one adds to what a unit contributes.
const SETS_MAX: usize = 256;

/// The key expressions of each grouping set; one set for a plain GROUP BY.
///
/// # Errors
/// 0A000 for forms of GROUP BY that are not PostgreSQL's, or for more than `SETS_MAX` sets.
pub fn sets(group_by: &ast::GroupByExpr) -> Result<Vec<Vec<&ast::Expr>>, Refusal> {
    let ast::GroupByExpr::Expressions(items, modifiers) = group_by else {
        return Err(Refusal::unsupported(
            reason::UNSUPPORTED_GROUPING,
            "this form of GROUP BY",
        ));
    };
    if !modifiers.is_empty() {
        return Err(Refusal::unsupported(
            reason::UNSUPPORTED_GROUPING,
            "this form of GROUP BY",
        ));
    }
    let mut sets: Vec<Vec<&ast::Expr>> = vec![Vec::new()];
    for item in items {
        let own = of_item(item)?;
        if sets.len().saturating_mul(own.len()) > SETS_MAX {
            return Err(too_many());
        }
        // Combine every set of one item with every set of the next.
        sets = sets
            .iter()
            .flat_map(|set| {
                own.iter()
                    .map(move |more| set.iter().chain(more).copied().collect())
            })
            .collect();
    }
    Ok(sets)
}

fn too_many() -> Refusal {
    Refusal::new(
        reason::TOO_MANY_PARTS,
        format!("a query may have at most {SETS_MAX} grouping sets"),
    )
}

/// The sets of one item. They are counted before they are built.
fn of_item(item: &ast::Expr) -> Result<Vec<Vec<&ast::Expr>>, Refusal> {
    let many = match item {
        ast::Expr::GroupingSets(sets) => sets.len() > SETS_MAX,
        ast::Expr::Rollup(groups) => groups.len() >= SETS_MAX,
        ast::Expr::Cube(groups) => groups.len() > SETS_MAX.ilog2() as usize,
        _ => false,
    };
    if many {
        return Err(too_many());
    }
    Ok(match item {
        ast::Expr::GroupingSets(sets) => sets
            .iter()
            .map(|set| set.iter().flat_map(members).collect())
            .collect(),
        ast::Expr::Rollup(groups) => (0..=groups.len())
            .rev()
            .map(|n| groups[..n].iter().flatten().flat_map(members).collect())
            .collect(),
        ast::Expr::Cube(groups) => {
            let chosen = |mask: usize| {
                (0..groups.len()).filter(move |at| mask >> (groups.len() - 1 - at) & 1 == 1)
            };
            (0..1usize << groups.len())
                .rev()
                .map(|mask| {
                    chosen(mask)
                        .flat_map(|at| &groups[at])
                        .flat_map(members)
                        .collect()
                })
                .collect()
        }
        other => vec![members(other)],
    })
}

/// `(a, b)` groups by both, `()` by no key.
fn members(expr: &ast::Expr) -> Vec<&ast::Expr> {
    match expr {
        ast::Expr::Tuple(items) => items.iter().collect(),
        other => vec![other],
    }
}

/// GROUPING(a, b): one bit for each key, the first key in the highest bit. A bit is set if the
/// row's grouping set lacks the key.
///
/// # Errors
/// 42803 for an expression that is not a key, 54000 for more than 31 arguments.
pub fn grouping(
    arguments: &[KeyId],
    sets: &[GroupingSet],
    set_number: ast::Expr,
) -> Result<ast::Expr, Refusal> {
    if arguments.len() > 31 {
        return Err(Refusal::new(
            reason::TOO_MANY_GROUPING_ARGUMENTS,
            "GROUPING must have fewer than 32 arguments",
        ));
    }
    let number = |value: i64| ast::Expr::Value(ast::Value::Number(value.to_string(), false).into());
    let bits = |set: &GroupingSet| {
        arguments
            .iter()
            .fold(0i64, |bits, key| bits << 1 | i64::from(!set.contains(*key)))
    };
    if sets.is_empty() {
        return Ok(number(0));
    }
    let conditions = sets
        .iter()
        .enumerate()
        .map(|(at, set)| ast::CaseWhen {
            condition: number(at as i64),
            result: number(bits(set)),
        })
        .collect();
    Ok(ast::Expr::Case {
        case_token: ast::helpers::attached_token::AttachedToken::empty(),
        end_token: ast::helpers::attached_token::AttachedToken::empty(),
        operand: Some(Box::new(set_number)),
        conditions,
        else_result: None,
    })
}

/// The grouping sets of one SELECT.
#[derive(Debug, Clone, PartialEq)]
pub struct Sets {
    /// The keys of each distinct set. Empty for a plain GROUP BY of all keys.
    pub keys: Vec<GroupingSet>,
    /// The distinct set of each set as written. Empty if no set is written twice.
    pub written: Vec<SetId>,
}

/// The sets as they are written, without duplicates.
pub fn number_sets(sets: Vec<Vec<KeyId>>, keys: usize) -> Sets {
    let mut once: Vec<GroupingSet> = Vec::new();
    let mut written = Vec::new();
    for set in sets.into_iter().map(GroupingSet::new) {
        let number = once
            .iter()
            .position(|other| *other == set)
            .unwrap_or_else(|| {
                once.push(set);
                once.len() - 1
            });
        written.push(SetId(number));
    }
    if written.len() == once.len() {
        written.clear();
    }
    let keys = if once.len() == 1 && once[0].len() == keys {
        Vec::new()
    } else {
        once
    };
    Sets { keys, written }
}

/// A join that repeats the groups of a set as often as the set is written: `(VALUES (0), (0), (1))
/// AS alias(n)`, joined on the set's number if there are several sets.
pub fn repeat_join(written: &[SetId], alias: &str, set_number: Option<ast::Expr>) -> ast::Join {
    let number = |set: SetId| ast::Expr::Value(ast::Value::Number(set.to_string(), false).into());
    let rows = written
        .iter()
        .map(|set| {
            let token = ast::helpers::attached_token::AttachedToken::empty;
            ast::Parens {
                opening_token: token(),
                content: vec![number(*set)],
                closing_token: token(),
            }
        })
        .collect();
    let values = ast::SetExpr::Values(ast::Values {
        explicit_row: false,
        value_keyword: false,
        rows,
    });
    let column = ast::TableAliasColumnDef {
        name: quote_name("n"),
        data_type: None,
    };
    let relation = ast::TableFactor::Derived {
        lateral: false,
        subquery: Box::new(query_of(values)),
        alias: Some(ast::TableAlias {
            explicit: true,
            name: quote_name(alias),
            columns: vec![column],
            at: None,
        }),
        sample: None,
    };
    let join_operator = match set_number {
        Some(set) => {
            let own = ast::Expr::CompoundIdentifier(vec![quote_name(alias), quote_name("n")]);
            let equal = ast::Expr::BinaryOp {
                left: Box::new(own),
                op: ast::BinaryOperator::Eq,
                right: Box::new(set),
            };
            ast::JoinOperator::Inner(ast::JoinConstraint::On(equal))
        }
        None => ast::JoinOperator::CrossJoin(ast::JoinConstraint::None),
    };
    ast::Join {
        relation,
        global: false,
        join_operator,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::{Statement, parse};

    /// The number of sets of a GROUP BY.
    fn count(group_by: &str) -> Result<usize, String> {
        let statements = parse(&format!("SELECT 1 FROM t GROUP BY {group_by}")).unwrap();
        let [Statement::Query(query)] = statements.as_slice() else {
            panic!("{group_by}")
        };
        let ast::SetExpr::Select(select) = &*query.0.body else {
            panic!("{group_by}")
        };
        sets(&select.group_by)
            .map(|sets| sets.len())
            .map_err(|refusal| refusal.message)
    }

    /// A ROLLUP of n keys has about n²/2 references, and a CUBE of n keys has 2ⁿ sets.
    #[test]
    fn sets_are_counted_before_they_are_made() {
        let keys = |number: usize| vec!["a"; number].join(", ");
        let many = || Err("a query may have at most 256 grouping sets".to_owned());
        for (group_by, wanted) in [
            (keys(200), Ok(1)),
            (format!("ROLLUP ({})", keys(255)), Ok(256)),
            (format!("ROLLUP ({})", keys(256)), many()),
            (format!("ROLLUP ({})", keys(20_000)), many()),
            (format!("CUBE ({})", keys(8)), Ok(256)),
            (format!("CUBE ({})", keys(9)), many()),
            (format!("CUBE ({})", keys(20_000)), many()),
            (format!("GROUPING SETS ({})", keys(256)), Ok(256)),
            (format!("GROUPING SETS ({})", keys(257)), many()),
            (format!("CUBE ({}), ROLLUP (a)", keys(7)), Ok(256)),
            (format!("CUBE ({}), ROLLUP (a, a)", keys(7)), many()),
        ] {
            assert_eq!(
                count(&group_by),
                wanted,
                "{}",
                &group_by[..group_by.len().min(40)]
            );
        }
    }
}

//! One question: its price, the private answer with error bars, and the exact answer next to it.

use std::collections::HashMap;

use serde_json::Value;

use super::state::DemoPage;
use super::widen::widen;
use crate::demo::session::{DemoSession, Refused};
use crate::demo::topic::Topic;
use crate::web::answer::{AnswerCell, AnswerTable, cells};
use crate::web::intervals::IntervalQuery;

/// Types that are drawn.
const NUMBERS: [&str; 6] = ["int2", "int4", "int8", "numeric", "float4", "float8"];

/// Which of the two buttons was pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Price,
    Ask,
}

/// EXPLAIN's output for a question.
#[derive(Debug)]
pub struct ShownPrice {
    /// Fractions of the role's budget. `None`: it does not cover the question.
    pub before: f64,
    pub after: Option<f64>,
    pub cost: String,
    pub noise: Vec<String>,
    pub cautions: Vec<String>,
    /// Why noise would hide the answer, and what would help.
    pub useless: Option<String>,
    /// Answers that are paid for serve it.
    pub is_free: bool,
    pub from_finer: bool,
    pub plan: Vec<String>,
    mu_squared: f64,
}

/// Both answers.
#[derive(Debug)]
pub struct BothAnswers {
    pub answer: AnswerTable,
    pub notices: Vec<String>,
    pub before: f64,
    pub after: f64,
}

/// The outcome of a question.
#[derive(Debug)]
pub struct AskedOutcome {
    pub price: Option<ShownPrice>,
    pub answered: Option<BothAnswers>,
    pub refused: Option<Refused>,
}

pub async fn ask(state: &DemoPage, sql: &str, action: Action) -> AskedOutcome {
    let mut outcome = AskedOutcome {
        price: None,
        answered: None,
        refused: None,
    };
    if let Err(refused) = ask_into(state, sql, action, &mut outcome).await {
        outcome.refused = Some(refused);
    }
    outcome
}

async fn ask_into(
    state: &DemoPage,
    sql: &str,
    action: Action,
    outcome: &mut AskedOutcome,
) -> Result<(), Refused> {
    let sql = sql.trim().trim_end_matches(';');
    let mut session = state.session().await?;
    // The text as it was typed, so that a refusal points at the right place; described, so that it
    // is one statement.
    let explain = format!("EXPLAIN (FORMAT JSON) {sql}");
    session
        .describe(&explain)
        .await
        .map_err(|refused| move_position(refused, &explain, sql))?;
    let price = price(&mut session, sql)
        .await
        .map_err(|refused| move_position(refused, &explain, sql))?;
    let is_due = action == Action::Ask && price.useless.is_none();
    let paid = price.mu_squared;
    outcome.price = Some(price);
    if !is_due {
        return Ok(());
    }
    let Some(question) = IntervalQuery::parse(sql) else {
        return Err(Refused::new("this page asks one SELECT at a time"));
    };
    let columns = session.describe(&question.sql()).await?;
    let mut widened = widen(&question, &session).await;
    if let Some(wide) = &widened {
        // Intervals of chosen values are values too, which the price would be shared with.
        let same = self::price(&mut session, &wide.sql).await;
        if !same.is_ok_and(|wide| (wide.mu_squared - paid).abs() < 1e-12) {
            widened = None;
        }
    }
    let before = budget_left(&mut session).await?;
    session.heard();
    let sent = widened
        .as_ref()
        .map_or_else(|| question.sql(), |w| w.sql.clone());
    let reply = session.ask(&sent).await?;
    let after = budget_left(&mut session).await?;
    state.log_spending(sql, before, after);
    let intervals = widened.map_or_else(Vec::new, |wide| wide.columns);
    let exact = state.exact_rows(&question.sql()).await;
    let numeric = |at: usize| {
        let kind = columns.get(at).map(|(_, kind)| kind.as_str());
        kind.is_some_and(|kind| NUMBERS.contains(&kind))
    };
    let measures = if intervals.is_empty() {
        (0..columns.len())
            .rfind(|at| numeric(*at))
            .into_iter()
            .collect()
    } else {
        intervals.clone()
    };
    let shown = |row: &Vec<_>| cells(row, columns.len(), &intervals);
    let mut rows: Vec<Vec<AnswerCell>> = reply.rows.iter().map(shown).collect();
    if let Some(exact) = &exact {
        add_exact_values(&mut rows, exact, &measures);
    }
    outcome.answered = Some(BothAnswers {
        answer: AnswerTable {
            columns: columns.into_iter().map(|(name, _)| name).collect(),
            measures,
            others: Vec::new(),
            rows,
            has_exact: exact.is_some(),
            new_rows: new_rows(state.topic, sql, &reply.notices),
        },
        notices: reply.notices,
        before,
        after,
    });
    Ok(())
}

/// How many of the last rows are new. Only a dashboard's own text is known to begin with the first
/// period and to ascend.
fn new_rows(topic: &Topic, sql: &str, notices: &[String]) -> usize {
    topic.stream(sql).map_or(0, |_| new_periods(notices))
}

/// How many periods an answer bought or drew, as its notices say. 0 if the answer has no periods
/// that were there before.
fn new_periods(notices: &[String]) -> usize {
    let number = |notice: &String| -> Option<usize> {
        let marks = ["; bought now: ", "; drawn now: "];
        let (_, after) = marks.iter().find_map(|mark| notice.split_once(mark))?;
        after.split(' ').next()?.parse().ok()
    };
    notices.iter().find_map(number).unwrap_or(0)
}

/// A refusal of EXPLAIN, with its position in the statement that is explained.
fn move_position(mut refused: Refused, explain: &str, sql: &str) -> Refused {
    let ahead = explain.chars().count() - sql.chars().count();
    let ahead = u32::try_from(ahead).unwrap_or(0);
    refused.position = refused.position.and_then(|at| at.checked_sub(ahead));
    refused
}

/// The fraction of the role's budget that is left.
pub async fn budget_left(session: &mut DemoSession) -> Result<f64, Refused> {
    let reply = session
        .ask("SELECT fraction_left FROM pgveil.budget")
        .await?;
    let value = reply
        .rows
        .first()
        .and_then(|row| row.first()?.as_deref()?.parse().ok());
    value.ok_or_else(|| Refused::new("the budget is unknown"))
}

/// EXPLAIN's output.
pub async fn price(session: &mut DemoSession, sql: &str) -> Result<ShownPrice, Refused> {
    let reply = session.ask(&format!("EXPLAIN (FORMAT JSON) {sql}")).await?;
    let lines = |reply: &crate::demo::session::DemoReply| -> Vec<String> {
        let texts = reply.rows.iter().filter_map(|row| row.first()?.clone());
        texts.collect()
    };
    let text = lines(&reply).join("\n");
    let parsed: Value = serde_json::from_str(&text).unwrap_or_default();
    let explained = &parsed[0];
    let plan = lines(&session.ask(&format!("EXPLAIN {sql}")).await?);
    let fraction = |key: &str| explained[key].as_f64();
    let of_releases = |key: &str| -> Vec<String> {
        let releases = explained["releases"].as_array().into_iter().flatten();
        releases.flat_map(|release| texts(&release[key])).collect()
    };
    let useless = &explained["useless"];
    let useless = useless["message"].as_str().map(|message| {
        let hint = useless["hint"].as_str().unwrap_or_default();
        format!("{message}. {hint}")
    });
    let mu_squared = explained["cost_now"]["mu_squared"].as_f64().unwrap_or(0.0);
    let epsilon = explained["cost_now"]["epsilon"].as_f64();
    let reuse = explained["reuse"].as_array().into_iter().flatten();
    Ok(ShownPrice {
        before: fraction("budget_left").unwrap_or(0.0),
        after: fraction("budget_left_after"),
        cost: explained["cost_text"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
        noise: of_releases("noise"),
        cautions: of_releases("cautions"),
        useless,
        is_free: mu_squared == 0.0 && epsilon == Some(0.0),
        from_finer: reuse.clone().any(|from| from["from"] == "finer"),
        plan,
        mu_squared,
    })
}

/// The texts of a list, or the text.
fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(values) => values.iter().flat_map(texts).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
    }
}

/// Puts the exact values next to those of the same group.
fn add_exact_values(
    rows: &mut [Vec<AnswerCell>],
    exact: &[Vec<Option<String>>],
    measures: &[usize],
) {
    let is_key = |at: &usize| !measures.contains(at);
    let groups: HashMap<Vec<&Option<String>>, &Vec<Option<String>>> = exact
        .iter()
        .map(|row| {
            let keys = (0..row.len()).filter(is_key).filter_map(|at| row.get(at));
            (keys.collect(), row)
        })
        .collect();
    for row in rows {
        let keys: Vec<&Option<String>> = (0..row.len())
            .filter(is_key)
            .filter_map(|at| row.get(at).map(|cell| &cell.text))
            .collect();
        let found = groups.get(&keys).copied();
        drop(keys);
        for at in measures {
            let value = found.and_then(|row| row.get(*at)).cloned().flatten();
            if let Some(cell) = row.get_mut(*at) {
                cell.exact = value;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::topic::LIBRARY_TOPIC;

    fn row(values: &[&str]) -> Vec<Option<String>> {
        values
            .iter()
            .map(|value| Some((*value).to_owned()))
            .collect()
    }

    #[test]
    fn new_periods_are_those_of_the_notice() {
        let notices = |text: &str| [format!("NOTICE:  periods of a.b: {text}")];
        let some = "8 weeks were bought before, without rows that came later; bought now: 1 week, \
            2024-02-26";
        assert_eq!(new_periods(&notices(some)), 1);
        let days = "28 days were drawn before, without rows that came later; drawn now: 12 days, \
            2024-01-29 to 2024-02-09";
        assert_eq!(new_periods(&notices(days)), 12);
        // Where all are new, none stands out.
        assert_eq!(new_periods(&notices("bought now: 8 weeks, 2024-01-01")), 0);
        assert_eq!(new_periods(&[]), 0);
    }

    /// The last rows of an answer in another order, or from an earlier day, are not the new ones.
    #[test]
    fn rows_are_new_in_a_dashboards_own_question_alone() {
        let notices = ["8 weeks were bought before; bought now: 2 weeks, 2024-02-26".to_owned()];
        let new = |sql: &str| new_rows(&LIBRARY_TOPIC, sql, &notices);
        let asked = LIBRARY_TOPIC.streams[0].sql(2).unwrap();
        assert_eq!(new(&asked), 2);
        assert_eq!(new(asked.trim_end_matches(';')), 2);
        for (part, other) in [
            ("ORDER BY 1", "ORDER BY 1 DESC"),
            ("2024-01-01", "2023-12-25"),
        ] {
            assert!(asked.contains(part));
            assert_eq!(new(&asked.replace(part, other)), 0, "{other}");
        }
    }

    #[test]
    fn exact_values_stand_with_their_group() {
        let private = [row(&["a", "1", "0", "2"]), row(&["b", "5", "4", "6"])];
        let mut rows: Vec<Vec<AnswerCell>> =
            private.iter().map(|row| cells(row, 2, &[1])).collect();
        add_exact_values(&mut rows, &[row(&["b", "6"]), row(&["c", "7"])], &[1]);
        let interval = rows[0][1].interval.clone().unwrap();
        assert_eq!((interval.low, interval.high), (0.0, 2.0));
        assert_eq!(rows[0][1].exact, None);
        assert_eq!(rows[1][1].exact.as_deref(), Some("6"));
    }
}

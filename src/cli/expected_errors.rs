//! The expected errors of a policy's answers: for each private table a count, and for each bounded
//! column the sum and the average. No data is read.

use super::{Failure, explain};
use crate::engine::{
    AdviceSubject, ExpectedAnswer, MemoryShare, Pricing, Requester, Worth, WorthAggregate,
    accounts, answers, constants, three_digits,
};
use crate::ledger::{Balance, Balances};
use crate::mechanism::AccountState;
use crate::policy::{Policy, SessionSettings};
use crate::rewrite::Terms;

/// For each private table, how far off its plainest answers are, each asked alone by the policy's
/// first role at its default epsilon; and how many of them its budget holds.
pub fn lines(policy: &Policy) -> Result<Vec<String>, Failure> {
    lines_of(policy, None)
}

/// Like [`lines`], with the number of answers that is left, where the ledger gives the balances.
pub fn lines_of(policy: &Policy, balances: Option<&Balances>) -> Result<Vec<String>, Failure> {
    let Some(role) = policy.asking_role() else {
        return Ok(Vec::new());
    };
    let settings = role.session_settings;
    let terms = explain::terms(policy, Some(&role.name))?;
    let whole = terms.accounts.first().copied();
    let terms = Terms {
        epsilon: settings.epsilon.unwrap_or(terms.epsilon),
        accounts: balances.map_or(terms.accounts, accounts),
        session_settings: SessionSettings {
            // What a target needs is known after a first answer.
            target_error: None,
            ..settings
        },
        ..terms
    };
    let left = balances.and_then(|both| {
        let Balance {
            cap,
            spent,
            frozen,
            closed,
            ..
        } = both.role;
        (!frozen && !closed).then_some(AccountState { cap, spent })
    });
    let budget = Budget {
        whole: balances
            .and_then(|both| {
                let cap = both.role.cap;
                whole.map(|account| AccountState { cap, ..account })
            })
            .or(whole),
        left: balances.map(|_| left),
    };
    let requester = Requester {
        role: role.name.clone(),
        session_settings: SessionSettings::default(),
        settings: Vec::new(),
        search_path: Vec::new(),
        process: 0,
        origin: Default::default(),
        given_up: Default::default(),
        share: MemoryShare::default(),
    };
    let constants = constants(&requester, policy);
    let all = Pricing {
        policy,
        constants: &constants,
        terms: &terms,
    }
    .all();
    let mut lines = vec![heading(&role.name)];
    for of_table in all.chunk_by(|one, next| std::ptr::eq(one.table, next.table)) {
        let first = of_table.first();
        lines.extend(first.map(|one| format!("  {}.{}", one.table.schema, one.table.name)));
        for at_epsilon in of_table.chunk_by(|one, next| one.epsilon == next.epsilon) {
            lines.extend(of_one_epsilon(at_epsilon, &budget));
        }
        // Advice for the first question only. What more epsilon would do is printed above.
        if let Some(one) = first
            && let Some(advice) = &one.advice
            && advice.lever != AdviceSubject::Epsilon
        {
            lines.push(format!("    {} after {}", name(one), advice.text));
        }
    }
    lines.extend(units_unknown(policy));
    Ok(lines)
}

fn heading(role: &str) -> String {
    format!(
        "Noise, of one answer in 95 % of cases, each asked alone by {role} (a sum over fewer rows \
            or groups has the same):"
    )
}

/// Useless questions are refused free only where the policy says about how many units there are.
fn units_unknown(policy: &Policy) -> Option<String> {
    policy.privacy.units.is_none().then(|| {
        "  privacy.units is not set: a question whose answer the noise would hide is charged, not \
            refused, until the role has counted the units"
            .to_owned()
    })
}

/// The account that answers are counted in.
struct Budget {
    whole: Option<AccountState>,
    /// `None` where the ledger was not read; an account that may not be charged holds nothing.
    left: Option<Option<AccountState>>,
}

/// The answers of one table at one epsilon, and how many such answers the budget holds.
fn of_one_epsilon(all: &[Worth<'_>], budget: &Budget) -> Option<String> {
    let epsilon = all.first()?.epsilon;
    let questions: Vec<String> = all.iter().map(of_one).collect();
    let held = |account: &Option<AccountState>| {
        let losses = all
            .iter()
            .filter_map(|worth| Some(worth.answer.as_ref().ok()?.loss));
        let account = account.as_ref();
        losses
            .map(|loss| account.map_or(0, |account| answers(account, loss)))
            .min()
    };
    let holds = held(&budget.whole).map_or(String::new(), |whole| {
        let left = budget.left.as_ref().and_then(held);
        let left = left.map_or(String::new(), |left| format!(", and {left} more are left"));
        format!("; the budget holds {whole} such answers{left}")
    });
    Some(format!(
        "    at epsilon {epsilon}: {}{holds}",
        questions.join(", ")
    ))
}

/// `count(*)`.
fn name(worth: &Worth<'_>) -> String {
    format!("{}({})", worth.total.name(), worth.column.unwrap_or("*"))
}

fn of_one(worth: &Worth<'_>) -> String {
    let name = name(worth);
    let answer = match &worth.answer {
        Ok(answer) => answer,
        Err(why) => return format!("{name} is not answered ({why})"),
    };
    let ExpectedAnswer {
        error,
        is_chosen,
        in_units,
        is_useless,
        loss: _,
        rows: _,
    } = answer;
    let useless = if *is_useless { ", useless" } else { "" };
    let units = in_units.map_or("unknown".to_owned(), |units| {
        format!("{} units", three_digits(units))
    });
    let error = error.map(three_digits);
    let error_text = match (worth.total, is_chosen, error) {
        (WorthAggregate::Average, _, Some(error)) => format!("±{error}"),
        (WorthAggregate::Average, _, None) => format!("± as {units} of all"),
        (WorthAggregate::Count | WorthAggregate::Sum, true, Some(error)) => {
            format!("± as {units}, at most {error}")
        }
        (WorthAggregate::Count | WorthAggregate::Sum, false, Some(error)) => {
            format!("±{error} ({units})")
        }
        (WorthAggregate::Count | WorthAggregate::Sum, _, None) => "± what a look finds".to_owned(),
    };
    format!("{name} {error_text}{useless}")
}

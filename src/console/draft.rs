//! Policy: the one in force, read aloud, and the changes of a pasted draft. The draft is compared
//! as text: it reads no database, no table, no environment and no file, and nothing is written.

use std::collections::HashSet;
use std::sync::Arc;

use axum::extract::{Form, State};
use axum::response::{Html, IntoResponse, Response};
use maud::{Markup, html};
use serde::Deserialize;

use super::visitor::{Owner, SignedInOperator};
use super::{Console, view};
use crate::calendar::MICROS_PER_DAY;
use crate::engine::{Engine, aside, summary};
use crate::ledger::{AccountSpec, Balance, Error, now};
use crate::mechanism::Loss;
use crate::policy::{Difference, File, PolicyError, Renew, find_unlisted};

/// The days whose charges are shown, and the most debits that are read.
const DAYS: i64 = 7;
const DEBITS_MAX: u32 = 20_000;
/// Errors of a draft that are listed.
const ERRORS_MAX: usize = 50;
/// Where the policy in force cannot be shown.
const UNKNOWN: &str = "A variable stands for a part of a value in the policy in force, and the \
    console reads no variable: it cannot show this policy or compare a draft with it. `pgveil \
    check` shows it.";

pub async fn form(Owner(visitor): Owner, State(console): State<Arc<Console>>) -> Response {
    page(&console, &visitor, "", &html! {}).into_response()
}

#[derive(Deserialize)]
pub struct DraftForm {
    token: String,
    draft: String,
}

/// The changes that the draft would make.
pub async fn compare(
    visitor: Result<Owner, Response>,
    State(console): State<Arc<Console>>,
    Form(DraftForm { token, draft }): Form<DraftForm>,
) -> Response {
    let draft = draft.replace("\r\n", "\n");
    let visitor = match visitor {
        Ok(Owner(visitor)) => visitor,
        Err(refused) => return console.turned_away(refused, &draft),
    };
    if let Some((status, why)) = console.hinders(&visitor, &token, &draft) {
        let page = page(&console, &visitor, &draft, &view::hindrance(&why));
        return (status, page).into_response();
    }
    let in_force = console.in_force.current();
    // No variable is looked up: a draft that names one could else show its value.
    let compare = || {
        let parsed = File::parse_without_secrets("draft", &draft, |_| None);
        match (parsed, in_force) {
            (Err(errors), _) => Err(wrong(&errors)),
            (Ok(file), Some(in_force)) => Ok(Difference::between(&in_force, &file)),
            (Ok(_), None) => Err(html! { p #found .refused role="alert" { (UNKNOWN) } }),
        }
    };
    // A long draft keeps no other task waiting.
    let body = match aside(compare) {
        Err(why) => why,
        Ok(difference) if difference.buys_again() => html! {
            (different(&difference))
            (bought_lately(&console.engine()).await)
        },
        Ok(difference) => different(&difference),
    };
    page(&console, &visitor, &draft, &body).into_response()
}

fn page(console: &Console, visitor: &SignedInOperator, draft: &str, body: &Markup) -> Html<String> {
    let in_force = console.in_force.current();
    let engine = console.engine();
    let known = in_force.map(|file| {
        let lines = summarize(&engine, &file).join("\n");
        (lines, file.digest.to_string())
    });
    console.page(visitor, "Policy", |token| {
        html! {
            (body)
            section aria-labelledby="force" {
                h2 #force { "In force" }
                @match &known {
                    None => p .note { (UNKNOWN) },
                    Some((lines, digest)) => {
                        pre tabindex="0" aria-label="The policy read aloud" { (lines) }
                        p .note {
                            "SHA-256 of the file: " code { (digest) } ". "
                            code { "pgveil budget history" }
                            " lists every policy that was in force."
                        }
                    }
                }
            }
            section aria-labelledby="draft-heading" {
                h2 #draft-heading { "What would a draft change?" }
                p .note {
                    "Paste a policy file. It is compared with the one in force as text. Nothing is \
                    written, no database is asked, and no " code { "${NAME}" } " is looked up; "
                    code { "pgveil check" } " compares it with the database."
                }
                form method="post" action="/policy#found" {
                    (view::token_field(token))
                    label for="draft" { "Draft" }
                    textarea #draft name="draft" rows="12" spellcheck="false" autocomplete="off"
                        autocapitalize="off" required { "\n" (draft) }
                    div .buttons { button .primary { "Compare" } }
                }
            }
        }
    })
}

/// The summary of `pgveil check`.
fn summarize(engine: &Engine, file: &File) -> Vec<String> {
    let policy = engine.policy();
    let privacy = &policy.privacy;
    let owner = AccountSpec::of("owner", privacy.budget, Renew::Never, privacy);
    let roles = policy
        .roles
        .iter()
        .map(|role| AccountSpec::of(&role.name, role.budget, role.renew, privacy));
    let roles: Result<Vec<AccountSpec>, _> = roles.collect();
    match (owner, roles) {
        (Ok(owner), Ok(roles)) => summary(policy, &find_unlisted(file, policy), &owner, &roles),
        // Such a policy is refused before it comes into force.
        (Err(error), _) | (_, Err(error)) => vec![error.to_string()],
    }
}

/// What was charged of late, and will be again under a draft that shows no stored answer. The
/// record has no statement: what it costs at the draft's own prices is not known.
async fn bought_lately(engine: &Engine) -> Markup {
    let ledger = engine.ledger();
    let from = now() - DAYS * MICROS_PER_DAY;
    let read = async {
        let entries = ledger.spent_since(None, from, DEBITS_MAX).await?;
        Ok::<_, Error>((entries, ledger.balance_owner().await?))
    };
    let Ok((entries, owner)) = read.await else {
        let why = "The ledger cannot be read now: what is bought again is not known.";
        return html! { p .wrong { (why) } };
    };
    let plans: HashSet<_> = entries
        .iter()
        .map(|entry| *entry.fingerprint.as_bytes())
        .collect();
    let whole = entries
        .iter()
        .try_fold(Loss::ZERO, |sum, entry| sum.compose(entry.loss));
    let share = whole.map_or(1.0, |whole| {
        1.0 - Balance::lasting(owner.cap, whole).fraction_left()
    });
    let mu = whole.map_or(f64::INFINITY, |whole| whole.mu_squared.to_f64().sqrt());
    html! {
        p .note {
            @if plans.is_empty() { "Nothing was charged in the last " (DAYS) " days." }
            @else {
                @if entries.len() == DEBITS_MAX as usize { "At least " }
                (plans.len()) " plans were charged in the last " (DAYS) " days, mu "
                (format!("{mu:.4}")) " together (" (format!("{:.1}", 100.0 * share))
                " % of the owner's total). What of it is asked again under the draft is charged \
                again, at the draft's prices. "
                code { "pgveil explain" } " says what a question would cost under it."
            }
        }
    }
}

fn different(difference: &Difference) -> Markup {
    let Difference {
        loosens,
        tightens,
        changes,
        costs,
    } = difference;
    let kinds = [
        ("Loosens", loosens),
        ("Tightens", tightens),
        ("Changes", changes),
        ("Costs", costs),
    ];
    html! {
        section #found aria-labelledby="difference" {
            h2 #difference {
                @if difference.is_empty() { "The draft changes nothing" }
                @else if loosens.is_empty() { "The draft loosens nothing" }
                @else { "The draft loosens the policy" }
            }
            @for (kind, lines) in kinds {
                @if !lines.is_empty() {
                    h3 { (kind) }
                    ul .(kind.to_lowercase()) { @for line in lines { li { (line) } } }
                }
            }
        }
    }
}

fn wrong(errors: &[PolicyError]) -> Markup {
    html! {
        section #found aria-labelledby="wrong" {
            h2 #wrong { "The draft is no policy yet" }
            div .refused role="alert" {
                ul { @for error in errors.iter().take(ERRORS_MAX) { li { (error.to_string()) } } }
            }
            @if errors.len() > ERRORS_MAX {
                p .note { (errors.len() - ERRORS_MAX) " more errors are not shown." }
            }
        }
    }
}

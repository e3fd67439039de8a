//! A summary as a question: grouping sets over its table, planned and priced like any other.

use sha2::{Digest, Sha256};

use super::counted_rows;
use super::join_form::JoinForm;
use crate::aggregates::Foreseen;
use crate::catalog::Type;
use crate::engine::notice::three_digits;
use crate::engine::planning::plan;
use crate::error::Error;
use crate::ir::sql::{constant, scalar_text};
use crate::ir::{KeyId, SetId};
use crate::ledger::{QuestionDigest, QuestionId};
use crate::mechanism::{AccountState, Loss, SummedValues};
use crate::parse::{Statement, parse};
use crate::policy::{
    Accuracy, ColumnPosition, KeySet, KeySource, Policy, Scalar, SessionSettings, Summary,
    SummaryColumn, SummaryKey, cap, with_subsets,
};
use crate::postgres::identifier;
use crate::refusal::{Refusal, reason};
use crate::release::{NoiseRecord, ONLY, ReleasedTable};
use crate::resolve::Constants;
use crate::rewrite::{Family, Plan, Price, ReleasePlan, Terms, epsilon_for};

/// The most sets of keys that are measured, those within the declared ones included.
const SETS_MAX: usize = 256;

/// Another form of FROM with the rows of a summary.
#[derive(Debug, Clone)]
pub(super) struct OtherJoin {
    /// The summary's own.
    base: Family,
    /// The other one, of the same statement otherwise.
    asked: Family,
}

impl OtherJoin {
    /// Whether a release reads this FROM.
    pub fn is_of(&self, family: &Family) -> bool {
        self.asked.digest == family.digest
    }

    /// The summary's table as it reads for this FROM.
    pub fn read(&self, table: &ReleasedTable) -> Option<ReleasedTable> {
        table.read_as(&self.base, &self.asked)
    }
}

/// A summary with its plan. Pure: it depends on the policy alone.
#[derive(Debug, Clone)]
pub struct SummaryQuestion {
    pub plan: Plan,
    /// The epsilon that the summary costs.
    pub epsilon: f64,
    /// The digest under which the ledger keeps the summary. It has no family: it is looked up by
    /// its own digest, never among the answers that roles have bought.
    pub kept_as: QuestionDigest,
}

impl SummaryQuestion {
    /// Plans a summary of the policy.
    ///
    /// # Guarantee
    /// The plan is that of an ordinary statement: its loss is that of its release. The digest under
    /// which it is kept covers the policy's version, the question and the loss. So another
    /// definition of the table, of the data's version or of the price is another summary. Of
    /// selected sets it covers the selection too, and the loss does not depend on which they are
    /// ([`Terms::after_selection`]).
    ///
    /// # Errors
    /// Those of planning, for example 54000 where it has too many groups; 0A000 where its sets are
    /// still to be selected.
    pub fn new(policy: &Policy, summary: &Summary) -> Result<Self, Error> {
        if summary.marginals.is_empty() {
            let due = Refusal::unsupported(reason::UNSUPPORTED_SUMMARY, "this summary");
            let due = due.detail("Its sets have not been selected yet.");
            return Err(Error::Rewrite(
                due.hint("Let the owner run pgveil summarize."),
            ));
        }
        // If sets share noise, sets within the declared ones cost little, and make coarse questions
        // more exact. If each set has its own noise, further sets would increase it.
        let shared = with_subsets(&summary.marginals, SETS_MAX)
            .and_then(|sets| Self::of(policy, summary, &sets).ok())
            .filter(|question| {
                let price = question.release().price();
                price.is_some_and(|price| price.effects.is_some())
            });
        shared.map_or_else(|| Self::of(policy, summary, &summary.marginals), Ok)
    }

    /// The question of a summary over these sets of keys.
    fn of(policy: &Policy, summary: &Summary, sets: &[KeySet]) -> Result<Self, Error> {
        let text = text(policy, summary, sets);
        let planned = |terms: &Terms| plan_text(policy, &text, terms);
        let mut terms = Terms {
            ranges: ranges(summary, sets),
            ..terms(policy, summary)?
        };
        let mut foreseen = None;
        if summary.is_auto {
            let after = terms.after_selection();
            let (after, loss) = after.ok_or_else(|| Error::Rewrite(refuse_unsupported()))?;
            (terms, foreseen) = (after, Some(loss));
        }
        if let Accuracy::Error(wanted) = summary.accuracy {
            terms.epsilon = epsilon_for_error(wanted, &planned(&terms)?, &terms, policy)?;
        }
        let plan = planned(&terms)?;
        let priced = match plan.releases() {
            [release] if is_one_vector(release) => release.loss().zip(release.price()),
            _ => None,
        };
        let Some((loss, price)) = priced else {
            return Err(Error::Rewrite(refuse_unsupported()));
        };
        if !terms.ranges.is_empty() && price.effects.is_none() {
            return Err(Error::Rewrite(refuse_ranges()));
        }
        // Roles see the price before they have paid for the selection.
        let is_as_foreseen = foreseen.is_none_or(|foreseen| foreseen == loss);
        debug_assert!(is_as_foreseen, "the price depends on the selected sets");
        if !is_as_foreseen {
            return Err(Error::Rewrite(refuse_unsupported()));
        }
        let kept_as = QuestionDigest {
            digest: digest(plan.release(ONLY), &loss, summary.selection.as_deref()),
            family: None,
            accuracy: price.accuracy,
            loss,
        };
        Ok(Self {
            plan,
            epsilon: terms.epsilon,
            kept_as,
        })
    }

    /// The forms in which a question may join the summary's tables, so that it reads the same rows.
    /// None for a summary of one table that counts no rows of others.
    pub(super) fn other_joins(&self, policy: &Policy, summary: &Summary) -> Vec<OtherJoin> {
        let joins = summary.joins(policy).len();
        let counts_rows = summary.counts_rows();
        let Some(own) = self.release().family().filter(|_| joins > 0 || counts_rows) else {
            return Vec::new();
        };
        let family = |form: &JoinForm, steps: usize| {
            let all = SummaryKey::all(summary.keys.len());
            let is_column = |key: SummaryKey| key.pick(&summary.keys).column().is_some();
            let known = all.filter(|key| {
                let is_joined = form.counts_rows() || is_column(*key);
                key.pick(&summary.keys).steps <= steps && is_joined
            });
            let known: Vec<SummaryKey> = known.collect();
            let sets: Vec<KeySet> = known.iter().map(|key| KeySet::new(vec![*key])).collect();
            let mut found = family(policy, summary, &text_over(policy, summary, &sets, form))?;
            // Numbers of rows stand in the summary's form alone: without one, the planner would
            // leave out the join.
            let mut keys = known.into_iter();
            found.keys.retain(|_| keys.next().is_some_and(is_column));
            Some(found)
        };
        let with = |steps: usize| {
            let base = family(&JoinForm::of_summary(joins), steps);
            let base = base.filter(|base| base.digest == own.digest);
            let other = |form: JoinForm| {
                let (base, asked) = (base.clone()?, family(&form, steps)?);
                (asked.digest != own.digest).then_some(OtherJoin { base, asked })
            };
            let forms = match counts_rows {
                true => vec![JoinForm::without_counted_rows(steps)],
                false => JoinForm::all(steps),
            };
            forms
                .into_iter()
                .filter_map(other)
                .collect::<Vec<OtherJoin>>()
        };
        let fewer = JoinForm::with_fewer(policy, summary).into_iter();
        std::iter::once(joins).chain(fewer).flat_map(with).collect()
    }

    /// Its release.
    pub fn release(&self) -> &ReleasePlan {
        self.plan.release(ONLY)
    }

    /// How many noisy groups it has.
    pub fn groups(&self) -> u64 {
        self.release().listed_groups()
    }

    /// The standard error of the number of rows in one group of each set that is measured: of the
    /// declared ones first, in their order. Of keys with ranges, the root of the mean square over
    /// all ranges.
    pub fn errors(&self) -> Vec<f64> {
        errors(self.release(), &SummedValues::Ranges)
    }

    /// As [`Self::errors`], over other values of the keys with ranges.
    pub fn errors_of(&self, summed: &SummedValues) -> Vec<f64> {
        errors(self.release(), summed)
    }
}

/// Plans a statement that reads the policy alone.
///
/// # Errors
/// Those of planning.
pub(super) fn plan_text(policy: &Policy, text: &str, terms: &Terms) -> Result<Plan, Error> {
    let statements = parse(text).map_err(Error::Parse)?;
    let [Statement::Query(query)] = statements.as_slice() else {
        return Err(Error::Parse(refuse_unsupported()));
    };
    let path = ["public".to_owned()];
    plan(query, policy, &path, &Constants::of_policy(), terms)
}

/// The epsilon and the loss of a summary of selected sets, whichever these are; `None` where the
/// policy's terms allow none.
pub(super) fn price_of_selected(policy: &Policy, summary: &Summary) -> Option<(f64, Loss)> {
    let (terms, loss) = terms(policy, summary).ok()?.after_selection()?;
    Some((terms.epsilon, loss))
}

/// The family of a statement in the place of the summary's.
fn family(policy: &Policy, summary: &Summary, text: &str) -> Option<Family> {
    let terms = terms(policy, summary).ok()?;
    let plan = plan_text(policy, text, &terms).ok()?;
    match plan.releases() {
        [release] => release.family().cloned(),
        _ => None,
    }
}

fn errors(release: &ReleasePlan, summed: &SummedValues) -> Vec<f64> {
    let outputs = release.outputs();
    let counted = outputs.first().map(|(output, _)| output.foreseen());
    let (Some(Foreseen::Measure(measure)), Some(drawn)) = (counted, NoiseRecord::of(release))
    else {
        return Vec::new();
    };
    let measure = release.measure(measure);
    let sets = release.sets().len().max(1);
    let error = |set| drawn.deviation_in(measure, SetId(set), summed);
    (0..sets).map(error).collect()
}

/// The keys of a summary with ranges, by their places among those of its statement: that has them
/// in the order in which its sets first name them.
fn ranges(summary: &Summary, sets: &[KeySet]) -> Vec<KeyId> {
    let mut order: Vec<SummaryKey> = Vec::new();
    for key in sets.iter().flat_map(KeySet::keys) {
        if !order.contains(&key) {
            order.push(key);
        }
    }
    let keys = KeyId::all(order.len()).zip(&order);
    keys.filter(|(_, key)| key.pick(&summary.keys).has_ranges)
        .map(|(at, _)| at)
        .collect()
}

/// The epsilon at which the largest error of a count is the wanted one, or less, by a plan at the
/// epsilon of `terms`.
///
/// # Errors
/// 22023 where that is more than a query may spend; then the least error that it may have.
fn epsilon_for_error(
    wanted: f64,
    plan: &Plan,
    terms: &Terms,
    policy: &Policy,
) -> Result<f64, Error> {
    /// Covers the rounding of noise to its grid.
    const MARGIN: f64 = 1.002;
    let [release] = plan.releases() else {
        return Err(Error::Rewrite(refuse_unsupported()));
    };
    let largest = errors(release, &SummedValues::Ranges)
        .into_iter()
        .reduce(f64::max);
    let factor = largest.map(|error| MARGIN * error / wanted);
    let needed = epsilon_for(
        factor.ok_or_else(|| Error::Rewrite(refuse_unsupported()))?,
        terms,
    );
    let epsilon = (needed * 1e4).ceil() / 1e4;
    let most = policy.privacy.epsilon_max;
    if epsilon <= most {
        return Ok(epsilon.max(policy.privacy.epsilon_min));
    }
    Err(Error::Rewrite(Refusal::new(
        reason::TARGET_ERROR_TOO_SMALL,
        format!(
            "an error of {wanted} needs epsilon {}, more than one query may spend ({most})",
            three_digits(epsilon)
        ),
    )))
}

pub(super) fn refuse_unsupported() -> Refusal {
    Refusal::unsupported(reason::UNSUPPORTED_SUMMARY, "this summary")
}

fn refuse_ranges() -> Refusal {
    refuse_unsupported()
        .detail(
            "Its sets cannot share noise, as ranges need: there are too many keys, values or \
                measures together, or too many rows per unit for the number of groups.",
        )
        .hint("Declare fewer keys or sets of keys, bins in place of values, or no ranges.")
}

/// Whether its groups can be added up for other questions.
fn is_one_vector(release: &ReleasePlan) -> bool {
    let is_plain = |price: &Price| price.threshold.is_none() && price.look.is_none();
    release.choices().is_empty()
        && release.family().is_some()
        && release.price().is_some_and(is_plain)
}

/// Two selections of the same sets have different summaries: otherwise the summary of a new
/// selection would be known at once where it is an old one again.
fn digest(release: &ReleasePlan, loss: &Loss, selection: Option<&str>) -> QuestionId {
    let mut digest = Sha256::new();
    digest.update("pgveil summary 1\n");
    digest.update(release.question().as_bytes());
    digest.update(format!("{loss:?}"));
    if let Some(selection) = selection {
        digest.update(format!(" of the selection {selection}"));
    }
    QuestionId(digest.finalize().into())
}

/// The terms under which all roles have one price: the smallest delta, and accounts that have spent
/// nothing, so that the price does not reveal what others have left.
pub(super) fn terms(policy: &Policy, summary: &Summary) -> Result<Terms, Error> {
    let privacy = &policy.privacy;
    let roles = policy
        .roles
        .iter()
        .filter(|role| summary.roles.contains(&role.name));
    let budgets: Vec<_> = roles
        .map(|role| role.budget)
        .chain([privacy.budget])
        .collect();
    let account = |budget| {
        let cap = cap(budget, privacy.threshold_share, privacy.accounting).ok()?;
        Some(AccountState {
            cap,
            spent: Loss::ZERO,
        })
    };
    let accounts = budgets.iter().map(|budget| account(*budget));
    let accounts = accounts.collect::<Option<_>>();
    Ok(Terms {
        epsilon: match summary.accuracy {
            Accuracy::Epsilon(epsilon) => epsilon,
            // The first trial, from which the needed epsilon follows, as the error falls in
            // proportion to mu.
            Accuracy::Error(_) => privacy.epsilon_default,
        },
        delta: budgets
            .iter()
            .map(|budget| budget.delta)
            .fold(1.0, f64::min),
        accounts: accounts.ok_or_else(|| Error::Rewrite(refuse_unsupported()))?,
        session_settings: SessionSettings::with_declared_clips(),
        ranges: Vec::new(),
    })
}

/// The summary's tables as FROM has them.
pub(super) fn from(policy: &Policy, summary: &Summary) -> String {
    JoinForm::of_summary(summary.joins(policy).len()).from(policy, summary)
}

/// The summary's keys as expressions over [`from`].
pub(super) fn key_texts(policy: &Policy, summary: &Summary) -> Vec<String> {
    let key = |(at, key): (SummaryKey, &SummaryColumn)| {
        let column = match key.source {
            KeySource::Column(column) => column,
            KeySource::Rows { most } => return counted_rows::text(at, key, most),
        };
        let of = &policy.tables[key.table].columns[column.0];
        let name = format!("t{}.{}", key.steps, identifier(&of.name));
        let data_type = &of.data_type;
        let limits: Vec<String> = match key.edges.as_slice() {
            [_, limits @ .., _] => limits.iter().map(|l| limit(l, data_type)).collect(),
            _ => return name,
        };
        format!("width_bucket({name}, ARRAY[{}])", limits.join(", "))
    };
    let all = SummaryKey::all(summary.keys.len());
    all.zip(&summary.keys).map(key).collect()
}

/// The summary as SQL. Sums come with the number of rows that they are of.
fn text(policy: &Policy, summary: &Summary, sets: &[KeySet]) -> String {
    let form = JoinForm::of_summary(summary.joins(policy).len());
    text_over(policy, summary, sets, &form)
}

/// The summary as SQL, with its tables joined in this form.
fn text_over(policy: &Policy, summary: &Summary, sets: &[KeySet], form: &JoinForm) -> String {
    let table = &policy.tables[summary.table];
    let column = |at: &ColumnPosition| format!("t0.{}", identifier(&table.columns[at.0].name));
    let keys = key_texts(policy, summary);
    let sums = summary.measures.iter().map(|at| {
        let column = column(at);
        format!("count({column}), sum({column}), avg({column})")
    });
    let counted = ["count(*)".to_owned()];
    let asked = |at: SummaryKey| sets.iter().any(|set| set.contains(at));
    let asked_keys = SummaryKey::all(keys.len()).filter(|at| asked(*at));
    let asked_keys: Vec<String> = asked_keys.map(|at| at.pick(&keys).clone()).collect();
    let items: Vec<String> = asked_keys
        .iter()
        .cloned()
        .chain(counted)
        .chain(sums)
        .collect();
    let set = |set: &KeySet| {
        let name = |key: SummaryKey| key.pick(&keys).as_str();
        let keys: Vec<&str> = set.keys().map(name).collect();
        format!("({})", keys.join(", "))
    };
    let sets: Vec<String> = sets.iter().map(set).collect();
    let grouped = match sets.as_slice() {
        [] => String::new(),
        [_] => format!(" GROUP BY {}", asked_keys.join(", ")),
        sets => format!(" GROUP BY GROUPING SETS ({})", sets.join(", ")),
    };
    let from = form.from(policy, summary);
    format!("SELECT {} FROM {from}{grouped}", items.join(", "))
}

/// Where a bin begins, as a constant.
fn limit(value: &Scalar, data_type: &Type) -> String {
    match value {
        Scalar::Int(_) | Scalar::Decimal(_) => scalar_text(value),
        _ => constant(Some(value), data_type).to_string(),
    }
}

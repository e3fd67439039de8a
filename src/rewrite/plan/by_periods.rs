//! The plans of a question by periods: see [`crate::rewrite::periods`].

use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::Plan;
use super::digest::ReleaseDigest;
use crate::calendar::period::{Period, PeriodLength, PeriodSet};
use crate::ir::ReleaseId;
use crate::policy::{ClipChoice, Prepaid};
use crate::rewrite::periods::{AskedPeriods, PrepaidTerms};

/// The question for any period, for sessions whose clips are chosen in this way. A session that
/// asks for clips that are known beforehand must not get an answer whose clips a look chose.
fn of_clip(question: ReleaseDigest, clip: ClipChoice) -> ReleaseDigest {
    match clip {
        ClipChoice::Fixed | ClipChoice::Declared => question,
        ClipChoice::Auto => {
            let mut digest = Sha256::new();
            digest.update(b"periods at chosen clips 1\n");
            digest.update(question.as_bytes());
            ReleaseDigest::new(digest.finalize().into())
        }
    }
}

/// The question for any period where its periods are prepaid, at any price. Another limit keeps
/// other periods of a unit, or clips it otherwise.
fn of_prepaid(question: ReleaseDigest, terms: Option<&PrepaidTerms>) -> ReleaseDigest {
    let Some(PrepaidTerms {
        declared:
            Prepaid {
                per_unit,
                horizon,
                rows: _,
                answers: _,
            },
        by_period,
        limits,
        epsilon: _,
        data_version,
    }) = terms
    else {
        return question;
    };
    let mut digest = Sha256::new();
    digest.update(b"prepaid periods 1\n");
    digest.update(question.as_bytes());
    digest.update(format!("{per_unit} {horizon} {limits:?} {data_version:?}").as_bytes());
    if by_period.totals_over.is_some() {
        digest.update(b"running totals by the square root 1\n");
    }
    ReleaseDigest::new(digest.finalize().into())
}

/// The periods that a release answers, of a question by periods.
#[derive(Debug, Clone, PartialEq)]
pub struct PeriodBatch {
    /// The question for any period.
    pub question: ReleaseDigest,
    pub periods: PeriodSet,
    /// The epsilon of its statement.
    pub epsilon: f64,
    /// Where rows of running totals are drawn.
    pub totals: Option<TotalsBatch>,
}

/// The rows of running totals that a release draws: one for each of its periods.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TotalsBatch {
    /// The place of the key from whose value the period follows. Each value is one period.
    pub key: usize,
    pub length: PeriodLength,
    /// The first period that is in these rows: the first one of the horizon, or the one after the
    /// last that was lost.
    pub block: Period,
}

impl PeriodBatch {
    /// The question for these periods. Answers of one question for the same periods differ in
    /// noise alone.
    fn digest(&self) -> ReleaseDigest {
        let mut digest = Sha256::new();
        digest.update(b"periods of a question 1\n");
        digest.update(self.question.as_bytes());
        digest.update(format!("{:?}", self.periods.runs()).as_bytes());
        ReleaseDigest::new(digest.finalize().into())
    }
}

impl Plan {
    /// The plan with its form by periods, where its question has one.
    pub fn or_by_periods(self, form: Option<Self>) -> Self {
        Self {
            by_periods: form.map(Arc::new),
            ..self
        }
    }

    /// The plan with a notice that its question, by the periods of a table, is not prepaid.
    pub fn noting(self, caution: String) -> Self {
        let mut plan = self;
        if let Some(release) = plan.releases.first_mut() {
            release.facts.cautions.push(caution);
        }
        plan
    }

    /// The form by periods of its question.
    pub fn by_periods(&self) -> Option<&Arc<Self>> {
        self.by_periods.as_ref()
    }

    /// The periods that it asks for, where it is answered by periods. Then it is never run: its
    /// answer is put together from those of periods.
    pub fn periods(&self) -> Option<&AskedPeriods> {
        self.periods.as_deref()
    }

    /// Whether running totals of its periods are drawn by the square root.
    pub fn has_totals(&self) -> bool {
        let terms = self.periods().and_then(AskedPeriods::prepaid);
        terms.is_some_and(|terms| terms.by_period.totals_over.is_some())
    }

    /// Turns the plan into the form by periods of a question. The digest is that of the question
    /// for any period and any way of choosing clips.
    pub fn into_form_by_periods(self, asked: AskedPeriods, question: ReleaseDigest) -> Self {
        let question = of_prepaid(of_clip(question, asked.clip()), asked.prepaid());
        let mut form = self;
        for release in &mut form.releases {
            release.question = question;
            // It must not be read from other answers, which may have open periods.
            release.family = None;
        }
        Self {
            periods: Some(Arc::new(asked)),
            ..form
        }
    }

    /// The plan with rows of running totals that begin with this period, where it draws some.
    ///
    /// # Guarantee
    /// Weights of earlier periods are zero in place of positive ones, so that the loss is no
    /// larger.
    pub fn with_block(self, at: ReleaseId, block: Period) -> Self {
        let mut plan = self;
        let batch = plan.releases[at.0].batch.as_mut();
        if let Some(totals) = batch.and_then(|batch| batch.totals.as_mut()) {
            totals.block = block;
        }
        plan
    }

    /// Turns the plan into one that buys some periods. It is an ordinary plan of the question for
    /// these periods alone, with its own price, and kept as their answer.
    pub fn into_batch(self, at: ReleaseId, batch: PeriodBatch) -> Self {
        let mut plan = self;
        let release = &mut plan.releases[at.0];
        release.question = batch.digest();
        release.family = None;
        release.batch = Some(batch);
        plan
    }
}

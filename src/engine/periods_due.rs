//! What a question by periods would buy now. It is free.

use super::by_periods::Standing;
use super::prepaid_standing::HorizonStanding;
use super::shown_periods::ShownPeriods;
use super::{Engine, Requester};
use crate::calendar::period::PeriodSet;
use crate::error::Error;
use crate::mechanism::Loss;
use crate::memory::HeldMemory;
use crate::release::PeriodAnswer;
use crate::rewrite::Plan;

/// The purchase that a question by periods would make now.
pub(super) struct PeriodsDue {
    /// The plan that would run; `None` where nothing has to be paid.
    pub batch: Option<Plan>,
    /// What is paid for.
    pub loss: Loss,
    pub shown: ShownPeriods,
    /// Answers that the role holds, each with those of its periods that are shown from it.
    pub answers: Vec<(PeriodAnswer, PeriodSet)>,
    /// Where periods are prepaid, the horizons with the answers that the role holds.
    pub horizons: Vec<HorizonStanding>,
    /// Whether a closed period is asked for.
    pub is_asked: bool,
    /// The memory of these answers.
    pub held: HeldMemory,
}

impl Engine {
    /// What the plan would buy now; `None` where it is not answered by periods. It is free.
    pub(super) async fn periods_due(
        &self,
        requester: &Requester,
        plan: &Plan,
    ) -> Result<Option<PeriodsDue>, Error> {
        let Some(asked) = plan.periods() else {
            return Ok(None);
        };
        if asked.prepaid().is_some() {
            return self.prepaid_due(requester, plan).await.map(Some);
        }
        let Standing {
            answers,
            claim: _,
            missing,
            shown,
            held,
        } = self.standing(requester, plan).await?;
        let is_asked = !missing.is_empty() || shown.held > 0;
        let batch = self.plan_batch(requester, plan, &missing).await?;
        let shown = shown.of_purchase(batch.is_some());
        let loss = batch.as_ref().map_or(Loss::ZERO, Plan::loss);
        Ok(Some(PeriodsDue {
            batch,
            loss,
            shown,
            answers,
            horizons: Vec::new(),
            is_asked,
            held,
        }))
    }
}

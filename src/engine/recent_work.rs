//! What was made of recent statements, for those that come again. It depends on texts, the policy
//! and released values alone.

use super::constant_answers::ConstantAnswers;
use super::plan_cache::PlanCache;
use super::printed_rows::PrintedRows;
use super::read_texts::ReadTexts;
use super::shape_texts::KnownShapes;

#[derive(Debug, Default)]
pub(super) struct RecentWork {
    pub texts: ReadTexts,
    pub plans: PlanCache,
    pub shapes: KnownShapes,
    pub constant_answers: ConstantAnswers,
    pub printed_rows: PrintedRows,
}

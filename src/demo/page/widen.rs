//! The columns of a statement for which pgveil gives an interval. Free: the statements are
//! described, not asked.

use crate::demo::session::DemoSession;
use crate::web::intervals::{IntervalQuery, WithIntervals};

/// The statement with intervals for every column that can have one.
pub async fn widen(question: &IntervalQuery, session: &DemoSession) -> Option<WithIntervals> {
    let mut accepted = Vec::new();
    for candidate in question.candidates() {
        let widened = question.widen(std::slice::from_ref(&candidate))?;
        if session.describe(&widened.sql).await.is_ok() {
            accepted.push(candidate);
        }
    }
    if accepted.is_empty() {
        return None;
    }
    question.widen(&accepted)
}

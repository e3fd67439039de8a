//! The values of `pgveil.target_error`.

/// A wanted standard error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TargetError {
    /// In the unit of the answer, > 0.
    Absolute(f64),
    /// Times the answer itself, > 0.
    OfAnswer(f64),
    /// Times the most that one row can add: 1 for a count, the width of the range for a sum; > 0.
    OfRow(f64),
}

/// Wanted standard errors of a statement's aggregates, in the order in which they first appear; the
/// last one also of all further ones.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TargetErrors {
    list: [TargetError; TARGETS_MAX],
    count: usize,
}

/// The most target errors of one list.
pub(super) const TARGETS_MAX: usize = 16;

/// One aggregate of a statement, numbered over all its releases. Within a release aggregates have
/// other numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StatementAggregate(usize);

impl StatementAggregate {
    /// The aggregate that comes this many aggregates later.
    pub fn after(self, aggregates: usize) -> Self {
        Self(self.0 + aggregates)
    }

    /// Counted from one, for people.
    pub fn ordinal(self) -> usize {
        self.0 + 1
    }
}

impl TargetErrors {
    /// `None` where there are none or too many.
    pub(super) fn of_list(list: &[TargetError]) -> Option<Self> {
        let last = list.last().filter(|_| list.len() <= TARGETS_MAX)?;
        let mut targets = Self {
            count: list.len(),
            ..Self::from(*last)
        };
        targets.list[..list.len()].copy_from_slice(list);
        Some(targets)
    }

    /// The target error of an aggregate.
    pub fn of(&self, StatementAggregate(at): StatementAggregate) -> TargetError {
        self.list[at.min(self.count - 1)]
    }

    /// Whether some target is a share of the answer.
    pub fn depend_on_answers(&self) -> bool {
        let mut all = self.list[..self.count].iter();
        all.any(|target| matches!(target, TargetError::OfAnswer(_)))
    }
}

impl From<TargetError> for TargetErrors {
    fn from(all: TargetError) -> Self {
        Self {
            list: [all; TARGETS_MAX],
            count: 1,
        }
    }
}

/// Without the digits that the division by a hundred left.
fn percent(share: f64) -> f64 {
    (share * 1e14).round() / 1e12
}

impl std::fmt::Display for TargetErrors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, one) in self.list.iter().take(self.count).enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            match one {
                TargetError::Absolute(value) => write!(f, "{comma}{value}")?,
                TargetError::OfAnswer(value) => write!(f, "{comma}{}%", percent(*value))?,
                TargetError::OfRow(value) => write!(f, "{comma}{}% of a row", percent(*value))?,
            }
        }
        Ok(())
    }
}

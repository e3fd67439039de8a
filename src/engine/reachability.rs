//! Whether the servers that the proxy relies on can be reached, for probes and for operators.

use std::time::Duration;

use super::Engine;
use crate::ledger::{Error, LedgerHeight};

/// How long each of them may take to answer. All are asked at once, so that one that hangs hides
/// no other.
const PATIENCE: Duration = Duration::from_secs(2);

/// A server that the proxy relies on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dependency {
    Database,
    Shadow,
    Ledger,
    /// All witnesses of the ledger.
    Witness,
}

impl Dependency {
    pub fn name(self) -> &'static str {
        match self {
            Self::Database => "database",
            Self::Shadow => "shadow",
            Self::Ledger => "ledger",
            Self::Witness => "witness",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    Reached,
    /// The target refused, failed, or did not answer in time.
    OutOfReach,
    /// The ledger is older than this process or a witness has seen it.
    WentBack,
}

impl Reach {
    /// The state of a target in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Reached => "reached",
            Self::OutOfReach => "out of reach",
            Self::WentBack => "older than it was, so that nothing is charged",
        }
    }
}

/// The state of every target.
#[derive(Debug)]
pub struct Reached {
    /// Every target with its state. The witness is missing where the ledger has none, or did not
    /// answer.
    pub targets: Vec<(Dependency, Reach)>,
    /// The height of the ledger, if it could be read.
    pub height: Option<LedgerHeight>,
}

impl Reached {
    /// The first target that cannot be used.
    pub fn fault(&self) -> Option<(Dependency, Reach)> {
        let mut targets = self.targets.iter().copied();
        targets.find(|(_, reach)| *reach != Reach::Reached)
    }

    pub fn is_reached(&self, wanted: Dependency) -> bool {
        let reached =
            |(target, reach): &(Dependency, Reach)| *target == wanted && *reach == Reach::Reached;
        self.targets.iter().any(reached)
    }
}

impl Engine {
    /// Asks every target, for two seconds at most.
    pub async fn check(&self) -> Reached {
        let (database, shadow, height) = tokio::join!(
            tokio::time::timeout(PATIENCE, self.backend.answers()),
            tokio::time::timeout(PATIENCE, self.shadow.answers()),
            tokio::time::timeout(PATIENCE, self.ledger.height()),
        );
        let answered = |answered: Result<bool, _>| match answered {
            Ok(true) => Reach::Reached,
            Ok(false) | Err(_) => Reach::OutOfReach,
        };
        let (ledger, witness) = match &height {
            Ok(Ok(_)) => (Reach::Reached, Some(Reach::Reached)),
            Ok(Err(Error::WentBack { .. })) => (Reach::WentBack, Some(Reach::Reached)),
            // The ledger was open when its witness was asked.
            Ok(Err(Error::Witness { .. })) => (Reach::Reached, Some(Reach::OutOfReach)),
            Ok(Err(_)) | Err(_) => (Reach::OutOfReach, None),
        };
        let mut targets = vec![
            (Dependency::Database, answered(database)),
            (Dependency::Shadow, answered(shadow)),
            (Dependency::Ledger, ledger),
        ];
        if let Some(witness) = witness.filter(|_| self.ledger.is_witnessed()) {
            targets.push((Dependency::Witness, witness));
        }
        Reached {
            targets,
            height: height.ok().and_then(Result::ok),
        }
    }
}

//! Limits what sessions hold in memory: answers as they come and on their way to a slow client,
//! cursors, portals that are read in parts, prepared statements and long messages. Each session has
//! a small allowance. Everything beyond it counts towards one budget for all sessions, so that many
//! sessions cannot exhaust the machine's memory. One role may take three quarters of that budget.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use crate::refusal::{Refusal, reason};

/// The bytes that a session may hold before it counts towards the common budget.
const OWN_BYTES: usize = 2 << 20;
/// The common budget of all sessions.
const COMMON_BYTES: usize = 1 << 30;
/// Overhead of a row and of a value: a million rows of a thousand NULLs take memory too.
const ROW_BYTES: usize = 48;
const VALUE_BYTES: usize = 64;

/// A counter with an upper limit.
#[derive(Debug)]
struct Source {
    held: AtomicUsize,
    most: usize,
}

impl Source {
    fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            held: AtomicUsize::new(0),
            most,
        })
    }

    fn take(&self, bytes: usize) -> bool {
        let add = |held: usize| held.checked_add(bytes).filter(|sum| *sum <= self.most);
        self.held
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add)
            .is_ok()
    }

    fn give(&self, bytes: usize) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The common budget, and what each role has taken of it.
#[derive(Debug)]
pub struct MemoryBudget {
    common: Arc<Source>,
    by_role: Mutex<HashMap<String, Arc<Source>>>,
}

/// One session's allowance, and its role's part of the common budget.
#[derive(Debug, Clone)]
pub struct MemoryShare {
    own: Arc<Source>,
    of_role: Arc<Source>,
    common: Arc<Source>,
}

/// How much of a budget is taken, for the operator.
#[derive(Debug, Clone)]
pub struct MemoryReading(Arc<Source>);

impl MemoryReading {
    /// The bytes that sessions hold of the budget, and those that are left of it.
    pub fn used_and_free(&self) -> (usize, usize) {
        let held = self.0.held.load(Ordering::Relaxed);
        (held, self.0.most.saturating_sub(held))
    }
}

/// Memory that is held of a share. Dropping it gives the memory back.
#[derive(Debug)]
pub struct HeldMemory {
    share: MemoryShare,
    own: usize,
    common: usize,
}

impl Default for MemoryBudget {
    fn default() -> Self {
        Self::of(COMMON_BYTES)
    }
}

impl MemoryBudget {
    fn of(bytes: usize) -> Self {
        Self {
            common: Source::new(bytes),
            by_role: Mutex::default(),
        }
    }

    /// Shows how much of it is taken at any later moment.
    pub fn reading(&self) -> MemoryReading {
        MemoryReading(Arc::clone(&self.common))
    }

    /// A share for one session of this role.
    pub fn share(&self, role: &str) -> MemoryShare {
        let most = self.common.most - self.common.most / 4;
        let mut all = self.by_role.lock().unwrap_or_else(PoisonError::into_inner);
        // The policy has few roles, so the map stays small.
        let of_role = Arc::clone(
            all.entry(role.to_owned())
                .or_insert_with(|| Source::new(most)),
        );
        MemoryShare {
            own: Source::new(OWN_BYTES),
            of_role,
            common: Arc::clone(&self.common),
        }
    }
}

/// A share of a separate budget, for requesters without a session.
impl Default for MemoryShare {
    fn default() -> Self {
        MemoryBudget::default().share("")
    }
}

/// The bytes that a row takes.
pub fn weight(row: &[Option<Bytes>]) -> usize {
    weight_of_copy(row) + row.iter().flatten().map(Bytes::len).sum::<usize>()
}

/// The bytes that a copy of a row takes, whose values share their bytes with the original.
fn weight_of_copy(row: &[Option<Bytes>]) -> usize {
    ROW_BYTES + row.len() * VALUE_BYTES
}

impl MemoryShare {
    /// Holds nothing yet.
    pub fn begin(&self) -> HeldMemory {
        HeldMemory {
            share: self.clone(),
            own: 0,
            common: 0,
        }
    }

    /// # Errors
    /// 53200 where the budget is exhausted.
    pub fn hold(&self, bytes: usize) -> Result<HeldMemory, Refusal> {
        let mut held = self.begin();
        held.add(bytes)?;
        Ok(held)
    }

    /// # Errors
    /// 53200 where the budget is exhausted.
    pub fn hold_rows(&self, rows: &[Vec<Option<Bytes>>]) -> Result<HeldMemory, Refusal> {
        self.hold(rows.iter().map(|row| weight(row)).sum())
    }

    /// Holds copies of rows that are held already; the bytes of their values do not count again.
    ///
    /// # Errors
    /// 53200 where the budget is exhausted.
    pub fn hold_copies(&self, rows: &[Vec<Option<Bytes>>]) -> Result<HeldMemory, Refusal> {
        self.hold(rows.iter().map(|row| weight_of_copy(row)).sum())
    }
}

impl HeldMemory {
    /// # Errors
    /// 53200 where the budget is exhausted. What was held stays held.
    pub fn add(&mut self, bytes: usize) -> Result<(), Refusal> {
        let MemoryShare {
            own,
            of_role,
            common,
        } = &self.share;
        if self.common == 0 && own.take(bytes) {
            self.own += bytes;
            return Ok(());
        }
        // Past the session's allowance, everything moves to the common budget.
        let all = self.own + bytes;
        if of_role.take(all) {
            if common.take(all) {
                own.give(std::mem::take(&mut self.own));
                self.common += all;
                return Ok(());
            }
            of_role.give(all);
        }
        Err(Refusal::new(reason::OUT_OF_MEMORY, "out of memory")
            .detail(
                "Sessions hold too many rows that no client has read yet, or too many prepared \
                statements and values. What was paid is kept, and found again unless pgveil.reuse \
                is off.",
            )
            .hint(
                "Read or close open cursors, portals and prepared statements, or ask for fewer \
                rows.",
            ))
    }

    pub fn bytes(&self) -> usize {
        self.own + self.common
    }

    /// Gives back the bytes held beyond `bytes`.
    pub fn fit(&mut self, bytes: usize) {
        let excess = self.bytes().saturating_sub(bytes);
        let common = excess.min(self.common);
        self.share.of_role.give(common);
        self.share.common.give(common);
        self.common -= common;
        self.share.own.give(excess - common);
        self.own -= excess - common;
    }

    /// Takes over what `other`, of the same session, holds.
    pub fn join(&mut self, mut other: Self) {
        self.own += std::mem::take(&mut other.own);
        self.common += std::mem::take(&mut other.common);
    }
}

impl Drop for HeldMemory {
    fn drop(&mut self) {
        self.share.own.give(self.own);
        self.share.of_role.give(self.common);
        self.share.common.give(self.common);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(bytes: usize) -> Vec<Vec<Option<Bytes>>> {
        vec![vec![Some(Bytes::from(vec![0; bytes])), None]]
    }

    fn held(memory: &MemoryBudget, share: &MemoryShare) -> [usize; 3] {
        [&share.own, &share.of_role, &memory.common]
            .map(|source| source.held.load(Ordering::Relaxed))
    }

    #[test]
    fn little_is_ones_own_and_much_is_everybodys() {
        let memory = MemoryBudget::of(3 * OWN_BYTES);
        let (greedy, modest) = (memory.share("ann"), memory.share("ann"));
        let mut all: Vec<HeldMemory> = (0..2)
            .map(|_| greedy.hold_rows(&rows(OWN_BYTES)).ok().unwrap())
            .collect();
        assert_eq!(
            greedy.hold_rows(&rows(OWN_BYTES)).err().unwrap().sqlstate,
            "53200"
        );
        // A session within its allowance is not affected.
        let small = modest.hold_rows(&rows(1000)).ok().unwrap();
        assert!(modest.hold_rows(&rows(OWN_BYTES)).is_err());
        all.pop();
        assert!(modest.hold_rows(&rows(OWN_BYTES)).is_ok());
        drop((all, small));
        assert_eq!(
            [held(&memory, &greedy), held(&memory, &modest)],
            [[0; 3]; 2]
        );
    }

    #[test]
    fn one_role_leaves_room_for_another() {
        let memory = MemoryBudget::of(8 * OWN_BYTES);
        let greedy: Vec<MemoryShare> = (0..8).map(|_| memory.share("ann")).collect();
        let all: Vec<HeldMemory> = greedy
            .iter()
            .cycle()
            .map_while(|share| share.hold_rows(&rows(OWN_BYTES)).ok())
            .collect();
        assert_eq!(all.len(), 5, "six of eight, less the overhead of the rows");
        let other = memory.share("bob");
        let others = [
            other.hold_rows(&rows(OWN_BYTES)).ok().unwrap(),
            other.hold_rows(&rows(OWN_BYTES / 2)).ok().unwrap(),
        ];
        drop(all);
        assert!(greedy[0].hold_rows(&rows(OWN_BYTES)).is_ok());
        drop(others);
        assert_eq!(held(&memory, &other), [0; 3]);
    }

    #[test]
    fn what_grows_moves_to_the_common_budget_and_is_given_back() {
        let memory = MemoryBudget::of(4 * OWN_BYTES);
        let share = memory.share("ann");
        let mut growing = share.begin();
        growing.add(OWN_BYTES).unwrap();
        assert_eq!(held(&memory, &share), [OWN_BYTES, 0, 0]);
        growing.add(1).unwrap();
        assert_eq!(held(&memory, &share), [0, OWN_BYTES + 1, OWN_BYTES + 1]);
        growing.add(OWN_BYTES).unwrap();
        // A role may take three of four. What was held stays held.
        assert!(growing.add(OWN_BYTES).is_err());
        assert_eq!(
            held(&memory, &share),
            [0, 2 * OWN_BYTES + 1, 2 * OWN_BYTES + 1]
        );
        growing.fit(10);
        assert_eq!(held(&memory, &share), [0, 10, 10]);
        growing.fit(100);
        let small = share.hold(70).unwrap();
        assert_eq!(held(&memory, &share), [70, 10, 10]);
        drop((growing, small));
        assert_eq!(held(&memory, &share), [0; 3]);
        // The role's limit and the common limit can be reached independently.
        let others: Vec<HeldMemory> = ["bob", "eve"]
            .map(|role| {
                memory
                    .share(role)
                    .hold(3 * OWN_BYTES / 2 + OWN_BYTES / 4)
                    .unwrap()
            })
            .into();
        assert!(share.hold(OWN_BYTES).is_ok());
        assert!(share.hold(OWN_BYTES + 1).is_err());
        assert_eq!(held(&memory, &share)[1], 0);
        drop(others);
    }

    #[test]
    fn what_is_joined_is_given_back_once() {
        let memory = MemoryBudget::of(8 * OWN_BYTES);
        let share = memory.share("ann");
        let mut joined = share.hold(100).unwrap();
        joined.join(share.hold(2 * OWN_BYTES).unwrap());
        joined.join(share.hold(7).unwrap());
        assert_eq!(
            (joined.bytes(), held(&memory, &share)),
            (2 * OWN_BYTES + 107, [107, 2 * OWN_BYTES, 2 * OWN_BYTES])
        );
        joined.fit(50);
        assert_eq!(held(&memory, &share), [50, 0, 0]);
        drop(joined);
        assert_eq!(held(&memory, &share), [0; 3]);
    }

    #[test]
    fn copies_weigh_no_bytes() {
        let share = MemoryBudget::of(4 * OWN_BYTES).share("ann");
        let [whole, copies] = [share.hold_rows(&rows(5000)), share.hold_copies(&rows(5000))]
            .map(|held| held.ok().unwrap().own);
        assert_eq!(whole - copies, 5000);
        assert_eq!(copies, ROW_BYTES + 2 * VALUE_BYTES);
    }
}

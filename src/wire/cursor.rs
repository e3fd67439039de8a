//! SQL cursors. A cursor's query is one question, asked and charged at DECLARE. FETCH and MOVE walk
//! over the rows of its answer, which are kept here.

mod commands;

use std::collections::HashMap;

use super::message::SentRow;
use crate::engine::{ColumnDescription, Format, HeldMemory, Requester};
use crate::parse::{Direction, FetchCount};
use crate::refusal::{Refusal, reason};

/// An answer, and the cursor's position in it.
pub(super) struct Cursor {
    pub(super) columns: Vec<ColumnDescription>,
    /// The rows of the answer, in text format.
    rows: Vec<SentRow>,
    /// 0 is before the first row; the number of rows plus one is after the last.
    position: usize,
    /// The format of values in the simple protocol.
    pub(super) format: Format,
    scrolls: bool,
    life: Life,
    /// The number of savepoints when it was declared.
    depth: usize,
    /// The settings that its rows were printed under.
    requester: Requester,
    bytes: usize,
    /// The cursor's bytes, of the session's memory share.
    _held: Option<HeldMemory>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    /// Ends with its transaction.
    Transaction,
    /// WITH HOLD; ends with its transaction only where that rolls back.
    Holding,
    /// WITH HOLD, and its transaction has committed.
    Held,
}

#[derive(Default)]
pub(super) struct Cursors {
    by_name: HashMap<String, Cursor>,
}

impl Cursors {
    pub(super) fn get(&self, name: &str) -> Option<&Cursor> {
        self.by_name.get(name)
    }

    /// Moves the cursor, once the passed rows are sure to be sent. If they are refused, the cursor
    /// stays where it was.
    fn move_to(&mut self, name: &str, position: usize) {
        if let Some(cursor) = self.by_name.get_mut(name) {
            cursor.position = position;
        }
    }

    /// Returns whether there was such a cursor.
    pub(super) fn close(&mut self, name: &str) -> bool {
        self.by_name.remove(name).is_some()
    }

    pub(super) fn close_all(&mut self) {
        self.by_name.clear();
    }

    /// Ends the cursors of a transaction.
    pub(super) fn end(&mut self, committed: bool) {
        self.by_name.retain(|_, cursor| match cursor.life {
            Life::Transaction => false,
            Life::Holding => committed,
            Life::Held => true,
        });
        for cursor in self.by_name.values_mut() {
            (cursor.life, cursor.depth) = (Life::Held, 0);
        }
    }

    /// Only the first `depth` savepoints remain: cursors declared after the next one are undone.
    pub(super) fn roll_back_to(&mut self, depth: usize) {
        self.by_name.retain(|_, cursor| cursor.depth <= depth);
    }

    /// Only the first `depth` savepoints remain: cursors declared after them belong to the last of
    /// these now.
    pub(super) fn release(&mut self, depth: usize) {
        for cursor in self.by_name.values_mut() {
            cursor.depth = cursor.depth.min(depth);
        }
    }
}

impl Cursor {
    /// The position after a fetch, and the rows passed on the way.
    ///
    /// # Errors
    /// 55000 where a NO SCROLL cursor would have to go back.
    fn travel(
        &self,
        direction: Direction,
        moves_only: bool,
    ) -> Result<(usize, Vec<SentRow>), Refusal> {
        let (here, last) = (self.position, self.rows.len());
        if !self.scrolls && goes_back(direction, here, last, moves_only) {
            return Err(
                Refusal::new(reason::CURSOR_STATE, "cursor can only scan forward")
                    .hint("Declare it with SCROLL option to enable backward scan."),
            );
        }
        let row = |at: usize| self.rows.get(at.checked_sub(1)?).cloned();
        let steps = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        Ok(match direction {
            Direction::Forward(FetchCount::Rows(0))
            | Direction::Backward(FetchCount::Rows(0))
            | Direction::Relative(0) => (here, row(here).into_iter().collect()),
            Direction::Forward(FetchCount::All) => {
                (last + 1, (here + 1..=last).filter_map(row).collect())
            }
            Direction::Forward(FetchCount::Rows(count)) => {
                let to = here.saturating_add(steps(count)).min(last + 1);
                (to, (here + 1..=to).filter_map(row).collect())
            }
            Direction::Backward(FetchCount::All) => (0, (1..here).rev().filter_map(row).collect()),
            Direction::Backward(FetchCount::Rows(count)) => {
                let to = here.saturating_sub(steps(count));
                (to, (to..here).rev().filter_map(row).collect())
            }
            Direction::Absolute(number) if number < 0 => {
                let to = (last + 1).saturating_sub(steps(number.unsigned_abs()));
                (to, row(to).into_iter().collect())
            }
            Direction::Absolute(number) => {
                let to = steps(number.unsigned_abs()).min(last + 1);
                (to, row(to).into_iter().collect())
            }
            Direction::Relative(number) => {
                let distance = steps(number.unsigned_abs());
                let to = if number < 0 {
                    here.saturating_sub(distance)
                } else {
                    here.saturating_add(distance).min(last + 1)
                };
                (to, row(to).into_iter().collect())
            }
        })
    }
}

/// Whether PostgreSQL would have to run its plan backwards.
fn goes_back(direction: Direction, here: usize, last: usize, moves_only: bool) -> bool {
    match direction {
        // The current row is fetched again from the one before it.
        Direction::Forward(FetchCount::Rows(0))
        | Direction::Backward(FetchCount::Rows(0))
        | Direction::Relative(0) => !moves_only && (1..=last).contains(&here),
        Direction::Forward(FetchCount::Rows(_) | FetchCount::All) => false,
        Direction::Backward(FetchCount::Rows(_) | FetchCount::All) => true,
        Direction::Absolute(number) => {
            number < 0 || (here > 0 && usize::try_from(number).is_ok_and(|number| number <= here))
        }
        Direction::Relative(number) => number < 0,
    }
}

/// 34000
pub(super) fn no_cursor(name: &str) -> Refusal {
    Refusal::new(
        reason::UNKNOWN_CURSOR,
        format!("cursor \"{name}\" does not exist"),
    )
}

/// 42P03: cursors and portals share their names.
pub(super) fn cursor_exists(name: &str) -> Refusal {
    Refusal::new(
        reason::DUPLICATE_CURSOR,
        format!("cursor \"{name}\" already exists"),
    )
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn cursor(rows: usize, scrolls: bool) -> Cursor {
        let share = crate::engine::MemoryShare::default();
        let requester = Requester {
            role: String::new(),
            session_settings: Default::default(),
            settings: Vec::new(),
            search_path: Vec::new(),
            process: 0,
            origin: Default::default(),
            given_up: Default::default(),
            share,
        };
        Cursor {
            columns: Vec::new(),
            rows: (1..=rows)
                .map(|number| vec![Some(Bytes::from(number.to_string()))])
                .collect(),
            position: 0,
            format: Format::Text,
            scrolls,
            life: Life::Transaction,
            depth: 0,
            requester,
            bytes: 0,
            _held: None,
        }
    }

    fn walk(cursor: &mut Cursor, direction: Direction) -> String {
        let travelled = cursor
            .travel(direction, false)
            .map_err(|refusal| refusal.sqlstate);
        travelled.map_or_else(
            |code| code,
            |(to, rows)| {
                cursor.position = to;
                rows.iter()
                    .map(|row| String::from_utf8_lossy(row[0].as_ref().unwrap()).into_owned())
                    .collect::<Vec<_>>()
                    .join(",")
            },
        )
    }

    #[test]
    fn a_cursor_goes_every_way() {
        use Direction::{Absolute as A, Backward as B, Forward as F, Relative as R};
        let (n, all) = (FetchCount::Rows, FetchCount::All);
        let mut scrolling = cursor(5, true);
        for (direction, rows) in [
            (F(n(2)), "1,2"),
            (F(n(0)), "2"),
            (B(n(1)), "1"),
            (B(n(1)), ""),
            (F(all), "1,2,3,4,5"),
            (F(n(0)), ""),
            (B(n(2)), "5,4"),
            (A(-1), "5"),
            (A(1), "1"),
            (R(2), "3"),
            (R(-2), "1"),
            (R(0), "1"),
            (A(0), ""),
            (F(n(5)), "1,2,3,4,5"),
            (R(0), "5"),
            (F(n(1)), ""),
            (B(all), "5,4,3,2,1"),
            (A(9), ""),
            (A(-9), ""),
            (F(n(u64::MAX)), "1,2,3,4,5"),
        ] {
            assert_eq!(walk(&mut scrolling, direction), rows, "{direction:?}");
        }
        let mut forward = cursor(3, false);
        for (direction, rows) in [
            (A(1), "1"),
            (A(2), "2"),
            (A(2), "55000"),
            (R(0), "55000"),
            (B(n(1)), "55000"),
            (A(-1), "55000"),
            (R(1), "3"),
            (F(all), ""),
            (A(1), "55000"),
        ] {
            assert_eq!(walk(&mut forward, direction), rows, "{direction:?}");
        }
    }
}

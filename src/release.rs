//! Stage 6: Sealed rows + Charge → [`Released`]. Adds noise to every coordinate of every group,
//! then applies thresholds. Nothing else opens sealed rows.

mod choices;
mod corrections;
mod decode;
mod effects;
mod epoch;
mod groups;
mod look;
mod noise_record;
mod owner;
mod paid;
mod periods;
mod quantiles;
mod rollup;
mod select_sets;
mod totals_shared;

use std::collections::HashSet;

use num_bigint::BigInt;
use zeroize::{Zeroize, Zeroizing};

use crate::aggregates::ChoiceId;
use crate::execute::{Sealed, TextRows};
use crate::ir::{MiddleColumn, ReleaseId};
use crate::ledger::Charge;
use crate::mechanism::{Calibrated, SampleError, Sampler};
use crate::rewrite::{CoordinateId, Draw, Plan, ReleasePlan, UnpaidPart, made_of};

pub use corrections::Corrections;
pub use epoch::{
    Compared, Epoch, EpochKind, EpochTerms, EpochVerdict, HoldoutVerdict, MonitoredRows,
};
pub use look::{ClipBias, ClippedValues, FailedLook, Looked, TooFew};
pub use noise_record::{KnownCut, NoiseRecord};
pub use owner::{ONLY, OwnerError, OwnerRelease};
pub use paid::{EndedPart, Keeping, LockedPart, PaidPart, PaidRows};
use periods::draw_totals;
pub use periods::{PeriodAnswer, PeriodsRecord};
pub use quantiles::CandidateRows;
pub use rollup::{
    Rollup, SummaryLack, coarser, from_finer, lacking, read_off, reads_off, stand_in, units_at_most,
};

use decode::Rational;
use groups::{FoundGroups, PrintedKey, arrange, cells, groups, is_listed, refine};
use rollup::Grain;

/// Released values: what middle queries and the outer query may read. Only this module fills it.
#[derive(Debug, Clone, PartialEq)]
pub struct Released {
    tables: Vec<Option<ReleasedTable>>,
}

impl Released {
    /// The groups of a release, if it was made.
    pub fn table(&self, release: ReleaseId) -> Option<&ReleasedTable> {
        self.tables.get(release.0).and_then(Option::as_ref)
    }

    /// The facts that are known before the database is asked: releases of declared keys alone.
    pub fn before(plan: &Plan) -> Self {
        let known = |release: &ReleasePlan| {
            release
                .statements()
                .is_empty()
                .then(|| listed_groups(release))
        };
        Self {
            tables: plan.releases().iter().map(known).collect(),
        }
    }

    /// Whether all releases that a release's constants come from are made.
    pub fn has_constants_of(&self, plan: &Plan, release: ReleaseId) -> bool {
        let mut constants = plan.release(release).constants().iter();
        constants.all(|MiddleColumn { middle, .. }| {
            let mut releases = plan.middle(*middle).releases.iter();
            releases.all(|release| self.table(*release).is_some())
        })
    }

    /// Takes a roll-up of a finer answer that the requester holds.
    pub fn take(&mut self, release: ReleaseId, made: Rollup) {
        self.tables[release.0] = Some(made.table);
    }

    /// Takes an answer that the requester holds.
    ///
    /// # Errors
    /// Where the text is not a table of this release's keys and measures.
    pub fn recall(&mut self, plan: &Plan, release: ReleaseId, stored: &[u8]) -> Result<(), Error> {
        let shape = plan.release(release);
        let table: ReleasedTable = serde_json::from_slice(stored).map_err(|_| Error::Unreadable)?;
        let fits =
            |rows: usize, width: usize, wanted: usize| rows == table.keys.len() && width == wanted;
        let keys = table
            .keys
            .iter()
            .all(|k| fits(table.measures.len(), k.len(), shape.key_columns()));
        let measures = table
            .measures
            .iter()
            .all(|m| fits(table.measures.len(), m.len(), shape.width()));
        if !keys || !measures {
            return Err(Error::Unreadable);
        }
        self.tables[release.0] = Some(table);
        Ok(())
    }
}

/// The groups of one release: keys and measures (then the choices' columns) as PostgreSQL would
/// print them.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub struct ReleasedTable {
    pub keys: Vec<Vec<Option<String>>>,
    pub measures: Vec<Vec<String>>,
    /// The noise of the measures; `None` in answers of older versions, and where there are none.
    #[serde(default)]
    pub drawn: Option<NoiseRecord>,
    /// The rows that chosen limits cut, by choice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub row_cuts: Vec<(ChoiceId, ClipBias)>,
    #[serde(default)]
    grain: Option<Grain>,
    /// The periods that the answer covers, if it was bought by periods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    periods: Option<PeriodsRecord>,
}

impl ReleasedTable {
    /// An answer as the ledger keeps it.
    ///
    /// # Errors
    /// [`Error::Unreadable`].
    pub fn read(stored: &[u8]) -> Result<Self, Error> {
        serde_json::from_slice(stored).map_err(|_| Error::Unreadable)
    }

    /// Whether a value is missing because a look saw too few units to draw it. A new answer may
    /// have it.
    pub fn leaves_out(&self) -> bool {
        self.drawn.as_ref().is_some_and(NoiseRecord::leaves_out)
    }

    /// The answer in the form that the ledger keeps.
    pub fn to_stored(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// Why nothing is released. The charge stands.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("noise: {0}")]
    Noise(#[from] SampleError),
    #[error("a stored answer could not be read")]
    Unreadable,
    #[error("a release's rows are not those of its statements, or were not paid for")]
    Mismatch,
}

/// The releases of a part of a plan under one charge. Each is made once.
#[derive(Debug)]
struct Releasing<'p> {
    part: UnpaidPart<'p>,
    paid: Charge,
    released: Released,
    looked_at: HashSet<ReleaseId>,
}

impl<'p> Releasing<'p> {
    /// Takes the charge by value, so that no second answer can be made with it. `known` holds what
    /// is already answered.
    ///
    /// # Requires
    /// `paid` was debited for this very part (asserted).
    pub fn new(part: UnpaidPart<'p>, known: Released, paid: Charge) -> Self {
        assert!(
            paid.covers(&part.digest().into()),
            "rows are opened by their own charge only"
        );
        Self {
            part,
            paid,
            released: known,
            looked_at: HashSet::new(),
        }
    }

    pub fn part(&self) -> &UnpaidPart<'p> {
        &self.part
    }

    fn open_rows(&self, rows: Sealed<Vec<TextRows>>) -> Zeroizing<Vec<TextRows>> {
        rows.open(&self.paid)
    }

    pub fn charge(&self) -> &Charge {
        &self.paid
    }

    pub fn as_released(&self) -> &Released {
        &self.released
    }

    pub fn into_released(self) -> Released {
        self.released
    }

    /// Opens the rows of a release, one set for each statement, adds noise, and drops groups below
    /// the threshold.
    ///
    /// # Guarantee
    /// For neighbours that differ in all rows of one unit, the privacy loss of what is released is
    /// at most the charge's:
    ///
    /// - every coordinate of every group has its own draw, or every coordinate of every effect that
    ///   groups are computed from;
    /// - groups of listed domains are shown whether or not any row is in them;
    /// - other groups are shown by their noisy number of units alone;
    /// - noise and clip are the plan's, whatever was released before, so the loss of a later
    ///   release holds for every value of its constants.
    ///
    /// # Requires
    /// `rows` came from the release's statement in the plan's one snapshot. Each release is made
    /// once (asserted).
    ///
    /// # Reference
    /// Dong, Roth, Su 2019 for the vector and for adaptive steps (Theorem 3.2); Wilson et al. 2020
    /// (arXiv 1909.01917) for keys released by threshold, each group with its own draw.
    pub fn release(
        &mut self,
        release: ReleaseId,
        rows: Sealed<Vec<TextRows>>,
        sampler: &mut dyn Sampler,
    ) -> Result<(), Error> {
        assert!(
            self.released.table(release).is_none(),
            "noise is drawn once for a charge"
        );
        let plan = self.part.plan().release(release);
        let is_read = self.looked_at.contains(&release);
        if !self.part.contains(release) || plan.look().is_some() || is_read {
            return Err(Error::Mismatch);
        }
        let table = add_noise(plan, &self.open_rows(rows), sampler)?;
        self.released.tables[release.0] = Some(table);
        Ok(())
    }
}

/// The table of a release of listed keys without measures.
fn listed_groups(release: &ReleasePlan) -> ReleasedTable {
    let keys = cells(release);
    let measures = vec![Vec::new(); keys.len()];
    ReleasedTable {
        keys,
        measures,
        ..ReleasedTable::default()
    }
}

/// Adds the noise. Exact values stay in `rows`, which are overwritten afterwards, or are wiped
/// here; the only ones that leave are keys that are shown.
fn add_noise(
    release: &ReleasePlan,
    rows: &[TextRows],
    sampler: &mut dyn Sampler,
) -> Result<ReleasedTable, Error> {
    if rows.len() != release.statements().len() {
        return Err(Error::Mismatch);
    }
    let (mut vector, mut of_choices) = (&[][..], Vec::new());
    for ((draw, _), rows) in release.draws().zip(rows) {
        match draw {
            Draw::Look(_) => return Err(Error::Mismatch),
            Draw::Vector(_) => vector = rows.as_slice(),
            Draw::Choice(_) => of_choices.push(rows),
        }
    }
    if let Some(totals) = release.price().and_then(|price| price.totals.as_ref()) {
        return draw_totals(release, totals, vector, sampler);
    }
    let drawn = match release.price().and_then(|price| price.effects.as_ref()) {
        Some(by) => effects::draw(release, by, vector, sampler)?,
        None => drawn_apart(release, vector, sampler)?,
    };
    decode(release, drawn, &of_choices, sampler)
}

/// Adds separate noise to each group. Keeps the groups of listed keys, and of the others those
/// whose noisy number of units passes the threshold.
fn drawn_apart(
    release: &ReleasePlan,
    vector: &[PrintedKey],
    sampler: &mut dyn Sampler,
) -> Result<Drawn, Error> {
    let calibrated = release.price().map_or(&[][..], |p| &p.calibrated);
    let threshold = release.price().and_then(|p| p.threshold);
    let mut drawn = Vec::new();
    for (mut key, values) in groups(release, vector, calibrated) {
        let mut noisy = Vec::with_capacity(values.len());
        for (value, calibrated) in values.iter().zip(calibrated) {
            noisy.push(value.saturating_add(sampler.sample(&calibrated.noise)?));
        }
        let listed = is_listed(release, &key);
        let passes = listed
            || threshold.is_some_and(|(coordinate, pass_at)| {
                noisy.get(coordinate.0).is_some_and(|v| *v >= pass_at)
            });
        if passes {
            drawn.push((key, noisy));
        } else {
            key.zeroize();
        }
    }
    Ok(Drawn::apart(drawn, calibrated))
}

/// Groups that are shown, with their noisy integers.
struct Drawn {
    groups: Vec<(PrintedKey, Vec<BigInt>)>,
    /// Integers of a coordinate are in units of 2^-refined, divided by `divisor`.
    refined: Vec<u32>,
    divisor: BigInt,
}

impl Drawn {
    /// Groups whose integers have separate noise.
    fn apart(groups: Vec<(PrintedKey, Vec<i128>)>, calibrated: &[Calibrated]) -> Self {
        let wide = |(key, noisy): (PrintedKey, Vec<i128>)| {
            let noisy = noisy.into_iter().map(BigInt::from).collect();
            (key, noisy)
        };
        Self {
            groups: groups.into_iter().map(wide).collect(),
            refined: calibrated.iter().map(|c| c.refine).collect(),
            divisor: BigInt::from(1),
        }
    }
}

/// How the coordinates of the plain layout follow from those that are drawn.
struct PlainLayout(Vec<(Vec<(CoordinateId, i64)>, u64)>);

impl PlainLayout {
    fn of(release: &ReleasePlan) -> Self {
        let coordinates = release.coordinates();
        let each = (0..coordinates.len()).map(CoordinateId);
        Self(each.map(|at| made_of(coordinates, at)).collect())
    }

    fn coordinate(
        &self,
        coordinate: CoordinateId,
        drawn: impl Fn(CoordinateId) -> Rational,
    ) -> Rational {
        let (terms, divisor) = &self.0[coordinate.0];
        Rational::combine(
            terms.iter().map(|(at, times)| (drawn(*at), *times)),
            *divisor,
        )
    }
}

/// The table of groups that are shown, from their noisy integers and the rows of the choices.
fn decode(
    release: &ReleasePlan,
    drawn: Drawn,
    rows: &[&TextRows],
    sampler: &mut dyn Sampler,
) -> Result<ReleasedTable, Error> {
    let Drawn {
        groups: drawn,
        refined,
        divisor,
    } = drawn;
    let (key_count, groups) = (release.key_columns(), drawn.len());
    let limited = release
        .choices()
        .iter()
        .zip(rows)
        .map(|(choice, rows)| {
            let look = choice.look.as_ref();
            look.map(|look| choices::draw_limit((choice, look), rows, (key_count, groups), sampler))
                .transpose()
        })
        .collect::<Result<Vec<_>, _>>()?;
    let choices: Vec<choices::Groups<'_>> = release
        .choices()
        .iter()
        .zip(rows)
        .zip(&limited)
        .map(|((choice, rows), limited)| match limited {
            Some(limited) => choices::Groups::new(&limited.choice, &limited.rows, key_count),
            None => choices::Groups::new(choice, rows, key_count),
        })
        .collect();
    let mut table = ReleasedTable {
        drawn: NoiseRecord::of(release),
        periods: release.batch().map(PeriodsRecord::of),
        ..ReleasedTable::default()
    };
    let made = PlainLayout::of(release);
    let mut sums = Vec::new();
    for (key, noisy) in drawn {
        let drawn = |CoordinateId(at): CoordinateId| {
            Rational::binary(noisy[at].clone(), refined[at]).over(&divisor)
        };
        let mut measures = decode::measures(release, |at| made.coordinate(at, drawn));
        for choice in &choices {
            measures.extend(choice.columns(&key, sampler)?);
        }
        table.measures.push(measures);
        table.keys.push(key);
        sums.push(noisy);
    }
    let cuts = limited.iter().enumerate();
    table.row_cuts = cuts
        .filter_map(|(at, limited)| Some((ChoiceId(at), limited.as_ref()?.cut?)))
        .collect();
    table.grain = Grain::of(release, (&refined, &divisor), &sums);
    Ok(table)
}

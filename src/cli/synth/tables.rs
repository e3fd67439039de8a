//! The rows of each made-up table, along the paths to the units: those that others refer to first.

use std::collections::HashSet;

use rand::Rng;

use super::super::Failure;
use super::super::progress::ProgressStep;
use super::Modelled;
use crate::policy::{
    ColumnPosition, Policy, Protection, SummaryColumn, SummaryKey, Table, UnitStep, path_to_unit,
};
use crate::synthetic::{
    ColumnSource, FillContext, Filled, Filler, KeyModel, Parents, RowsWanted, codes, draw,
    draw_given, first_step, mean_rows, number_of_each, numbers_of_rows, repeat,
};

/// The most rows of one made-up table.
const ROWS_MAX: usize = 1_000_000;

/// A table whose rows are made up.
pub struct MadeUp<'p> {
    pub modelled: Modelled<'p>,
    pub filler: Filler<'p>,
    /// Column by column, parallel to the table's; `None` is NULL.
    pub columns: Vec<Vec<Option<String>>>,
    pub rows: usize,
    /// The row of the other table that each row refers to; empty where there is none.
    parents: Vec<usize>,
    /// How many rows of other tables each row has, by the table's place in the policy.
    counted: Vec<(usize, Vec<usize>)>,
    /// How the rows belong to those of another made-up table; `None` where they belong to none.
    pub shared_out: Option<SharedOut>,
    /// How many rows were dropped so that unique keys hold.
    pub dropped: usize,
    /// How many became copies of others, for the same reason.
    pub copied: usize,
}

/// How rows were shared out among those of the table that they refer to.
#[derive(Debug, Clone, PartialEq)]
pub struct SharedOut {
    /// The table's place among the made-up ones.
    pub parent: usize,
    /// Whether its rows say how many of them each has, by a key of its summary.
    pub is_counted: bool,
}

/// Draws the rows of each table.
pub fn make_up<'p>(
    policy: &'p Policy,
    mut modelled: Vec<Modelled<'p>>,
    wanted: Option<usize>,
) -> Result<Vec<MadeUp<'p>>, Failure> {
    let drawing = ProgressStep::begin("making up rows");
    let largest = modelled.iter().map(|of| expected_rows(&modelled, of));
    let largest = largest.fold(1.0, f64::max);
    let scale = wanted.map_or(1.0, |wanted| wanted as f64 / largest);
    modelled.sort_by_key(|m| path_to_unit(policy, m.summary.table).len());
    let mut random = rand::rng();
    let mut made: Vec<MadeUp<'p>> = Vec::new();
    for of in modelled {
        let next = make_table(policy, &made, (of, scale), &mut random)?;
        made.push(next);
    }
    drop(drawing);
    Ok(made)
}

/// How many rows a made-up table will have, before it is scaled.
fn expected_rows(all: &[Modelled<'_>], of: &Modelled<'_>) -> f64 {
    let by_units = all.iter().find_map(|other| {
        let mut keys = SummaryKey::all(other.summary.keys.len());
        let key = keys.find(|at| counts(at.pick(&other.summary.keys), of.summary.table))?;
        let mean = mean_rows(&other.marginals, (key, key.pick(&other.summary.keys)))?;
        Some(mean * other.model.rows)
    });
    by_units.unwrap_or(of.model.rows)
}

/// Whether a key is how many rows of this table a unit has.
fn counts(key: &SummaryColumn, table: usize) -> bool {
    key.column().is_none() && key.table == table
}

fn make_table<'p>(
    policy: &'p Policy,
    made: &[MadeUp<'p>],
    (mut of, scale): (Modelled<'p>, f64),
    random: &mut impl Rng,
) -> Result<MadeUp<'p>, Failure> {
    let table = &policy.tables[of.summary.table];
    let above = tables_above(made, table);
    let by_units = counted_by_units((made, &above), of.summary.table);
    let rows = rows_wanted(of.model.rows * scale, by_units);
    let rows = rows.map_err(|rows| too_many(table, rows))?;
    let own = referenced_columns(policy, table);
    let first = first_step(table).zip(above.first());
    let parents = first.and_then(|(step, parent)| made[*parent].column(&step.referenced));
    let referred = parents.unwrap_or_default();
    let surroundings = FillContext {
        types: &policy.types,
        parents,
        referenced: &own,
    };
    let filler = Filler::new(table, of.summary, rows, &surroundings);
    let is_parent = |source: &ColumnSource| matches!(source, ColumnSource::Parent(_));
    let refers = filler.sources.iter().any(is_parent);
    let sizes: Vec<usize> = of.marginals.values.iter().map(Vec::len).collect();
    let mut counted = Vec::new();
    let (filled, shared_out) = match above.first().filter(|_| refers) {
        Some(parent) => {
            let wanted = (rows, referred);
            let below = fill_below((&of, &filler), (made, &above), wanted, random)?;
            of.model = below.model;
            let shared_out = SharedOut {
                parent: *parent,
                is_counted: below.is_counted,
            };
            (below.filled, Some(shared_out))
        }
        None => {
            let sample = draw(&of.model, &sizes, rows, random);
            let alone = Parents::none(rows);
            for at in SummaryKey::all(of.summary.keys.len()) {
                let key = at.pick(&of.summary.keys);
                if key.column().is_none() {
                    let values = (key, at.pick(&of.marginals.values).as_slice());
                    let numbers = numbers_of_rows(values, &sample.keys[at.0], random);
                    counted.push((key.table, numbers));
                }
            }
            (filler.fill(&sample, &of.marginals, alone, random), None)
        }
    };
    Ok(MadeUp {
        modelled: of,
        filler,
        rows: filled.columns.iter().map(Vec::len).min().unwrap_or(0),
        columns: filled.columns,
        parents: filled.parents,
        counted,
        shared_out,
        dropped: filled.dropped,
        copied: filled.copied,
    })
}

/// How many rows a table is to have: as many as the units say, where they do, else as many as its
/// own summary counts.
///
/// # Errors
/// That number, if it is too large.
fn rows_wanted(own: f64, by_units: Option<&[usize]>) -> Result<usize, usize> {
    let (rows, most) = match by_units {
        // What the units say is not divided exactly: as many as are asked for may be a few more.
        Some(numbers) => (numbers.iter().sum(), ROWS_MAX + ROWS_MAX / 100),
        None => (own.round() as usize, ROWS_MAX),
    };
    if rows <= most { Ok(rows) } else { Err(rows) }
}

fn too_many(table: &Table, rows: usize) -> Failure {
    Failure::with_remedy(
        format_args!("{}.{} would have {rows} rows", table.schema, table.name),
        format!("Say how many: --rows 10000, at most {ROWS_MAX}."),
    )
}

/// The rows of a table that belong to those of a made-up one.
struct Below {
    filled: Filled,
    /// The model that they were drawn from: columns of the tables above are its given keys.
    model: KeyModel,
    /// Whether the units say how many each has.
    is_counted: bool,
}

fn fill_below(
    (of, filler): (&Modelled<'_>, &Filler<'_>),
    (made, above): (&[MadeUp<'_>], &[usize]),
    (rows, referred): (usize, &[Option<String>]),
    random: &mut impl Rng,
) -> Result<Below, Failure> {
    let sizes: Vec<usize> = of.marginals.values.iter().map(Vec::len).collect();
    let found = known_keys(of, (made, above));
    let known: Vec<SummaryKey> = found.iter().map(|(key, _)| *key).collect();
    let model = KeyModel::with_known(&of.marginals, &known);
    let model = model.ok_or_else(|| Failure::new("a summary without keys"))?;
    // In the order in which the model has them.
    let of_key = |key: SummaryKey| found.iter().find(|(own, _)| *own == key);
    let in_order: Vec<&Vec<usize>> = model
        .given
        .iter()
        .filter_map(|step| of_key(step.key).map(|(_, codes)| codes))
        .collect();
    let of_parent = |parent: usize| in_order.iter().map(|codes| codes[parent]).collect();
    let of_parents: Vec<Vec<usize>> = (0..referred.len()).map(of_parent).collect();
    let counted = counted_by_units((made, above), of.summary.table);
    let units: Vec<usize> = (0..referred.len())
        .map(|parent| row_above((made, above), parent, above.len()))
        .collect();
    let wanted = match counted {
        Some(numbers) => RowsWanted::OfUnits {
            units: &units,
            numbers,
        },
        None => RowsWanted::Together(rows),
    };
    let mut numbers = number_of_each((&model, &sizes), &of_parents, wanted, random);
    let all: usize = numbers.iter().sum();
    if filler.is_only_child() {
        numbers
            .iter_mut()
            .for_each(|number| *number = (*number).min(1));
    }
    let surplus = all - numbers.iter().sum::<usize>();
    let of_rows = repeat(&numbers);
    let known_codes: Vec<Vec<usize>> = of_rows.iter().map(|p| of_parents[*p].clone()).collect();
    let sample = draw_given(&model, &sizes, &known_codes, random);
    let belonging = Parents::of_rows(referred, of_rows, known_codes);
    let mut filled = filler.fill(&sample, &of.marginals, belonging, random);
    filled.dropped += surplus;
    Ok(Below {
        filled,
        model,
        is_counted: counted.is_some(),
    })
}

/// How many rows of a table each made-up unit has, if its summary says it.
fn counted_by_units<'m>(
    (made, above): (&'m [MadeUp<'_>], &[usize]),
    table: usize,
) -> Option<&'m [usize]> {
    let unit = &made[*above.last()?];
    let mut all = unit.counted.iter();
    let (_, numbers) = all.find(|(counted, _)| *counted == table)?;
    Some(numbers.as_slice())
}

/// The row, this many steps above, that a row of the first table above belongs to.
fn row_above((made, above): (&[MadeUp<'_>], &[usize]), parent: usize, steps: usize) -> usize {
    let below = &above[..steps.saturating_sub(1)];
    below
        .iter()
        .fold(parent, |row, table| made[*table].parents[row])
}

/// The keys of a summary that made-up tables above have the columns of, each with the code of each
/// row of the first table above.
fn known_keys(
    of: &Modelled<'_>,
    (made, above): (&[MadeUp<'_>], &[usize]),
) -> Vec<(SummaryKey, Vec<usize>)> {
    let mut found = Vec::new();
    for at in SummaryKey::all(of.summary.keys.len()) {
        let key = at.pick(&of.summary.keys);
        let Some(owner) = key.steps.checked_sub(1).and_then(|step| above.get(step)) else {
            continue;
        };
        let owner = &made[*owner];
        let Some(ColumnPosition(place)) = key.column() else {
            continue;
        };
        let column = &owner.filler.table.columns[place];
        let values = (key, at.pick(&of.marginals.values).as_slice());
        let Some(by_row) = codes(column, values, &owner.columns[place]) else {
            continue;
        };
        let below = &above[..key.steps - 1];
        let row_of_owner = |parent: usize| {
            below
                .iter()
                .fold(parent, |row, table| made[*table].parents[row])
        };
        let parents = made[above[0]].rows;
        found.push((
            at,
            (0..parents)
                .map(|parent| by_row[row_of_owner(parent)])
                .collect(),
        ));
    }
    found
}

/// The made-up tables that a table's path leads to, step by step, as far as each row refers to one
/// of the next.
fn tables_above(made: &[MadeUp<'_>], table: &Table) -> Vec<usize> {
    let mut above: Vec<usize> = Vec::new();
    let path = match &table.protection {
        Protection::Private(unit) => unit.path.as_slice(),
        Protection::Public => &[],
    };
    for step in path {
        let is_next = |of: &MadeUp<'_>| {
            let is_it =
                (&of.filler.table.schema, &of.filler.table.name) == (&step.schema, &step.table);
            is_it && of.rows > 0 && of.has_numbers(&step.referenced)
        };
        let follows = above.last().is_none_or(|below| {
            let below = &made[*below];
            first_step(below.filler.table) == Some(step) && below.shared_out.is_some()
        });
        let Some(next) = made.iter().position(is_next).filter(|_| follows) else {
            break;
        };
        above.push(next);
    }
    above
}

/// The columns of a table that the paths of others lead to.
fn referenced_columns<'p>(policy: &'p Policy, table: &Table) -> HashSet<&'p str> {
    let leads_here = |step: &&UnitStep| (&step.schema, &step.table) == (&table.schema, &table.name);
    let steps = policy
        .tables
        .iter()
        .filter_map(first_step)
        .filter(leads_here);
    steps.map(|step| step.referenced.as_str()).collect()
}

impl MadeUp<'_> {
    fn place(&self, column: &str) -> Option<usize> {
        let mut columns = self.filler.table.columns.iter();
        columns.position(|other| other.name == column)
    }

    /// Whether each row has its own number in the column.
    fn has_numbers(&self, column: &str) -> bool {
        let at = self.place(column);
        at.is_some_and(|at| self.filler.sources[at] == ColumnSource::Number)
    }

    fn column(&self, column: &str) -> Option<&[Option<String>]> {
        Some(self.columns[self.place(column)?].as_slice())
    }
}

/// The table and column that the path to the unit leads to first.
pub fn first_reference(table: &Table) -> Option<(&str, &str, &str)> {
    let step = first_step(table)?;
    Some((&step.schema, &step.table, &step.referenced))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_units_decide_how_many_rows_are_made_up() {
        // The table's own summary counts more than may be made up, its units do not.
        assert_eq!(rows_wanted(2e6, Some(&[200_000, 0, 300_000])), Ok(500_000));
        assert_eq!(rows_wanted(2e6, None), Err(2_000_000));
        assert_eq!(rows_wanted(999_999.6, None), Ok(1_000_000));
        // It counts few, and they have many.
        assert_eq!(rows_wanted(10.0, Some(&[1_000_000, 5])), Ok(1_000_005));
        assert_eq!(rows_wanted(10.0, Some(&[2_000_000])), Err(2_000_000));
    }
}

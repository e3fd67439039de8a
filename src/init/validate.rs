//! Reads the draft with the reader of policies and checks it against the catalog, before it is
//! written. Parts that the check refuses are left out, with their reasons.

use async_trait::async_trait;

use super::catalog_view::CatalogView;
use super::columns::Form;
use super::draft::{Draft, LeftOut};
use super::write::{LineSubject, OpenDecisionMark, Width, lines};
use super::{Stop, text_of};
use crate::catalog::{self, Catalog, Type};
use crate::policy::{Checked, DomainReader, File, PolicyError, check};

/// Checks the draft, and leaves out what does not hold, until it holds. Rights are taken as they
/// will be once the printed GRANTs are made.
///
/// # Errors
/// Where something that the owner said by flags does not hold.
pub async fn hold(seen: &CatalogView, draft: &mut Draft) -> Result<Checked, Stop> {
    loop {
        let catalog = grant(seen, draft);
        let lines = lines(seen, draft, OpenDecisionMark::StandIn, Width::Each);
        let errors = match outcome(&text_of(&lines), &catalog).await {
            Ok(_) => return as_written(seen, draft, &catalog).await,
            Err(errors) => errors,
        };
        let mut is_less = false;
        for error in &errors {
            let part = error.place.line.checked_sub(1).and_then(|at| lines.get(at));
            let part = part.map_or(LineSubject::File, |(_, part)| *part);
            is_less |= leave_out(seen, draft, part, &error.message)?;
        }
        if !is_less {
            return Err(stop_of(errors));
        }
    }
}

/// Checks the draft with the lines that columns share, as it is written.
async fn as_written(seen: &CatalogView, draft: &Draft, catalog: &Catalog) -> Result<Checked, Stop> {
    let lines = lines(seen, draft, OpenDecisionMark::StandIn, Width::Shared);
    outcome(&text_of(&lines), catalog).await.map_err(stop_of)
}

fn stop_of(errors: Vec<PolicyError>) -> Stop {
    let messages: Vec<String> = errors.into_iter().map(|error| error.message).collect();
    Stop::Failed(format!("the draft does not hold: {}", messages.join("; ")))
}

async fn outcome(text: &str, catalog: &Catalog) -> Result<Checked, Vec<PolicyError>> {
    let environment = |name: &str| {
        Some(match name {
            "PGVEIL_LEDGER" => "sqlite:///ledger.db".to_owned(),
            _ => "postgresql://host/database".to_owned(),
        })
    };
    let file = File::parse("draft", text, environment)?;
    check(&file, catalog, &MadeUp(catalog)).await
}

/// Whether the draft says less now.
fn leave_out(
    seen: &CatalogView,
    draft: &mut Draft,
    part: LineSubject,
    why: &str,
) -> Result<bool, Stop> {
    match part {
        // Budgets, roles, the encoding: the owner's own words, not a fault of the draft.
        LineSubject::File => Err(Stop::Usage(why.to_owned())),
        LineSubject::Column(at) => {
            let lines = draft
                .private
                .iter_mut()
                .flat_map(|private| &mut private.lines);
            for line in lines.filter(|line| line.at == at) {
                match &line.form {
                    Form::Said(_) => return Err(Stop::Usage(why.to_owned())),
                    Form::On(_) => {
                        line.form = Form::Note;
                        line.remark = format!("left out: {why}");
                        return Ok(true);
                    }
                    Form::Open(_) | Form::Note => {}
                }
            }
            Ok(false)
        }
        LineSubject::Table(table) if table == draft.made.unit.table => {
            Err(Stop::Usage(why.to_owned()))
        }
        LineSubject::Table(table) => {
            let is_said =
                draft.made.public.contains(&table) || draft.made.rows.contains_key(&table);
            if is_said {
                return Err(Stop::Usage(why.to_owned()));
            }
            let before = draft.private.len();
            draft.private.retain(|private| private.table != table);
            if draft.private.len() == before {
                return Ok(false);
            }
            draft.left_out.insert(
                0,
                LeftOut {
                    table,
                    why: why.replacen(&seen.table_name(table), "it", 1),
                    line: None,
                },
            );
            Ok(true)
        }
    }
}

/// The catalog as it will be once the role may SELECT the tables of the draft.
fn grant(seen: &CatalogView, draft: &Draft) -> Catalog {
    let mut catalog = seen.catalog.clone();
    let private = draft.private.iter().map(|private| private.table);
    for at in private.chain(draft.public.iter().copied()) {
        let table = &mut catalog.tables[at];
        table.selectable = true;
        table
            .columns
            .iter_mut()
            .for_each(|column| column.selectable = true);
    }
    catalog
}

/// Reads nothing: one made-up row stands for the rows of each public table. `pgveil check` reads
/// them.
struct MadeUp<'a>(&'a Catalog);

#[async_trait]
impl DomainReader for MadeUp<'_> {
    async fn rows(
        &self,
        schema: &str,
        table: &str,
        columns: &[&str],
        _limit: u32,
    ) -> Result<Vec<Vec<Option<String>>>, catalog::Error> {
        let table = self.0.table(schema, table);
        let value = |name: &&str| {
            let column = table?.column(name)?;
            made_up(column.over.as_ref().unwrap_or(&column.data_type))
        };
        Ok(vec![columns.iter().map(value).collect()])
    }

    async fn ends(
        &self,
        _schema: &str,
        _table: &str,
        columns: &[&str],
    ) -> Result<Vec<Option<String>>, catalog::Error> {
        Ok(vec![None; 2 * columns.len()])
    }
}

fn made_up(data_type: &Type) -> Option<String> {
    let text = match data_type {
        Type::Bool => "true",
        Type::Int2 | Type::Int4 | Type::Int8 | Type::Numeric(_) | Type::Float4 | Type::Float8 => {
            "0"
        }
        Type::Text | Type::Varchar(_) | Type::Char(_) => "x",
        Type::Uuid => "00000000-0000-0000-0000-000000000000",
        Type::Date => "2000-01-01",
        Type::Timestamp => "2000-01-01 00:00:00",
        Type::Timestamptz => "2000-01-01 00:00:00+00",
        Type::Enum(made) => return made.labels.first().cloned(),
        Type::Interval | Type::Time | Type::Other { .. } => return None,
    };
    Some(text.to_owned())
}

//! Names in scope of one SELECT: which column an identifier means.

use sqlparser::ast::{Ident, ObjectName, ObjectNamePart, Spanned};
use sqlparser::tokenizer::Span;

use super::tree::ColumnId;
use crate::refusal::{Refusal, sqlstate};

/// PostgreSQL truncates identifiers to 63 bytes; longer ones are refused rather than cut.
const NAME_BYTES_MAX: usize = 63;

/// One entry of FROM.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    pub alias: String,
    pub columns: Vec<Named>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Named {
    pub name: String,
    pub id: ColumnId,
    /// Folded into the other side's column by USING or NATURAL: `alias.name` still finds it, a bare name and `*` do not.
    pub merged: bool,
}

/// What the FROM clause of a SELECT brings into scope, in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Scope {
    pub items: Vec<Item>,
}

impl Scope {
    /// Adds an item.
    ///
    /// # Errors
    /// 42712 where the alias is taken.
    pub fn push(&mut self, item: Item) -> Result<(), Refusal> {
        if self.items.iter().any(|i| i.alias == item.alias) {
            return Err(Refusal::new("42712", format!("table name \"{}\" specified more than once", item.alias)));
        }
        self.items.push(item);
        Ok(())
    }

    /// The column a bare name means; `None` if there is none.
    pub fn bare(&self, name: &str) -> Result<Option<ColumnId>, Refusal> {
        let mut found = self.items.iter().flat_map(|i| &i.columns).filter(|c| !c.merged && c.name == name);
        match (found.next(), found.next()) {
            (Some(_), Some(_)) => Err(Refusal::new(sqlstate::AMBIGUOUS_COLUMN, format!("column reference \"{name}\" is ambiguous"))),
            (Some(column), None) => Ok(Some(column.id)),
            (None, _) => Ok(None),
        }
    }

    /// The column of `name`, `alias.name` or `schema.table.name`.
    pub fn find(&self, parts: &[Ident]) -> Result<ColumnId, Refusal> {
        let at = parts.first().and_then(|part| position(part.span));
        self.look_up(parts).map_err(|refusal| refusal.at(at))
    }

    fn look_up(&self, parts: &[Ident]) -> Result<ColumnId, Refusal> {
        let names: Vec<String> = parts.iter().map(name_of).collect::<Result<_, _>>()?;
        match names.as_slice() {
            [name] => self.bare(name)?.ok_or_else(|| Refusal::new(sqlstate::UNDEFINED_COLUMN, format!("column \"{name}\" does not exist"))),
            [alias, name] | [_, alias, name] => {
                let item = self
                    .items
                    .iter()
                    .find(|i| &i.alias == alias)
                    .ok_or_else(|| Refusal::new(sqlstate::UNDEFINED_TABLE, format!("missing FROM-clause entry for table \"{alias}\"")))?;
                item.columns
                    .iter()
                    .find(|c| &c.name == name)
                    .map(|c| c.id)
                    .ok_or_else(|| Refusal::new(sqlstate::UNDEFINED_COLUMN, format!("column {alias}.{name} does not exist")))
            }
            _ => Err(Refusal::unsupported("a name of more than three parts")),
        }
    }

    /// The columns `*` stands for.
    pub fn visible(&self) -> impl Iterator<Item = &Named> {
        self.items.iter().flat_map(|i| &i.columns).filter(|c| !c.merged)
    }
}

/// An identifier as PostgreSQL folds it: quoted ones as written, others in lower case (ASCII letters).
pub fn name_of(ident: &Ident) -> Result<String, Refusal> {
    let Ident { value, quote_style, span: _ } = ident;
    let name = match quote_style {
        Some('"') => value.clone(),
        None => value.chars().map(|c| c.to_ascii_lowercase()).collect(),
        Some(_) => return Err(Refusal::new(sqlstate::SYNTAX_ERROR, "identifiers are quoted with double quotes")),
    };
    if name.len() > NAME_BYTES_MAX {
        return Err(Refusal::new("42622", "identifier is longer than 63 bytes"));
    }
    Ok(name)
}

/// The parts of a qualified name, folded.
pub fn names_of(name: &ObjectName) -> Result<Vec<String>, Refusal> {
    name.0
        .iter()
        .map(|part| match part {
            ObjectNamePart::Identifier(ident) => name_of(ident),
            ObjectNamePart::Function(_) => Err(Refusal::unsupported("a name computed by a function")),
        })
        .collect()
}

/// Where a part of the statement begins in the client's text; `None` for what we wrote ourselves. The parser was given tokens whose column is that position.
pub fn position(span: Span) -> Option<u32> {
    u32::try_from(span.start.column).ok().filter(|position| *position > 0)
}

/// Where a qualified name begins.
pub fn position_of(name: &ObjectName) -> Option<u32> {
    position(name.span())
}

//! Names in scope of one SELECT: which column an identifier means.

use sqlparser::ast::{self, Ident};

use crate::ir::relation::ColumnId;
use crate::refusal::{Refusal, reason};
use crate::resolve::syntax::{
    bare_name, item_expr, name_of, names_of, place_of, position, position_of,
};

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
}

/// A column name that USING or NATURAL merges.
pub struct Folded {
    pub name: String,
    /// Where USING has it.
    pub place: Option<u32>,
}

/// What a name means in one scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    Column(ColumnId),
    Ambiguous,
    NoColumn,
    /// No entry of FROM has the alias that qualifies the name.
    NoTable,
    /// More than three parts.
    TooLong,
}

/// What the FROM clause of a SELECT brings into scope.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Scope {
    items: Vec<Item>,
    /// The columns that bare names and `*` find, in the order of `*`. Columns that USING or NATURAL
    /// merges stand here once.
    visible: Vec<Named>,
    /// Columns that USING widened, with the original column. They have equal values, and the
    /// original may be a unit or a key.
    widened: Vec<(ColumnId, ColumnId)>,
}

impl Scope {
    pub fn of(item: Item) -> Self {
        Self {
            visible: item.columns.clone(),
            items: vec![item],
            widened: Vec::new(),
        }
    }

    /// # Errors
    /// 42712 if both sides have an entry with the same alias.
    pub fn require_other_names(&self, right: &Self) -> Result<(), Refusal> {
        match right
            .items
            .iter()
            .find(|item| self.item(&item.alias).is_some())
        {
            Some(item) => Err(Refusal::new(
                reason::DUPLICATE_ALIAS,
                format!("table name \"{}\" specified more than once", item.alias),
            )),
            None => Ok(()),
        }
    }

    /// Adds the right side of a join. In `*`, the columns that USING or NATURAL merges come first,
    /// then the rest of the left and of the right side (PostgreSQL's transformFromClauseItem).
    pub fn join(&mut self, right: Self, folded: Vec<Named>) {
        let left = std::mem::replace(&mut self.visible, folded);
        let is_folded = |column: &Named| self.visible.iter().any(|f| f.name == column.name);
        let rest: Vec<Named> = left
            .into_iter()
            .chain(right.visible)
            .filter(|c| !is_folded(c))
            .collect();
        self.visible.extend(rest);
        self.items.extend(right.items);
        self.widened.extend(right.widened);
    }

    /// Records that the first column is the second in a wider type.
    pub fn widen(&mut self, wide: ColumnId, own: ColumnId) {
        self.widened.push((wide, own));
    }

    /// The original of a column that USING widened; any other column itself.
    pub fn own(&self, id: ColumnId) -> ColumnId {
        self.widened
            .iter()
            .find(|(wide, _)| *wide == id)
            .map_or(id, |(_, own)| *own)
    }

    /// The column names that a join merges.
    ///
    /// # Errors
    /// 42701 if USING repeats a name, 42601 if it has names that are not plain.
    pub fn merge_columns(
        &self,
        constraint: &ast::JoinConstraint,
        right: &Self,
    ) -> Result<Vec<Folded>, Refusal> {
        match constraint {
            ast::JoinConstraint::On(_) | ast::JoinConstraint::None => Ok(Vec::new()),
            ast::JoinConstraint::Natural => Ok(self
                .visible
                .iter()
                .filter(|c| right.visible.iter().any(|r| r.name == c.name))
                .map(|c| Folded {
                    name: c.name.clone(),
                    place: None,
                })
                .collect()),
            ast::JoinConstraint::Using(columns) => {
                let mut names: Vec<Folded> = Vec::new();
                for column in columns {
                    let place = position_of(column);
                    let [name] = names_of(column)?.try_into().map_err(|_| {
                        Refusal::new(reason::SYNTAX_ERROR, "USING takes plain column names")
                            .at(place)
                    })?;
                    if names.iter().any(|folded| folded.name == name) {
                        return Err(Refusal::new(
                            reason::DUPLICATE_COLUMN,
                            format!(
                                "column name \"{name}\" appears more than once in USING clause"
                            ),
                        )
                        .at(place));
                    }
                    names.push(Folded { name, place });
                }
                Ok(names)
            }
        }
    }

    /// The scope with other column ids.
    pub fn renumber(mut self, id: impl Fn(ColumnId) -> ColumnId) -> Self {
        let columns = self
            .items
            .iter_mut()
            .flat_map(|item| &mut item.columns)
            .chain(&mut self.visible);
        columns.for_each(|column| column.id = id(column.id));
        self
    }

    pub fn item(&self, alias: &str) -> Option<&Item> {
        self.items.iter().find(|item| item.alias == alias)
    }

    /// Every column that a bare name or `alias.name` finds.
    pub fn columns(&self) -> impl Iterator<Item = &Named> {
        self.items
            .iter()
            .flat_map(|item| &item.columns)
            .chain(&self.visible)
    }

    fn meaning_of_bare(&self, name: &str) -> Meaning {
        let mut found = self.visible.iter().filter(|c| c.name == name);
        match (found.next(), found.next()) {
            (Some(_), Some(_)) => Meaning::Ambiguous,
            (Some(column), None) => Meaning::Column(column.id),
            (None, _) => Meaning::NoColumn,
        }
    }

    fn meaning(&self, names: &[String]) -> Meaning {
        match names {
            [name] => self.meaning_of_bare(name),
            [alias, name] | [_, alias, name] => match self.item(alias) {
                Some(item) => item
                    .columns
                    .iter()
                    .find(|c| &c.name == name)
                    .map_or(Meaning::NoColumn, |c| Meaning::Column(c.id)),
                None => Meaning::NoTable,
            },
            _ => Meaning::TooLong,
        }
    }

    /// The column of a bare name; `None` if there is none.
    pub fn bare(&self, name: &str) -> Result<Option<ColumnId>, Refusal> {
        match self.meaning_of_bare(name) {
            Meaning::Column(id) => Ok(Some(id)),
            Meaning::NoColumn | Meaning::NoTable | Meaning::TooLong => Ok(None),
            Meaning::Ambiguous => Err(ambiguous(name)),
        }
    }

    /// Whether a bare name means one column, and which.
    pub fn bare_column(&self, name: &str) -> Option<ColumnId> {
        match self.meaning_of_bare(name) {
            Meaning::Column(id) => Some(id),
            Meaning::Ambiguous | Meaning::NoColumn | Meaning::NoTable | Meaning::TooLong => None,
        }
    }

    /// Whether a name means one column, and which.
    pub fn column(&self, parts: &[Ident]) -> Option<ColumnId> {
        match self.meaning(&folded_names(parts)?) {
            Meaning::Column(id) => Some(id),
            Meaning::Ambiguous | Meaning::NoColumn | Meaning::NoTable | Meaning::TooLong => None,
        }
    }

    /// Whether a name is no column of this scope, so that it may be one of a query around it.
    pub fn lacks(&self, parts: &[Ident]) -> bool {
        folded_names(parts).is_some_and(|names| {
            matches!(self.meaning(&names), Meaning::NoColumn | Meaning::NoTable)
        })
    }

    /// The column of `name`, `alias.name` or `schema.table.name`.
    pub fn find(&self, parts: &[Ident]) -> Result<ColumnId, Refusal> {
        let at = parts.first().and_then(|part| position(part.span));
        self.look_up(parts).map_err(|refusal| refusal.at(at))
    }

    fn look_up(&self, parts: &[Ident]) -> Result<ColumnId, Refusal> {
        let names: Vec<String> = parts.iter().map(name_of).collect::<Result<_, _>>()?;
        let unknown = |message| {
            let refusal = Refusal::new(reason::UNKNOWN_COLUMN, message);
            let last = names.last().map_or("", String::as_str);
            // As PostgreSQL, which hints at names that are nearly the same.
            let meant = self
                .visible
                .iter()
                .find(|column| column.name != last && column.name.eq_ignore_ascii_case(last));
            Err(match meant {
                Some(meant) => refusal.hint(format!("Perhaps you meant {}.", quote(&meant.name))),
                None => refusal,
            })
        };
        match (self.meaning(&names), names.as_slice()) {
            (Meaning::Column(id), _) => Ok(id),
            (Meaning::Ambiguous, names) => Err(ambiguous(&names.join("."))),
            (Meaning::TooLong, _) => Err(Refusal::unsupported(
                reason::UNSUPPORTED_NAME,
                "a name of more than three parts",
            )),
            (Meaning::NoTable, [.., alias, _]) => Err(Refusal::new(
                reason::UNKNOWN_TABLE,
                format!("missing FROM-clause entry for table \"{alias}\""),
            )),
            (Meaning::NoColumn, [.., alias, name]) => {
                unknown(format!("column {alias}.{name} does not exist"))
            }
            (Meaning::NoColumn | Meaning::NoTable, names) => {
                unknown(format!("column \"{}\" does not exist", names.join(".")))
            }
        }
    }

    /// The columns of `*`, in its order.
    pub fn visible(&self) -> impl Iterator<Item = &Named> {
        self.visible.iter()
    }
}

/// A name in double quotes, as a query writes it.
pub fn quote(name: &str) -> String {
    Ident::with_quote('"', name).to_string()
}

fn ambiguous(name: &str) -> Refusal {
    Refusal::new(
        reason::AMBIGUOUS_COLUMN,
        format!("column reference \"{name}\" is ambiguous"),
    )
}

/// The parts as PostgreSQL folds them; `None` if one is no name. Where it is read, it is refused.
fn folded_names(parts: &[Ident]) -> Option<Vec<String>> {
    parts.iter().map(|part| name_of(part).ok()).collect()
}

/// Resolves an item of GROUP BY in PostgreSQL's order: an ordinal, a column in scope, an output
/// name, any other expression.
pub(in crate::resolve) fn group_expression<'s>(
    expr: &'s ast::Expr,
    select: &'s ast::Select,
    scope: &Scope,
) -> Result<&'s ast::Expr, Refusal> {
    if let ast::Expr::Value(ast::ValueWithSpan {
        value: ast::Value::Number(text, false),
        span: _,
    }) = expr
    {
        let position = text
            .parse::<usize>()
            .ok()
            .filter(|p| (1..=select.projection.len()).contains(p));
        return position
            .and_then(|p| item_expr(&select.projection[p - 1]))
            .ok_or_else(|| {
                Refusal::new(
                    reason::INVALID_COLUMN_REFERENCE,
                    format!("GROUP BY position {text} is not in select list"),
                )
                .at(place_of(expr))
            });
    }
    if let Some(name) = bare_name(expr)
        && scope.bare(&name)?.is_none()
    {
        for item in &select.projection {
            if let ast::SelectItem::ExprWithAlias { expr, alias } = item
                && name_of(alias)? == name
            {
                return Ok(expr);
            }
        }
    }
    Ok(expr)
}

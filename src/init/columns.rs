//! A draft's entry for each column of a private table.

use super::catalog_view::{CatalogView, ColumnAt};
use super::decisions::Decisions;
use super::links::Link;
use super::name_hints::identifies;
use super::unit_paths::UnitPath;
use super::yaml;
use crate::catalog::Type;
use crate::policy::is_listable;

/// The longest list of a CHECK that becomes `values`.
const LIST_MAX: usize = 100;
/// A public table of at most this many columns is a code list, whose key may be a domain.
const CODE_LIST_COLUMNS: usize = 4;

/// One line of `columns:`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub at: ColumnAt,
    pub form: Form,
    pub remark: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    /// Written.
    On(String),
    /// Written because the owner said so.
    Said(String),
    /// Commented out until the owner decides: a text to group by, or a number to bound.
    Open(String),
    /// Only a comment.
    Note,
}

/// Whether a unit may have several rows, as far as keys show.
pub fn has_many_rows(seen: &CatalogView, unit: ColumnAt, _table: usize, way: &UnitPath) -> bool {
    match way {
        UnitPath::Own => !seen.is_key(unit),
        UnitPath::Path(links) => links.first().is_some_and(|link| !seen.is_key(link.from)),
        UnitPath::Several(_) => false,
    }
}

/// The texts and the numbers about which nothing is decided.
pub fn open(seen: &CatalogView, made: &Decisions) -> (Vec<ColumnAt>, Vec<ColumnAt>) {
    let (mut texts, mut numbers) = (Vec::new(), Vec::new());
    for (table, way) in &made.ways {
        if let UnitPath::Several(_) = way {
            continue;
        }
        for line in lines(seen, made, *table) {
            match line.form {
                Form::Open(_) if data_type(seen, line.at).is_string() => texts.push(line.at),
                Form::Open(_) => numbers.push(line.at),
                Form::On(_) | Form::Said(_) | Form::Note => {}
            }
        }
    }
    (texts, numbers)
}

/// The lines of a private table, in the order of its columns.
pub fn lines(seen: &CatalogView, made: &Decisions, table: usize) -> Vec<Line> {
    seen.columns(table).map(|at| line(seen, made, at)).collect()
}

fn line(seen: &CatalogView, made: &Decisions, at: ColumnAt) -> Line {
    let (form, remark) = needed_form(seen, made, at)
        .or_else(|| decided_form(made, at))
        .unwrap_or_else(|| by_name(seen, made, at));
    Line { at, form, remark }
}

/// The unit and the columns of paths may always be used.
fn needed_form(seen: &CatalogView, made: &Decisions, at: ColumnAt) -> Option<(Form, String)> {
    let mut links = made.ways.values().flat_map(|way| match way {
        UnitPath::Own | UnitPath::Several(_) => &[],
        UnitPath::Path(links) => links.as_slice(),
    });
    let remark = if at == made.unit {
        format!("the {}", made.unit_name)
    } else if let Some(link) = links.clone().find(|link| link.from == at) {
        format!("leads to {}", seen.column_name(link.to))
    } else if links.any(|link| link.to == at) {
        "rows of other tables lead here".to_owned()
    } else {
        return None;
    };
    Some((Form::Note, remark))
}

fn decided_form(made: &Decisions, at: ColumnAt) -> Option<(Form, String)> {
    if let Some(bounds) = made.bounds.get(&at) {
        return Some((Form::Said(bounds.clone()), String::new()));
    }
    made.group_by
        .contains(&at)
        .then(|| (Form::Said("visible".to_owned()), String::new()))
}

fn data_type(seen: &CatalogView, at: ColumnAt) -> &Type {
    let column = seen.column(at);
    column.over.as_ref().unwrap_or(&column.data_type)
}

fn by_name(seen: &CatalogView, made: &Decisions, at: ColumnAt) -> (Form, String) {
    let (column, data_type) = (seen.column(at), data_type(seen, at));
    if column.is_virtual {
        return (
            Form::Note,
            "left out: a virtual column, whose value is not stored".to_owned(),
        );
    }
    let is_flag = matches!(data_type, Type::Bool | Type::Enum(_));
    if let Some(why) = identifies(&column.name).filter(|_| !is_flag) {
        return (Form::On("hidden".to_owned()), why.to_owned());
    }
    let listed = &column.allowed.values;
    let can_list = is_listable(data_type)
        && column.deterministic_collation
        && (1..=LIST_MAX).contains(&listed.len());
    if can_list && !is_flag {
        let values: Vec<String> = listed.iter().map(|value| yaml::value(value)).collect();
        let form = format!("{{values: [{}]}}", values.join(", "));
        return (Form::On(form), "from a CHECK of the table".to_owned());
    }
    if let Some(link) = made.links.iter().find(|link| link.from == at) {
        return link_form(seen, made, link);
    }
    by_type(seen, at)
}

/// A key that leads to a table which is no way to the unit.
fn link_form(seen: &CatalogView, made: &Decisions, link: &Link) -> (Form, String) {
    let to = seen.table(link.to.table);
    let is_code_list = to.columns.len() <= CODE_LIST_COLUMNS;
    let key = seen.column(link.to).name.as_str();
    let domain = yaml::join_dotted(&[&to.schema, &to.name, key]).map(|name| yaml::scalar(&name));
    if made.public.contains(&link.to.table)
        && is_code_list
        && let Some(domain) = domain
    {
        return (Form::On(format!("{{domain: {domain}}}")), String::new());
    }
    let remark = format!("a key of {}", seen.table_name(link.to.table));
    if made.ways.contains_key(&link.to.table) {
        let remark = format!("left out: {remark}, whose rows are private");
        return (Form::Note, remark);
    }
    (Form::On("visible".to_owned()), remark)
}

fn by_type(seen: &CatalogView, at: ColumnAt) -> (Form, String) {
    let data_type = data_type(seen, at);
    let on = |form: &str, remark: &str| (Form::On(form.to_owned()), remark.to_owned());
    let is_key = seen.is_key(at);
    match data_type {
        Type::Bool => on("{values: [false, true]}", ""),
        Type::Enum(_) => on("visible", "groups are its labels"),
        Type::Date | Type::Timestamp | Type::Timestamptz => {
            on("visible", "{bounds: [first, last]} would allow more")
        }
        _ if is_key => (
            Form::Note,
            "left out: a key, which identifies rows".to_owned(),
        ),
        Type::Text | Type::Varchar(_) | Type::Char(_) => (
            Form::Open("visible".to_owned()),
            "groups by it need enough units to be shown".to_owned(),
        ),
        Type::Int2 | Type::Int4 | Type::Int8 | Type::Numeric(_) | Type::Float4 | Type::Float8 => (
            Form::Open("{bounds: [lowest, highest]}".to_owned()),
            type_text(seen, at),
        ),
        Type::Uuid | Type::Interval | Type::Time | Type::Other { .. } => {
            (Form::Note, format!("left out: {data_type}"))
        }
    }
}

/// The type, and the range that a CHECK allows.
pub fn type_text(seen: &CatalogView, at: ColumnAt) -> String {
    let column = seen.column(at);
    let mut text = column.data_type.to_string();
    let ends = [
        ("from", &column.allowed.lower),
        ("to", &column.allowed.upper),
    ];
    let ends: Vec<String> = ends
        .iter()
        .filter_map(|(word, texts)| Some(format!("{word} {}", texts.first()?)))
        .collect();
    if !ends.is_empty() {
        text += &format!("; a CHECK allows {}", ends.join(" "));
    }
    text
}

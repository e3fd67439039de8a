//! The owner's flags, in names of the catalog.

use std::collections::BTreeMap;

use super::Stop;
use super::catalog_view::{CatalogView, ColumnAt};
use super::links::{Link, LinkBasis};
use super::yaml;
use crate::policy::names;

/// The flags as written.
#[derive(Debug, Clone, Default)]
pub struct Request {
    pub unit: Option<String>,
    pub unit_name: Option<String>,
    pub links: Vec<String>,
    pub accepts_links: bool,
    pub public: Vec<String>,
    pub rows: Vec<String>,
    pub bounds: Vec<String>,
    pub group_by: Vec<String>,
    pub budget: Option<String>,
    pub roles: Vec<String>,
    pub units: Option<u64>,
    pub has_shadow: bool,
}

/// Epsilon and delta, as the owner wrote them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spend {
    pub epsilon: String,
    pub delta: String,
}

/// The flags in names of the catalog.
#[derive(Debug, Clone, Default)]
pub struct ResolvedRequest {
    pub unit: Option<ColumnAt>,
    pub links: Vec<Link>,
    pub public: Vec<usize>,
    /// A number, or `auto`.
    pub rows: BTreeMap<usize, String>,
    /// `{bounds: …}`, as YAML.
    pub bounds: BTreeMap<ColumnAt, String>,
    pub group_by: Vec<ColumnAt>,
    pub budget: Option<Spend>,
    pub roles: Vec<(String, Spend)>,
}

impl Request {
    /// # Errors
    /// Where a flag is not understood, or names what the database does not have.
    pub fn read(&self, seen: &CatalogView) -> Result<ResolvedRequest, Stop> {
        let mut said = ResolvedRequest {
            unit: self
                .unit
                .as_deref()
                .map(|name| column(seen, "--unit", name))
                .transpose()?,
            ..ResolvedRequest::default()
        };
        for text in &self.links {
            said.links.push(link(seen, text)?);
        }
        for name in &self.public {
            said.public.push(table(seen, "--public", name)?);
        }
        for text in &self.rows {
            let (name, most) = equation("--rows", text, "shop.orders=40")?;
            said.rows.insert(
                table(seen, "--rows", name)?,
                rows(most).map_err(Stop::Usage)?,
            );
        }
        for text in &self.bounds {
            let (name, ends) = equation("--bounds", text, "shop.orders.price=0..500")?;
            let at = column(seen, "--bounds", name)?;
            said.bounds.insert(at, bounds(ends).map_err(Stop::Usage)?);
        }
        for name in &self.group_by {
            said.group_by.push(column(seen, "--group-by", name)?);
        }
        if let Some(text) = &self.budget {
            said.budget = Some(spend(text).map_err(Stop::Usage)?);
        }
        for text in &self.roles {
            let (name, budget) = equation("--role", text, "analyst=2,1e-7")?;
            said.roles
                .push((name.to_owned(), spend(budget).map_err(Stop::Usage)?));
        }
        Ok(said)
    }
}

fn equation<'t>(flag: &str, text: &'t str, wanted: &str) -> Result<(&'t str, &'t str), Stop> {
    text.rsplit_once('=')
        .map(|(name, value)| (name.trim(), value.trim()))
        .filter(|(name, value)| !name.is_empty() && !value.is_empty())
        .ok_or_else(|| Stop::Usage(format!("{flag} must be such as {wanted}, not \"{text}\"")))
}

/// A number of rows, or `auto`.
pub fn rows(text: &str) -> Result<String, String> {
    let is_count = text
        .parse::<u32>()
        .is_ok_and(|n| (1..=1_000_000).contains(&n));
    if is_count || text == "auto" {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "the most rows of one unit must be a whole number from 1 to 1000000, or auto, not \
                \"{text}\""
        ))
    }
}

/// `0..500`, `0..auto` or `auto`, as YAML.
pub fn bounds(text: &str) -> Result<String, String> {
    if text == "auto" {
        return Ok("{bounds: auto}".to_owned());
    }
    let ends = text
        .split_once("..")
        .or_else(|| text.split_once(char::is_whitespace));
    let ends = ends
        .map(|(lower, upper)| (lower.trim(), upper.trim()))
        .filter(|(lower, upper)| !lower.is_empty() && !upper.is_empty());
    let Some((lower, upper)) = ends else {
        return Err(format!(
            "bounds must be the lowest and the highest value, such as 0..500, or auto, not \
                \"{text}\""
        ));
    };
    Ok(format!(
        "{{bounds: [{}, {}]}}",
        yaml::value(lower),
        yaml::value(upper)
    ))
}

/// `4,1e-6`: epsilon and delta.
pub fn spend(text: &str) -> Result<Spend, String> {
    let parts: Vec<&str> = text
        .split(|c: char| c == ',' || c.is_whitespace())
        .filter(|part| !part.is_empty())
        .collect();
    let number = |text: &str| {
        text.parse::<f64>()
            .ok()
            .filter(|x| x.is_finite() && *x > 0.0)
    };
    match parts.as_slice() {
        [epsilon, delta]
            if number(epsilon).is_some() && number(delta).is_some_and(|delta| delta < 1.0) =>
        {
            Ok(Spend {
                epsilon: (*epsilon).to_owned(),
                delta: (*delta).to_owned(),
            })
        }
        _ => Err(format!(
            "a budget must be epsilon above 0 and delta between 0 and 1, such as 4,1e-6, not \
                \"{text}\""
        )),
    }
}

/// A table, with or without its schema.
fn table(seen: &CatalogView, flag: &str, text: &str) -> Result<usize, Stop> {
    let parts = names(text).unwrap_or_default();
    let found: Vec<usize> = seen
        .tables
        .iter()
        .copied()
        .filter(|at| {
            let table = seen.table(*at);
            match parts.as_slice() {
                [name] => table.name == *name,
                [schema, name] => table.schema == *schema && table.name == *name,
                _ => false,
            }
        })
        .collect();
    match found.as_slice() {
        [at] => Ok(*at),
        [] => Err(Stop::Usage(format!(
            "{flag} {text}: no table of that name can be shown; write schema.table, of {}",
            list_names(seen.tables.iter().map(|at| seen.table_name(*at)))
        ))),
        _ => Err(Stop::Usage(format!(
            "{flag} {text}: several schemas have it; write one of {}",
            list_names(found.iter().map(|at| seen.table_name(*at)))
        ))),
    }
}

/// A column as `schema.table.column` or `table.column`.
pub fn column(seen: &CatalogView, flag: &str, text: &str) -> Result<ColumnAt, Stop> {
    let parts = names(text).unwrap_or_default();
    let Some((name, of)) = parts.split_last().filter(|(_, of)| !of.is_empty()) else {
        return Err(Stop::Usage(format!(
            "{flag} {text}: write schema.table.column"
        )));
    };
    let of: Vec<&str> = of.iter().map(String::as_str).collect();
    let table = table(seen, flag, &yaml::join_dotted(&of).unwrap_or_default())?;
    seen.find(table, name).ok_or_else(|| {
        Stop::Usage(format!(
            "{flag} {text}: the table has no such column; its columns are {}",
            list_names(
                seen.table(table)
                    .columns
                    .iter()
                    .map(|column| column.name.clone())
            )
        ))
    })
}

/// `a.c -> b.k`, where k is a key.
fn link(seen: &CatalogView, text: &str) -> Result<Link, Stop> {
    let Some((from, to)) = text.split_once("->") else {
        return Err(Stop::Usage(format!(
            "--link must be such as 'shop.orders.customer_id -> shop.customers.id', not \"{text}\""
        )));
    };
    let (from, to) = (
        column(seen, "--link", from.trim())?,
        column(seen, "--link", to.trim())?,
    );
    if !seen.is_key(to) {
        let table = seen.table(to.table);
        return Err(Stop::Usage(format!(
            "--link {text}: {} is not unique by a key, so that a row could belong to several \
                units; let PostgreSQL check it first: ALTER TABLE {} ADD UNIQUE ({});",
            seen.column_name(to),
            crate::postgres::qualify(&table.schema, &table.name),
            crate::postgres::identifier(&seen.column(to).name)
        )));
    }
    Ok(Link {
        from,
        to,
        basis: LinkBasis::Said,
    })
}

fn list_names(names: impl Iterator<Item = String>) -> String {
    const SHOWN: usize = 12;
    let names: Vec<String> = names.collect();
    match names.get(..SHOWN) {
        Some(shown) if names.len() > SHOWN => {
            format!("{} and {} more", shown.join(", "), names.len() - SHOWN)
        }
        _ => names.join(", "),
    }
}

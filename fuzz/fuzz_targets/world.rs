//! The demo's policy over a catalog written by hand, with one more table that has a column of every
//! type: the questions of the goldens are planned without a database.

use std::sync::LazyLock;

use pgveil::catalog::{
    Allowed, Catalog, Column, Distribution, Enum, Error, ForeignKey, RelationKind, Table,
    TableFingerprint, Type, TypeDefinition, UniqueKey, UserType,
};
use pgveil::policy::{Checked, DomainReader, File, Policy, PolicyError, check};

const DEMO: &str = include_str!("../../policies/demo.yaml");
const THINGS: &str = "  nls.things:
    unit: {path: [woman_id -> nls.women.woman_id]}
    rows_per_unit: 5
    other_columns: visible
    columns:
      i: {bounds: [-3, 50]}
      l: {bounds: [-1000000, 5000000000]}
      n: {bounds: [0, 99.5]}
      m: {bounds: [0, 99.99]}
      f: {bounds: [-1.5, 100.25]}
      d: {bounds: [2000-01-01, 2001-12-31]}
      ts: {bounds: [\"2000-01-01\", \"2000-03-31\"]}
      t: {values: [a, b, \"it's\"]}
";

/// Schema-less name, columns with `!` where they are NOT NULL.
const TABLES: [(&str, &str); 6] = [
    ("industries", "industry_code:int2! industry:text!"),
    ("occupations", "occupation_code:int2! occupation:text!"),
    (
        "women",
        "woman_id:int4! birth_year:int2! race:text! years_of_school:int2 \
        college_graduate:int2!",
    ),
    (
        "interviews",
        "interview_id:int4! woman_id:int4! year:int2! age:int2 married:int2 never_married:int2 \
            metro:int2 central_city:int2 south:int2 \
         industry_code:int2 occupation_code:int2 union_member:int2 weeks_unemployed:int2 \
         experience_years:numeric(5,2)! \
         tenure_years:numeric(5,2) hours_per_week:int2 weeks_worked:int2 hourly_wage:numeric(7,2)!",
    ),
    (
        "things",
        "thing_id:int4! woman_id:int4! s:int2 i:int4 l:int8 n:numeric m:numeric(9,2) f:float8 \
            r:float4 t:text tx:text v:varchar b:bool u:uuid \
         d:date dd:date ts:timestamp tz:timestamptz iv:interval tm:time en:mood j:jsonb a:int4[] \
         ta:text[]",
    ),
    // Roles write it.
    (
        "answers",
        "person:int4! smoked:text feels:mood! tea:bool! coffee:bool! income:int4! \
            page:bit(16)! page_cohort:int2! note:text",
    ),
];

fn mood() -> Enum {
    Enum {
        oid: 20_000,
        schema: "nls".to_owned(),
        name: "mood".to_owned(),
        labels: ["sad", "it's", "happy"].map(str::to_owned).to_vec(),
    }
}

fn type_of(name: &str) -> Type {
    let other = |oid, name: &str| Type::Other {
        oid,
        name: name.to_owned(),
    };
    match name {
        "int2" => Type::Int2,
        "int4" => Type::Int4,
        "int8" => Type::Int8,
        "numeric" => Type::Numeric(None),
        "numeric(5,2)" => Type::Numeric(Some((5, 2))),
        "numeric(7,2)" => Type::Numeric(Some((7, 2))),
        "numeric(9,2)" => Type::Numeric(Some((9, 2))),
        "float8" => Type::Float8,
        "float4" => Type::Float4,
        "varchar" => Type::Varchar(Some(10)),
        "bool" => Type::Bool,
        "uuid" => Type::Uuid,
        "date" => Type::Date,
        "timestamp" => Type::Timestamp,
        "timestamptz" => Type::Timestamptz,
        "interval" => Type::Interval,
        "time" => Type::Time,
        "mood" => Type::Enum(Box::new(mood())),
        "jsonb" => other(3802, "jsonb"),
        "int4[]" => other(1007, "integer[]"),
        "text[]" => other(1009, "text[]"),
        "bit(16)" => other(1560, "bit(16)"),
        _ => Type::Text,
    }
}

fn column(number: usize, text: &str) -> Column {
    let (name, data_type) = text.split_once(':').unwrap();
    Column {
        name: name.to_owned(),
        number: i16::try_from(number + 1).unwrap(),
        data_type: type_of(data_type.trim_end_matches('!')),
        not_null: data_type.ends_with('!'),
        deterministic_collation: true,
        collation: None,
        is_virtual: false,
        is_domain: false,
        over: None,
        selectable: true,
        allowed: Allowed::default(),
    }
}

fn key(columns: &[Column], column: &str, table: &str) -> ForeignKey {
    let may_be_null = |one: &Column| one.name == column && !one.not_null;
    ForeignKey {
        columns: vec![column.to_owned()],
        schema: "nls".to_owned(),
        table: table.to_owned(),
        referenced: vec![column.to_owned()],
        nullable: columns
            .iter()
            .filter(|one| may_be_null(one))
            .map(|one| one.name.clone())
            .collect(),
    }
}

fn table(at: usize, (name, columns): (&str, &str)) -> Table {
    let columns: Vec<Column> = columns
        .split_whitespace()
        .enumerate()
        .map(|(number, text)| column(number, text))
        .collect();
    let mut unique_keys = vec![UniqueKey::plain([columns[0].name.clone()], true)];
    let mut foreign_keys = Vec::new();
    if matches!(name, "interviews" | "things") {
        foreign_keys.push(key(&columns, "woman_id", "women"));
    }
    if name == "interviews" {
        unique_keys.push(UniqueKey::plain(["woman_id", "year"], false));
        foreign_keys.extend([
            key(&columns, "industry_code", "industries"),
            key(&columns, "occupation_code", "occupations"),
        ]);
    }
    Table {
        oid: 16_400 + u32::try_from(at).unwrap(),
        schema: "nls".to_owned(),
        name: name.to_owned(),
        kind: RelationKind::Ordinary,
        columns,
        unique_keys,
        indexes: Vec::new(),
        foreign_keys,
        inherits: false,
        parents: Vec::new(),
        distribution: Distribution::Local,
        row_security: false,
        has_rules: false,
        selectable: true,
        writable: false,
        fingerprint: TableFingerprint::new(format!("{name:0>64}")),
    }
}

static CATALOG: LazyLock<Catalog> = LazyLock::new(|| {
    let Enum {
        oid,
        schema,
        name,
        labels,
    } = mood();
    Catalog {
        server_version: "15.18".to_owned(),
        server_version_num: 150_018,
        server_encoding: "UTF8".to_owned(),
        database: "nls".to_owned(),
        powers: Vec::new(),
        tables: TABLES
            .into_iter()
            .enumerate()
            .map(|(at, listed)| table(at, listed))
            .collect(),
        types: vec![UserType {
            oid,
            schema,
            name,
            array: 0,
            definition: TypeDefinition::Enum(labels),
        }],
    }
});

/// Three rows in every public table.
struct Rows;

fn value(column: &str, row: usize) -> Option<String> {
    Some(if column.ends_with("_code") {
        format!("{}", row + 1)
    } else {
        ["farming", "it's \\ mining", "é"][row].to_owned()
    })
}

#[async_trait::async_trait]
impl DomainReader for Rows {
    async fn rows(
        &self,
        _: &str,
        _: &str,
        columns: &[&str],
        _: u32,
    ) -> Result<Vec<Vec<Option<String>>>, Error> {
        Ok((0..3)
            .map(|row| columns.iter().map(|column| value(column, row)).collect())
            .collect())
    }

    async fn ends(&self, _: &str, _: &str, columns: &[&str]) -> Result<Vec<Option<String>>, Error> {
        Ok([0, 2]
            .into_iter()
            .flat_map(|row| columns.iter().map(move |column| value(column, row)))
            .collect())
    }
}

fn variable(name: &str) -> Option<String> {
    Some(if name == "PGVEIL_LEDGER" {
        "sqlite:///fuzz.db".to_owned()
    } else {
        format!("postgresql://{name}")
    })
}

/// A policy file as it is read, and then compared with the catalog.
pub fn checked(text: &str) -> Result<Policy, Vec<PolicyError>> {
    let file = File::parse("policy.yaml", text, variable)?;
    // Nothing in it ever waits.
    let Checked {
        policy,
        warnings: _,
    } = futures::executor::block_on(check(&file, &CATALOG, &Rows))?;
    Ok(policy)
}

/// The policy under each accounting.
#[allow(dead_code)]
pub static POLICIES: LazyLock<Vec<Policy>> = LazyLock::new(|| {
    let whole = DEMO.replace("\nlimits:", &format!("\n{THINGS}\nlimits:"));
    ["gdp", "zcdp", "pure"]
        .iter()
        .map(|name| {
            checked(&whole.replace("accounting: gdp ", &format!("accounting: {name} ")))
                .unwrap_or_else(|errors| panic!("{errors:?}"))
        })
        .collect()
});

//! Tests without a server, over a hand-made catalog and domains from a test's own rows.

mod collected;
mod dictionary;
mod holdouts;
mod periods;
mod summaries;
mod unique_claims;
mod writing;

use async_trait::async_trait;

use crate::catalog::{Column, Error, RelationKind, TableFingerprint, Type, UniqueKey};
use crate::policy::Secret;
use crate::policy::check::*;
use crate::policy::{find_unlisted, newly_shown};

struct Rows(Result<Vec<Option<&'static str>>, &'static str>);

#[async_trait]
impl DomainReader for Rows {
    async fn rows(
        &self,
        _: &str,
        _: &str,
        _: &[&str],
        _: u32,
    ) -> Result<Vec<Vec<Option<String>>>, Error> {
        match &self.0 {
            Ok(rows) => Ok(rows.iter().map(|r| vec![r.map(str::to_owned)]).collect()),
            Err(version) => Err(Error::TooOld((*version).to_owned())),
        }
    }

    async fn ends(&self, _: &str, _: &str, _: &[&str]) -> Result<Vec<Option<String>>, Error> {
        Ok(Vec::new())
    }
}

fn column(name: &str, data_type: Type) -> Column {
    let number = 1;
    let name = name.to_owned();
    Column {
        name,
        number,
        data_type,
        not_null: true,
        deterministic_collation: true,
        collation: None,
        is_virtual: false,
        is_domain: false,
        over: None,
        selectable: true,
        allowed: catalog::Allowed::default(),
    }
}

fn table(oid: u32, name: &str, columns: Vec<Column>) -> catalog::Table {
    catalog::Table {
        oid,
        schema: "s".to_owned(),
        name: name.to_owned(),
        kind: RelationKind::Ordinary,
        unique_keys: vec![UniqueKey::plain([columns[0].name.clone()], true)],
        columns,
        foreign_keys: Vec::new(),
        indexes: Vec::new(),
        inherits: false,
        parents: Vec::new(),
        distribution: catalog::Distribution::Local,
        row_security: false,
        has_rules: false,
        selectable: true,
        writable: false,
        fingerprint: TableFingerprint::new(format!("f{oid}")),
    }
}

fn catalog() -> Catalog {
    let people = table(
        1,
        "people",
        vec![
            column("id", Type::Int8),
            column("price", Type::Numeric(None)),
        ],
    );
    let codes = table(
        2,
        "codes",
        vec![column("price", Type::Numeric(Some((9, 2))))],
    );
    Catalog {
        server_version: "15.1".to_owned(),
        server_version_num: 150_001,
        server_encoding: "UTF8".to_owned(),
        database: "d".to_owned(),
        powers: Vec::new(),
        tables: vec![codes, people],
        types: Vec::new(),
    }
}

fn file(columns: &str) -> File {
    let text = format!(
        "version: 1
privacy: {{unit: p, budget: {{epsilon: 1, delta: 1e-6}}}}
roles: [{{name: a, \
password: \"SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=\", budget: {{epsilon: 1, delta: 1e-6}}}}]
tables:
  s.codes: public
  s.people: {{unit: id, {columns}}}"
    );
    File::parse("p.yaml", &text, |_| None).unwrap()
}

async fn errors(file: &File, catalog: &Catalog, rows: Rows) -> Vec<String> {
    check(file, catalog, &rows)
        .await
        .err()
        .unwrap_or_default()
        .iter()
        .map(ToString::to_string)
        .collect()
}

const DOMAIN: &str = "columns: {price: {domain: s.codes.price}}";

#[tokio::test]
async fn domains_are_canonical_sorted_and_distinct() {
    let rows = Rows(Ok(vec![
        Some("10.00"),
        None,
        Some("9.5"),
        Some("9.50"),
        Some("-1"),
    ]));
    let checked = check(&file(DOMAIN), &catalog(), &rows).await.unwrap();
    let domain = checked
        .policy
        .table("s", "people")
        .and_then(|t| t.columns[1].domain.clone());
    assert_eq!(
        domain,
        Some(
            ["-1", "9.5", "10"]
                .map(|d| crate::policy::Scalar::Decimal(d.to_owned()))
                .to_vec()
        )
    );
}

#[tokio::test]
async fn a_domain_that_cannot_be_read_is_an_error() {
    let found = errors(&file(DOMAIN), &catalog(), Rows(Err("9.6"))).await;
    assert_eq!(
        found,
        [
            "p.yaml:6:50: domain s.codes.price cannot be read: PostgreSQL 9.6 is too old: pgveil \
                needs version 12 or later"
        ]
    );
    let found = errors(&file(DOMAIN), &catalog(), Rows(Ok(vec![Some("NaN")]))).await;
    assert!(
        found[0].starts_with(
            "p.yaml:6:50: domain s.codes.price holds \"NaN\", but \
        column \"price\" needs a finite decimal number"
        ),
        "{found:?}"
    );
}

#[tokio::test]
async fn the_encoding_must_be_utf8() {
    let mut catalog = catalog();
    catalog.server_encoding = "SQL_ASCII".to_owned();
    let found = errors(&file(DOMAIN), &catalog, Rows(Ok(vec![Some("1")]))).await;
    assert!(
        found.len() == 1
            && found[0].starts_with(
                "p.yaml:1:1: the database has the encoding SQL_ASCII; pgveil needs UTF8"
            ),
        "{found:?}"
    );
}

#[tokio::test]
async fn virtual_generated_columns_are_not_shown() {
    let mut catalog = catalog();
    catalog.tables[1].columns[1].is_virtual = true;
    let found = errors(
        &file("columns: {price: visible}"),
        &catalog,
        Rows(Ok(Vec::new())),
    )
    .await;
    assert!(
        found.len() == 1
            && found[0].starts_with(
                "p.yaml:6:34: column \"price\" of s.people is a virtual generated column"
            ),
        "{found:?}"
    );
    let checked = check(
        &file("other_columns: visible"),
        &catalog,
        &Rows(Ok(Vec::new())),
    )
    .await
    .unwrap();
    assert_eq!(
        checked.policy.table("s", "people").map(|t| t.columns.len()),
        Some(1)
    );
    catalog.tables[1].columns[0].is_virtual = true;
    let found = errors(&file("rows_per_unit: 1"), &catalog, Rows(Ok(Vec::new()))).await;
    assert!(
        found[0].starts_with(
            "p.yaml:6:20: column \"id\" of s.people cannot be the unit: it is \
        a virtual generated column"
        ),
        "{found:?}"
    );
}

#[tokio::test]
async fn bounds_next_to_a_check_are_warned_of() {
    let mut catalog = catalog();
    let warnings = async |catalog: &Catalog, bounds: &str| {
        let checked = check(
            &file(&format!(
                "rows_per_unit: 1, columns: {{price: {{bounds: {bounds}}}}}"
            )),
            catalog,
            &Rows(Ok(Vec::new())),
        )
        .await
        .unwrap();
        checked
            .warnings
            .iter()
            .map(|warning| warning.message.clone())
            .filter(|text| text.contains("CHECK"))
            .collect::<Vec<_>>()
    };
    assert_eq!(warnings(&catalog, "[0, 9]").await, [] as [String; 0]);
    let texts = |all: &[&str]| all.iter().map(ToString::to_string).collect();
    catalog.tables[1].columns[1].allowed = catalog::Allowed {
        lower: texts(&["-5", "0", "now()"]),
        upper: texts(&["10.0", "100"]),
        values: Vec::new(),
    };
    assert_eq!(warnings(&catalog, "[0, 10]").await, [] as [String; 0]);
    assert_eq!(
        warnings(&catalog, "[-1, 9]").await,
        [
            "bounds of column \"price\" reach below 0, past which a CHECK of the table lets no \
                value; narrower ones give less noise",
            "bounds of column \"price\" end before 10.0, up to which a CHECK of the table lets \
                values be; those past the bounds count as the bound, and sums and averages are off \
                by it",
        ]
    );
}

/// A list of an enum is complete where it has every label, unless the owner says otherwise.
#[tokio::test]
async fn all_labels_of_an_enum_are_a_complete_list() {
    let labels = ["new", "paid"].map(str::to_owned).to_vec();
    let state = catalog::Enum {
        oid: 7_000,
        schema: "s".to_owned(),
        name: "state".to_owned(),
        labels,
    };
    let mut catalog = catalog();
    let made = column("state", Type::Enum(Box::new(state)));
    catalog.tables[1].columns.push(made);
    for (columns, wanted) in [
        ("columns: {state: visible}", true),
        ("other_columns: visible", true),
        ("columns: {state: {values: [paid, new]}}", true),
        ("columns: {state: {values: [paid]}}", false),
        ("columns: {state: {values: [paid], complete: true}}", true),
        (
            "columns: {state: {values: [new, paid], complete: false}}",
            false,
        ),
    ] {
        let rows = Rows(Ok(Vec::new()));
        let checked = check(&file(columns), &catalog, &rows).await.unwrap();
        let table = checked.policy.table("s", "people").unwrap();
        let state = table.columns.iter().find(|column| column.name == "state");
        assert_eq!(state.unwrap().is_complete, wanted, "{columns}");
    }
}

#[tokio::test]
async fn passwords_and_addresses_are_no_part_of_the_version() {
    let rows = Rows(Ok(vec![Some("1")]));
    let first = check(&file(DOMAIN), &catalog(), &rows)
        .await
        .unwrap()
        .policy;
    let mut other = file(DOMAIN);
    other.roles[0].verifier = Secret::from("x".to_owned());
    other.database_url = Some(Secret::from("postgres://elsewhere".to_owned()));
    assert_eq!(
        check(&other, &catalog(), &rows)
            .await
            .unwrap()
            .policy
            .version,
        first.version
    );
    other.privacy.data_version = "2".to_owned();
    assert_ne!(
        check(&other, &catalog(), &rows)
            .await
            .unwrap()
            .policy
            .version,
        first.version
    );
}

fn hash(column: &str, colocation: i32, tiles: bool) -> catalog::Distribution {
    catalog::Distribution::Hash(catalog::Hash {
        column: column.to_owned(),
        colocation,
        tiles,
    })
}

#[tokio::test]
async fn distributed_rows_lie_where_their_unit_does() {
    use catalog::Distribution as D;
    let judged = async |distribution: D| {
        let mut catalog = catalog();
        catalog.tables[1].distribution = distribution;
        errors(&file("rows_per_unit: 1"), &catalog, Rows(Ok(Vec::new()))).await
    };
    assert_eq!(judged(D::Local).await, [""; 0]);
    assert_eq!(judged(hash("id", 1, true)).await, [""; 0]);
    for (distribution, why) in [
        (
            hash("price", 1, true),
            "s.people is distributed by price, so that rows of one p may lie in many shards",
        ),
        (
            hash("id", 1, false),
            "the shards of s.people have gaps or overlap",
        ),
        (
            D::Unenforced("append".to_owned()),
            "s.people is distributed by append: Citus enforces no key of it",
        ),
        (D::Reference, "s.people is a reference table"),
        (D::Single, "s.people lies in one shard"),
    ] {
        let found = judged(distribution).await;
        assert!(
            matches!(
                found.as_slice(),
                [one] if one.contains(why)
                    && one.contains("create_distributed_table('\"s\".\"people\"', 'id')")
            ),
            "{found:?}"
        );
    }
    let mut catalog = catalog();
    catalog.tables[0].distribution = D::Unenforced("range".to_owned());
    let checked = check(&file("rows_per_unit: 1"), &catalog, &Rows(Ok(Vec::new())))
        .await
        .unwrap();
    assert!(
        checked.warnings.iter().any(|w| w
            .message
            .starts_with("no key of s.codes is trusted: it is distributed by range")),
        "{:?}",
        checked.warnings
    );
}

/// Along a path of one step the column that leads away is the unit; along a longer one no column
/// is.
#[tokio::test]
async fn tables_on_a_path_lie_with_their_unit() {
    let at = |distribution: &catalog::Distribution, path: &str| {
        let mut catalog = catalog();
        catalog.tables[1].distribution = hash("id", 1, true);
        let mut visits = table(
            3,
            "visits",
            vec![column("number", Type::Int8), column("uid", Type::Int8)],
        );
        visits.distribution = hash("uid", 1, true);
        let mut lines = table(
            4,
            "lines",
            vec![column("line", Type::Int8), column("of", Type::Int8)],
        );
        lines.distribution = distribution.clone();
        catalog.tables.extend([visits, lines]);
        let text = format!(
            "version: 1
privacy: {{unit: p, budget: {{epsilon: 1, delta: 1e-6}}}}
roles: [{{name: a, \
password: \"SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=\", budget: {{epsilon: 1, delta: 1e-6}}}}]
tables:
  s.people: {{unit: id}}
  s.visits: {{unit: {{path: [uid -> s.people.id], trusted_path: true}}, rows_per_unit: 2}}
  s.lines: {{unit: {{path: [{path}], trusted_path: true}}, rows_per_unit: 2}}"
        );
        (File::parse("p.yaml", &text, |_| None).unwrap(), catalog)
    };
    let judged = async |distribution: &catalog::Distribution, path: &str| {
        let (file, catalog) = at(distribution, path);
        errors(&file, &catalog, Rows(Ok(Vec::new()))).await
    };
    let short = "of -> s.people.id";
    let long = "of -> s.visits.number, uid -> s.people.id";
    assert_eq!(judged(&hash("of", 1, true), short).await, [""; 0]);
    let found = judged(&hash("of", 2, true), short).await;
    assert!(
        matches!(found.as_slice(), [one] if one.contains("s.lines and s.people are not colocated")),
        "{found:?}"
    );
    let found = judged(&hash("of", 1, true), long).await;
    assert!(
        matches!(
            found.as_slice(),
            [one] if one.contains("is distributed by of")
                && one.contains("give it a column that holds the p itself")
        ),
        "{found:?}"
    );
    let (file, catalog) = at(&catalog::Distribution::Local, long);
    let checked = check(&file, &catalog, &Rows(Ok(Vec::new()))).await.unwrap();
    assert!(
        checked.warnings.iter().any(|w| w
            .message
            .starts_with("s.lines is a local table and not distributed like s.people")),
        "{:?}",
        checked.warnings
    );
}

#[tokio::test]
async fn partitions_lie_where_their_table_does() {
    let judged = async |kind: RelationKind, distribution: catalog::Distribution| {
        let mut catalog = catalog();
        catalog.tables[1].kind = RelationKind::Partitioned;
        let mut half = table(3, "half", vec![column("id", Type::Int8)]);
        (half.kind, half.parents) = (RelationKind::Partitioned, vec![1]);
        let mut part = table(4, "part", vec![column("id", Type::Int8)]);
        (part.kind, part.distribution, part.parents) = (kind, distribution, vec![3]);
        catalog.tables.extend([half, part]);
        errors(&file("rows_per_unit: 1"), &catalog, Rows(Ok(Vec::new()))).await
    };
    assert_eq!(
        judged(RelationKind::Ordinary, catalog::Distribution::Local).await,
        [""; 0]
    );
    let found = judged(RelationKind::Foreign, catalog::Distribution::Local).await;
    assert!(
        matches!(found.as_slice(), [one] if one.contains("partition s.part of s.people is a \
            foreign \
            table")),
        "{found:?}"
    );
    let found = judged(RelationKind::Ordinary, hash("id", 1, true)).await;
    assert!(
        matches!(found.as_slice(), [one] if one.contains("partition s.part of s.people is not \
            distributed as s.people is")),
        "{found:?}"
    );
}

/// Other tools write "all columns" as a star.
#[tokio::test]
async fn a_star_gets_the_key_that_shows_all_columns() {
    let found = errors(
        &file("columns: {\"*\": visible}"),
        &catalog(),
        Rows(Ok(Vec::new())),
    )
    .await;
    assert!(
        found.len() == 1
            && found[0].starts_with("p.yaml:6:34: column \"*\" does not exist in s.people")
            && found[0]
                .ends_with("; `other_columns: visible` shows every column that is not listed"),
        "{found:?}"
    );
}

/// Columns that a table got, or that the role may read, since the policy was loaded.
#[tokio::test]
async fn columns_that_no_file_names_are_reported() {
    let checked = async |file: &File, catalog: &Catalog| {
        let checked = check(file, catalog, &Rows(Ok(vec![Some("1")]))).await;
        checked.unwrap().policy
    };
    let old = catalog();
    let mut new = catalog();
    for table in &mut new.tables {
        let mut column = table.columns[0].clone();
        column.name = "added".to_owned();
        column.number = 9;
        table.columns.push(column);
    }
    for (before, now, wanted) in [
        ("other_columns: visible", "other_columns: visible", 2),
        ("other_columns: hidden", "other_columns: visible", 1),
        (
            "other_columns: visible",
            "other_columns: visible, columns: {added: hidden}",
            1,
        ),
        ("rows_per_unit: 1", "rows_per_unit: 1", 1),
    ] {
        let (before, now) = (file(before), file(now));
        let policies = (checked(&before, &old).await, checked(&now, &new).await);
        let warnings = newly_shown((&before, &policies.0), (&now, &policies.1));
        assert_eq!(warnings.len(), wanted, "{warnings:#?}");
        assert!(
            warnings[0]
                .starts_with("s.codes.added is new, or newly readable, and shown row by row"),
            "{warnings:?}"
        );
        assert!(newly_shown((&now, &policies.1), (&now, &policies.1)).is_empty());
    }
    let visible = file("other_columns: visible");
    let policy = checked(&visible, &new).await;
    let shown = find_unlisted(&visible, &policy);
    assert_eq!(
        (shown[0].table.as_str(), shown[0].columns.as_slice()),
        ("s.people", &["price", "added"][..])
    );
}

//! Policies checked against a real PostgreSQL: each refusal by name, and the demo.

use futures::SinkExt;
use pgveil::catalog::{Type, load};
use pgveil::policy::{Checked, File, Policy, PolicyError, Protection, Scalar, UnitStep, check};
use tokio_postgres::Client;

use crate::harness::Server;

const HEAD: &str = "\
version: 1
privacy: {unit: person, budget: {epsilon: 8, delta: 1e-6}}
roles: [{name: ann, password: \"SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=\", budget: {epsilon: 3, delta: 1e-7}}]
tables:
";

async fn outcome(client: &Client, tables: &str) -> Result<Checked, Vec<PolicyError>> {
    let file = File::parse("p.yaml", &format!("{HEAD}{tables}"), |_| None).unwrap();
    check(&file, &load(client).await.unwrap(), client).await
}

/// Exactly these errors, each given from its line:column on, up to a part of its message. Line 5 is
/// the first of `tables`.
async fn refused(client: &Client, tables: &str, wanted: &[&str]) {
    let found: Vec<String> = outcome(client, tables)
        .await
        .err()
        .unwrap_or_default()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(found.len(), wanted.len(), "{tables}\n{found:#?}");
    for (found, wanted) in found.iter().zip(wanted) {
        assert!(
            found.starts_with(&format!("p.yaml:{wanted}")),
            "{tables}\nfound  {found}\nwanted p.yaml:{wanted}"
        );
    }
}

async fn accepted(client: &Client, tables: &str) -> Policy {
    match outcome(client, tables).await {
        Ok(checked) => checked.policy,
        Err(errors) => panic!("{tables}\n{errors:#?}"),
    }
}

async fn shop(server: &Server) -> Client {
    let (_, client) = server.database().await;
    client
        .batch_execute(
            "CREATE SCHEMA s; CREATE EXTENSION citext SCHEMA s; CREATE EXTENSION file_fdw; CREATE \
                SERVER files FOREIGN DATA WRAPPER file_fdw;
             CREATE DOMAIN s.person_id AS int;
             CREATE COLLATION s.loose (provider = icu, locale = 'und-u-ks-level2', deterministic = \
             false);
             CREATE TABLE s.people (id int PRIMARY KEY, age int, name varchar(5), born date, seen \
             timestamptz, score numeric(5,2), height real, flag bool,
                 code int NOT NULL, r real UNIQUE, ch bpchar UNIQUE, ci s.citext UNIQUE, dom \
                 s.person_id UNIQUE, loose text COLLATE s.loose UNIQUE, tags text[]);
             CREATE TABLE s.orders (order_id int PRIMARY KEY, person int NOT NULL REFERENCES \
             s.people, big bigint, other int, total numeric);
             CREATE TABLE s.items (item_id int PRIMARY KEY, order_id int NOT NULL REFERENCES \
             s.orders, price numeric, person int,
                 late int REFERENCES s.people DEFERRABLE);
             ALTER TABLE s.items ADD FOREIGN KEY (person) REFERENCES s.people NOT VALID;
             CREATE TABLE s.staff (staff_id int PRIMARY KEY);
             CREATE TABLE s.codes (code int PRIMARY KEY, label text, half int, big bigint); INSERT \
             INTO s.codes VALUES (3, 'c', NULL, 5000000000), (1, 'a', 1, 1);
             CREATE TABLE s.empty (code int);
             CREATE TABLE s.ranking (place int, person int REFERENCES s.people);
             CREATE VIEW s.view AS SELECT * FROM s.people; CREATE MATERIALIZED VIEW s.matview AS \
             SELECT id FROM s.people;
             CREATE FOREIGN TABLE s.far (id int) SERVER files OPTIONS (filename '/dev/null');
             CREATE TABLE s.secured (id int PRIMARY KEY); ALTER TABLE s.secured ENABLE ROW LEVEL \
             SECURITY;
             CREATE TABLE s.ruled (id int PRIMARY KEY); CREATE RULE nothing AS ON DELETE TO \
             s.ruled \
             DO INSTEAD NOTHING;
             CREATE TABLE s.parent (id int PRIMARY KEY); CREATE TABLE s.child () INHERITS \
             (s.parent);
             CREATE TABLE s.parts (id int PRIMARY KEY) PARTITION BY LIST (id); CREATE TABLE \
             s.part1 \
             PARTITION OF s.parts FOR VALUES IN (1);
             CREATE TABLE s.visits (id int UNIQUE, person int);",
        )
        .await
        .unwrap();
    client
}

#[tokio::test]
async fn relations_that_prove_nothing_are_refused() {
    let server = Server::shared().await;
    let client = shop(&server).await;
    refused(
        &client,
        "  s.nobody: {unit: id}",
        &["5:3: table s.nobody does not exist; the tables of schema s are child, codes, "],
    )
    .await;
    refused(
        &client,
        "  x.t: public",
        &["5:3: table x.t does not exist; schema x has no tables in database t"],
    )
    .await;
    refused(
        &client,
        "  s.view: {unit: id}",
        &["5:3: s.view is a view; name the tables it reads instead"],
    )
    .await;
    refused(&client, "  s.view: public", &["5:3: s.view is a view"]).await;
    refused(
        &client,
        "  s.matview: public",
        &["5:3: s.matview is a materialized view"],
    )
    .await;
    refused(
        &client,
        "  s.far: {unit: id}",
        &["5:3: s.far is a foreign table; a private table must be"],
    )
    .await;
    refused(
        &client,
        "  s.secured: {unit: id}",
        &["5:3: s.secured has row security"],
    )
    .await;
    refused(
        &client,
        "  s.ruled: {unit: id}",
        &["5:3: s.ruled has rules"],
    )
    .await;
    refused(
        &client,
        "  s.parts: {unit: id}\n  s.part1: public",
        &[
            "6:3: s.part1 cannot be public: it shares partitions or inheritance with the private \
            table s.parts",
        ],
    )
    .await;
    let checked = outcome(
        &client,
        "  s.far: public\n  s.ranking: public\n  s.people: {unit: id}",
    )
    .await
    .unwrap();
    let warnings: Vec<String> = checked.warnings.iter().map(ToString::to_string).collect();
    assert!(
        warnings[0].starts_with("p.yaml:5:3: s.far is a foreign table"),
        "{warnings:#?}"
    );
    assert!(
        warnings[1]
            .starts_with("p.yaml:6:3: public table s.ranking refers to the private table s.people"),
        "{warnings:#?}"
    );
    assert!(
        warnings[2]
            .contains("the database role may do more than SELECT on s.far, s.ranking, s.people"),
        "{warnings:#?}"
    );
    assert!(
        warnings[3].contains("the database role may also SELECT s.child, s.codes"),
        "{warnings:#?}"
    );
    assert!(
        warnings[4]
            .contains("the database role may do everything: it is a superuser; give the proxy"),
        "{warnings:#?}"
    );
}

/// PostgreSQL checks neither their keys nor their bounds: a row on the wrong server is two units to
/// a partitionwise aggregate.
#[tokio::test]
async fn foreign_partitions_are_refused() {
    let server = Server::shared().await;
    let (_, client) = server.database().await;
    client
        .batch_execute(
            "CREATE SCHEMA s; CREATE EXTENSION postgres_fdw; CREATE SERVER shard FOREIGN DATA \
                WRAPPER postgres_fdw OPTIONS (host 'nowhere');
             CREATE TABLE s.people (id int NOT NULL, age int) PARTITION BY HASH (id);
             CREATE TABLE s.near PARTITION OF s.people FOR VALUES WITH (MODULUS 2, REMAINDER 0);
             CREATE FOREIGN TABLE s.far PARTITION OF s.people FOR VALUES WITH (MODULUS 2, \
             REMAINDER \
             1) SERVER shard;
             CREATE TABLE s.deep (id int NOT NULL, at date NOT NULL) PARTITION BY RANGE (at);
             CREATE TABLE s.deeper PARTITION OF s.deep FOR VALUES FROM ('2020-01-01') TO \
             ('2021-01-01') PARTITION BY HASH (id);
             CREATE FOREIGN TABLE s.deepest PARTITION OF s.deeper FOR VALUES WITH (MODULUS 1, \
             REMAINDER 0) SERVER shard;
             CREATE TABLE s.whole (id int NOT NULL) PARTITION BY HASH (id); CREATE TABLE s.part \
             PARTITION OF s.whole FOR VALUES WITH (MODULUS 1, REMAINDER 0)",
        )
        .await
        .unwrap();
    refused(
        &client,
        "  s.people: {unit: id}",
        &["5:3: partition s.far of s.people is a foreign \
        table: PostgreSQL checks neither its keys nor"],
    )
    .await;
    refused(
        &client,
        "  s.deep: {unit: id}",
        &["5:3: partition s.deepest of s.deep is a foreign table"],
    )
    .await;
    accepted(&client, "  s.whole: {unit: id}").await;
}

/// A key of the parent binds no row of its children.
#[tokio::test]
async fn inheritance_child_not_proved() {
    let server = Server::shared().await;
    let client = shop(&server).await;
    refused(
        &client,
        "  s.parent: {unit: id}",
        &["5:3: s.parent takes part in table inheritance"],
    )
    .await;
    refused(
        &client,
        "  s.child: {unit: id}",
        &["5:3: s.child takes part in table inheritance"],
    )
    .await;
}

#[tokio::test]
async fn units_are_columns_whose_equality_is_identity() {
    let server = Server::shared().await;
    let client = shop(&server).await;
    let unit = |column: &str| format!("  s.people: {{unit: {column}}}");
    refused(
        &client,
        &unit("nobody"),
        &["5:20: column \"nobody\" does not exist in s.people; its columns are id, age, name"],
    )
    .await;
    refused(
        &client,
        &unit("r"),
        &["5:20: column \"r\" of s.people cannot be the unit: real rounds"],
    )
    .await;
    refused(
        &client,
        &unit("ch"),
        &[
            "5:20: column \"ch\" of s.people cannot be the unit: bpchar \
        without a length compares without the blanks",
        ],
    )
    .await;
    refused(
        &client,
        &unit("ci"),
        &["5:20: column \"ci\" of s.people cannot be the unit: s.citext is not offered"],
    )
    .await;
    refused(
        &client,
        &unit("dom"),
        &["5:20: column \"dom\" of s.people cannot be the unit: its type s.person_id is a domain"],
    )
    .await;
    refused(
        &client,
        &unit("loose"),
        &[
            "5:20: column \"loose\" of s.people cannot be the unit: its \
        collation is not deterministic",
        ],
    )
    .await;
    refused(
        &client,
        &unit("tags"),
        &["5:20: column \"tags\" of s.people cannot be the unit: text[] is not offered"],
    )
    .await;
    refused(
        &client,
        &unit("flag"),
        &["5:20: column \"flag\" of s.people cannot be the unit: boolean is not offered"],
    )
    .await;
    let two = "  s.people: {unit: id}\n  s.staff: {unit: staff_id}";
    refused(
        &client,
        two,
        &["6:19: a policy protects one unit, but s.people.id and s.staff.staff_id look like two"],
    )
    .await;

    let unit_of = |policy: &Policy, name: &str| match &policy.table("s", name).unwrap().protection {
        Protection::Private(unit) => unit.clone(),
        Protection::Public => panic!("{name} is private"),
    };
    let policy = accepted(
        &client,
        "  s.people: {unit: id, rows_per_unit: 7}\n  s.orders: \
            {unit: person, rows_per_unit: 7}\n  s.visits: {unit: id}",
    )
    .await;
    let people = unit_of(&policy, "people");
    assert_eq!(
        (
            people.is_primary_key,
            people.rows_per_unit,
            people.data_type
        ),
        (true, 1, Type::Int4)
    );
    assert_eq!(
        (
            unit_of(&policy, "orders").is_primary_key,
            unit_of(&policy, "orders").rows_per_unit
        ),
        (false, 7)
    );
    assert_eq!(
        (
            unit_of(&policy, "visits").is_primary_key,
            unit_of(&policy, "visits").rows_per_unit
        ),
        (false, 1000),
        "unique may be NULL"
    );
    let policy = accepted(&client, "  s.parts: {unit: id}\n  s.part1: {unit: id}").await;
    assert!(
        !unit_of(&policy, "parts").is_primary_key && !unit_of(&policy, "part1").is_primary_key,
        "partitioned"
    );
}

#[tokio::test]
async fn searches_are_of_numbers_and_of_private_rows() {
    let server = Server::shared().await;
    let client = shop(&server).await;
    let age = |column: &str, text: &str| {
        format!("  s.people: {{unit: id, columns: {{{column}: {{bounds: {text}}}}}}}")
    };
    refused(
        &client,
        &age("born", "auto"),
        &["5:49: column \"born\" is date; `auto` finds bounds of numbers only"],
    )
    .await;
    refused(
        &client,
        &age("name", "auto"),
        &["5:49: column \"name\" is character varying(5); `auto` finds bounds of numbers only"],
    )
    .await;
    refused(
        &client,
        &age("age", "[1.5, auto]"),
        &["5:49: the lower bound of column \"age\" (integer) must be a whole number"],
    )
    .await;
    refused(
        &client,
        &age("age", "[auto, -2147483648]"),
        &["5:48: the bound of column \"age\" leaves nothing to search"],
    )
    .await;
    let policy = accepted(
        &client,
        "  s.people: \
            {unit: id, rows_per_unit: auto, columns: {height: {bounds: auto}, score: {bounds: [0, \
            auto]}}}\n  s.orders: {unit: person, rows_per_unit: auto, columns: {total: {bounds: \
            [auto, 5]}}}",
    )
    .await;
    // The primary key has one row, so there is nothing to search.
    let names: Vec<String> = policy
        .searches
        .iter()
        .map(|search| pgveil::auto_bounds::search_name(&policy, search))
        .collect();
    assert_eq!(
        names,
        [
            "s.people.score",
            "s.people.height",
            "rows of s.orders",
            "s.orders.total"
        ]
    );
    assert!(
        policy
            .tables
            .iter()
            .flat_map(|table| &table.columns)
            .all(|column| column.bounds.is_none())
    );
}

#[tokio::test]
async fn paths_are_foreign_keys_to_unique_columns() {
    let server = Server::shared().await;
    let client = shop(&server).await;
    let orders =
        |path: &str| format!("  s.people: {{unit: id}}\n  s.orders: {{unit: {{path: [{path}]}}}}");
    refused(
        &client,
        &orders("nobody -> s.people.id"),
        &["6:28: column \"nobody\" does not exist in s.orders"],
    )
    .await;
    refused(
        &client,
        &orders("person -> s.people.nobody"),
        &["6:28: column \"nobody\" does not exist in s.people"],
    )
    .await;
    refused(
        &client,
        &orders("person -> s.staff.staff_id"),
        &["6:28: the path leads to s.staff, which is not a table of this policy"],
    )
    .await;
    refused(
        &client,
        &orders("other -> s.people.id"),
        &["6:28: s.orders.other has no valid foreign key to s.people.id; add one, or write"],
    )
    .await;
    refused(
        &client,
        &orders("big -> s.people.id"),
        &["6:28: column \"big\" is bigint but s.people.id is integer"],
    )
    .await;
    refused(
        &client,
        &orders("other -> s.people.age"),
        &["6:28: s.people.age is not unique by itself"],
    )
    .await;
    let not_valid = "  s.people: {unit: id}\n  s.items: {unit: {path: [person -> s.people.id]}}";
    refused(
        &client,
        not_valid,
        &["6:27: s.items.person has no valid foreign key to s.people.id"],
    )
    .await;
    let public = "  s.people: public\n  s.orders: {unit: {path: [person -> s.people.id]}}";
    refused(
        &client,
        public,
        &["6:28: the path leads through the public table s.people"],
    )
    .await;
    let short = "  s.people: {unit: id}\n  s.orders: \
        {unit: {path: [person -> s.people.id]}}\n  s.items: {unit: {path: [order_id -> \
        s.orders.order_id]}}";
    refused(
        &client,
        short,
        &[
            "7:27: the path of s.items must go on from s.orders exactly as the \
        unit of s.orders does",
        ],
    )
    .await;
    let trusted = "  s.people: {unit: id}\n  s.orders: \
        {unit: {path: [other -> s.people.age], trusted_path: true}}";
    refused(
        &client,
        trusted,
        &["6:28: s.people.age is not unique by itself"],
    )
    .await;
    accepted(&client, &trusted.replace("people.age", "people.id")).await;
    accepted(&client, &not_valid.replace("[person", "[late")).await;

    let long = short.replace("order_id]", "order_id, person -> s.people.id]");
    let policy = accepted(&client, &long).await;
    let Protection::Private(unit) = &policy.table("s", "items").unwrap().protection else {
        panic!("private")
    };
    let step = |column: &str, table: &str, referenced: &str| UnitStep {
        column: column.into(),
        schema: "s".into(),
        table: table.into(),
        referenced: referenced.into(),
    };
    assert_eq!(
        unit.path,
        [
            step("order_id", "orders", "order_id"),
            step("person", "people", "id")
        ]
    );
    assert_eq!((unit.column.as_str(), unit.is_primary_key), ("id", false));
    let shown: Vec<&str> = policy
        .table("s", "orders")
        .unwrap()
        .columns
        .iter()
        .map(|c| c.name.as_str())
        .collect();
    assert_eq!(
        shown,
        ["order_id", "person"],
        "the columns of paths are always visible, others hidden by default"
    );
    let hidden = "  s.people: {unit: id, columns: {id: hidden}}";
    refused(
        &client,
        hidden,
        &["5:34: column \"id\" is the unit of s.people or on a path to it, and cannot be hidden"],
    )
    .await;
}

#[tokio::test]
async fn columns_agree_with_their_types() {
    let server = Server::shared().await;
    let client = shop(&server).await;
    let column = |text: &str| {
        format!(
            "  s.codes: public\n  s.empty: public\n  s.people: {{unit: id, columns: {{{text}}}}}"
        )
    };
    for (text, wanted) in [
        (
            "wage: {bounds: [0, 1]}",
            "7:34: column \"wage\" does not exist in s.people; its columns are id, age, name, born",
        ),
        (
            "age: {bounds: [0, 1.5]}",
            "7:52: the upper bound of column \"age\" (integer) must be a whole number from \
                -2147483648 to 2147483647, not \"1.5\"",
        ),
        (
            "age: {bounds: [.nan, 5]}",
            "7:49: the lower bound of column \"age\" (integer) must be a whole number",
        ),
        (
            "age: {bounds: [0, 1], complete: true}",
            "7:66: column \"age\": complete is said of values or of a domain",
        ),
        (
            "age: {values: [1, 2], unit_total: 9}",
            "7:68: column \"age\": unit_total is said of a column of numbers with bounds",
        ),
        (
            "age: {bounds: [5, 5]}",
            "7:48: bounds of column \"age\": the lower bound must be below the upper bound",
        ),
        (
            "score: {bounds: [10, 9.5]}",
            "7:50: bounds of column \"score\": the lower bound must be below",
        ),
        (
            "score: {bounds: [0, 1000]}",
            "7:54: the upper bound of column \"score\" (numeric(5,2)) must be a number that fits \
                numeric(5,2), not \"1000\"",
        ),
        (
            "height: {bounds: [0, 1e39]}",
            "7:55: the upper bound of column \"height\" (real) must be a number of magnitude \
                3.4028234663852886e38 at most",
        ),
        (
            "born: {bounds: [1900-01-01, 2023-02-30]}",
            "7:62: the upper bound of column \"born\" (date) must be an ISO date",
        ),
        (
            "born: {bounds: [1900, 2000-01-01]}",
            "7:50: the lower bound of column \"born\" (date) must be an ISO date",
        ),
        (
            "name: {bounds: [a, b]}",
            "7:49: column \"name\" is character varying(5); bounds are for numbers, dates and \
                timestamps",
        ),
        (
            "tags: {values: [a]}",
            "7:34: column \"tags\" is text[], for which a list of values is not offered",
        ),
        (
            "loose: {values: [a]}",
            "7:34: column \"loose\" has a collation that is not deterministic",
        ),
        (
            "name: {values: [abcdef]}",
            "7:50: a value of column \"name\" (character varying(5)) must be text of at most 5 \
                characters",
        ),
        (
            "age: {values: [1, 01]}",
            "7:52: value \"01\" of column \"age\" is given twice",
        ),
        (
            "age: {bounds: [0, 1], nullable: false}",
            "7:66: column \"age\" may be NULL",
        ),
        (
            "code: {domain: s.nobody.code}",
            "7:49: domain s.nobody.code is not in a table of this policy; list s.nobody as public",
        ),
        (
            "code: {domain: s.people.code}",
            "7:49: domain s.people.code is in a private table",
        ),
        (
            "code: {domain: s.codes.nobody}",
            "7:49: column \"nobody\" does not exist in s.codes",
        ),
        (
            "code: {domain: s.codes.label}",
            "7:49: column \"code\" is integer but its domain s.codes.label is text",
        ),
        (
            "code: {domain: s.codes.big}",
            "7:49: domain s.codes.big holds \"5000000000\", but column \"code\" needs a whole \
                number",
        ),
        (
            "code: {domain: s.empty.code}",
            "7:49: domain s.empty.code has no values",
        ),
    ] {
        refused(&client, &column(text), &[wanted]).await;
    }
    let limit = format!(
        "{}\nlimits: {{groups: 1}}",
        column("code: {domain: s.codes.code}")
    );
    refused(
        &client,
        &limit,
        &["7:49: domain s.codes.code has more than 1 values (limits.groups)"],
    )
    .await;
    let many = column("age: {bounds: [1, 0]}, wage: visible, code: {values: [x, y]}");
    refused(
        &client,
        &many,
        &[
            "7:48: bounds",
            "7:57: column \"wage\"",
            "7:88: a value",
            "7:91: a value",
        ],
    )
    .await;
}

/// An error of one table, step or column hides no error of the others.
/// What a mechanism reads of a column must be there, and must not change under its reports.
#[tokio::test]
async fn collected_columns_have_what_their_mechanism_needs() {
    let server = Server::shared().await;
    let client = shop(&server).await;
    let coin = "collected: {mechanism: coin, truth: 1/2, yes: 1/2}";
    let krr = "collected: {mechanism: krr, epsilon: 1}";
    let day = "periods: {column: born, by: day, from: 2026-01-01, close_after: 2d}, ";
    for (periods, column, wanted) in [
        (
            "",
            format!("name: {{domain: s.codes.label, {coin}}}"),
            "its list must be written here",
        ),
        (
            "",
            format!("name: {{values: [a], {coin}}}"),
            "which needs a list of two values",
        ),
        (
            "",
            format!("name: {{values: [a], {krr}}}"),
            "which needs a list of 2 to 1000 values",
        ),
        (
            "",
            "age: {visible: true, collected: {mechanism: unary, epsilon: 1}}".to_owned(),
            "which needs a boolean column for each value",
        ),
        (
            "",
            "height: {bounds: [-1e30, 1e30], collected: {mechanism: mean, epsilon: 0.001}}"
                .to_owned(),
            "has bounds too wide for its epsilon",
        ),
        (
            "",
            format!("id: {{values: [1, 2], {krr}}}"),
            "is the unit or on a path to it",
        ),
        (
            day,
            format!("born: {{values: [2026-01-01, 2026-01-02], {krr}}}"),
            "is collected: its values are no moments",
        ),
    ] {
        let tables =
            format!("  s.codes: public\n  s.people: {{unit: id, {periods}columns: {{{column}}}}}");
        let found = outcome(&client, &tables).await.err().unwrap_or_default();
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert!(
            found.len() == 1 && found[0].contains(wanted),
            "{tables}\n{found:#?}"
        );
    }
}

#[tokio::test]
async fn no_error_against_the_database_hides_another() {
    let server = Server::shared().await;
    let client = shop(&server).await;
    let tables = "  s.codes: public
  s.nobody: public
  s.view: public
  s.people:
    unit: r
    rows_per_unit: auto
    columns:
      nothing: visible
      name: {bounds: auto}
      born: {bounds: [1900-01-01, 1899-01-01]}
      flag: {values: [perhaps], complete: true}
      code: {domain: s.nobody.code}
      age: {bounds: [0, 120], nullable: false}
      tags: {values: [a]}
  s.orders:
    unit: {path: [other -> s.people.id]}
    columns:
      total: {bounds: [0, much]}
      big: {domain: s.people.code}
  s.items:
    unit: {path: [order_id -> s.orders.order_id, other -> s.people.age]}
  s.staff: {unit: {path: [staff_id -> s.visits.id]}}
";
    refused(
        &client,
        tables,
        &[
            "6:3: table s.nobody does not exist",
            "7:3: s.view is a view",
            "9:11: column \"r\" of s.people cannot be the unit: real rounds",
            "12:7: column \"nothing\" does not exist in s.people",
            "13:22: column \"name\" is character varying(5); `auto` finds bounds of numbers only",
            "14:22: bounds of column \"born\": the lower bound must be below the upper bound",
            "15:23: a value of column \"flag\" (boolean) must be true or false",
            "17:41: column \"age\" may be NULL",
            "18:7: column \"tags\" is text[], for which a list of values is not offered",
            "20:19: s.orders.other has no valid foreign key to s.people.id",
            "22:27: the upper bound of column \"total\" (numeric) must be",
            "23:21: domain s.people.code is in a private table",
            "25:19: the path of s.items must go on from s.orders exactly as the unit of s.orders \
                does",
            "26:27: the path leads to s.visits, which is not a table of this policy",
        ],
    )
    .await;
}

#[tokio::test]
async fn constants_are_exact_and_columns_in_order() {
    let server = Server::shared().await;
    let client = shop(&server).await;
    let text = "  s.codes: public
  s.people:
    unit: id
    other_columns: visible
    columns:
      born: {bounds: [1999-12-31, 2000-01-02]}
      seen: {bounds: [\"2000-01-01 01:00:00+01\", 2000-01-02]}
      score: {bounds: [-0.50, 1.25e2]}
      flag: {values: [true, false]}
      name: {values: [no, 'yes']}
      code: {domain: s.codes.code, nullable: false}
      age: {domain: s.codes.half}
      height: hidden
";
    let policy = accepted(&client, text).await;
    let people = policy.table("s", "people").unwrap();
    let names: Vec<&str> = people.columns.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "id", "age", "name", "born", "seen", "score", "flag", "code", "r", "ch", "ci", "dom",
            "loose", "tags"
        ]
    );
    let column = |name: &str| people.columns.iter().find(|c| c.name == name).unwrap();
    let bounds = |name: &str| {
        column(name)
            .bounds
            .clone()
            .map(|b| (b.lower, b.upper))
            .unwrap()
    };
    assert_eq!(bounds("born"), (Scalar::Date(-1), Scalar::Date(1)));
    assert_eq!(
        bounds("seen"),
        (Scalar::Timestamp(0), Scalar::Timestamp(86_400_000_000))
    );
    assert_eq!(
        bounds("score"),
        (
            Scalar::Decimal("-0.5".to_owned()),
            Scalar::Decimal("125".to_owned())
        )
    );
    assert_eq!(
        column("flag").domain,
        Some(vec![Scalar::Bool(true), Scalar::Bool(false)])
    );
    assert_eq!(
        column("name").domain,
        Some(vec![
            Scalar::Text("no".to_owned()),
            Scalar::Text("yes".to_owned())
        ])
    );
    assert_eq!(
        column("code").domain,
        Some(vec![Scalar::Int(1), Scalar::Int(3)])
    );
    assert_eq!(
        column("age").domain,
        Some(vec![Scalar::Int(1)]),
        "NULL is no value of a domain"
    );
    assert!(
        column("code").not_null
            && !column("age").not_null
            && !column("loose").deterministic_collation
    );
    assert_eq!(
        (
            people.fingerprint.as_str().len(),
            people.unique_keys.len(),
            policy.version.len()
        ),
        (64, 6, 64)
    );

    let same = accepted(&client, &text.replace("1.25e2", "125.0")).await;
    assert_eq!(same.version, policy.version, "the same meaning");
    for (from, to) in [
        ("1.25e2", "126"),
        ("height: hidden", "height: visible"),
        ("[no, 'yes']", "['yes', no]"),
    ] {
        assert_ne!(
            accepted(&client, &text.replace(from, to)).await.version,
            policy.version,
            "{to}"
        );
    }
    client
        .batch_execute("INSERT INTO s.codes VALUES (9)")
        .await
        .unwrap();
    assert_ne!(
        accepted(&client, text).await.version,
        policy.version,
        "a new value of a domain"
    );
}

#[tokio::test]
async fn a_role_with_select_alone_reads_what_the_policy_needs() {
    let server = Server::shared().await;
    let (name, client) = server.database().await;
    let role = format!("proxy_{name}");
    client
        .batch_execute(&format!(
            "CREATE SCHEMA s; CREATE TABLE s.people (id int PRIMARY KEY, code int, secret text); \
                CREATE TABLE s.codes (code int PRIMARY KEY);
             CREATE TABLE s.closed (id int PRIMARY KEY); INSERT INTO s.codes VALUES (1);
             CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA s TO {role}; GRANT SELECT ON s.codes \
             TO {role}; GRANT SELECT (id, code) ON s.people TO {role};"
        ))
        .await
        .unwrap();
    let reader = server.connect(&name, &role).await;
    let people = |more: &str| {
        format!(
            "  s.codes: public\n  s.people: {{unit: id, {more}columns: {{code: {{domain: \
                s.codes.code}}}}}}"
        )
    };
    let checked = outcome(&reader, &people("")).await.unwrap();
    assert_eq!(
        checked.warnings,
        [],
        "a role with no more rights than needed"
    );
    let shown = accepted(&reader, &people("other_columns: visible, ")).await;
    assert_eq!(
        shown.table("s", "people").map(|t| t.columns.len()),
        Some(2),
        "what cannot be read is not shown"
    );
    refused(
        &reader,
        "  s.people: {unit: id, columns: {secret: visible}}",
        &["5:34: the database role may not SELECT column \"secret\" of s.people"],
    )
    .await;
    refused(
        &reader,
        "  s.closed: {unit: id}",
        &["5:3: the database role may not SELECT s.closed"],
    )
    .await;
}

#[tokio::test]
async fn a_role_that_may_do_more_than_select_is_reported() {
    let server = Server::shared().await;
    let (name, owner) = server.database().await;
    let role = format!("proxy_{name}");
    owner
        .batch_execute(&format!(
            "CREATE SCHEMA s; CREATE TABLE s.people (id int PRIMARY KEY); CREATE ROLE {role} LOGIN;
             GRANT USAGE ON SCHEMA s TO {role}; GRANT SELECT ON s.people TO {role}; CREATE ROLE \
             writer_{name}"
        ))
        .await
        .unwrap();
    let rights = [
        (
            format!("ALTER ROLE {role} BYPASSRLS"),
            format!("ALTER ROLE {role} NOBYPASSRLS"),
            "pass row security (BYPASSRLS)",
        ),
        (
            format!("ALTER ROLE {role} CREATEROLE"),
            format!("ALTER ROLE {role} NOCREATEROLE"),
            "create roles",
        ),
        (
            format!("ALTER ROLE {role} CREATEDB"),
            format!("ALTER ROLE {role} NOCREATEDB"),
            "create databases",
        ),
        (
            format!("ALTER ROLE {role} REPLICATION"),
            format!("ALTER ROLE {role} NOREPLICATION"),
            "replicate the server",
        ),
        (
            format!("ALTER ROLE {role} SUPERUSER"),
            format!("ALTER ROLE {role} NOSUPERUSER"),
            "do everything: it is a superuser",
        ),
        (
            format!("GRANT CREATE ON DATABASE {name} TO {role}"),
            format!("REVOKE CREATE ON DATABASE {name} FROM {role}"),
            "create schemas",
        ),
        (
            format!("GRANT CREATE ON SCHEMA s TO {role}"),
            format!("REVOKE CREATE ON SCHEMA s FROM {role}"),
            "create objects in schema s",
        ),
        (
            format!("GRANT pg_read_server_files TO {role}"),
            format!("REVOKE pg_read_server_files FROM {role}"),
            "do what pg_read_server_files may",
        ),
        (
            format!("ALTER ROLE {role} NOINHERIT; GRANT writer_{name} TO {role}"),
            format!("REVOKE writer_{name} FROM {role}"),
            "become writer_",
        ),
        (
            format!("GRANT INSERT ON s.people TO {role}"),
            format!("REVOKE INSERT ON s.people FROM {role}"),
            "do more than SELECT on s.people",
        ),
        (
            format!(
                "ALTER TABLE s.people OWNER TO {role}; REVOKE ALL ON s.people FROM {role}; GRANT \
                    SELECT ON s.people TO {role}"
            ),
            "ALTER TABLE s.people OWNER TO postgres".to_owned(),
            "do more than SELECT on s.people",
        ),
    ];
    for (grant, revoke, reported) in rights {
        owner.batch_execute(&grant).await.unwrap();
        let reader = server.connect(&name, &role).await;
        let warnings = outcome(&reader, "  s.people: {unit: id}")
            .await
            .unwrap()
            .warnings;
        assert!(
            warnings.iter().any(|warning| warning
                .message
                .starts_with(&format!("the database role may {reported}"))),
            "{grant}: {warnings:#?}"
        );
        owner
            .batch_execute(&format!("{revoke}; GRANT SELECT ON s.people TO {role}"))
            .await
            .unwrap();
        let left = outcome(&reader, "  s.people: {unit: id}")
            .await
            .unwrap()
            .warnings;
        assert_eq!(left, [], "after {revoke}");
    }
}

async fn load_demo(client: &Client) {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("data/nls_young_women");
    let schema = std::fs::read_to_string(folder.join("schema.sql")).unwrap();
    let sql: Vec<&str> = schema.lines().filter(|l| !l.starts_with('\\')).collect();
    client.batch_execute(&sql.join("\n")).await.unwrap();
    for table in ["industries", "occupations", "women", "interviews"] {
        let sink = client
            .copy_in(&format!("COPY nls.{table} FROM STDIN CSV HEADER"))
            .await
            .unwrap();
        let mut sink = std::pin::pin!(sink);
        sink.send(bytes::Bytes::from(
            std::fs::read(folder.join(format!("{table}.csv"))).unwrap(),
        ))
        .await
        .unwrap();
        sink.finish().await.unwrap();
    }
}

#[tokio::test]
async fn the_demo_policy_holds_for_the_demo_data() {
    let server = Server::shared().await;
    let (_, client) = server.database().await;
    load_demo(&client).await;
    let text = std::fs::read_to_string(
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("policies/demo.yaml"),
    )
    .unwrap();
    let file = File::parse("policies/demo.yaml", &text, |name| {
        Some(
            if name == "DATABASE_URL" {
                "postgres://x"
            } else {
                "sqlite:///x"
            }
            .to_owned(),
        )
    })
    .unwrap();
    let checked = check(&file, &load(&client).await.unwrap(), &client)
        .await
        .unwrap();
    assert_eq!(checked.warnings.len(), 2, "{:#?}", checked.warnings);
    assert!(
        checked.warnings[0]
            .message
            .starts_with("the database role may do more than SELECT")
    );
    let policy = checked.policy;
    let interviews = policy.table("nls", "interviews").unwrap();
    let Protection::Private(unit) = &interviews.protection else {
        panic!("private")
    };
    assert_eq!(
        (unit.rows_per_unit, unit.column.as_str(), unit.path.len()),
        (15, "woman_id", 1)
    );
    let Protection::Private(unit) = &policy.table("nls", "women").unwrap().protection else {
        panic!("private")
    };
    assert!(unit.is_primary_key);
    let codes = interviews
        .columns
        .iter()
        .find(|c| c.name == "industry_code")
        .and_then(|c| c.domain.as_ref())
        .map(Vec::len);
    assert_eq!(codes, Some(12));
    // The bounds and values were chosen from the published description; this shows that the
    // description is true.
    for (column, sql) in [
        (
            "year",
            "SELECT count(*) FROM (SELECT DISTINCT year FROM nls.interviews) y",
        ),
        ("race", "SELECT count(DISTINCT race) FROM nls.women"),
    ] {
        let found: i64 = client.query_one(sql, &[]).await.unwrap().get(0);
        let listed = policy
            .tables
            .iter()
            .flat_map(|t| &t.columns)
            .find(|c| c.name == column)
            .and_then(|c| c.domain.as_ref())
            .map(Vec::len);
        assert_eq!(listed, usize::try_from(found).ok(), "{column}");
    }
}

//! The catalog snapshot of a real PostgreSQL in the adversary's cases.

use pgveil::catalog::{
    Catalog, Collation, Equality, RelationKind, Table, TableFingerprint, Type, UniqueKey,
    fingerprints, load,
};
use tokio_postgres::Client;

use crate::harness::Server;

fn table<'a>(catalog: &'a Catalog, name: &str) -> &'a Table {
    catalog
        .table("s", name)
        .unwrap_or_else(|| panic!("{name} is missing"))
}

fn keys(table: &Table) -> Vec<(Vec<&str>, bool)> {
    table
        .unique_keys
        .iter()
        .map(|k| (k.names().collect(), k.primary))
        .collect()
}

#[tokio::test]
async fn only_enforced_keys_are_keys() {
    let server = Server::shared().await;
    let (_, client) = server.database().await;
    client
        .batch_execute(
            "CREATE SCHEMA s;
             CREATE TABLE s.good (a int PRIMARY KEY, b int NOT NULL, c text, d text, UNIQUE (c, b) \
             INCLUDE (d));
             CREATE TABLE s.deferred (a int UNIQUE DEFERRABLE, b int PRIMARY KEY DEFERRABLE \
             INITIALLY DEFERRED);
             CREATE TABLE s.partial (a int); CREATE UNIQUE INDEX ON s.partial (a) WHERE a > 0;
             CREATE TABLE s.expression (a int, b text); CREATE UNIQUE INDEX ON s.expression \
             (lower(b)); CREATE UNIQUE INDEX ON s.expression (a, (a + 1));
             CREATE TABLE s.ops (b text, c varchar, d inet); CREATE UNIQUE INDEX ON s.ops (b \
             text_pattern_ops); CREATE UNIQUE INDEX ON s.ops (c varchar_ops);
             CREATE UNIQUE INDEX ON s.ops (d);
             CREATE EXTENSION citext SCHEMA s; CREATE TYPE s.mood AS ENUM ('sad', 'glad');
             CREATE TABLE s.types (a s.citext UNIQUE, b s.mood UNIQUE, c int[] UNIQUE, d cidr \
             UNIQUE, e int8range UNIQUE);
             CREATE TABLE s.stricter (a s.citext); CREATE UNIQUE INDEX ON s.stricter (a text_ops);
             CREATE TABLE s.exclusion (a int, EXCLUDE USING btree (a WITH =));
             CREATE COLLATION s.loose (provider = icu, locale = 'und-u-ks-level2', deterministic = \
             false);
             CREATE COLLATION s.looser (provider = icu, locale = 'und-u-ks-level1', deterministic \
             = \
             false);
             CREATE TABLE s.collated (a text COLLATE s.loose, b text COLLATE s.loose UNIQUE, c \
             text); CREATE UNIQUE INDEX ON s.collated (a COLLATE \"C\");
             CREATE UNIQUE INDEX ON s.collated (c COLLATE s.loose);
             CREATE TABLE s.broken (a int); INSERT INTO s.broken VALUES (1), (1);
             CREATE TABLE s.parent (a int PRIMARY KEY); CREATE TABLE s.child () INHERITS (s.parent);
             CREATE TABLE s.parts (a int NOT NULL, b int NOT NULL, PRIMARY KEY (a, b)) PARTITION \
             BY \
             LIST (a);
             CREATE TABLE s.part1 PARTITION OF s.parts FOR VALUES IN (1);",
        )
        .await
        .unwrap();
    assert!(
        client
            .batch_execute("CREATE UNIQUE INDEX CONCURRENTLY ON s.broken (a)")
            .await
            .is_err(),
        "leaves an invalid index"
    );
    let catalog = load(&client).await.unwrap();
    assert_eq!(
        (
            catalog.server_version_num / 10_000,
            catalog.server_encoding.as_str()
        ),
        (15, "UTF8")
    );
    assert_eq!(
        keys(table(&catalog, "good")),
        [(vec!["a"], true), (vec!["c", "b"], false)]
    );
    for none in [
        "deferred",
        "partial",
        "expression",
        "stricter",
        "exclusion",
        "broken",
        "child",
    ] {
        assert_eq!(
            table(&catalog, none).unique_keys,
            Vec::<UniqueKey>::new(),
            "{none}"
        );
    }
    assert_eq!(
        keys(table(&catalog, "ops")),
        [(vec!["b"], false), (vec!["c"], false), (vec!["d"], false)],
        "the same equality by another name"
    );
    assert_eq!(
        keys(table(&catalog, "types")),
        [
            (vec!["a"], false),
            (vec!["b"], false),
            (vec!["c"], false),
            (vec!["d"], false),
            (vec!["e"], false)
        ]
    );
    let under = |name: &str| {
        Equality::Under(Collation {
            schema: "s".to_owned(),
            name: name.to_owned(),
        })
    };
    let by = [
        Equality::Own,
        Equality::Exact,
        under("loose"),
        under("looser"),
    ];
    let is_unique = |column: &str| {
        by.each_ref()
            .map(|equality| table(&catalog, "collated").is_unique(&[column], equality))
    };
    assert_eq!(is_unique("a"), [false, true, false, false]);
    assert_eq!(is_unique("b"), [true, true, true, false]);
    assert_eq!(is_unique("c"), [true, true, true, false]);
    let collated = &table(&catalog, "collated").columns[0];
    assert!(
        !collated.deterministic_collation
            && collated
                .collation
                .as_ref()
                .is_some_and(|c| (c.schema.as_str(), c.name.as_str()) == ("s", "loose"))
    );
    assert_eq!(
        table(&catalog, "good").columns[2].collation,
        None,
        "the database's own"
    );
    assert!(table(&catalog, "parent").inherits && table(&catalog, "child").inherits);
    let (parts, part) = (table(&catalog, "parts"), table(&catalog, "part1"));
    assert!(!parts.inherits && !part.inherits && part.parents == [parts.oid]);
    assert_eq!(
        (parts.kind, keys(parts)),
        (RelationKind::Partitioned, vec![(vec!["a", "b"], true)])
    );
}

#[tokio::test]
async fn relations_and_columns_are_described() {
    let server = Server::shared().await;
    let (_, client) = server.database().await;
    client
        .batch_execute(
            "CREATE SCHEMA s; CREATE EXTENSION citext SCHEMA s; CREATE EXTENSION file_fdw; CREATE \
                SERVER files FOREIGN DATA WRAPPER file_fdw;
             CREATE DOMAIN s.positive AS int CHECK (VALUE > 0);
             CREATE TABLE s.types (a bool, b numeric(7,2), c numeric, d varchar(20), e char(3), f \
             uuid, g timestamptz, h interval, i s.citext, j s.positive,
                 k text[], l int GENERATED ALWAYS AS (1) STORED, m int, n real NOT NULL);
             ALTER TABLE s.types DROP COLUMN m;
             CREATE VIEW s.view AS SELECT 1 AS x; CREATE MATERIALIZED VIEW s.matview AS SELECT 1 \
             AS \
             x;
             CREATE FOREIGN TABLE s.far (a int NOT NULL) SERVER files OPTIONS (filename \
             '/dev/null');
             CREATE TABLE s.mixed (a int NOT NULL) PARTITION BY LIST (a); ALTER TABLE s.mixed \
             ATTACH PARTITION s.far FOR VALUES IN (1);
             CREATE TABLE s.secured (a int); ALTER TABLE s.secured ENABLE ROW LEVEL SECURITY;
             CREATE TABLE s.ruled (a int); CREATE RULE nothing AS ON DELETE TO s.ruled DO INSTEAD \
             NOTHING;
             CREATE TABLE s.target (a int PRIMARY KEY);
             CREATE TABLE s.source (a int REFERENCES s.target DEFERRABLE, b int); ALTER TABLE \
             s.source ADD FOREIGN KEY (b) REFERENCES s.target NOT VALID;
             CREATE TEMPORARY TABLE hidden (a int);",
        )
        .await
        .unwrap();
    let catalog = load(&client).await.unwrap();
    let types = table(&catalog, "types");
    let found: Vec<String> = types
        .columns
        .iter()
        .map(|c| format!("{} {}", c.name, c.data_type))
        .collect();
    let wanted = "a boolean,b numeric(7,2),c numeric,d character varying(20),e character(3),f \
        uuid,g timestamp with time zone,h interval,\
                  i s.citext,j s.positive,k text[],l integer,n real";
    assert_eq!(found.join(","), wanted);
    let column = |name: &str| types.column(name).unwrap();
    assert!(
        matches!(column("i").data_type, Type::Other { .. })
            && !column("i").deterministic_collation
            && !column("i").is_domain
    );
    assert!(matches!(column("j").data_type, Type::Other { .. }) && column("j").is_domain);
    assert!(!column("l").is_virtual && column("n").not_null && column("n").number == 14);
    assert_eq!(table(&catalog, "view").kind, RelationKind::View);
    assert_eq!(
        table(&catalog, "matview").kind,
        RelationKind::MaterializedView
    );
    assert_eq!(table(&catalog, "far").kind, RelationKind::Foreign);
    assert!(
        !table(&catalog, "mixed").columns[0].not_null,
        "a foreign partition enforces nothing"
    );
    assert!(table(&catalog, "secured").row_security && table(&catalog, "ruled").has_rules);
    assert!(!table(&catalog, "types").row_security && !table(&catalog, "types").has_rules);
    let keys: Vec<&[String]> = table(&catalog, "source")
        .foreign_keys
        .iter()
        .map(|k| k.columns.as_slice())
        .collect();
    assert_eq!(keys, [["a"]], "NOT VALID is no key");
    assert!(
        catalog.tables.iter().all(|t| t.schema == "s"),
        "temporary and system tables are left out"
    );
}

#[tokio::test]
async fn checks_say_what_a_column_may_be() {
    let server = Server::shared().await;
    let (_, client) = server.database().await;
    client
        .batch_execute(
            "CREATE SCHEMA s;
             CREATE TABLE s.checked (age int CHECK (age >= 0 AND age <= 120), price numeric(9, 2) \
             CHECK (price > 0.5), rate float8 CHECK (rate BETWEEN -1 AND 1),
                 born date CHECK ('1900-01-01' <= born), word text CHECK (length(word) < \
                 9), \"Odd\" smallint CHECK (\"Odd\" < 7),
                 CHECK (age > 17 OR price < 3), CHECK (age < price), CHECK (price < 100),
                 CHECK (age::text > '5'));
             ALTER TABLE s.checked ADD CHECK (age < 50) NOT VALID;",
        )
        .await
        .unwrap();
    let catalog = load(&client).await.unwrap();
    let of = |name: &str| {
        let allowed = &table(&catalog, "checked").column(name).unwrap().allowed;
        format!("{} to {}", allowed.lower.join(" "), allowed.upper.join(" "))
    };
    assert_eq!(
        ["age", "price", "rate", "born", "word", "Odd"].map(of),
        [
            "0 to 120",
            "0.5 to 100",
            "-1 to 1",
            "1900-01-01 to ",
            " to ",
            " to 6"
        ]
    );
}

#[tokio::test]
async fn rights_are_those_of_the_connected_role() {
    let server = Server::shared().await;
    let (name, client) = server.database().await;
    let role = format!("reader_{name}");
    client
        .batch_execute(&format!(
            "CREATE SCHEMA s; CREATE SCHEMA closed; CREATE TABLE s.a (x int, y int); CREATE TABLE \
                s.b (x int, y int); CREATE TABLE s.c (x int);
             CREATE TABLE closed.d (x int); CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA s TO \
             {role};
             GRANT SELECT ON s.a, closed.d TO {role}; GRANT SELECT (x), UPDATE (y) ON s.b TO \
             {role};"
        ))
        .await
        .unwrap();
    assert!(
        load(&client)
            .await
            .unwrap()
            .tables
            .iter()
            .all(|t| t.selectable && t.writable),
        "the owner may do everything"
    );
    let reader = server.connect(&name, &role).await;
    let catalog = load(&reader).await.unwrap();
    let rights = |schema: &str, name: &str| {
        catalog
            .table(schema, name)
            .map(|t| (t.selectable, t.writable))
            .unwrap()
    };
    assert_eq!(rights("s", "a"), (true, false));
    assert_eq!(rights("s", "b"), (true, true));
    assert_eq!(rights("s", "c"), (false, false));
    assert_eq!(
        rights("closed", "d"),
        (false, false),
        "no USAGE on the schema"
    );
    let selectable: Vec<bool> = table(&catalog, "b")
        .columns
        .iter()
        .map(|c| c.selectable)
        .collect();
    assert_eq!(selectable, [true, false]);
}

async fn fingerprint(client: &Client, catalog: &Catalog, name: &str) -> TableFingerprint {
    let oid = table(catalog, name).oid;
    fingerprints(client, &[oid])
        .await
        .unwrap()
        .remove(&oid)
        .unwrap_or_default()
}

#[tokio::test]
async fn dropped_constraint_refuses() {
    let server = Server::shared().await;
    let (_, client) = server.database().await;
    client
        .batch_execute(
            "CREATE SCHEMA s; CREATE TABLE s.target (a int PRIMARY KEY);
             CREATE TYPE s.mood AS ENUM ('sad', 'glad');
             CREATE TABLE s.t (a int PRIMARY KEY, b varchar(10) UNIQUE, c int NOT NULL, d text,
                 m s.mood);
             CREATE TABLE s.p (a int NOT NULL) PARTITION BY LIST (a); CREATE TABLE s.p1 PARTITION \
             OF s.p FOR VALUES IN (1);
             CREATE TABLE s.lone (a int);",
        )
        .await
        .unwrap();
    let catalog = load(&client).await.unwrap();
    let first = fingerprint(&client, &catalog, "t").await;
    assert_eq!(first, table(&catalog, "t").fingerprint);
    assert_eq!(first.as_str().len(), 64);
    let unchanged = [
        "INSERT INTO s.t SELECT i, i::text, i FROM generate_series(1, 1000) i",
        "ANALYZE s.t",
        "VACUUM FULL s.t",
        "CREATE INDEX plain ON s.t (c)",
        "REINDEX TABLE CONCURRENTLY s.t",
        "ALTER TABLE s.t ADD CHECK (c > 0) NOT VALID",
        "GRANT SELECT ON s.t TO PUBLIC",
    ];
    for sql in unchanged {
        client.batch_execute(sql).await.unwrap();
        assert_eq!(fingerprint(&client, &catalog, "t").await, first, "{sql}");
    }
    let mut last = first;
    let changed = [
        "ALTER TYPE s.mood ADD VALUE 'merry'",
        "ALTER TYPE s.mood ADD VALUE 'low' BEFORE 'sad'",
        "ALTER TYPE s.mood RENAME VALUE 'low' TO 'down'",
        "ALTER TABLE s.t DROP CONSTRAINT t_b_key",
        "ALTER TABLE s.t ALTER b TYPE varchar(20)",
        "ALTER TABLE s.t ALTER d TYPE text COLLATE \"C\"",
        "ALTER TABLE s.t ALTER c DROP NOT NULL",
        "ALTER TABLE s.t ADD FOREIGN KEY (c) REFERENCES s.target NOT VALID",
        "ALTER TABLE s.t ADD COLUMN e int",
        "ALTER TABLE s.t RENAME COLUMN e TO f",
        "ALTER TABLE s.t DROP COLUMN f",
        "CREATE TABLE s.child () INHERITS (s.t)",
        "ALTER TABLE s.t ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY mine ON s.t USING (a = 1)",
        "CREATE RULE nothing AS ON DELETE TO s.t DO INSTEAD NOTHING",
        "ALTER TABLE s.t DROP CONSTRAINT t_pkey",
        "ALTER TABLE s.t RENAME TO renamed",
    ];
    for sql in changed {
        client.batch_execute(sql).await.unwrap();
        let now = fingerprint(&client, &catalog, "t").await;
        assert_ne!(now, last, "{sql}");
        last = now;
    }
    let (parts, lone) = (
        fingerprint(&client, &catalog, "p").await,
        fingerprint(&client, &catalog, "lone").await,
    );
    client
        .batch_execute(
            "CREATE TABLE s.p2 PARTITION OF s.p FOR VALUES IN (2); ALTER TABLE s.lone \
        ALTER a SET NOT NULL",
        )
        .await
        .unwrap();
    assert_eq!(
        fingerprint(&client, &catalog, "p").await,
        parts,
        "one more partition of the same kind"
    );
    let altered = fingerprint(&client, &catalog, "lone").await;
    assert_ne!(altered, lone);
    client
        .batch_execute("ALTER TABLE s.p ATTACH PARTITION s.lone FOR VALUES IN (3)")
        .await
        .unwrap();
    assert_ne!(
        fingerprint(&client, &catalog, "lone").await,
        altered,
        "it became a partition"
    );
    client.batch_execute("DROP TABLE s.p").await.unwrap();
    assert_eq!(
        fingerprint(&client, &catalog, "p").await,
        TableFingerprint::default(),
        "a dropped table has no row"
    );
}

#[tokio::test]
async fn hundreds_of_tables_load_in_a_moment() {
    let server = Server::shared().await;
    let (_, client) = server.database().await;
    let tables: String = (0..400)
        .map(|i| {
            format!(
                "CREATE TABLE s.t{i} (id int PRIMARY KEY, a text UNIQUE, b int, c date, d numeric);"
            )
        })
        .collect();
    client
        .batch_execute(&format!("CREATE SCHEMA s; {tables}"))
        .await
        .unwrap();
    let started = std::time::Instant::now();
    let catalog = load(&client).await.unwrap();
    let took = started.elapsed();
    eprintln!("400 tables: {took:?}");
    assert_eq!(catalog.tables.len(), 400);
    // So that it comes to an end, however busy the machine is.
    assert!(took < std::time::Duration::from_secs(60), "{took:?}");
}

//! The tables, their policy by the real loader, and hostile rows for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use num_bigint::BigInt;
use pgveil::catalog::load;
use pgveil::engine::plan;
use pgveil::mechanism::{AccountState, Accounting, Cap, Fixed, Loss};
use pgveil::parse::{Statement, parse};
use pgveil::policy::{ClipChoice, File, KeyChoice, Policy, SessionSettings, check};
use pgveil::resolve::Constants;
use pgveil::rewrite::{Plan, Terms};
use tokio_postgres::{Client, SimpleQueryMessage};

use super::random::Random;
use crate::harness::Server;

const COLUMNS: &str = "s2 smallint, i4 int, j4 int, i8 bigint, j8 bigint, n2 numeric(10,2), nn \
    numeric, nb numeric, f8 float8, g8 float8, f4 float4, \
     b bool, tx text, vc varchar(10), kd text, d date, dd date, ts timestamp, tt timestamp, ni int \
     NOT NULL DEFAULT 0, tz timestamptz, iv interval, rt text, uu uuid";
const RULES: &str = "i4: {bounds: [0, 50]}, i8: {bounds: [-1000000, 5000000000]}, n2: \
    {bounds: [0, 99.99], unit_total: 150}, nb: {bounds: [-5.5, 7.25]}, \
     f8: {bounds: [-1.5, 100.25]}, f4: {bounds: [0, 0.1]}, kd: {values: [a, b, \"it's\"]}, d: \
     {bounds: [2000-01-01, 2001-12-31]}, \
     ts: {bounds: [\"2000-01-01\", \"2000-03-31\"]}, ni: {bounds: [-3, 3]}";

const POLICY: &str = "\
version: 1
privacy: {unit: person, budget: {epsilon: 8, delta: 1e-6}}
limits: {groups_per_unit: 4, rows_per_unit: 8}
roles: [{name: ann, password: \"SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=\", budget: {epsilon: 3, delta: 1e-7}}]
tables:
  w.people: {unit: id, other_columns: visible, columns: {id: {bounds: [1, 5]}, RULES}}
  w.visits: {unit: {path: [person -> w.people.id]}, rows_per_unit: 5, other_columns: visible, \
  columns: {person: {bounds: [1, 5]}, RULES}}
  w.items: {unit: {path: [visit -> w.visits.id, person -> w.people.id]}, rows_per_unit: 6, \
  other_columns: visible, columns: {RULES}}
  w.rounds: {unit: {path: [person -> w.people.id]}, rows_per_unit: 5, other_columns: visible, \
  columns: {RULES}}
  w.extras: {unit: id, rows_per_unit: 3, other_columns: visible, columns: {id: {bounds: [1, 5]}, \
  dn: {bounds: [0, 10]}}}
  w.towns: public
  w.notes: public
";

/// Units that random rows belong to; the heavy one has a thousand rows in as many groups.
pub const UNITS: usize = 9;
pub const HEAVY: usize = 7;

const TABLES: [&str; 4] = ["people", "visits", "items", "rounds"];

/// Schemas next to `w` with some of its rows: of nobody; all but one unit's, three times; all, in
/// another order.
const ASIDE: [&str; 5] = ["w_nobody", "w_first", "w_second", "w_third", "w_shuffled"];

/// Which unit is missing in each of three schemas; the heavy one always in the first.
pub type Missing = [usize; 3];

/// One statement's groups over all rows, over nobody's, and without each of three units.
pub struct Compared {
    pub whole: Groups,
    pub nobody: Groups,
    pub rest: [Groups; 3],
}

/// Integers of one statement's groups, by key.
pub type Groups = BTreeMap<Vec<Option<String>>, Vec<BigInt>>;

pub struct World {
    pub client: Client,
    pub policy: Policy,
    pub database: String,
    /// Stopped when the last test that shares it ends.
    _server: Arc<Server>,
}

impl World {
    pub async fn new() -> Self {
        Self::of(COLUMNS).await
    }

    /// A world whose texts have other collations, one of them nondeterministic.
    pub async fn collated() -> Self {
        let loose = "w.loose";
        let columns = [
            ("tx text", "\"en-x-icu\""),
            ("vc varchar(10)", "\"C\""),
            ("kd text", "\"en-x-icu\""),
            ("rt text", loose),
        ];
        Self::of(
            &columns
                .iter()
                .fold(COLUMNS.to_owned(), |all, (column, own)| {
                    all.replace(column, &format!("{column} COLLATE {own}"))
                }),
        )
        .await
    }

    /// A world whose policy declares more totals.
    pub async fn with_totals() -> Self {
        let rules = RULES
            .replace(
                "ni: {bounds: [-3, 3]}",
                "ni: {bounds: [-3, 3], unit_total: 4}",
            )
            .replace("unit_total: 150", "unit_total: 100")
            .replace(
                "i8: {bounds: [-1000000, 5000000000]}",
                "i8: {bounds: [-1000000, 5000000000], unit_total: 20000000000}",
            );
        Self::with_room(&schema(COLUMNS), &POLICY.replace("RULES", &rules)).await
    }

    /// A world whose summaries of people have numbers of rows as keys, and one that has a column of
    /// as many values in their place.
    pub async fn with_counted_rows() -> Self {
        let summaries = "summaries:
  visits: {of: w.people, keys: {b: values, rows(w.visits): {max: 6}}, marginals: all 2, \
  epsilon: 0.5}
  items: {of: w.people, keys: {rows(w.items): {bins: [0, 1, 3, 10]}, ni: values, rows(w.visits): \
  {max: 2}}, marginals: all 2, epsilon: 0.5}
  rounds: {of: w.people, keys: [rows(w.rounds), ni], measures: [i4, f8], marginals: all 1, \
  epsilon: 0.5}
  alike: {of: w.people, keys: [b, ni], marginals: all 2, epsilon: 0.5}
";
        let policy = POLICY.replace("RULES", RULES) + summaries;
        Self::with_room(&schema(COLUMNS), &policy).await
    }

    /// A world of columns whose values were randomised before they were stored.
    pub async fn with_reports() -> Self {
        let rules = RULES
            .replace(
                "kd: {values: [a, b, \"it's\"]}",
                "kd: {values: [a, b, \"it's\"], collected: {mechanism: krr, epsilon: 1}}, b: \
                {visible: true, collected: {mechanism: unary, epsilon: 2}}",
            )
            .replace(
                "ni: {bounds: [-3, 3]}",
                "ni: {bounds: [-3, 3], collected: {mechanism: mean, epsilon: 1}}",
            );
        Self::with_room(&schema(COLUMNS), &POLICY.replace("RULES", &rules)).await
    }

    /// A world with a column of filters, whose bits the database draws, of several lengths in
    /// `items`.
    pub async fn with_filters() -> Self {
        let columns = format!(
            "{COLUMNS}, fi bit(6) DEFAULT CASE WHEN random() < 0.9 THEN floor(64 * \
                random())::int::bit(6) END, co int DEFAULT floor(6 * random())::int - 1, fv bit \
                varying(8) DEFAULT substring('10110100' FOR floor(9 * random())::int)::bit varying"
        );
        let rappor = "values: [a, b, \"it's\"], collected: {mechanism: rappor, bits: 6, hashes: 2, \
            cohorts: 4, f: 1/2, p: 1/4, q: 3/4, cohort: co}";
        let rules = format!("{RULES}, co: visible, fi: {{{rappor}}}, fv: {{{rappor}}}");
        Self::with_room(&schema(&columns), &POLICY.replace("RULES", &rules)).await
    }

    async fn of(columns: &str) -> Self {
        Self::with_room(&schema(columns), &POLICY.replace("RULES", RULES)).await
    }

    /// Other tables of the same names, with room to lay rows aside.
    pub async fn with_room(schema: &str, policy: &str) -> Self {
        let world = Self::with(schema, policy).await;
        for schema in ASIDE {
            let likenesses = TABLES
                .map(|table| {
                    format!("CREATE TABLE {schema}.{table} (LIKE w.{table} INCLUDING ALL);")
                })
                .concat();
            world
                .client
                .batch_execute(&format!("CREATE SCHEMA {schema}; {likenesses}"))
                .await
                .unwrap();
        }
        world
    }

    /// Other tables, under their own policy.
    pub async fn with(schema: &str, policy: &str) -> Self {
        let server = Server::shared().await;
        let (database, client) = server.database().await;
        client.batch_execute(schema).await.unwrap();
        let file = File::parse("w.yaml", policy, |_| None).unwrap();
        let policy = check(&file, &load(&client).await.unwrap(), &client)
            .await
            .unwrap()
            .policy;
        let world = Self {
            client,
            policy,
            database,
            _server: server,
        };
        world.pin().await;
        world
    }

    /// The settings that `execute` pins.
    pub async fn pin(&self) {
        self.client.batch_execute(PINNED).await.unwrap();
    }

    /// Plans as an engine would, for accounts in one of the states that choose the mechanism.
    pub fn plan(&self, sql: &str, random: &mut Random) -> Result<Plan, String> {
        let accounting = if random.once_in(5) {
            Accounting::Pure
        } else {
            Accounting::Gdp
        };
        let most = |random: &mut Random| random.once_in(4).then(|| [1, 2, 3, 7][random.below(4)]);
        let (groups_per_unit, rows_per_unit) = (most(random), most(random));
        let keys = if random.once_in(8) {
            KeyChoice::Threshold
        } else {
            KeyChoice::Auto
        };
        // There is no look at rows where the session limits them.
        let (clip, rows_per_unit) = if random.once_in(2) {
            (ClipChoice::Auto, None)
        } else {
            (ClipChoice::Fixed, rows_per_unit)
        };
        let mut session_settings = SessionSettings {
            groups_per_unit,
            rows_per_unit,
            keys,
            clip,
            ..SessionSettings::with_fixed_clips()
        };
        if random.once_in(6) {
            session_settings
                .set("pgveil.target_error", "3000, 50000, 7000%, 1000000%")
                .map_err(|r| format!("{r:?}"))?;
        }
        self.plan_with(
            sql,
            accounting,
            [1.0, 0.1, 0.01, 5.0][random.below(4)],
            session_settings,
        )
    }

    pub fn plan_under(
        &self,
        sql: &str,
        accounting: Accounting,
        epsilon: f64,
    ) -> Result<Plan, String> {
        self.plan_with(
            sql,
            accounting,
            epsilon,
            SessionSettings::with_fixed_clips(),
        )
    }

    /// In a session of another zone.
    pub fn plan_elsewhere(&self, sql: &str) -> Result<Plan, String> {
        self.plan_of_session(
            sql,
            Accounting::Gdp,
            1.0,
            SessionSettings::with_fixed_clips(),
            false,
        )
    }

    pub fn plan_with(
        &self,
        sql: &str,
        accounting: Accounting,
        epsilon: f64,
        session_settings: SessionSettings,
    ) -> Result<Plan, String> {
        self.plan_of_session(sql, accounting, epsilon, session_settings, true)
    }

    /// The terms that plans are made with.
    pub fn terms(accounting: Accounting, epsilon: f64, session_settings: SessionSettings) -> Terms {
        let fixed = Fixed::round_down;
        let cap = Cap::new(fixed(8.0), fixed(1e-6), fixed(0.005), accounting).unwrap();
        Terms {
            epsilon,
            delta: 1e-7,
            accounts: vec![AccountState {
                cap,
                spent: Loss::ZERO,
            }],
            session_settings,
            ranges: Vec::new(),
        }
    }

    fn plan_of_session(
        &self,
        sql: &str,
        accounting: Accounting,
        epsilon: f64,
        session_settings: SessionSettings,
        is_utc: bool,
    ) -> Result<Plan, String> {
        let statements = parse(sql).map_err(|r| format!("{r:?}"))?;
        let [Statement::Query(query)] = statements.as_slice() else {
            return Err("not a query".to_owned());
        };
        let terms = Self::terms(accounting, epsilon, session_settings);
        let constants = Constants {
            now: 847_000_000_000_000,
            is_utc,
            signs_each: true,
            prints_plainly: true,
            session: Default::default(),
            role: "ann".to_owned(),
        };
        plan(query, &self.policy, &["w".to_owned()], &constants, &terms)
            .map_err(|e| format!("{e:?}"))
    }

    /// Runs a release's statement. An error is a leak: it depends on rows.
    pub async fn run(&self, sql: &str, keys: usize) -> Result<Groups, String> {
        let mut found = self.run_each(&[sql.to_owned()], keys).await?;
        found.pop().ok_or_else(|| "no answer".to_owned())
    }

    /// Statements at once, each of rows alone.
    async fn run_each(&self, statements: &[String], keys: usize) -> Result<Vec<Groups>, String> {
        let sql = statements.join(";\n");
        let messages = self
            .client
            .simple_query(&sql)
            .await
            .map_err(|e| format!("the emitted statement failed: {e:?}\n{sql}"))?;
        let (mut all, mut groups) = (Vec::new(), Groups::new());
        for message in messages {
            let row = match message {
                SimpleQueryMessage::Row(row) => row,
                SimpleQueryMessage::CommandComplete(_) => {
                    all.push(std::mem::take(&mut groups));
                    continue;
                }
                _ => continue,
            };
            let key = (0..keys).map(|i| row.get(i).map(str::to_owned)).collect();
            let integer = |i: usize| {
                row.get(i)
                    .unwrap_or("none")
                    .parse::<BigInt>()
                    .map_err(|_| format!("{:?} is no integer\n{sql}", row.get(i)))
            };
            let values = (keys..row.len()).map(integer).collect::<Result<_, _>>()?;
            if groups.insert(key, values).is_some() {
                return Err(format!("a key twice\n{sql}"));
            }
        }
        Ok(all)
    }

    /// Lays the rows aside for `compare` and `run_shuffled`; once for each database.
    pub async fn lay_aside(&self, random: &mut Random) -> Missing {
        let missing = [HEAVY, 1 + random.below(UNITS + 1), 1 + random.below(UNITS)];
        let mut sql = String::from(
            "BEGIN; SELECT setseed(0.42); SET LOCAL session_replication_role = replica;",
        );
        let gone = [
            "{} IS NOT NULL".to_owned(),
            format!("{{}} = {}", missing[0]),
            format!("{{}} = {}", missing[1]),
            format!("{{}} = {}", missing[2]),
        ];
        let gone = gone.into_iter().chain(["false".to_owned()]);
        for (schema, gone) in ASIDE.into_iter().zip(gone) {
            let of = |column: &str| gone.replace("{}", column);
            sql += &format!(
                "TRUNCATE {schema}.people, {schema}.visits, {schema}.items, {schema}.rounds;
                 INSERT INTO {schema}.rounds SELECT * FROM w.rounds WHERE NOT ({}) ORDER BY \
                 random();
                 INSERT INTO {schema}.people SELECT * FROM w.people WHERE NOT ({}) ORDER BY \
                 random();
                 INSERT INTO {schema}.visits SELECT * FROM w.visits WHERE ({}) IS NOT TRUE ORDER \
                 BY \
                 random();
                 INSERT INTO {schema}.items SELECT i.* FROM w.items i WHERE NOT EXISTS (SELECT 1 \
                 FROM w.visits v WHERE v.id = i.visit AND {}) ORDER BY random();",
                of("person"),
                of("id"),
                of("person"),
                of("v.person")
            );
        }
        self.client.batch_execute(&(sql + "COMMIT")).await.unwrap();
        missing
    }

    /// A statement over all rows and over those laid aside, in one round trip.
    pub async fn compare(&self, sql: &str, keys: usize) -> Result<Compared, String> {
        let statements: Vec<String> = std::iter::once(sql.to_owned())
            .chain(ASIDE[..4].iter().map(|schema| over(schema, sql)))
            .collect();
        let found: [Groups; 5] = self
            .run_each(&statements, keys)
            .await?
            .try_into()
            .map_err(|_| "not an answer to each".to_owned())?;
        let [whole, nobody, first, second, third] = found;
        Ok(Compared {
            whole,
            nobody,
            rest: [first, second, third],
        })
    }

    /// A statement over the same rows, stored in another order.
    pub async fn run_shuffled(&self, sql: &str, keys: usize) -> Result<Groups, String> {
        self.run(&over(ASIDE[4], sql), keys).await
    }

    /// Inside a transaction: everything of one unit is gone.
    pub async fn without(&self, unit: usize) {
        let delete = format!(
            "BEGIN; SET LOCAL session_replication_role = replica;
             DELETE FROM w.items USING w.visits WHERE items.visit = visits.id AND visits.person = \
             {unit};
             DELETE FROM w.extras WHERE id = {unit}; DELETE FROM w.rounds WHERE person = {unit}; \
             DELETE FROM w.visits WHERE person = {unit}; DELETE FROM w.people WHERE id = {unit};"
        );
        self.client.batch_execute(&delete).await.unwrap();
    }

    /// Inside a transaction: rows remain only where no unit can be found for them.
    pub async fn without_anybody(&self) {
        let delete = "BEGIN; SET LOCAL session_replication_role = replica;
             DELETE FROM w.items USING w.visits WHERE items.visit = visits.id AND visits.person IS \
             NOT NULL;
             DELETE FROM w.extras; DELETE FROM w.rounds; DELETE FROM w.visits WHERE person IS NOT \
             NULL; DELETE FROM w.people";
        self.client.batch_execute(delete).await.unwrap();
    }

    pub async fn back(&self) {
        self.client.batch_execute("ROLLBACK").await.unwrap();
    }

    /// A new random database: every column hostile, foreign keys NULL or dangling here and there.
    pub async fn fill(&self, random: &mut Random, heavy: bool) {
        let mut sql = String::from(
            "BEGIN; SET LOCAL session_replication_role = replica; TRUNCATE w.people, w.visits, \
                w.items, w.rounds;",
        );
        let people = if random.once_in(6) { 0 } else { UNITS };
        for unit in 1..=people {
            if !random.once_in(6) {
                sql += &format!("INSERT INTO w.people VALUES ({unit}, {});", values(random));
            }
        }
        for unit in 1..=UNITS {
            for kind in ["a", "b", "it''s", "other"] {
                if random.once_in(2) {
                    let mut row: Vec<String> = HOSTILE
                        .iter()
                        .map(|column| random.pick(column).to_owned())
                        .collect();
                    row[KIND] = format!("'{kind}'");
                    sql += &format!("INSERT INTO w.rounds VALUES ({unit}, {});", row.join(", "));
                }
            }
        }
        let visits = random.below(30);
        for visit in 1..=visits {
            let person = if random.once_in(8) {
                "NULL".to_owned()
            } else {
                (1 + random.below(UNITS + 1)).to_string()
            };
            sql += &format!(
                "INSERT INTO w.visits VALUES ({visit}, {person}, {}, {});",
                random.pick(&["'x'", "'y'", "'q'", "NULL"]),
                values(random)
            );
        }
        for _ in 0..random.below(30) {
            let visit = if random.once_in(8) {
                "NULL".to_owned()
            } else {
                (1 + random.below(visits + 2)).to_string()
            };
            sql += &format!("INSERT INTO w.items VALUES ({visit}, {});", values(random));
        }
        if heavy {
            sql += &format!(
                "INSERT INTO w.visits (id, person, town, i4, j4, nn, f8, tx, kd, d, n2) SELECT \
                    1000 \
                    + g, {HEAVY}, 'x', g % 60, g, g / 3.0, g, 'k' || g, 'a', date '2000-01-01' + \
                    g, \
                    g % 100 FROM generate_series(1, 1000) g;"
            );
            sql += "INSERT INTO w.items (visit, j4, n2, f8, b) SELECT 1001, g, 50, 100, true FROM \
                generate_series(1, 50) g;";
        }
        sql += "COMMIT;";
        self.client.batch_execute(&sql).await.unwrap();
    }
}

/// The tables, with these columns.
fn schema(columns: &str) -> String {
    format!(
        "CREATE SCHEMA w; CREATE COLLATION w.loose (provider = icu, locale = \
                'und-u-ks-level2', \
                deterministic = false);
             CREATE TABLE w.people (id int PRIMARY KEY, {columns});
             CREATE TABLE w.visits (id int PRIMARY KEY, person int REFERENCES w.people, town text, \
             {columns});
             CREATE TABLE w.rounds (person int NOT NULL REFERENCES w.people, {columns});
             ALTER TABLE w.rounds ALTER kd SET NOT NULL, ADD UNIQUE (kd, person);
             CREATE TABLE w.items (visit int REFERENCES w.visits, {columns});
             CREATE TYPE w.mood AS ENUM ('sad', 'it''s', 'happy'); CREATE DOMAIN w.score AS \
             numeric \
             CHECK (value <> 77); CREATE DOMAIN w.label AS text;
             CREATE TABLE w.extras (n int PRIMARY KEY, id int NOT NULL, tm time, en w.mood, jb \
             jsonb, js json, ia int[], ta text[], na numeric[], fa float8[],
                 dn w.score, dt w.label, ts timestamp, dd date, by bytea, ip inet, bi bit(3), ch \
                 char(5), cw char(3), bp bpchar);
             CREATE TABLE w.towns (code text PRIMARY KEY, region text, weight int);
             CREATE TABLE w.notes (code text, remark int);
             INSERT INTO w.towns VALUES ('x', 'north', 1), ('y', 'north', NULL), ('z', NULL, 3);
             INSERT INTO w.notes VALUES ('x', 1), ('x', 2), ('y', 3), (NULL, 4), ('z', NULL);"
    )
}

/// A statement over the tables of another schema.
fn over(schema: &str, sql: &str) -> String {
    TABLES.iter().fold(sql.to_owned(), |sql, table| {
        sql.replace(
            &format!("\"w\".\"{table}\""),
            &format!("\"{schema}\".\"{table}\""),
        )
    })
}

/// The settings that `execute` pins for every statement of a plan.
const PINNED: &str = "SET search_path = pg_catalog; SET \"TimeZone\" = 'UTC'; SET \"DateStyle\" = \
    'ISO, MDY'; SET \"IntervalStyle\" = 'postgres'; \
     SET extra_float_digits = 1; SET row_security = off; SET standard_conforming_strings = on; SET \
     jit = off";

/// Hostile values of each column of [`COLUMNS`], in their order.
pub const HOSTILE: &[&[&str]] = &[
    &["NULL", "0", "1", "-1", "32767", "-32768", "7"],
    &[
        "NULL",
        "0",
        "1",
        "25",
        "50",
        "51",
        "-1",
        "2147483647",
        "-2147483648",
    ],
    &["NULL", "0", "1", "-1", "3", "2147483647", "-2147483648"],
    &[
        "NULL",
        "0",
        "-1000001",
        "5000000000",
        "9223372036854775807",
        "-9223372036854775808",
        "77",
    ],
    &[
        "NULL",
        "0",
        "-1",
        "2",
        "9223372036854775807",
        "-9223372036854775808",
    ],
    &[
        "NULL",
        "0",
        "0.01",
        "99.99",
        "-99999999.99",
        "99999999.99",
        "50.5",
        "'NaN'",
    ],
    &[
        "NULL",
        "0",
        "'NaN'",
        "'Infinity'",
        "'-Infinity'",
        "1e30",
        "'-1e5000'",
        "'1e-400'",
        "1.50",
        "'1e-16000'",
        "-2.5",
        "'1e131000'",
    ],
    &[
        "NULL",
        "0",
        "'NaN'",
        "'Infinity'",
        "-5.5",
        "7.25",
        "7.2500001",
        "'1e-5000'",
        "-5.4999999999999999999",
        "3",
    ],
    &[
        "NULL",
        "0",
        "'NaN'",
        "'Infinity'",
        "'-Infinity'",
        "1e308",
        "'5e-324'",
        "'-0'",
        "-1.5",
        "100.25",
        "3.3",
        "'-5e-324'",
    ],
    &[
        "NULL",
        "0",
        "'NaN'",
        "'Infinity'",
        "'-Infinity'",
        "1e308",
        "-1e308",
        "'5e-324'",
        "'-0'",
        "2.5",
        "1e-160",
        "1e100",
        "1e-100",
    ],
    &[
        "NULL",
        "0",
        "'NaN'",
        "'Infinity'",
        "3.4e38",
        "'1e-45'",
        "0.1",
        "0.05",
        "'-0'",
    ],
    &["NULL", "true", "false"],
    &[
        "NULL",
        "''",
        "'a'",
        "'A'",
        "'b%_'",
        "repeat('é', 3000)",
        "repeat('x', 20000)",
        "E'q\\'\\\\{\"\\n'",
        "'٣'",
        "'a '",
    ],
    &["NULL", "''", "'a'", "'longvalue1'", "'ÀÉ'"],
    &["NULL", "'a'", "'b'", "'it''s'", "'other'"],
    &[
        "NULL",
        "'infinity'",
        "'-infinity'",
        "'4713-01-01 BC'",
        "'5874897-12-31'",
        "'2000-01-01'",
        "'2001-12-31'",
        "'2000-02-29'",
        "'1999-12-31'",
    ],
    &[
        "NULL",
        "'infinity'",
        "'-infinity'",
        "'4713-01-01 BC'",
        "'5874897-12-31'",
        "'2000-01-01'",
        "'0001-01-01'",
        "'9999-12-31'",
    ],
    &[
        "NULL",
        "'infinity'",
        "'-infinity'",
        "'4713-01-01 BC'",
        "'294276-12-31 23:59:59'",
        "'2000-02-01 12:34:56.789'",
        "'2000-03-31 00:00:01'",
    ],
    &[
        "NULL",
        "'infinity'",
        "'-infinity'",
        "'4713-01-01 BC'",
        "'294276-12-31 23:59:59'",
        "'2000-02-01 12:34:56.789'",
        "'9999-12-31 23:59:59.999999'",
    ],
    &["0", "-3", "3", "4", "-2147483648"],
    &[
        "NULL",
        "'infinity'",
        "'-infinity'",
        "'4713-01-01 BC'",
        "'294276-12-31 23:59:59+00'",
        "'2000-02-01 12:34:56.789+05'",
        "'9999-12-31 23:59:59.999999+00'",
    ],
    &[
        "NULL",
        "'0'",
        "'178000000 years'",
        "'-178000000 years'",
        "'-2147483648 days'",
        "'1 mon -1 day 00:00:00.000001'",
        "'9223372036854 seconds'",
    ],
    &[
        "NULL",
        "'12'",
        "' -3.5e2 '",
        "'2023-02-30'",
        "'1e99'",
        "'٣'",
        "'7\u{a0}'",
        "'0000-01-01'",
        "'NaN'",
        "repeat('9', 5000)",
        "'1e-300'",
        "'2000-02-29 23:59:60'",
        "E' \\t2000-02-29 23:59:59.5+1459\\n'",
        "'0001-01-01 00:00+14:59'",
        "'9999-12-31T23:59-14'",
        "'2000-01-01 00:00+15'",
        "' 0000-02-29 00:00Z'",
        "'now'",
    ],
    &[
        "NULL",
        "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'",
        "'ffffffff-ffff-ffff-ffff-ffffffffffff'",
    ],
];

/// The place of `kd` among them.
const KIND: usize = 14;

fn values(random: &mut Random) -> String {
    HOSTILE
        .iter()
        .map(|column| random.pick(column))
        .collect::<Vec<_>>()
        .join(", ")
}

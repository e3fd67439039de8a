//! Replies that may not differ between a database and its neighbour, in places where other systems
//! let them: errors that one row causes, catalogs, failures, a quantum, bounds that were searched
//! for, and what real clients send by themselves.

use tokio_postgres::Client;

use super::paths::{Gate, log_in, opened};
use super::replay::{Both, PATHS, ProtocolPath, gate};
use crate::fixture::{Stream, Veil, load, streams};
use crate::privacy::auto_bounds;
use crate::wire::socket::{Reply, Socket};

/// Texts of a file, one a line.
fn lines(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.lines()
        .filter(|line| !line.is_empty() && !line.starts_with("--"))
}

const TABLES: &str =
    "CREATE TABLE pub (k int NOT NULL, v int); INSERT INTO pub VALUES (0, 9), (0, \
    9), (5, 1), (2, 1);
     CREATE TABLE t (unit int PRIMARY KEY, z int, i int, b bigint, s smallint, n numeric, f \
     float8, \
     g float8, x text, y text, w text, k text, d date, ts timestamp);
     INSERT INTO t SELECT u, 5, 5, 5, 5, 5, 5, 5, 'xyz', '7', '2020-01-01', '$', '2020-02-02', \
     '2020-02-02' FROM generate_series(1, 200) u;";

/// One unit with every value that a function fails on.
const VICTIM: &str =
    "INSERT INTO t VALUES (1000, 0, -2147483648, 9223372036854775807, -32768, 1e400, 1e308, \
        1e-308, \
        'abcd', 'seven', '2023-02-30', '(',
     '5874897-12-31', 'infinity')";

const POLICY: &str = "version: 1\ndatabase: {url: '${DATABASE_URL}'}\nledger: \
    {url: '${LEDGER_URL}'}\n\
    privacy:\n  unit: person\n  budget: {epsilon: 100000, delta: 1e-3}\n  per_query: \
    {epsilon: 1, max_epsilon: 1}\n\
    roles:\n  - {name: analyst, password: VERIFIER, budget: {epsilon: 90000, delta: 1e-4}}\n\
    tables:\n  public.pub: public\n  public.t:\n    unit: unit\n    columns:\n      z: \
    {bounds: [0, 10]}\n      i: {bounds: [0, 10]}\n      b: {bounds: [0, 10]}\n      \
    s: {bounds: [0, 10]}\n      n: {bounds: [0, 10]}\n      f: {bounds: [0, 10]}\n      g: \
    {bounds: [0, 10]}\n      x: visible\n      y: visible\n      w: visible\n      \
    k: visible\n      d: visible\n      ts: visible\n";

fn verifier() -> String {
    let demo = std::fs::read_to_string("policies/demo.yaml").unwrap();
    demo.split("password: ")
        .nth(1)
        .unwrap()
        .split_whitespace()
        .next()
        .unwrap()
        .to_owned()
}

async fn hostile(victim: &str) -> Gate {
    let fill = async |client: &Client| {
        client
            .batch_execute(&format!("{TABLES}{victim}"))
            .await
            .unwrap()
    };
    Gate::before(
        Veil::over(
            fill,
            &POLICY.replace("VERIFIER", &verifier()),
            Some(streams()),
        )
        .await,
    )
    .await
}

/// The SQLSTATE that PostgreSQL itself fails with.
async fn fails(gate: &Gate, sql: &str) -> Option<String> {
    let error = gate.veil.client.simple_query(sql).await.err()?;
    Some(
        error
            .code()
            .map_or_else(|| error.to_string(), |code| code.code().to_owned()),
    )
}

/// Each of these shows PostgreSQL's own clients, by an error, whether one unit is there. Here every
/// path sends the same bytes.
#[tokio::test(flavor = "multi_thread")]
async fn an_error_that_one_row_causes_shows_on_no_path() {
    let (all, fewer) = tokio::join!(hostile(VICTIM), hostile(""));
    let mut both = Both::new(all.log_in().await, fewer.log_in().await);
    both.set("SET pgveil.reuse = off").await;
    let (mut asked, mut answered) = (0, 0);
    for sql in lines(include_str!("oracles.sql")) {
        let (with, without) = (fails(&all, sql).await, fails(&fewer, sql).await);
        assert!(
            with.is_some() && without.is_none(),
            "this is no oracle of PostgreSQL's: {sql}: {with:?}, without the unit {without:?}"
        );
        asked += 1;
        answered += usize::from(both.ask_of_rows(sql, &PATHS).await);
    }
    println!("{answered} of {asked} oracles are answered, the others refused");
    both.end("oracles");
    assert!(answered > 40, "{answered} of {asked}");
    for gate in [&all, &fewer] {
        assert_eq!(
            gate.veil
                .engine
                .ledger()
                .failures_left("analyst", 10)
                .await
                .unwrap(),
            10
        );
    }
}

/// The objects of the leak table: hidden objects of the database, and rows whose number and place
/// the catalogs reveal.
const DEFINED: &str = "CREATE SEQUENCE nls.visits START 4711; SELECT nextval('nls.visits');
     CREATE VIEW nls.rich AS SELECT woman_id FROM nls.interviews WHERE hourly_wage > 29;
     CREATE FUNCTION nls.secret() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM nls.women';
     CREATE INDEX partial ON nls.women (birth_year) WHERE woman_id = 1; ALTER TABLE nls.women ADD \
     CHECK (birth_year > 1900), ALTER birth_year SET DEFAULT 1944;
     COMMENT ON TABLE nls.women IS 'the secret list'; COMMENT ON COLUMN nls.women.birth_year IS \
     'of \
     the secret list';";

async fn described(also: &str) -> Gate {
    let yaml =
        crate::sql::outer_query::rich(std::fs::read_to_string("policies/demo.yaml").unwrap());
    let fill = async |client: &Client| {
        load(client).await;
        client
            .batch_execute(&format!("{DEFINED}{also}; ANALYZE"))
            .await
            .unwrap();
    };
    Gate::before(Veil::over(fill, &yaml, Some(streams())).await).await
}

/// The whole reply of the database itself.
async fn direct(gate: &Gate, sql: &str) -> String {
    let shown = gate
        .veil
        .client
        .simple_query(sql)
        .await
        .map_err(|error| error.code().map(|code| code.code().to_owned()));
    format!("{shown:?}")
}

/// Sizes, counts, positions, definitions, SQL from text: the same to the byte, on every path, with
/// thousands of women and with none.
#[tokio::test(flavor = "multi_thread")]
async fn no_catalog_tells_of_rows_on_any_path() {
    let none = "DELETE FROM nls.interviews; DELETE FROM nls.women; SELECT nextval('nls.visits'); \
        CREATE OR REPLACE VIEW nls.rich AS SELECT 1 AS woman_id;
         COMMENT ON TABLE nls.women IS NULL; DROP INDEX nls.partial; CREATE OR REPLACE FUNCTION \
         nls.secret() RETURNS bigint LANGUAGE sql AS 'SELECT 0::bigint'";
    let (full, empty) = tokio::join!(described(""), described(none));
    let mut both = Both::new(full.log_in().await, empty.log_in().await);
    let (mut asked, mut telling) = (0, 0);
    for sql in lines(include_str!("leaks.sql")) {
        telling += usize::from(direct(&full, sql).await != direct(&empty, sql).await);
        asked += 1;
        both.ask_whole(sql, &PATHS).await;
    }
    println!(
        "{telling} of {asked} sources tell the two databases apart where they are asked directly"
    );
    both.end("catalogs");
    assert!(telling > 25, "{telling} of {asked}");
    for gate in [&full, &empty] {
        assert!(gate.veil.spent().await == 0.0, "nothing of this is charged");
    }
}

/// A failure after the charge has one text, is counted alike, and ends at the same limit, whatever
/// the rows; under a quantum as without one.
#[tokio::test(flavor = "multi_thread")]
async fn failures_and_quanta_send_the_same_bytes() {
    let hurried = |yaml: String| {
        let yaml = yaml
            .replace("failures: 10", "failures: 3")
            .replace("statement_timeout: 60s", "statement_timeout: 3s");
        format!(
            "{}\ntiming: {{quantum: 20ms}}\n",
            crate::sql::outer_query::rich(yaml)
        )
    };
    let side = async |without: &str| {
        let yaml = hurried(std::fs::read_to_string("policies/demo.yaml").unwrap());
        let fill = async |client: &Client| {
            load(client).await;
            client.batch_execute(without).await.unwrap();
        };
        Gate::before(Veil::over(fill, &yaml, Some(streams())).await).await
    };
    let gone =
        "DELETE FROM nls.interviews WHERE woman_id = 1; DELETE FROM nls.women WHERE woman_id = 1";
    let (all, fewer) = tokio::join!(side(""), side(gone));
    let mut both = Both::new(all.log_in().await, fewer.log_in().await);
    let slow = "SELECT count(*) FROM nls.interviews a JOIN nls.interviews b USING (woman_id), \
        nls.industries c, nls.occupations d, nls.industries e"
        .to_owned();
    for sql in [
        "SELECT race, count(*), avg(years_of_school) FROM nls.women GROUP BY race",
        &slow,
        "SELECT count(*) FROM nls.women WHERE woman_id = 1",
        "SELECT * FROM nls.women",
        &slow.replace("count(*)", "sum(a.hours_per_week)"),
        &slow.replace("count(*)", "count(DISTINCT woman_id)"),
        // The last failure is used up.
        "SELECT sum(birth_year) FROM nls.women",
        &slow,
    ] {
        both.ask(sql, &[ProtocolPath::Simple]).await;
        both.ask_whole(
            "SELECT * FROM pgveil.budget",
            &[ProtocolPath::Simple, ProtocolPath::ExtendedBinary],
        )
        .await;
    }
    both.ask_whole("SELECT * FROM pgveil.worth", &PATHS).await;
    both.end("failures under a quantum");
    for gate in [&all, &fewer] {
        assert_eq!(
            gate.veil.engine.ledger().failures("analyst").await.unwrap(),
            3
        );
    }
}

/// A proxy without noise before a database whose bounds were searched for, with noise that can be
/// drawn again.
async fn searched(without: &str) -> (Veil, Vec<String>) {
    let fill = async |client: &Client| {
        client
            .batch_execute(&format!(
                "{}{}{without}",
                auto_bounds::TABLES,
                auto_bounds::ROWS
            ))
            .await
            .unwrap()
    };
    let veil = Veil::over(fill, &auto_bounds::policy(), None).await;
    let mut found = Vec::new();
    for (at, wanted) in veil.engine.policy().searches.iter().enumerate() {
        let mut noise = Stream(rand::SeedableRng::seed_from_u64(at as u64));
        let kept = auto_bounds::make(&veil, wanted, 0.1, &mut noise)
            .await
            .unwrap();
        found.push(format!("{:?} {}", kept.finding, kept.epsilon));
    }
    (veil, found)
}

/// Bounds that a search found are released. If they are equal, so is everything that follows from
/// them: bounds shown, clips, noise, prices.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_searched_for_sends_the_same_bytes() {
    let gone = "DELETE FROM lines WHERE item / 10 = 7; DELETE FROM orders WHERE buyer = 7; DELETE \
        FROM buyers WHERE id = 7";
    let ((all, of_all), (fewer, of_fewer)) = tokio::join!(searched(""), searched(gone));
    assert_eq!(of_all, of_fewer, "the same noise finds the same here");
    let mut sockets = Vec::new();
    let mut ports = Vec::new();
    for veil in [&all, &fewer] {
        let (address, port) = opened(veil.by_way_of(veil.server.config()).await).await;
        ports.push(port);
        sockets.push((
            log_in(address, "analyst", "nls").await,
            log_in(address, "pauper", "nls").await,
        ));
    }
    let [(rich, poor), (rich_too, poor_too)] =
        <[(Socket, Socket); 2]>::try_from(sockets).ok().unwrap();
    let (mut both, mut poor) = (Both::new(rich, rich_too), Both::new(poor, poor_too));
    for sql in [
        "SELECT * FROM pgveil.columns",
        "SELECT * FROM pgveil.tables",
        "SELECT * FROM pgveil.budget",
        "SELECT * FROM pgveil.settings",
        "SELECT * FROM pgveil.worth",
    ] {
        both.ask_whole(sql, &PATHS).await;
        poor.ask_whole(sql, &PATHS).await;
    }
    for sql in [
        "SELECT count(*), sum(price), avg(change), sum(weight) FROM orders",
        "SELECT avg(score) FROM buyers",
        "SELECT sum(pieces) FROM lines",
        "SELECT width_bucket(score, -64, 0, 4), count(*) FROM buyers GROUP BY 1",
        "SELECT max(price) FROM orders",
    ] {
        both.ask(
            sql,
            &[
                ProtocolPath::Simple,
                ProtocolPath::ExtendedBinary,
                ProtocolPath::Explain,
            ],
        )
        .await;
        poor.ask(sql, &[ProtocolPath::Simple, ProtocolPath::Explain])
            .await;
    }
    both.ask_whole("SELECT * FROM pgveil.budget", &[ProtocolPath::Simple])
        .await;
    both.end("bounds that were searched for");
    poor.end("bounds that nobody paid for");
}

/// Words that differ from server to server, or from moment to moment, but not with rows.
const OF_THE_MOMENT: [&str; 8] = [
    "now",
    "clock",
    "current_timestamp",
    "current_date",
    "pg_backend_pid",
    "from stdin",
    "epoch",
    "localtime",
];

/// Rows without the numbers of five digits and more, which are OIDs.
fn masked(replies: Vec<Reply>) -> Vec<String> {
    let one = |reply: &Reply| {
        let text = if reply.kind == b'D' {
            format!("{:?}", reply.values())
        } else {
            String::from_utf8_lossy(&reply.body).into_owned()
        };
        let pieces = text.split_inclusive(|c: char| !c.is_ascii_digit());
        let masked = pieces.map(|piece| {
            let digits = piece.chars().take_while(char::is_ascii_digit).count();
            if digits >= 5 {
                format!("#{}", &piece[digits..])
            } else {
                piece.to_owned()
            }
        });
        format!("{} {}", char::from(reply.kind), masked.collect::<String>())
    };
    replies.iter().map(one).collect()
}

/// Recorded statements that tools send by themselves when they connect and look around: catalogs,
/// settings, transactions.
#[tokio::test(flavor = "multi_thread")]
async fn what_tools_send_brings_the_same_bytes() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/client_queries");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        println!("skipped: the recorded statements of clients are not here");
        return;
    };
    let mut paths: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "sql"))
        .collect();
    paths.sort();
    let (all, fewer) = tokio::join!(gate(None, streams()), gate(Some("1"), streams()));
    let (mut asked, mut answered, mut different) = (0, 0, Vec::new());
    for path in paths
        .iter()
        .filter(|path| !path.ends_with("bi_generated.sql"))
    {
        let (mut left, mut right) = (all.log_in().await, fewer.log_in().await);
        for block in std::fs::read_to_string(path).unwrap().split("\n-- ;;") {
            let sql = block
                .lines()
                .filter(|line| !line.trim_start().starts_with("--"))
                .collect::<Vec<_>>()
                .join("\n");
            if OF_THE_MOMENT
                .iter()
                .any(|word| sql.to_lowercase().contains(word))
            {
                continue;
            }
            let (here, there) = tokio::join!(left.ask(&sql), right.ask(&sql));
            asked += 1;
            answered += usize::from(here.iter().all(|reply| reply.kind != b'E'));
            let is_broken = here.last().is_some_and(|ready| ready.body == b"E");
            let (here, there) = (masked(here), masked(there));
            if here != there {
                different.push(format!(
                    "{sql}\n{here:?}\n-- but without the unit\n{there:?}"
                ));
            }
            if is_broken {
                let _ = tokio::join!(left.ask("ROLLBACK"), right.ask("ROLLBACK"));
            }
        }
    }
    println!("{asked} texts of tools, {answered} answered");
    assert!(
        different.is_empty(),
        "{} different\n{}",
        different.len(),
        different.join("\n\n")
    );
    assert!(answered * 2 > asked && asked > 300, "{answered} of {asked}");
}

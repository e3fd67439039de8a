//! RAPPOR through pgveil: true values are written, reports are stored, and the list is decoded.

use std::collections::BTreeMap;
use std::fmt::Write;

use bytes::Bytes;
use futures::SinkExt;
use pgveil::mechanism::Rappor;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Config, NoTls};

use crate::clients::stage::Stage;
use crate::fixture::Veil;

const PASSWORD: &str = "SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==\
    $S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=";

const SCHEMA: &str = "
CREATE SCHEMA web;
CREATE TABLE web.visits (visitor int PRIMARY KEY, page bit(32), word bit varying(40), cohort
smallint NOT NULL, country text);
CREATE TABLE web.again (visitor int NOT NULL, page bit(32), cohort int NOT NULL);
CREATE ROLE writer LOGIN; GRANT USAGE ON SCHEMA web TO writer;
GRANT INSERT ON web.visits, web.again TO writer;
";

/// The pages that somebody has seen, and how many of 20,000 visitors.
const SEEN: [(&str, usize); 5] = [
    ("/", 7_000),
    ("/search?q=it's", 5_000),
    ("/Überblick", 4_000),
    ("tab\there", 3_000),
    ("/rare", 1_000),
];
const UNSEEN: usize = 20;

const RAPPOR: Rappor = Rappor {
    bits: 32,
    hashes: 2,
    cohorts: 16,
    f: 0.25,
    p: 0.25,
    q: 0.75,
};

fn policy() -> String {
    let seen = SEEN.iter().map(|(page, _)| (*page).to_owned());
    let unseen = (0..UNSEEN).map(|number| format!("/unseen/{number}"));
    let list = serde_json::to_string(&seen.chain(unseen).collect::<Vec<_>>()).unwrap();
    let local = "local: {mechanism: rappor, bits: 32, hashes: 2, cohorts: 16, f: 1/4, p: 1/4, q: \
        3/4, cohort: cohort}";
    format!(
        "
version: 1
database: {{url: '${{DATABASE_URL}}', write_url: '${{DATABASE_WRITE_URL}}'}}
ledger: {{url: '${{PGVEIL_LEDGER}}'}}
local: {{secret: '${{PGVEIL_LOCAL_SECRET}}'}}
privacy:
  unit: person
  budget: {{epsilon: 10000000, delta: 1e-3}}
  per_query: {{epsilon: 5000, max_epsilon: 5000, min_epsilon: 0.1}}
roles:
  - {{name: analyst, password: {PASSWORD}, budget: {{epsilon: 9000000, delta: 1e-4}}}}
  - {{name: collector, password: {PASSWORD}, budget: none, writes: [web.visits, web.again]}}
tables:
  web.visits:
    unit: visitor
    columns:
      cohort: visible
      page: {{values: {list}, {local}}}
      word: {{values: [a, b, c], nullable: true, {local}}}
  web.again:
    unit: visitor
    rows_per_unit: 9
    columns:
      cohort: visible
      page: {{values: {list}, {local}}}
limits: {{groups: 10000, failures: 10, statement_timeout: 60s, connections: 40}}
"
    )
}

struct Web {
    stage: Stage,
    owner: Client,
}

async fn connected(config: &Config) -> Client {
    let (client, connection) = config.connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

impl Web {
    async fn new() -> Self {
        let fill = async |client: &Client| client.batch_execute(SCHEMA).await.unwrap();
        let veil = Veil::over(fill, &policy(), Veil::silent()).await;
        let owner = connected(&veil.server.config()).await;
        let stage = Stage::around(veil).await;
        Self { stage, owner }
    }

    async fn client(&self, role: &str) -> Client {
        let mut config = Config::new();
        config
            .host("localhost")
            .hostaddr(self.stage.veiled.ip())
            .port(self.stage.veiled.port())
            .ssl_mode(tokio_postgres::config::SslMode::Disable)
            .user(role)
            .password("analyst")
            .dbname("nls");
        connected(&config).await
    }

    async fn rows(&self, sql: &str) -> Vec<(i32, u32, String)> {
        let rows = self.owner.query(sql, &[]).await.unwrap();
        rows.iter()
            .map(|row| {
                let cohort: i32 = row.get(1);
                (row.get(0), u32::try_from(cohort).unwrap(), row.get(2))
            })
            .collect()
    }
}

/// The page of each visitor.
fn pages() -> impl Iterator<Item = (usize, &'static str)> {
    let all = SEEN.iter();
    let all = all.flat_map(|(page, count)| std::iter::repeat_n(*page, *count));
    all.enumerate()
}

/// 20,000 true values by COPY: the database has reports and cohorts, and the frequent pages are
/// decoded with counts that are right within their errors.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_is_decoded() {
    let web = Web::new().await;
    let collector = web.client("collector").await;
    let copy = "COPY web.visits (visitor, country, page, word) FROM STDIN";
    let sink = collector.copy_in::<_, Bytes>(copy).await.unwrap();
    let mut sink = std::pin::pin!(sink);
    let mut text = String::new();
    for (visitor, page) in pages() {
        let page = page.replace('\t', "\\t");
        writeln!(text, "{visitor}\tCH\t{page}\t\\N").unwrap();
        if text.len() > 60_000 {
            sink.send(Bytes::from(std::mem::take(&mut text)))
                .await
                .unwrap();
        }
    }
    sink.send(Bytes::from(text)).await.unwrap();
    assert_eq!(sink.finish().await.unwrap(), 20_000);
    let stored = web
        .rows("SELECT visitor, cohort::int4, page::text FROM web.visits")
        .await;
    let mut of_cohort: BTreeMap<u32, usize> = BTreeMap::new();
    for (_, cohort, page) in &stored {
        *of_cohort.entry(*cohort).or_default() += 1;
        assert_eq!(page.len(), 32);
    }
    // 1,250 in each are expected; 200 are six standard errors.
    assert_eq!(of_cohort.len(), 16);
    let all_alike = of_cohort.values().all(|count| count.abs_diff(1_250) < 200);
    assert!(all_alike, "{of_cohort:?}");
    // A bit is set as often as the declared channel says: in the value's places and elsewhere.
    let own = |cohort, page| RAPPOR.places(cohort, page);
    let (mut hits, mut misses, mut hit, mut miss) = (0usize, 0usize, 0usize, 0usize);
    let pages: Vec<&str> = pages().map(|(_, page)| page).collect();
    for (visitor, cohort, report) in &stored {
        let places = own(*cohort, pages[usize::try_from(*visitor).unwrap()]);
        for (place, bit) in (0u32..).zip(report.bytes()) {
            let (all, set) = match places.contains(&place) {
                true => (&mut hits, &mut hit),
                false => (&mut misses, &mut miss),
            };
            *all += 1;
            *set += usize::from(bit == b'1');
        }
    }
    let channel = RAPPOR.channel();
    let share = |set: usize, all: usize| set as f64 / all as f64;
    // Standard errors of 0.0025 and 0.0006: six of them are passed once in 200 million runs.
    let found = (share(hit, hits), share(miss, misses));
    assert!(
        (found.0 - channel.miss() - channel.gain()).abs() < 0.015,
        "{found:?}"
    );
    assert!((found.1 - channel.miss()).abs() < 0.0036, "{found:?}");
    let analyst = web.client("analyst").await;
    let asked = "SELECT page, count(*)::float8, pgveil.stderr(count(*))::float8 FROM web.visits \
        GROUP BY page ORDER BY 2 DESC";
    let rows = analyst.query(asked, &[]).await.unwrap();
    let found: Vec<(String, f64, f64)> = rows
        .iter()
        .map(|row| (row.get(0), row.get(1), row.get(2)))
        .collect();
    for (page, count) in &SEEN[..4] {
        let own = found.iter().find(|(name, ..)| name == page);
        let (_, estimate, error) = own.unwrap_or_else(|| panic!("{page}: {found:?}"));
        let off = (estimate - *count as f64).abs();
        // Wrong once in 500 million runs for each of four.
        assert!(off < 6.0 * error && *error < 600.0, "{found:?}");
    }
    let shown = "SELECT local FROM pgveil.columns WHERE column_name = 'page'";
    let shown: String = analyst.query(shown, &[]).await.unwrap()[0].get(0);
    // 2 · 2 ln 7, rounded up; 2 ln of the odds ratio of 0.6875 and 0.3125.
    let wanted = "rappor, epsilon 7.79 of all reports of a value, 3.16 of one; made by pgveil, \
        permanent bits that are not the value's with probability 0.125; bits of a report set with \
        probability 0.75 where they are set and 0.25 elsewhere";
    assert_eq!(shown, wanted);
    let explained = analyst.query(&format!("EXPLAIN {asked}"), &[]).await;
    let explained: Vec<String> = explained.unwrap().iter().map(|row| row.get(0)).collect();
    let line = "Reports: visits.page by rappor, made by pgveil; of 2^64 random words, permanent \
        bits set for 2305843009213693952 and clear for as many, whatever the value is; bits of a \
        report set for 13835058055282163712 where they are set and 4611686018427387904 elsewhere; \
        epsilon 7.79 of all reports of a value, 3.16 of one";
    assert!(
        explained.iter().any(|found| found == line),
        "{explained:#?}"
    );
    let explained = format!("EXPLAIN (FORMAT JSON) {asked}");
    let explained = analyst.simple_query(&explained).await.unwrap();
    let explained = explained.iter().find_map(|message| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    let explained: serde_json::Value = serde_json::from_str(explained.unwrap()).unwrap();
    let reports = explained[0]["reports"].as_array().unwrap();
    assert_eq!(reports.len(), 2, "{reports:?}");
    assert_eq!(reports[0]["columns"][0], "visits.page");
    assert_eq!(reports[0]["mechanism"], "rappor");
    assert_eq!(reports[0]["epsilon"], 7.79);
    assert_eq!(reports[0]["epsilon_of_one"], 3.16);
    let odds = reports[0]["odds"].as_str().unwrap();
    assert!(
        line.contains(odds) && odds.contains("2305843009213693952"),
        "{odds}"
    );
}

/// A unit has one cohort for ever. Its permanent bits stay and reports do not: of 200 reports of
/// one value, bits are set as often as `q` or as `p`, and hardly two reports are equal.
#[tokio::test(flavor = "multi_thread")]
async fn cohorts_stay_and_reports_are_fresh() {
    let web = Web::new().await;
    let sql = "INSERT INTO web.again (visitor, page) VALUES ($1, $2)";
    for _ in 0..4 {
        // Each time another connection.
        let collector = web.client("collector").await;
        let statement = collector.prepare(sql).await.unwrap();
        assert_eq!(statement.params(), [Type::INT4, Type::TEXT]);
        for _ in 0..50 {
            for page in ["/", "/rare"] {
                let written = collector.execute(&statement, &[&7_i32, &page]).await;
                assert_eq!(written.unwrap(), 1);
            }
            let of_others = collector.execute(&statement, &[&8_i32, &"/"]).await;
            assert_eq!(of_others.unwrap(), 1);
        }
    }
    let stored = web
        .rows("SELECT visitor, cohort, page::text FROM web.again")
        .await;
    assert_eq!(stored.len(), 600);
    let cohorts: std::collections::BTreeSet<_> = stored
        .iter()
        .map(|(visitor, cohort, _)| (visitor, cohort))
        .collect();
    assert_eq!(cohorts.len(), 2, "{cohorts:?}");
    let reports = |visitor: i32| -> Vec<&str> {
        let own = stored.iter().filter(|(of, ..)| *of == visitor);
        own.map(|(.., report)| report.as_str()).collect()
    };
    let different: std::collections::BTreeSet<_> = reports(8).into_iter().collect();
    // Two reports are equal with probability (5/8)^32, so 0.006 of 20,000 pairs are on average, and
    // five of 200 reports are equal to others in one of 10^13 runs.
    assert!(different.len() >= 196, "{}", different.len());
    // Each bit is that of q or of p: 150 of 200 or 50, where 100 are seven standard errors away.
    for place in 0..32 {
        let set = reports(8)
            .iter()
            .filter(|r| r.as_bytes()[place] == b'1')
            .count();
        assert!(
            set.abs_diff(150) < 40 || set.abs_diff(50) < 40,
            "{place}: {set}"
        );
    }
}

/// What a client may not say of a filter, and what it hears.
#[tokio::test(flavor = "multi_thread")]
async fn forms_that_are_refused() {
    let web = Web::new().await;
    let collector = web.client("collector").await;
    for (sql, code, wanted) in [
        (
            "INSERT INTO web.again (visitor, page, cohort) VALUES (1, '/', 3)",
            "0A000",
            "column \"cohort\" is written by pgveil",
        ),
        (
            "COPY web.again (visitor, page, cohort) FROM STDIN",
            "0A000",
            "column \"cohort\" is written by pgveil",
        ),
        (
            "INSERT INTO web.again (visitor) VALUES (1)",
            "0A000",
            "a value of column \"page\"",
        ),
        (
            "INSERT INTO web.again (visitor, page) VALUES (1, '/nowhere')",
            "22023",
            "value is not in the list of column \"page\"",
        ),
        (
            "INSERT INTO web.again (visitor, page) VALUES (1, B'01')",
            "0A000",
            "a value of INSERT must be a constant",
        ),
        (
            "INSERT INTO web.again (visitor, page) VALUES (1, '/'::bit)",
            "22023",
            "a value of column \"page\" has another type",
        ),
        (
            "INSERT INTO web.again (visitor, page) VALUES (1, NULL)",
            "22023",
            "NULL is not written into column \"page\"",
        ),
        (
            "INSERT INTO web.again (visitor, page) VALUES (1, DEFAULT)",
            "0A000",
            "a value of column \"page\"",
        ),
    ] {
        let error = collector.batch_execute(sql).await.unwrap_err();
        let error = error.as_db_error().unwrap();
        assert_eq!(error.code().code(), code, "{sql}: {error:?}");
        assert!(error.message().contains(wanted), "{sql}: {error:?}");
        assert!(!format!("{error:?}").contains("nowhere"), "{error:?}");
    }
    // Clients hear the type of true values: bits are what they may not write.
    let sql = "INSERT INTO web.again (visitor, page) VALUES (1, '/'::bit)";
    let error = collector.batch_execute(sql).await.unwrap_err();
    let error = error.as_db_error().unwrap();
    assert_eq!(error.detail(), Some("Its values are of type text."));
    let hint = "Write it as text or as that type, without another cast.";
    assert_eq!(error.hint(), Some(hint));
    // NULL where the policy allows it, and several rows of one statement.
    let sql = "INSERT INTO web.visits (visitor, word, page) VALUES (1, NULL, '/'), (2, 'a'::text, \
        CAST('/rare' AS varchar))";
    collector.batch_execute(sql).await.unwrap();
    let asked = "SELECT count(word), count(page), count(cohort), max(length(word)) FROM web.visits";
    let row = web.owner.query_one(asked, &[]).await.unwrap();
    let counts: [i64; 3] = [0, 1, 2].map(|at| row.get(at));
    assert_eq!((counts, row.get::<_, i32>(3)), ([1, 2, 2], 32));
}

/// Rows of one large message are randomised in slices, which reach the database one by one: a
/// cancel ends the COPY in its middle, and the session goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_large_message_is_cancelled_in_its_middle() {
    let web = Web::new().await;
    let collector = web.client("collector").await;
    let copy = "COPY web.again (visitor, page) FROM STDIN";
    let sink = collector.copy_in::<_, Bytes>(copy).await.unwrap();
    let mut sink = std::pin::pin!(sink);
    // Minutes of work.
    let rows = "7\t/rare\n".repeat((3 << 20) / 8);
    sink.send(Bytes::from(rows)).await.unwrap();
    let begun = "SELECT count(*) FROM pg_stat_progress_copy WHERE tuples_processed > 0";
    let some = async {
        while web
            .owner
            .query_one(begun, &[])
            .await
            .unwrap()
            .get::<_, i64>(0)
            == 0
        {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    let waited = tokio::time::timeout(std::time::Duration::from_secs(60), some).await;
    waited.expect("no row came to the database");
    collector.cancel_token().cancel_query(NoTls).await.unwrap();
    let error = sink.finish().await.unwrap_err();
    let error = error.as_db_error().unwrap();
    assert_eq!(error.code().code(), "57014", "{error:?}");
    let sql = "INSERT INTO web.again (visitor, page) VALUES (7, '/rare')";
    collector.batch_execute(sql).await.unwrap();
    let all = web
        .owner
        .query_one("SELECT count(*) FROM web.again", &[])
        .await;
    assert_eq!(all.unwrap().get::<_, i64>(0), 1);
}

/// What pgveil adds to a statement counts among its values, and a statement of too many is refused
/// with a way that has no limit.
#[tokio::test(flavor = "multi_thread")]
async fn cohorts_are_within_the_limit_of_values() {
    let web = Web::new().await;
    let collector = web.client("collector").await;
    let units: Vec<String> = (0..22_000).map(|unit| unit.to_string()).collect();
    let pages = vec!["/"; 22_000].join(",");
    let sql = format!(
        "INSERT INTO web.again (visitor, page) SELECT * FROM UNNEST(('{{{}}}')::int[], \
            ('{{{pages}}}')::text[])",
        units.join(",")
    );
    let error = collector.batch_execute(&sql).await.unwrap_err();
    let error = error.as_db_error().unwrap();
    assert_eq!(error.code().code(), "54001", "{error:?}");
    assert!(
        error.hint().unwrap().contains("COPY FROM STDIN"),
        "{error:?}"
    );
}

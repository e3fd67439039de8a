//! One test for each invariant that `lib.rs` states, under its name. Where a test of another module
//! shows it better, the test here names that one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use pgveil::engine::{Format, MakeSampler, Service};
use pgveil::error::Error;
use pgveil::ledger::Balance;
use pgveil::mechanism::{CandidateRun, Exponential, Noise, OsRandomness, SampleError, Sampler};
use pgveil::parse::{Query, Statement, parse};
use pgveil::policy::{File, Reuse, SessionSettings};
use pgveil::postgres::PostgresEngine;
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;
use tokio_util::sync::CancellationToken;

use crate::fixture::Veil;

const WOMEN: &str =
    "SELECT race, count(*), avg(years_of_school) FROM nls.women GROUP BY race ORDER BY race";
const INTERVIEWS: &str = "SELECT count(DISTINCT woman_id), avg(hourly_wage) FROM nls.interviews";
const SLOW: &str =
    "SELECT year, avg(hourly_wage), sum(hours_per_week) FROM nls.interviews GROUP BY year";

fn query(sql: &str) -> Query {
    match parse(sql).unwrap().as_slice() {
        [Statement::Query(query)] => query.clone(),
        other => panic!("{other:?}"),
    }
}

async fn spent(veil: &Veil) -> Balance {
    veil.engine.ledger().balance("analyst").await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_private_leaves_but_through_release() {
    // The code side is tidy's: rows are sealed by execute, opened by release alone. Here: rows by
    // any other path are refused, without a charge.
    let veil = Veil::demo(|y| y, None).await;
    let before = spent(&veil).await;
    for sql in [
        "SELECT * FROM nls.women",
        "SELECT woman_id FROM nls.women LIMIT 1",
        "SELECT count(*), race FROM nls.women",
        "SELECT w.* FROM nls.women w JOIN nls.industries i ON true",
        "TABLE nls.women",
        "SELECT string_agg(race, ',') FROM nls.women",
        "SELECT array_agg(woman_id) FROM nls.women",
        "SELECT min(race), max(race) FROM nls.women",
        "SELECT row_number() OVER () FROM nls.women",
        "SELECT (SELECT race FROM nls.women WHERE woman_id = 1)",
        "SELECT 1 WHERE EXISTS (SELECT FROM nls.women WHERE woman_id = 1)",
        "SELECT count(*) FROM nls.industries WHERE industry_code IN (SELECT industry_code FROM \
            nls.interviews)",
        "SELECT race FROM nls.women UNION SELECT race FROM nls.women",
    ] {
        let refused = match parse(sql) {
            Err(_) => continue,
            Ok(_) => veil.ask(sql).await,
        };
        let Err(
            Error::Parse(_)
            | Error::Resolve(_)
            | Error::Analyze(_)
            | Error::Rewrite(_)
            | Error::Shadow(_),
        ) = refused
        else {
            panic!("{sql}: {refused:?}")
        };
    }
    // The catalogs are the shadow's, which has no row of it.
    let catalogs = "SELECT reltuples > 0, pg_relation_size(oid), (SELECT count(*) FROM pg_stats \
        WHERE tablename = relname) FROM pg_class WHERE relname = 'women'";
    assert_eq!(
        veil.rows_as(&Veil::requester(), catalogs).await.unwrap(),
        ["f|0|0"]
    );
    assert_eq!(spent(&veil).await, before, "a refusal costs nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_charge_is_durable_before_the_backend_sees_the_query() {
    let veil = Veil::demo(|y| y, None).await;
    let before = spent(&veil).await;
    // Cancelled while the database works: it was paid before, and stays so.
    let cancel = CancellationToken::new();
    let (engine, token) = (std::sync::Arc::clone(&veil.engine), cancel.clone());
    let slow = "SELECT count(*) FROM nls.interviews CROSS JOIN nls.industries a CROSS JOIN \
        nls.industries b CROSS JOIN nls.industries c";
    let asked = tokio::spawn(async move {
        engine
            .answer(
                &Veil::requester(),
                &query(slow),
                &[],
                &[],
                &[Format::Text],
                token,
            )
            .await
    });
    while spent(&veil).await.spent.mu_squared == before.spent.mu_squared {
        assert!(!asked.is_finished(), "answered unpaid");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let paid = spent(&veil).await;
    cancel.cancel();
    let answered = asked.await.unwrap();
    assert!(matches!(answered, Err(Error::Cancelled)), "{answered:?}");
    assert_eq!(spent(&veil).await, paid, "the charge stands");
    // Cancelled before the debit: nothing was asked, nothing is paid.
    let early = CancellationToken::new();
    early.cancel();
    let answered = veil
        .engine
        .answer(
            &Veil::requester(),
            &query(INTERVIEWS),
            &[],
            &[],
            &[Format::Text],
            early,
        )
        .await;
    assert!(matches!(answered, Err(Error::Cancelled)), "{answered:?}");
    assert_eq!(spent(&veil).await, paid);
    // A query beyond the budget never reaches the tables.
    let mut refused = None;
    for _ in 0..1000 {
        let requester = pgveil::engine::Requester {
            session_settings: SessionSettings {
                reuse: Reuse::Off,
                ..Veil::session_settings(1.0)
            },
            ..Veil::requester()
        };
        match veil
            .engine
            .answer(
                &requester,
                &query(WOMEN),
                &[],
                &[],
                &[Format::Text],
                CancellationToken::new(),
            )
            .await
        {
            Ok(_) => {}
            Err(error) => {
                refused = Some(error);
                break;
            }
        }
    }
    let refused = refused.expect("a budget ends").report();
    assert_eq!(refused.sqlstate, "53400", "{refused:?}");
    if veil.server.engine() == PostgresEngine::Embedded {
        return;
    }
    let scans = async || {
        // A backend may keep its counts for seconds, but not beyond its end. This session reports
        // its own after a second.
        tokio::time::sleep(std::time::Duration::from_millis(1500)).await;
        let others = "FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> \
            pg_backend_pid()";
        veil.direct(&format!("SELECT pg_terminate_backend(pid) {others}"))
            .await;
        while veil.direct(&format!("SELECT count(*) {others}")).await != ["0"] {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        let sql = "SELECT seq_scan + coalesce(idx_scan, 0) FROM pg_stat_user_tables WHERE relname \
            = \
            'women'";
        veil.client
            .query_one(sql, &[])
            .await
            .unwrap()
            .get::<_, i64>(0)
    };
    let (scanned, paid) = (scans().await, spent(&veil).await);
    assert!(scanned > 0, "answered queries are counted");
    let requester = pgveil::engine::Requester {
        session_settings: SessionSettings {
            reuse: Reuse::Off,
            ..Veil::session_settings(1.0)
        },
        ..Veil::requester()
    };
    let again = veil
        .engine
        .answer(
            &requester,
            &query(WOMEN),
            &[],
            &[],
            &[Format::Text],
            CancellationToken::new(),
        )
        .await;
    assert!(matches!(again, Err(Error::Ledger(_))), "{again:?}");
    assert_eq!(scans().await, scanned, "no refused query read the table");
    assert_eq!(spent(&veil).await, paid);
}

#[test]
fn no_switch_turns_noise_off() {
    // In the code: tidy::noise_and_accounting_read_no_switch,
    // tidy::no_other_noise_is_ever_plugged_in. In the policy: no key for it.
    let yaml = std::fs::read_to_string("policies/demo.yaml").unwrap();
    let parsed = |text: &str| {
        File::parse("demo.yaml", text, |_: &str| {
            Some("postgres://nowhere/nls".to_owned())
        })
    };
    for (place, line) in [
        ("privacy:\n", "  noise: off\n"),
        ("privacy:\n", "  seed: 42\n"),
        ("privacy:\n", "  enabled: false\n"),
        ("limits:\n", "  accounting: off\n"),
        ("version: 1\n", "debug: true\n"),
        ("    unit: woman_id\n", "    noise: 0\n"),
    ] {
        assert!(yaml.contains(place));
        let edited = yaml.replacen(place, &format!("{place}{line}"), 1);
        assert!(parsed(&edited).is_err(), "{line}");
    }
    // In the session: no setting of pgveil reaches the noise except through the price.
    let settings = pgveil::policy::SESSION_SETTINGS.map(|setting| setting.name);
    let bounds = ["pgveil.max_groups_per_unit", "pgveil.max_rows_per_unit"];
    assert_eq!(
        settings,
        [
            "pgveil.epsilon",
            "pgveil.target_error",
            "pgveil.max_cost",
            "pgveil.reuse",
            "pgveil.tolerance",
            "pgveil.widen",
            "pgveil.open_periods",
            "pgveil.keys",
            bounds[0],
            bounds[1],
            "pgveil.notices",
            "pgveil.clip",
            "pgveil.useless",
            "pgveil.hints"
        ]
    );
    let known = std::fs::read_to_string("src/wire/settings/known.rs").unwrap();
    assert!(
        !known.contains("\"pgveil."),
        "a setting of pgveil stands in policy::SESSION_SETTINGS"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn refuse_unless_proved() {
    let veil = Veil::demo(|y| y, None).await;
    let before = spent(&veil).await;
    for sql in [
        "SELECT sum(pg_sleep(1)::text::int) FROM nls.women",
        "SELECT count(*) FROM nls.women WHERE format('%I', race) = 'x'",
        "SELECT sum(factorial(birth_year)) FROM nls.women",
        "SELECT sum(woman_id) FROM nls.women",
        "SELECT array_agg(race) FROM nls.women",
        "SELECT stddev(woman_id) FROM nls.interviews",
        "SELECT corr(DISTINCT hours_per_week, age) FROM nls.interviews",
        "SELECT count(*) FROM nls.women a, nls.women b",
        "SELECT count(*) FROM nls.women a JOIN nls.women b ON a.birth_year = b.birth_year",
        "SELECT count(*) FROM nls.women a FULL JOIN nls.women b USING (woman_id)",
        "SELECT count(*) FROM nls.industries n LEFT JOIN nls.interviews i USING (industry_code)",
        "SELECT count(*) FROM nls.women TABLESAMPLE system (10)",
        "SELECT count(*) FROM (SELECT * FROM nls.women LIMIT 10) x",
        "SELECT count(*) FROM (SELECT * FROM nls.women ORDER BY woman_id LIMIT 3) x",
        "SELECT count(*) FROM (SELECT birth_year FROM nls.women UNION SELECT year FROM \
            nls.interviews) x",
        "SELECT count(*) FROM nls.women, LATERAL (SELECT 1) x",
        "WITH RECURSIVE r AS (SELECT 1) SELECT count(*) FROM nls.women, r",
        "SELECT count(*) FROM nls.women WHERE birth_year IN (SELECT age FROM nls.interviews)",
        "SELECT count(*) FROM nls.women WHERE ctid IS NOT NULL",
        "SELECT count(women) FROM nls.women",
        "SELECT count(*) FROM nls.women FOR UPDATE",
        "SELECT set_config('search_path', 'x', false)",
    ] {
        let refused = if parse(sql).is_err() {
            continue;
        } else {
            veil.ask(sql).await
        };
        let Err(error) = refused else {
            panic!("{sql} was answered")
        };
        let report = error.report();
        assert!(
            report.sqlstate.starts_with("42") || report.sqlstate == "0A000",
            "{sql}: {report:?}"
        );
    }
    assert_eq!(spent(&veil).await, before, "a refusal costs nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn emitted_sql_is_printed_and_read_back() {
    let veil = Veil::demo(|y| y, None).await;
    let mut emitted = 0;
    let mut stories: Vec<String> = Vec::new();
    for entry in std::fs::read_dir("tests/golden/plan").unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "sql") {
            let text = std::fs::read_to_string(path).unwrap();
            stories.extend(
                text.split(";\n")
                    .map(|sql| sql.trim().to_owned())
                    .filter(|sql| !sql.is_empty()),
            );
        }
    }
    for sql in &stories {
        let Ok((plan, _)) = veil.engine.plan(&Veil::requester(), &query(sql)).await else {
            continue;
        };
        let shape = pgveil::finish::shape(&plan).unwrap();
        let wider = plan.bought_instead().map(|wide| &wide.plan);
        let forms = [plan.without_looks(), plan.by_periods()];
        let forms = forms.into_iter().flatten().map(|form| &**form);
        for form in forms.chain([&*plan]).chain(wider) {
            let _ = form.part(|_| true).read_back().unwrap();
        }
        for text in plan
            .releases()
            .iter()
            .filter_map(|r| r.sql())
            .chain([shape.as_str()])
        {
            let again = Parser::parse_sql(&PostgreSqlDialect {}, text).unwrap();
            let [one] = again.as_slice() else {
                panic!("one statement: {text}")
            };
            assert_eq!(one.to_string(), text);
            emitted += 1;
        }
        for text in plan.releases().iter().filter_map(|r| r.sql()) {
            let lower = text.to_lowercase();
            assert!(
                !lower.contains("with ") && !lower.contains("random(") && !lower.contains("limit "),
                "{text}"
            );
        }
    }
    assert!(emitted > 20, "{emitted}");
    // Nothing else is ever sent below the cut: execute runs the plan's statements, and builds no
    // query from pieces.
    let execute = std::fs::read_to_string("src/execute.rs").unwrap();
    assert!(!super::tidy::code(&execute).contains("to_sql"));
}

#[tokio::test(flavor = "multi_thread")]
async fn backend_text_never_reaches_clients() {
    // Every statement over the interviews ends in PostgreSQL's 57014, with PostgreSQL's text.
    let veil = Veil::demo(
        |y| y.replace("statement_timeout: 60s", "statement_timeout: 3ms"),
        None,
    )
    .await;
    let before = spent(&veil).await;
    let error = veil.ask(SLOW).await.expect_err("the database fails");
    let report = error.report();
    let Error::Internal { incident } = &error else {
        panic!("{error:?}")
    };
    assert_eq!(
        (report.sqlstate.as_str(), report.message.as_str()),
        ("XX000", "internal error")
    );
    let detail = report.detail.clone().unwrap_or_default();
    assert!(
        detail.starts_with("The operator's log has the cause under incident ")
            && report.hint.is_none()
            && report.position.is_none(),
        "{report:?}"
    );
    for shown in [
        format!("{report:?}"),
        format!("{error:?}"),
        error.to_string(),
    ] {
        // Its digits are random.
        let shown = shown.replace(incident.as_str(), "");
        assert!(
            !shown.contains("timeout") && !shown.contains("57014") && !shown.contains("interviews"),
            "{shown}"
        );
    }
    let after = spent(&veil).await;
    assert!(
        after.spent.mu_squared > before.spent.mu_squared,
        "a failure is not refunded"
    );
    assert_eq!(
        veil.engine.ledger().failures("analyst").await.unwrap(),
        1,
        "and is counted"
    );
}

/// Real noise that counts its draws.
struct Counted(OsRandomness, Arc<AtomicU32>);

impl Sampler for Counted {
    fn sample(&mut self, noise: &Noise) -> Result<i128, SampleError> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.sample(noise)
    }

    fn choose(
        &mut self,
        exponential: &Exponential,
        runs: &[CandidateRun],
    ) -> Result<(usize, u64), SampleError> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.choose(exponential, runs)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_shape_depends_on_private_rows() {
    let draws = Arc::new(AtomicU32::new(0));
    let counter = draws.clone();
    let sampler: MakeSampler =
        Arc::new(move || Box::new(Counted(OsRandomness::new(), counter.clone())));
    let veil = Veil::demo(|y| y, Some(sampler)).await;
    let asked = [
        WOMEN,
        INTERVIEWS,
        "SELECT year, sum(hours_per_week) FROM nls.interviews GROUP BY year",
        "SELECT count(*) FROM nls.women WHERE 1 / (years_of_school - 12) > 0",
        "SELECT count(*) FROM nls.women WHERE woman_id = 1 AND sqrt(birth_year - 1950) > \
            ln(years_of_school - 5)",
    ];
    let mut seen = Vec::new();
    for _ in 0..2 {
        let mut shapes = Vec::new();
        for sql in asked {
            let before = (spent(&veil).await, draws.load(Ordering::Relaxed));
            let answer = veil
                .ask_as(&Veil::fresh(), sql)
                .await
                .unwrap_or_else(|e| panic!("{sql}: {:?}", e.report()));
            let after = spent(&veil).await;
            let paid = after.spent.mu_squared.0 - before.0.spent.mu_squared.0;
            // An average is NULL where its noisy number of rows is small: a released value.
            let is_average = |at: usize| answer.columns[at].name == "avg";
            let nulls: Vec<Vec<bool>> = answer
                .rows
                .iter()
                .map(|row| {
                    let nulls = row.iter().enumerate();
                    nulls
                        .map(|(at, v)| v.is_none() && !is_average(at))
                        .collect()
                })
                .collect();
            shapes.push((
                answer.columns,
                nulls,
                paid,
                draws.load(Ordering::Relaxed) - before.1,
            ));
        }
        seen.push(shapes);
        veil.client
            .batch_execute("TRUNCATE nls.women CASCADE")
            .await
            .unwrap();
    }
    assert_eq!(
        seen[0], seen[1],
        "full and empty tables: the same columns, rows, charge and number of draws"
    );
}

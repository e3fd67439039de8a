//! EXPLAIN and notices: what a query would cost, and what an answer did.

use pgveil::engine::Requester;
use pgveil::policy::{Notices, SessionSettings, TargetError};

use crate::fixture::{Veil, engine_over, without_units};

#[tokio::test(flavor = "multi_thread")]
async fn explain_tells_the_price_and_asks_nothing() {
    let veil = Veil::demo(|yaml| yaml, None).await;
    let lines = veil
        .explained(
            SessionSettings::with_fixed_clips(),
            "EXPLAIN SELECT race, count(*) FROM nls.women GROUP BY race",
        )
        .await;
    let has = |start: &str| {
        assert!(
            lines
                .iter()
                .any(|line| line.trim_start().starts_with(start)),
            "{start}: {lines:#?}"
        )
    };
    for start in [
        "Release:",
        "Key race:",
        "Scan nls.women (private",
        "Sensitivity:",
        "v0: rows: Gaussian noise",
        "±17.6 on each of 3 groups; 3.",
        "Cost: mu",
        "Budget: 100.00 %",
    ] {
        has(start);
    }
    assert!(
        lines.last().unwrap().contains("after this query 9"),
        "{lines:?}"
    );
    // The SQL is long: it is shown where it is asked for.
    assert!(
        !lines.iter().any(|line| line.contains("SELECT")),
        "{lines:#?}"
    );
    for verbose in ["VERBOSE", "(VERBOSE, COSTS OFF)", "(VERBOSE TRUE)"] {
        let sql = format!("EXPLAIN {verbose} SELECT count(*) FROM nls.women");
        let settings = SessionSettings::with_fixed_clips();
        let shown = veil.explained(settings, &sql).await;
        for start in ["  SQL: SELECT CAST(count(*)", "Outer query: SELECT"] {
            assert!(
                shown.iter().any(|line| line.starts_with(start)),
                "{shown:#?}"
            );
        }
    }
    let session_settings = SessionSettings {
        target_error: Some(TargetError::Absolute(50.0).into()),
        ..SessionSettings::with_fixed_clips()
    };
    let lines = veil
        .explained(
            session_settings,
            "EXPLAIN (COSTS OFF) SELECT count(*) FROM nls.women",
        )
        .await;
    assert!(
        lines.contains(&"Settings: pgveil.target_error = 50, pgveil.clip = fixed".to_owned()),
        "{lines:?}"
    );
    let public = veil
        .explained(
            SessionSettings::with_fixed_clips(),
            "EXPLAIN SELECT count(*) FROM nls.industries",
        )
        .await;
    assert!(
        public[0] == "exact: no private row is read; free"
            && public.contains(&"Public: answered exactly".to_owned())
            && public.contains(&"Cost: nothing".to_owned()),
        "{public:?}"
    );
    assert!(veil.spent().await == 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_json_has_its_keys() {
    let veil = Veil::demo(|yaml| yaml, None).await;
    let sql = "EXPLAIN (FORMAT JSON) SELECT race, birth_year, count(*), avg(years_of_school) FROM \
        nls.women GROUP BY 1, 2";
    let text = veil
        .explained(
            SessionSettings {
                epsilon: Some(0.25),
                ..SessionSettings::with_fixed_clips()
            },
            sql,
        )
        .await
        .join("\n");
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    let plan = &document[0];
    let keys: Vec<&str> = plan
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    let wanted = [
        "releases",
        "errors",
        "refused",
        "if_received",
        "middle_queries",
        "outer_query",
        "public",
        "reports",
        "receivable",
        "selections",
        "summaries_lack",
        "periods",
        "check",
        "check_sql",
        "settings",
        "first_answer",
        "widened",
        "useless",
        "cost",
        "cost_text",
        "cost_now",
        "cost_at_first",
        "reuse",
        "budget_left",
    ];
    let wanted = [&wanted[..], &["budget_left_after"]].concat();
    assert_eq!(
        keys.iter().collect::<std::collections::BTreeSet<_>>(),
        wanted.iter().collect()
    );
    let release = &plan["releases"][0];
    assert_eq!(
        (&release["keys"][0]["rule"], &release["keys"][0]["values"]),
        (&"listed".into(), &3.into())
    );
    assert_eq!(release["mechanism"], "gaussian");
    assert!(
        release["aggregates"][0]["standard_deviation"]
            .as_f64()
            .unwrap()
            > 1.0
            && release["aggregates"][1]["half_width_95"].is_null()
    );
    assert_eq!(
        release["unit"],
        serde_json::json!({ "name": "woman", "columns": ["women.woman_id"], "rows": 1 })
    );
    assert_eq!(
        (&release["norm"], release["tables"][0]["name"].as_str()),
        (&"L2".into(), Some("nls.women"))
    );
    let sum = release["sums"]
        .as_array()
        .unwrap()
        .iter()
        .find(|sum| sum["upper"] == 18.0)
        .unwrap();
    assert!(
        sum["lower"] == 0.0
            && sum["standard_deviation"].as_f64().unwrap() > 0.0
            && sum["what"].as_str().unwrap().contains("years_of_school")
    );
    assert!(release["sensitivity"].as_f64().unwrap() > 1.0);
    assert_eq!(plan["settings"]["pgveil.epsilon"], "0.25");
    assert!(
        plan["cost"]["epsilon"].is_null() && plan["cost"]["mu_squared"].as_f64().unwrap() > 0.0
    );
    assert!(plan["budget_left_after"].as_f64().unwrap() < plan["budget_left"].as_f64().unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_json_tells_the_path_to_the_unit() {
    let veil = Veil::demo(|yaml| yaml, None).await;
    let sql = "EXPLAIN (FORMAT JSON) SELECT avg(hourly_wage) FROM nls.interviews";
    let document: serde_json::Value = serde_json::from_str(
        &veil
            .explained(SessionSettings::with_fixed_clips(), sql)
            .await
            .join("\n"),
    )
    .unwrap();
    let release = &document[0]["releases"][0];
    let table = release["tables"]
        .as_array()
        .unwrap()
        .iter()
        .find(|table| table["name"] == "nls.interviews")
        .unwrap();
    assert_eq!(
        (
            &table["protection"],
            &table["rows_per_unit"],
            &release["unit"]["rows"]
        ),
        (&"private".into(), &15.into(), &15.into())
    );
    assert_eq!(
        table["path"],
        serde_json::json!(["woman_id -> nls.women.woman_id"])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn notices_say_as_much_as_is_asked_for() {
    let veil = Veil::demo(|yaml| yaml, Veil::silent()).await;
    let sql = "SELECT race, count(*), avg(years_of_school) FROM nls.women GROUP BY race";
    let heard = async |notices| {
        let requester = Requester {
            session_settings: SessionSettings {
                notices,
                ..SessionSettings::with_fixed_clips()
            },
            ..Veil::requester()
        };
        veil.ask_as(&requester, sql).await.unwrap().notices
    };
    assert!(heard(Notices::Off).await.is_empty());
    let cost = heard(Notices::Cost).await;
    assert!(
        cost.len() == 1 && cost[0].starts_with("privacy cost: "),
        "{cost:?}"
    );
    assert_eq!(SessionSettings::with_fixed_clips().notices, Notices::Full);
    let full = heard(Notices::Full).await;
    assert_eq!(full.len(), 4, "{full:?}");
    assert!(
        full[1].starts_with("noise of aggregate 1: standard deviation")
            && full[1].contains("95 % within ±"),
        "{full:?}"
    );
    assert!(
        full[2].starts_with("noise of aggregate 2: 95 % within ±") && full[2].ends_with("by group"),
        "{full:?}"
    );
}

/// A clip or a bound that may cut is named, with the number from which it cuts and the setting that
/// shows how much; where the catalog proves that nothing is cut, nothing is said.
#[tokio::test(flavor = "multi_thread")]
async fn intervals_of_noise_alone_say_so() {
    let veil = Veil::demo(|yaml| yaml, Veil::silent()).await;
    for (sql, wanted) in [
        ("SELECT count(*) FROM nls.women", None),
        ("SELECT race, count(*) FROM nls.women GROUP BY race", None),
        (
            "SELECT count(*) FROM nls.interviews",
            Some("rows of a woman past 15"),
        ),
        (
            "SELECT race, avg(hourly_wage) FROM nls.women JOIN nls.interviews USING (woman_id) \
                GROUP BY race",
            Some("rows of a woman past 15, interviews.hourly_wage outside [0, 30]"),
        ),
        (
            "SELECT sum(hourly_wage) FROM nls.interviews WHERE hourly_wage > 5",
            Some("rows of a woman past 15, interviews.hourly_wage above 30"),
        ),
        (
            "SELECT avg(years_of_school) FROM nls.women WHERE years_of_school BETWEEN 3 AND 7",
            None,
        ),
        (
            "SELECT avg(years_of_school * 2) FROM nls.women",
            Some("women.years_of_school outside [0, 18]"),
        ),
        (
            "SELECT avg(n) FROM (SELECT woman_id, count(*) AS n FROM nls.interviews GROUP BY \
                woman_id) AS t",
            Some("count outside [1, 15]"),
        ),
        (
            "SELECT max(hourly_wage) FROM nls.interviews",
            Some("rows of a woman past 15, interviews.hourly_wage outside [0, 30]"),
        ),
    ] {
        let start = "intervals cover noise alone, not what is cut: ";
        let of_look = "how many units that cuts is not known: SET pgveil.clip = auto looks first, \
            and tells about how many";
        let is_of_rows = wanted.is_some_and(|cut| cut.starts_with("rows of a woman past"));
        let cut = wanted.iter().map(|cut| format!("{start}{cut}"));
        let wanted: Vec<String> = cut.chain(is_of_rows.then(|| of_look.to_owned())).collect();
        let heard: Vec<String> = veil
            .ask(sql)
            .await
            .unwrap()
            .notices
            .into_iter()
            .filter(|notice| notice.starts_with(start) || notice == of_look)
            .collect();
        assert_eq!(heard, wanted, "{sql}");
        let explained = veil
            .explained(
                SessionSettings::with_fixed_clips(),
                &format!("EXPLAIN {sql}"),
            )
            .await;
        let explained: Vec<&str> = explained
            .iter()
            .filter_map(|line| line.strip_prefix("  Caution: "))
            .collect();
        assert_eq!(explained, wanted, "{sql}");
        let json = veil
            .explained(
                SessionSettings::with_fixed_clips(),
                &format!("EXPLAIN (FORMAT JSON) {sql}"),
            )
            .await;
        let json: serde_json::Value = serde_json::from_str(&json.join("\n")).unwrap();
        assert_eq!(
            json[0]["releases"][0]["cautions"],
            serde_json::json!(wanted)
        );
    }
}

/// The range is known without the data, so that nobody takes a value amid it for an end.
#[tokio::test(flavor = "multi_thread")]
async fn ends_come_with_the_range_that_is_known() {
    let veil = Veil::demo(|yaml| yaml, Veil::silent()).await;
    for (sql, range) in [
        ("SELECT max(age) FROM nls.interviews", "from 14 to 46"),
        (
            "SELECT min(hourly_wage) FROM nls.interviews WHERE hourly_wage > 5",
            "from 5",
        ),
    ] {
        let notices = veil.ask(sql).await.unwrap().notices;
        let explained = veil
            .explained(
                SessionSettings::with_fixed_clips(),
                &format!("EXPLAIN {sql}"),
            )
            .await;
        for lines in [notices, explained] {
            assert!(
                lines.iter().any(|line| line.contains(&format!(
                    "ranks of it; whatever the data, the answer lies {range}"
                ))),
                "{sql}: {lines:?}"
            );
        }
    }
}

/// An average over rows that the noise drowns is NULL, with its error, and the notice says in how
/// many groups. Roll-ups go by their own noise, and a middle query reads NULL.
#[tokio::test(flavor = "multi_thread")]
async fn averages_of_too_few_rows_are_null() {
    let veil = Veil::demo(|yaml| yaml, Veil::silent()).await;
    let rows = async |sql: &str| veil.rows_as(&Veil::requester(), sql).await.unwrap();
    let schools = "SELECT race, count(*) > 0, avg(years_of_school) IS NULL, \
        stddev(years_of_school) IS NULL, covar_pop(years_of_school, birth_year) IS NULL, \
        pgveil.stderr(avg(years_of_school)) IS NULL, pgveil.ci_low(avg(years_of_school)) IS NULL, \
        pgveil.ci_high(stddev(years_of_school)) IS NULL FROM nls.women WHERE birth_year > 1949 \
        GROUP BY race ORDER BY race";
    assert_eq!(
        rows(schools).await,
        [
            "black|t|f|f|f|f|f|f",
            "other|t|t|t|t|t|t|t",
            "white|t|f|f|f|f|f|f"
        ]
    );
    let notices = veil.ask(schools).await.unwrap().notices;
    for aggregate in [2, 3, 4] {
        let start = format!("noise of aggregate {aggregate}: 95 % within ±");
        assert!(
            notices.iter().any(|notice| notice.starts_with(&start)
                && notice.ends_with("; NULL in 1 group with too few rows")),
            "{notices:?}"
        );
    }
    let small = "SELECT avg(years_of_school) FROM nls.women WHERE race = 'other' AND birth_year = \
        1944";
    assert_eq!(rows(small).await, ["∅"]);
    let notices = veil.ask(small).await.unwrap().notices;
    assert!(
        notices.contains(&"noise of aggregate 1: NULL: too few rows".to_owned()),
        "{notices:?}"
    );
    // What a later release reads of it is NULL, as of no rows in PostgreSQL: no row is above it.
    let above = format!("SELECT count(*) FROM nls.women WHERE years_of_school > ({small})");
    assert_eq!(rows(&above).await, ["0"]);
    // Sums of paid groups have the noise of each: what one of them says, their sum may not.
    let finer = "SELECT race, birth_year, avg(years_of_school) FROM nls.women GROUP BY 1, 2";
    veil.ask(finer).await.unwrap();
    let one = "SELECT round(avg(years_of_school), 1), pgveil.stderr(avg(years_of_school)) > 0 \
        FROM nls.women WHERE race = 'other'";
    let coarser = veil.ask(one).await.unwrap();
    assert!(
        coarser.notices[0].contains("a finer answer was released before"),
        "{:?}",
        coarser.notices
    );
    assert_eq!(rows(one).await, ["∅|∅"]);
}

/// The first line says what is bought and what it costs, before any detail.
#[tokio::test(flavor = "multi_thread")]
async fn explain_begins_with_a_line_in_words() {
    let veil = Veil::demo(|yaml| yaml, Veil::silent()).await;
    let first = async |sql: &str| {
        let settings = SessionSettings::with_fixed_clips();
        let explained = veil.explained(settings, &format!("EXPLAIN {sql}")).await;
        explained.into_iter().next().unwrap()
    };
    let price = "; 3.51 % of your budget; 96.5 % left after";
    for (sql, wanted) in [
        ("SELECT count(*) FROM nls.women", "±17.6"),
        (
            "SELECT race FROM nls.women GROUP BY race",
            "the keys of 3 groups; free; ",
        ),
        (
            "SELECT race, count(*), avg(years_of_school) FROM nls.women GROUP BY 1",
            "count ±24.9, average ±317 / rows on each of 3 groups",
        ),
        (
            "SELECT hourly_wage, count(*) FROM nls.interviews GROUP BY 1",
            "on each group that enough units have",
        ),
        ("SELECT max(hourly_wage) FROM nls.interviews", " ranks"),
        (
            "SELECT count(DISTINCT industry_code) FROM nls.interviews",
            "±",
        ),
        (
            "SELECT stddev(years_of_school) FROM nls.women",
            "± what the answer says",
        ),
        (
            "SELECT count(*) FROM nls.women WHERE race = 'green'",
            "exact: no row can match; free; ",
        ),
    ] {
        println!("{sql}\n  {}", first(sql).await);
        assert!(
            first(sql).await.contains(wanted),
            "{sql}: {}",
            first(sql).await
        );
    }
    let count = "SELECT count(*) FROM nls.women";
    assert_eq!(first(count).await, format!("±17.6{price}"));
    veil.ask(count).await.unwrap();
    let reported = first(count).await;
    assert_eq!(
        reported,
        "±17.6; free, as it was paid for; 96.5 % of your budget left"
    );
    // A look chooses the clip.
    let auto = veil
        .explained(
            SessionSettings::default(),
            "EXPLAIN SELECT sum(hours_per_week) FROM nls.interviews",
        )
        .await;
    assert!(auto[0].starts_with("at most ±"), "{auto:#?}");
}

/// Errors and ends have four digits of the error, and the ends are rounded outward.
#[tokio::test(flavor = "multi_thread")]
async fn errors_have_the_digits_that_mean_something() {
    let veil = Veil::demo(|yaml| yaml, None).await;
    let sql = "SELECT count(*), pgveil.stderr(count(*)), pgveil.ci_low(count(*)), \
        pgveil.ci_high(count(*)), avg(years_of_school), pgveil.stderr(avg(years_of_school)), \
        pgveil.ci_low(avg(years_of_school)), pgveil.ci_high(avg(years_of_school)), \
        pgveil.stderr(sum(years_of_school)), pgveil.ci_low(sum(years_of_school)) FROM nls.women";
    let rows = veil.rows_as(&Veil::requester(), sql).await.unwrap();
    println!("{rows:?}");
    let values: Vec<&str> = rows[0].split('|').collect();
    let number = |at: usize| values[at].parse::<f64>().unwrap();
    let digits = |at: usize| {
        values[at]
            .trim_start_matches(['0', '.', '-'])
            .replace('.', "")
            .len()
    };
    for error in [1, 5, 8] {
        assert!(digits(error) <= 4, "{values:?}");
    }
    for (value, error, low, high) in [(0, 1, 2, 3), (4, 5, 6, 7)] {
        let half = 1.959_964 * number(error);
        // Of a quotient the interval is not that of the error times a number.
        let step = number(error) / 50.0;
        assert!(
            (number(value) - half - number(low)).abs() <= step,
            "{values:?}"
        );
        assert!(
            (number(high) - half - number(value)).abs() <= step,
            "{values:?}"
        );
    }
    // An error of 0.02834 has its fourth digit in the fifth decimal. A number that ends in zeros is
    // shown without them.
    let decimals = |at: usize| {
        values[at]
            .split_once('.')
            .map_or(0, |(_, digits)| digits.len())
    };
    for at in [2, 3] {
        assert!(decimals(at) <= 2, "{values:?}");
    }
    for at in [6, 7] {
        assert!(decimals(at) <= 5, "{values:?}");
    }
}

/// The index is named while it is not there; its columns are those that the question reads.
#[tokio::test(flavor = "multi_thread")]
async fn the_index_that_would_help_is_named() {
    let mut veil = Veil::demo(|yaml| yaml, None).await;
    let sql = "SELECT union_member, sum(hourly_wage) FROM nls.interviews WHERE age > 20 GROUP BY 1";
    let ddl = "CREATE INDEX ON \"nls\".\"interviews\" (\"woman_id\", \"union_member\") INCLUDE \
        (\"hourly_wage\", \"age\")";
    let wanted = format!("Index: each woman's rows would be read together after {ddl}");
    for (is_there, clip) in [(false, "fixed"), (false, "auto"), (true, "fixed")] {
        if is_there {
            veil.client.batch_execute(ddl).await.unwrap();
            let yaml = without_units(&std::fs::read_to_string("policies/demo.yaml").unwrap());
            let (config, ledger) = (veil.server.config(), veil.ledger.clone());
            let engine = engine_over(config, &veil.client, &yaml, &ledger, None).await;
            veil.engine = std::sync::Arc::new(engine);
        }
        let settings = match clip {
            "fixed" => SessionSettings::with_fixed_clips(),
            _ => SessionSettings::default(),
        };
        let lines = veil.explained(settings, &format!("EXPLAIN {sql}")).await;
        let named = lines.iter().filter(|line| line.starts_with("Index: "));
        let named: Vec<&String> = named.collect();
        if is_there {
            assert!(named.is_empty(), "{named:?}");
        } else {
            assert_eq!(named, [&wanted], "{clip}: {lines:#?}");
        }
        let asked = format!("EXPLAIN (FORMAT JSON) {sql}");
        let json = veil.explained(settings, &asked).await.join("\n");
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let index = (!is_there).then_some(ddl);
        assert_eq!(json[0]["releases"][0]["index"], serde_json::json!(index));
    }
    // One pass over one row a unit, or over listed keys that are unique, needs none.
    for sql in [
        "SELECT race, count(*) FROM nls.women GROUP BY race",
        "SELECT year, avg(age) FROM nls.interviews GROUP BY year",
    ] {
        let settings = SessionSettings::with_fixed_clips();
        let lines = veil.explained(settings, &format!("EXPLAIN {sql}")).await;
        let has_none = lines.iter().all(|line| !line.starts_with("Index: "));
        assert!(has_none, "{sql}: {lines:#?}");
    }
}

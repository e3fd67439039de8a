//! What one role may take of the whole stack, and what is left for another.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pgveil::engine::{Argument, Format, MemoryBudget, Requester, Service};
use pgveil::error::Error;
use pgveil::parse::{Statement, parse};
use pgveil::policy::SessionSettings;
use tokio_util::sync::CancellationToken;

use crate::fixture::{Veil, rows_of};
use crate::ledger::reuse::Gated;

/// A second role with the analyst's password.
fn with_colleague(yaml: String) -> String {
    let verifier = yaml
        .split("password: ")
        .nth(1)
        .and_then(|rest| rest.split_whitespace().next())
        .unwrap()
        .to_owned();
    yaml.replacen(
        "\ntables:",
        &format!(
            "\n  - name: colleague\n    password: {verifier}\n    \
        budget: {{epsilon: 3, delta: 1e-7}}\n\ntables:"
        ),
        1,
    )
}

/// Statements over no table that last until they are stopped, more than the shadow has sessions:
/// another role is answered meanwhile, and a cancel ends them.
#[tokio::test(flavor = "multi_thread")]
async fn expensive_free_statements_leave_room_for_others_and_are_cancelled() {
    let veil = Veil::demo(with_colleague, Veil::silent()).await;
    let cancel = CancellationToken::new();
    // Small series: a long one would reach the shadow's limit on temporary files.
    let expensive = "SELECT count(*) FROM generate_series(1, 9999) a, generate_series(1, 9999) b, \
        generate_series(1, 9999) c";
    let expensive = parse(expensive).unwrap();
    let [Statement::Query(expensive)] = expensive.as_slice() else {
        panic!()
    };
    let ask = |_| {
        let (engine, expensive, cancel) =
            (Arc::clone(&veil.engine), expensive.clone(), cancel.clone());
        tokio::spawn(async move {
            engine
                .answer(
                    &Veil::requester(),
                    &expensive,
                    &[],
                    &[],
                    &[Format::Text],
                    cancel,
                )
                .await
        })
    };
    let asked: Vec<_> = (0..12).map(ask).collect();
    let sessions = veil.engine.pools()[1].1.size;
    while veil.engine.pools()[1].1.used < sessions - sessions / 4 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let colleague = Requester {
        role: "colleague".to_owned(),
        ..Veil::requester()
    };
    assert_eq!(
        rows_of(&veil.engine, &colleague, "SELECT count(*) FROM nls.women")
            .await
            .unwrap(),
        ["4711"]
    );
    if let Some(at) = asked.iter().position(tokio::task::JoinHandle::is_finished) {
        let mut asked = asked;
        let ended = asked.swap_remove(at).await.unwrap().map(drop);
        panic!("they have no share in this, but one ended: {ended:?}");
    }
    cancel.cancel();
    for asked in asked {
        assert!(matches!(asked.await.unwrap(), Err(Error::Cancelled)));
    }
    assert_eq!(veil.spent().await, 0.0);
}

/// `WITH c0 AS (…), c1 AS (…), …`: each query made of the name before it.
fn with(length: usize, first: &str, next: impl Fn(String) -> String) -> String {
    let rest = (1..length).map(|at| format!(", c{at} AS ({})", next(format!("c{}", at - 1))));
    format!("WITH c0 AS ({first}){}", rest.collect::<String>())
}

/// Short texts: each query may name the one before it twice, or stand for the whole row of them.
#[tokio::test(flavor = "multi_thread")]
async fn queries_of_with_are_read_once_and_not_without_end() {
    let veil = Veil::demo(|yaml| yaml, Veil::silent()).await;
    let women = |length: usize| {
        let row = with(
            length,
            "SELECT woman_id, birth_year FROM nls.women",
            |before| format!("SELECT woman_id, birth_year FROM {before}"),
        );
        format!("{row} SELECT count(*) FROM c{}", length - 1)
    };
    assert_eq!(
        veil.rows_as(&Veil::requester(), &women(90)).await.unwrap(),
        ["4711"]
    );
    for length in [102, 3_000] {
        assert_eq!(
            veil.ask(&women(length)).await.unwrap_err().report().message,
            "subqueries over private rows are nested too deeply, or are too many"
        );
    }
    let twice = |before: String| {
        format!(
            "SELECT industry_code FROM {before} WHERE industry_code IN (SELECT industry_code FROM \
                {before})"
        )
    };
    let public = with(60, "SELECT industry_code FROM nls.industries", twice);
    let joined = veil
        .ask(&format!(
            "{public} SELECT count(*) FROM nls.interviews JOIN c59 USING (industry_code)"
        ))
        .await;
    assert_eq!(joined.unwrap_err().report().sqlstate, "54001");
    let within = veil
        .ask(&format!(
            "{public} SELECT count(*) FROM nls.interviews WHERE \
        industry_code IN (SELECT industry_code FROM c59)"
        ))
        .await;
    assert_eq!(within.unwrap_err().report().sqlstate, "54001");
}

/// Rows are counted while they come, not once they are there: what is full stops an answer on its
/// way, and is free again after.
#[tokio::test(flavor = "multi_thread")]
async fn answers_on_their_way_are_counted() {
    let veil = Veil::demo(|yaml| yaml, Veil::silent()).await;
    let requester = Veil::requester();
    let much = "SELECT n, repeat('x', 100) FROM generate_series(1, 30000) n";
    let all = requester.share.hold((3 << 30) / 4).unwrap();
    let refusal = rows_of(&veil.engine, &requester, much)
        .await
        .unwrap_err()
        .report();
    assert_eq!(
        (refusal.sqlstate.as_str(), refusal.message.as_str()),
        ("53200", "out of memory")
    );
    assert_eq!(
        rows_of(
            &veil.engine,
            &requester,
            "SELECT count(*) FROM generate_series(1, 30000)"
        )
        .await
        .unwrap(),
        ["30000"]
    );
    drop(all);
    assert_eq!(
        rows_of(&veil.engine, &requester, much).await.unwrap().len(),
        30_000
    );
    assert!(
        requester.share.hold((3 << 30) / 4).is_ok(),
        "all was given back"
    );
}

/// NULLs have no bytes, and still take room.
#[tokio::test(flavor = "multi_thread")]
async fn rows_of_nothing_weigh_something() {
    let veil = Veil::demo(|yaml| yaml, Veil::silent()).await;
    let sql = format!(
        "SELECT {} FROM generate_series(1, 1000000)",
        ["NULL"; 400].join(", ")
    );
    let refusal = veil.ask(&sql).await.unwrap_err().report();
    assert_eq!(
        (refusal.sqlstate.as_str(), refusal.message.as_str()),
        ("54000", "result is larger than 1000000 rows or 256 MB")
    );
}

/// Next to no epsilon buys next to no accuracy, and all the same a number for each group and
/// aggregate.
#[tokio::test(flavor = "multi_thread")]
async fn answers_of_many_numbers_are_refused_before_the_charge() {
    let veil = Veil::demo(|yaml| yaml, Veil::silent()).await;
    let counts: Vec<String> = (0..100)
        .map(|at| format!("count(*) FILTER (WHERE weeks_worked > {at})"))
        .collect();
    let medians: Vec<String> = (1..=3)
        .map(|at| format!("percentile_disc(0.{at}) WITHIN GROUP (ORDER BY hourly_wage)"))
        .collect();
    for aggregates in [counts.join(", "), medians.join(", ")] {
        let sql = format!(
            "SELECT year, hours_per_week, age, {aggregates} FROM nls.interviews GROUP BY 1, 2, 3"
        );
        let refusal = veil.ask(&sql).await.unwrap_err().report();
        assert!(
            refusal.sqlstate == "54000" && refusal.message.starts_with("the answer would hold "),
            "{refusal:?}"
        );
    }
    // Fits count by their work.
    let pca = |values: usize| {
        let values: Vec<String> = (1..=values)
            .map(|at| format!("least(weeks_worked, {at})"))
            .collect();
        format!(
            "SELECT year, hours_per_week, (pgveil.pca(ARRAY[{}])).variance FROM \
                nls.interviews GROUP BY 1, 2",
            values.join(", ")
        )
    };
    let refusal = plans(&veil, &pca(16)).await.unwrap_err().report();
    assert!(
        refusal.sqlstate == "54000"
            && refusal.detail.as_ref().is_some_and(|detail| {
                detail.contains("; this pgveil.pca() counts as 1243 more. Nothing was charged.")
            }),
        "{refusal:?}"
    );
    assert!(plans(&veil, &pca(8)).await.is_ok());
    // Two halves are as much as the whole.
    let half = format!(
        "SELECT year, hours_per_week, {} FROM nls.interviews GROUP BY 1, 2",
        counts.join(", ")
    );
    assert!(plans(&veil, &half).await.is_ok());
    let all: Vec<String> = (0..7)
        .map(|at| {
            half.replace(
                "FROM nls.interviews",
                &format!("FROM nls.interviews WHERE age > {at}"),
            )
        })
        .collect();
    assert_eq!(
        plans(&veil, &all.join(" UNION ALL "))
            .await
            .unwrap_err()
            .report()
            .sqlstate,
        "54000"
    );
    assert_eq!(veil.spent().await, 0.0);
}

/// Nobody pays for EXPLAIN, and it reads what is stored.
#[tokio::test(flavor = "multi_thread")]
async fn stored_answers_are_held_against_the_stock() {
    let veil = Veil::demo(|yaml| yaml, Veil::silent()).await;
    let counts: Vec<String> = (0..10)
        .map(|at| format!("count(*) FILTER (WHERE weeks_worked > {at})"))
        .collect();
    let sql = format!(
        "SELECT year, hours_per_week, {} FROM nls.interviews GROUP BY 1, 2",
        counts.join(", ")
    );
    veil.ask(&sql).await.unwrap();
    let memory = MemoryBudget::default();
    let requester = Requester {
        share: memory.share("analyst"),
        ..Veil::requester()
    };
    let hoard = memory.share("analyst").hold(767 << 20).unwrap();
    let Statement::Query(query) = parse(&sql).unwrap().remove(0) else {
        panic!("{sql}")
    };
    let explained = async || {
        veil.engine
            .explain(
                &requester,
                &query,
                &[],
                &[],
                pgveil::parse::ExplainFormat::Text,
                tokio_util::sync::CancellationToken::new(),
            )
            .await
    };
    assert_eq!(explained().await.unwrap_err().report().sqlstate, "53200");
    drop(hoard);
    assert!(
        explained()
            .await
            .unwrap()
            .iter()
            .any(|line| line.starts_with("Reuse: the same was released before"))
    );
}

/// Values of keys are computed of the lists of their columns: in EXPLAIN, too, which is free.
#[tokio::test(flavor = "multi_thread")]
async fn lists_that_take_long_to_compute_are_refused() {
    let veil = Veil::demo(|yaml| yaml, Veil::silent()).await;
    let counted = |at: usize| {
        let terms: Vec<String> = (0..12)
            .map(|term| format!("abs(weeks_worked - {term} - {at})"))
            .collect();
        format!("({} + hours_per_week * {at})", terms.join(" + "))
    };
    for call in ["count(DISTINCT X)", "mode() WITHIN GROUP (ORDER BY X)"] {
        let asked = |times: usize| {
            let calls: Vec<String> = (1..=times)
                .map(|at| call.replace('X', &counted(at)))
                .collect();
            format!("SELECT {} FROM nls.interviews", calls.join(", "))
        };
        assert!(plans(&veil, &asked(5)).await.is_ok(), "{call}");
        assert_eq!(
            plans(&veil, &asked(90))
                .await
                .unwrap_err()
                .report()
                .sqlstate,
            "54001",
            "{call}"
        );
    }
    let keys: Vec<String> = (1..=90).map(counted).collect();
    assert_eq!(
        plans(
            &veil,
            &format!(
                "SELECT count(*) FROM nls.interviews GROUP BY {}",
                keys.join(", ")
            )
        )
        .await
        .unwrap_err()
        .report()
        .sqlstate,
        "54001"
    );
    let conditions: Vec<String> = (0..60)
        .map(|at| format!("(hours_per_week + weeks_unemployed) % 1000 <> {at}"))
        .collect();
    let narrowed = format!(
        "SELECT hours_per_week * 100 + weeks_unemployed, count(*) FROM nls.interviews WHERE {} \
            GROUP BY 1",
        conditions.join(" AND ")
    );
    assert!(plans(&veil, &narrowed).await.is_ok());
    // Functions of texts are no comparisons of numbers.
    let alike = |times: usize| {
        let text = "lpad(concat(weeks_worked::text, year::text), 40, 'a')";
        let calls: Vec<String> = (1..=times)
            .map(|at| format!("count(DISTINCT {text} LIKE '%{at}%')"))
            .collect();
        format!("SELECT {} FROM nls.interviews", calls.join(", "))
    };
    assert!(plans(&veil, &alike(5)).await.is_ok());
    let refusal = plans(&veil, &alike(90)).await.unwrap_err().report();
    assert!(
        refusal.sqlstate == "54001" && refusal.message.starts_with("listing the values"),
        "{refusal:?}"
    );
}

/// Also what is free of charge, sums of an answer that was bought, is computed group by group.
#[tokio::test(flavor = "multi_thread")]
async fn stored_answers_are_not_evaluated_without_end() {
    let veil = Veil::demo(|yaml| yaml, Veil::silent()).await;
    let both = "nls.interviews JOIN nls.women USING (woman_id)";
    veil.ask(&format!(
        "SELECT race, year, married, metro, south, count(*) FROM {both} GROUP BY 1, 2, 3, 4, 5"
    ))
    .await
    .unwrap();
    let serves = async |condition: &str| {
        let sql = format!(
            "EXPLAIN SELECT race, year, married, count(*) FROM {both} WHERE {condition} GROUP BY \
                1, \
                2, 3"
        );
        veil.explained(SessionSettings::with_fixed_clips(), &sql)
            .await
            .iter()
            .any(|line| line.starts_with("Reuse: answered by"))
    };
    let alike = |times: usize| {
        let all: Vec<String> = (1..=times)
            .map(|at| format!("lpad(race, 40, 'a') LIKE '%{at}%'"))
            .collect();
        let few: Vec<String> = all
            .chunks(25)
            .map(|few| format!("({})", few.join(" OR ")))
            .collect();
        few.join(" OR ") + " OR race <> ''"
    };
    assert!(serves(&alike(10)).await);
    assert!(!serves(&alike(125)).await);
    let long = "a".repeat(500);
    assert!(
        !serves(&format!(
            "lpad(race, 1000, 'a') LIKE '%{long}b%' OR race <> ''"
        ))
        .await
    );
}

/// Eight bytes may stand for 131,072 digits, in a parameter as in a value of EXECUTE.
#[tokio::test(flavor = "multi_thread")]
async fn parameters_that_unfold_are_refused() {
    let veil = Veil::demo(|yaml| yaml, Veil::silent()).await;
    let bound = async |condition: &str, oid: u32, values: Vec<String>| {
        let statements = parse(&format!("SELECT 1 WHERE 1::numeric {condition}")).unwrap();
        let [Statement::Query(query)] = statements.as_slice() else {
            panic!("{condition}")
        };
        let argument = |value: String| Argument {
            format: Format::Text,
            value: Some(value.into()),
        };
        let (oids, arguments) = (
            vec![oid; values.len()],
            values.into_iter().map(argument).collect::<Vec<_>>(),
        );
        let answered = veil
            .engine
            .answer(
                &Veil::requester(),
                query,
                &oids,
                &arguments,
                &[Format::Text],
                CancellationToken::new(),
            )
            .await;
        answered.map(drop).map_err(|error| error.report().sqlstate)
    };
    let places: Vec<String> = (1..=9).map(|at| format!("${at}")).collect();
    let among = format!("IN ({})", places.join(", "));
    assert_eq!(
        bound(&among, 1700, vec!["1e1000".to_owned(); 9]).await,
        Ok(())
    );
    assert_eq!(
        bound(&among, 1700, vec!["1e131071".to_owned(); 9]).await,
        Err("54000".to_owned())
    );
    let many = ["1e131071"; 9].join(",");
    assert_eq!(
        bound("= ANY ($1)", 1231, vec![format!("{{{many}}}")]).await,
        Err("54000".to_owned())
    );
    assert_eq!(
        bound("= jsonb_array_length($1)", 3802, vec![format!("[{many}]")]).await,
        Err("54000".to_owned())
    );

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let way = format!(
        "host=127.0.0.1 port={} user=analyst password=analyst dbname=nls sslmode=disable",
        listener.local_addr().unwrap().port()
    );
    tokio::spawn(pgveil::wire::serve(
        listener,
        None,
        veil.engine.clone(),
        CancellationToken::new(),
    ));
    let (client, connection) = tokio_postgres::connect(&way, tokio_postgres::NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    client
        .batch_execute(&format!(
            "PREPARE p ({}) AS SELECT 1 WHERE 1::numeric {among}",
            ["numeric"; 9].join(", ")
        ))
        .await
        .unwrap();
    for execute in ["EXECUTE", "EXPLAIN EXECUTE"] {
        let error = client
            .batch_execute(&format!("{execute} p ({many})"))
            .await
            .unwrap_err();
        assert_eq!(
            error.code(),
            Some(&tokio_postgres::error::SqlState::PROGRAM_LIMIT_EXCEEDED),
            "{execute}: {error}"
        );
        client
            .batch_execute(&format!("{execute} p ({})", ["1e1000"; 9].join(", ")))
            .await
            .unwrap();
    }
}

/// A role with one failure left asks one question at a time; who waits for that one's end may go.
#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_a_place_can_be_cancelled() {
    let open = Arc::new(AtomicBool::new(false));
    let gate = Arc::clone(&open);
    let yaml = |yaml: String| {
        assert!(yaml.contains("failures: 10 "));
        yaml.replace("failures: 10 ", "failures: 1 ")
    };
    let veil = Veil::demo(
        yaml,
        Some(Arc::new(move || Box::new(Gated(Arc::clone(&gate))))),
    )
    .await;
    let cancel = CancellationToken::new();
    let ask = |sql: &str| {
        let statements = parse(sql).unwrap();
        let [Statement::Query(query)] = statements.as_slice() else {
            panic!("{sql}")
        };
        let (engine, query, cancel) = (
            Arc::clone(&veil.engine),
            query.clone(),
            cancel.child_token(),
        );
        tokio::spawn(async move {
            engine
                .answer(
                    &Veil::requester(),
                    &query,
                    &[],
                    &[],
                    &[Format::Text],
                    cancel,
                )
                .await
        })
    };
    let first = ask("SELECT count(*) FROM nls.women");
    while veil.spent().await == 0.0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let spent = veil.spent().await;
    let second = ask("SELECT count(*) FROM nls.interviews");
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!second.is_finished() && !first.is_finished());
    cancel.cancel();
    let ended = tokio::time::timeout(Duration::from_secs(60), second).await;
    assert!(matches!(
        ended.expect("it waits on").unwrap(),
        Err(Error::Cancelled)
    ));
    assert!(!first.is_finished());
    assert_eq!(veil.spent().await, spent);
    open.store(true, Ordering::Relaxed);
    let _ = first.await.unwrap();
}

async fn plans(veil: &Veil, sql: &str) -> Result<(), Error> {
    let statements = parse(sql).unwrap();
    let [Statement::Query(query)] = statements.as_slice() else {
        panic!("{sql}")
    };
    veil.engine.plan(&Veil::requester(), query).await.map(drop)
}

/// What walks a tree ends the process where the tree is too deep for the stack.
#[tokio::test(flavor = "multi_thread")]
async fn statements_of_any_depth_end_no_process() {
    let veil = Veil::demo(|yaml| yaml, Veil::silent()).await;
    let repeated = |start: &str, part: &str, times: usize| format!("{start}{}", part.repeat(times));
    let numbered = |start: &str, part: &str, times: usize| {
        format!(
            "{start}{}",
            (0..times)
                .map(|at| part.replace('#', &at.to_string()))
                .collect::<String>()
        )
    };
    for (text, is_too_deep) in [
        (repeated("SELECT 1 ", "isnull ", 49_000), true),
        (repeated("SELECT 1 ", "+when ", 24_000), true),
        (repeated("SELECT 1,1", " UNION ALL SELECT 1,1", 8_000), true),
        (repeated("SELECT x::int", "[]", 20_000), true),
        (
            format!(
                "SELECT {}{}",
                "(".repeat(40),
                format!("1{})", " +1".repeat(180)).repeat(40)
            ),
            true,
        ),
        (
            numbered(
                "SELECT count(*) FROM nls.women w",
                ", nls.industries i#",
                1_000,
            ),
            false,
        ),
        (
            numbered(
                "SELECT count(*) FROM nls.industries w",
                ", nls.industries i#",
                1_000,
            ),
            false,
        ),
        (
            numbered(
                "SELECT count(*) FROM nls.women WHERE coalesce(birth_year",
                ", birth_year + #",
                3_000,
            ) + ") = 1",
            false,
        ),
        (
            numbered(
                "SELECT count(*) FROM nls.women WHERE greatest(birth_year",
                ", birth_year + #",
                3_000,
            ) + ") = 1",
            false,
        ),
        (
            numbered(
                "SELECT count(*) FROM nls.women WHERE birth_year IN (1",
                ", birth_year + #",
                3_000,
            ) + ")",
            false,
        ),
        (
            numbered(
                "SELECT count(*), CASE WHEN count(*) = 0 THEN 0",
                " WHEN count(*) = # THEN 1",
                4_000,
            ) + " END FROM nls.women",
            false,
        ),
    ] {
        let refusal = match veil.ask(&text).await {
            Ok(_) => continue,
            Err(error) => error.report(),
        };
        assert!(
            refusal.sqlstate != "XX000" && (!is_too_deep || refusal.sqlstate == "54001"),
            "{}: {refusal:?}",
            &text[..60]
        );
    }
}

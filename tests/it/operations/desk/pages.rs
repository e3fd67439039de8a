//! Values, roles and rows on pages.

use pgveil::ledger::Event;

use super::super::pages::{FEWER, still};
use super::*;

/// Values from the database are shown as text: values of public rows and group keys of private
/// ones.
#[tokio::test(flavor = "multi_thread")]
async fn values_of_the_database_are_text() {
    let hostile = "<i>\"x'</i>";
    let edit = |policy: String| {
        let values = "[white, black, other]";
        let wanted = "[white, black, other, '<i>\"x''</i>']";
        with_bob(policy).replacen(values, wanted, 1)
    };
    let stage = stage_with(Lifetimes::default(), None, edit).await;
    let visit = stage.visit();
    let answered = visit.ask(BY_RACE);
    assert!(answered.has("4 rows"), "{}", answered.body);
    assert!(answered.has("&lt;i&gt;&quot;x'&lt;/i&gt;") && !answered.has(hostile));
    assert!(!answered.has("<i>"), "{}", answered.body);
    let named = visit.ask("SELECT count(*) AS \"</td><i>n\" FROM nls.women");
    assert!(named.has("&lt;/td&gt;&lt;i&gt;n") && !named.has("<i>"));
}

/// Each role sees its own account and statements alone, and nothing of operators.
#[tokio::test(flavor = "multi_thread")]
async fn a_role_sees_itself_alone() {
    let stage = stage().await;
    let (analyst, bob) = (stage.visit(), stage.visit_as("bob", BOB));
    stage.veil.ask(COUNT).await.unwrap();
    assert!(analyst.ask(BY_RACE).has("3 rows"));
    assert!(bob.ask("SELECT count(*) FROM nls.interviews").has("1 row"));
    let asked = |sql: &str| stage.veil.engine.ledger().statement_digest(sql).short();
    let (own, others) = (asked(BY_RACE), asked("SELECT count(*) FROM nls.interviews"));
    // A query that an operator explores in the role's terms is the operator's.
    let explored = "SELECT count(*) FROM nls.women WHERE race = 'other'";
    let mut record = stage.records().await[0].clone();
    record.name = "analyst".to_owned();
    record.origin.actor = Some("olga".to_owned());
    if let Event::Statement(asked) = &mut record.event {
        asked.statement = stage.veil.engine.ledger().statement_digest(explored);
    }
    stage.veil.engine.ledger().record(record).await;
    stage.veil.engine.ledger().flush().await;
    let statements = analyst.get("/statements");
    assert!(
        statements.has(&own) && statements.has("nls.women"),
        "{}",
        statements.body
    );
    assert!(statements.has("desk (pgveil desk)") && statements.has("mu "));
    for absent in [
        others.as_str(),
        &asked(explored),
        "bob",
        "olga",
        "interviews",
        "127.0.0.1",
    ] {
        assert!(!statements.has(absent), "{absent}");
    }
    let theirs = bob.get("/statements");
    assert!(theirs.has(&others) && !theirs.has(&own) && !theirs.has("analyst"));
    // Separate budgets: bob's does not move the analyst's.
    let before = analyst.get("/budget");
    assert!(before.has("Left: ") && before.has("Debits, newest first") && !before.has("bob"));
    assert!(
        bob.ask("SELECT avg(birth_year) FROM nls.women")
            .has("1 row")
    );
    let after = analyst.get("/budget");
    assert_eq!(still(&before.body), still(&after.body));
    for path in [
        "/budgets", "/explore", "/policy", "/checks", "/freeze", "/metrics",
    ] {
        assert_eq!(analyst.get(path).status, 404, "{path}");
    }
    for path in ["/", "/budget", "/statements", "/?show=worth"] {
        let page = analyst.get(path);
        for secret in ["SCRAM-SHA-256$", "postgres://", "sqlite://", "owner"] {
            assert!(!page.has(secret), "{secret} in {path}");
        }
    }
}

/// Nothing on a page depends on rows, but the answers that are paid for.
#[tokio::test(flavor = "multi_thread")]
async fn no_page_depends_on_a_row() {
    let stage = stage().await;
    let visit = stage.visit();
    assert!(visit.ask(COUNT).has("1 row"));
    let crawl = || {
        let mut bodies: Vec<String> = ["/", "/budget", "/statements", "/?show=columns", "/nothing"]
            .map(|path| visit.get(path).body)
            .into();
        let priced = [
            BY_RACE,
            "SELECT sum(weeks_worked) FROM nls.interviews",
            "SELECT race, avg(hourly_wage) FROM nls.women JOIN nls.interviews USING (woman_id) \
                GROUP BY race",
            "SELECT * FROM nls.women",
            "SELECT count(*) FROM nls.women WHERE 1 / (birth_year - birth_year) = 1",
        ];
        bodies.extend(priced.map(|sql| without_quote(&visit.price(sql).body)));
        bodies
    };
    // The statements page has the statements asked in between.
    crawl();
    stage.veil.engine.ledger().flush().await;
    let before = crawl();
    stage.veil.client.batch_execute(FEWER).await.unwrap();
    let after = crawl();
    for (at, (before, after)) in before.iter().zip(&after).enumerate() {
        if at != 2 {
            assert_eq!(still(before), still(after));
        }
    }
}

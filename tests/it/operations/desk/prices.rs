//! Prices, and that answers cost what was shown.

use pgveil::ledger::{Event, Verdict, Via};

use super::super::pages::{still, token};
use super::*;
use crate::fixture::Silent;
use crate::privacy::auto_bounds::make;

#[tokio::test(flavor = "multi_thread")]
async fn a_price_is_free_and_the_answer_costs_it() {
    let stage = stage().await;
    let visit = stage.visit();
    let priced = visit.price(BY_RACE);
    for wanted in [
        "on each of 3 groups",
        "of your budget",
        "Run at this price: ",
        "Scan nls.women (private",
        "<svg class=\"plot\"",
    ] {
        assert!(priced.has(wanted), "{wanted}: {}", priced.body);
    }
    assert_eq!(stage.veil.spent().await, 0.0);
    let seen = "SELECT count(*) FROM pg_stat_activity WHERE \
        backend_type = 'client backend' AND query LIKE '%nls.women%' \
        AND pid <> pg_backend_pid()";
    assert_eq!(stage.veil.direct(seen).await, ["0"]);
    let answered = visit.run(&priced);
    assert_eq!(answered.status, 200);
    for wanted in [
        "privacy cost:",
        "Charged ",
        "class=\"whisker\"",
        "95 %",
        "3 rows",
        ">white<",
        "women",
    ] {
        assert!(answered.has(wanted), "{wanted}: {}", answered.body);
    }
    assert!(!answered.has("ci_low"), "{}", answered.body);
    let spent = stage.veil.spent().await;
    assert!(spent > 0.0);
    // The same as on the wire: an answer paid for at the desk is free there, and the other way.
    stage.veil.ask(BY_RACE).await.unwrap();
    assert_eq!(stage.veil.spent().await, spent);
    let again = visit.price(BY_RACE);
    assert!(again.has("free, as it was paid for") && again.has("Run, free"));
    let same = visit.run(&again);
    assert!(same.has("privacy cost: nothing"), "{}", same.body);
    assert_eq!(stage.veil.spent().await, spent);
    // A price is good once, and so is a form.
    let number = quote(&again.body);
    let fresh = token(&visit.get("/").body);
    let got = visit.post_with(&fresh, "/run", &[("quote", &number)]);
    // The same answer is shown again, however often it is asked for.
    for got in [got, visit.start(&again), visit.start(&again)] {
        assert_eq!(got.status, 303);
        let shown = visit.follow(got);
        assert_eq!(still(&shown.body), still(&same.body));
    }
    assert_eq!(stage.veil.spent().await, spent);
    // Recorded as it was typed, under the role's session.
    let digest = stage.veil.engine.ledger().statement_digest(BY_RACE);
    let records = stage.records().await;
    let asked = records.iter().find_map(|record| match &record.event {
        Event::Statement(asked) if !asked.loss.is_zero() => Some((record, asked)),
        Event::Statement(_) | Event::Login | Event::Act { .. } => None,
    });
    let (record, asked) = asked.unwrap();
    assert_eq!(asked.statement, digest);
    assert!(record.session != 0 && record.origin.via == Via::Desk);
    assert_eq!(record.origin.application, "pgveil desk");
    // The price and the answer name the statement as the record does.
    assert!(priced.has(&digest.short()) && answered.has(&digest.short()));
}

/// Prices with parts that are known only later: chosen clips, two releases, chosen values, keys.
#[tokio::test(flavor = "multi_thread")]
async fn all_kinds_of_questions_are_answered_at_their_price() {
    let stage = stage().await;
    let visit = stage.visit();
    for (sql, wanted) in [
        (
            "SELECT 1 AS one, '<script>alert(1)</script>' AS \"<b>x</b>\"",
            "&lt;script&gt;alert",
        ),
        ("SELECT sum(weeks_worked) FROM nls.interviews", "1 row"),
        (
            "SELECT avg(hourly_wage), count(*) FROM nls.interviews",
            "1 row",
        ),
        (
            "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY birth_year) FROM nls.women",
            "1 row",
        ),
        (
            "SELECT (SELECT count(*) FROM nls.women) + (SELECT count(*) FROM nls.interviews) AS n",
            "1 row",
        ),
        ("SELECT DISTINCT race FROM nls.women", "3 rows"),
        (
            "SELECT relname FROM pg_class WHERE relname = 'women'",
            "1 row",
        ),
        (
            "SET pgveil.epsilon = 0.25; SET pgveil.notices = off; SELECT count(*) FROM nls.women \
                WHERE race = 'black'",
            "1 row",
        ),
        ("SELECT count(*) FROM nls.industries", "1 row"),
    ] {
        let before = stage.veil.spent().await;
        let priced = visit.price(sql);
        assert_eq!(stage.veil.spent().await, before, "{sql}");
        assert!(priced.has("name=\"quote\""), "{sql}: {}", priced.body);
        let got = visit.run(&priced);
        assert!(got.status == 200 && got.has(wanted), "{sql}: {}", got.body);
        assert!(!got.has("<script") && !got.has("<b>"), "{sql}");
    }
}

fn with_epochs(policy: String) -> String {
    let limits = "\nlimits:\n";
    let more = format!("{limits}  monitor_questions: 1000\n");
    let policy = with_bob(policy).replacen(limits, &more, 1);
    let holdout = "holdout: {rows: 2500, tolerance: 0.4, scale: 0.01, overflows: 30}";
    let unit = "    unit: woman_id\n";
    policy.replacen(unit, &format!("{unit}    {holdout}\n"), 1)
}

/// A monitor and a holdout are opened at the price that was shown, and asked for nothing while they
/// are open. What would open one again is not run at the price of an open one.
#[tokio::test(flavor = "multi_thread")]
async fn monitors_and_holdouts_are_opened_at_their_price() {
    let stage = stage_with(Lifetimes::default(), None, with_epochs).await;
    let visit = stage.visit();
    let above = |n: i32| format!("SELECT pgveil.above(count(*), {n}, 'women') FROM nls.women");
    let agrees = "SELECT pgveil.holdout(avg(CASE WHEN race = 'black' THEN 1 ELSE 0 END), 0.3) FROM \
        nls.women";
    for (sql, closed, open, shown) in [
        (
            &*above(1_000_000),
            "monitor women is not open: the question opens it for epsilon 0.5",
            "monitor women is open: the question is free",
            ">f<",
        ),
        (
            agrees,
            "the holdout nls.women is not open",
            "the holdout nls.women is open",
            ">0.3<",
        ),
    ] {
        let before = stage.veil.spent().await;
        let priced = visit.price(sql);
        assert!(
            priced.has(closed) && priced.has("Run at this price: "),
            "{}",
            priced.body
        );
        assert_eq!(stage.veil.spent().await, before);
        let answered = visit.run(&priced);
        assert!(
            answered.has("1 row") && answered.has(shown) && answered.has("was opened for epsilon"),
            "{}",
            answered.body
        );
        let opened = stage.veil.spent().await;
        assert!(opened > before, "{sql}");
        let again = visit.price(sql);
        assert!(again.has(open) && again.has("Run, free"), "{}", again.body);
        let answered = visit.run(&again);
        assert!(answered.has(shown), "{}", answered.body);
        assert_eq!(stage.veil.spent().await, opened);
    }
    // The monitor ends between the price and the run.
    let opened = stage.veil.spent().await;
    let free = visit.price(&above(1_000_000));
    assert!(free.has("Run, free"), "{}", free.body);
    stage.veil.ask(&above(-1_000_000)).await.unwrap();
    let changed = visit.run(&free);
    assert!(
        changed.has("Not run: ") && changed.has("Run at this price: ") && !changed.has(">f<"),
        "{}",
        changed.body
    );
    assert_eq!(stage.veil.spent().await, opened);
    assert!(visit.run(&changed).has(">f<"));
    assert!(stage.veil.spent().await > opened);
    // It ends, and opens again with another margin.
    let free = visit.price(&above(1_000_000));
    assert!(free.has("Run, free"), "{}", free.body);
    stage.veil.ask(&above(-1_000_000)).await.unwrap();
    let coarse = pgveil::engine::Requester {
        session_settings: Veil::session_settings(0.25),
        ..Veil::requester()
    };
    let reopened = stage.veil.ask_as(&coarse, &above(1_000_000)).await;
    reopened.unwrap();
    let changed = visit.run(&free);
    assert!(
        changed.has("Not run: ") && !changed.has(">f<"),
        "{}",
        changed.body
    );
    // What no monitor takes is refused, as in a session.
    let refused = visit.price("SELECT pgveil.above(avg(birth_year), 1945) FROM nls.women");
    assert!(refused.has("0A000"), "{}", refused.body);
}

/// A question about one value buys the answers for all of them, at the price that was shown.
#[tokio::test(flavor = "multi_thread")]
async fn a_widened_answer_costs_what_was_shown() {
    let stage = stage().await;
    let visit = stage.visit();
    let of = |race: &str| format!("SELECT count(*) FROM nls.women WHERE race = '{race}'");
    let priced = visit.price(&of("black"));
    let widened = "Widened: bought for every value of race (3 groups), at the same price";
    assert!(priced.has(widened), "{}", priced.body);
    let answered = visit.run(&priced);
    assert!(answered.has("1 row"), "{}", answered.body);
    let spent = stage.veil.spent().await;
    assert!(spent > 0.0);
    let other = visit.price(&of("white"));
    assert!(other.has("Run, free"), "{}", other.body);
    let answered = visit.run(&other);
    assert!(answered.has("privacy cost: nothing"), "{}", answered.body);
    assert_eq!(stage.veil.spent().await, spent);
}

#[tokio::test(flavor = "multi_thread")]
async fn at_another_price_nothing_runs() {
    let stage = stage().await;
    let (one, two) = (stage.visit(), stage.visit());
    let (first, second) = (one.price(COUNT), two.price(COUNT));
    assert!(one.run(&first).has("Answer"));
    let spent = stage.veil.spent().await;
    // Another session paid for it meanwhile, so this is not the shown price either.
    let changed = two.run(&second);
    assert!(changed.has("Not run: it would cost something else now"));
    assert!(
        changed.has("Run, free") && !changed.has("Answer"),
        "{}",
        changed.body
    );
    assert!(two.run(&changed).has("privacy cost: nothing"));
    // The policy's price rises.
    let third = one.price(BY_RACE);
    let more_expensive =
        |yaml: String| yaml.replace("per_query: {epsilon: 0.5,", "per_query: {epsilon: 1,");
    let next = stage
        .veil
        .proxy_with(&stage.veil.ledger, more_expensive)
        .await;
    stage.exchange.replace(next);
    let changed = one.run(&third);
    assert!(changed.has("Not run: ") && changed.has("This is the price now"));
    assert_eq!(stage.veil.spent().await, spent);
    assert!(one.run(&changed).has("3 rows"));
    assert!(stage.veil.spent().await > spent);
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_are_shown_as_psql_shows_them() {
    let stage = stage().await;
    let visit = stage.visit();
    for (sql, wanted) in [
        (
            "SELECT count(*) FROM nls.women WHERE rase = 'x'",
            "SQLSTATE 42703",
        ),
        ("SELECT * FROM nls.women", "SQLSTATE 42501"),
        ("SELEC 1", "SQLSTATE 42601"),
        ("SELECT 1; SELECT 2", "one SELECT at a time"),
        ("", "one SELECT at a time"),
        ("SELECT 1; SET pgveil.epsilon = 1", "one SELECT at a time"),
        ("BEGIN; SELECT 1", "one SELECT at a time"),
        ("EXPLAIN SELECT 1", "one SELECT at a time"),
        ("SET pgveil.epsilon = 100; SELECT 1", "SQLSTATE 22023"),
        ("SET role = bob; SELECT 1", "SQLSTATE 42501"),
        ("DELETE FROM nls.women", "SQLSTATE 42501"),
        (
            "SELECT '<script>alert(1)</script>' FROM nls.women",
            "&lt;script&gt;alert(1)",
        ),
        ("SELECT $1", "SQLSTATE"),
    ] {
        let got = visit.price(sql);
        assert!(got.has("Refused") && got.has(wanted), "{sql}: {}", got.body);
        assert!(!got.has("<script") && !got.has("name=\"quote\""), "{sql}");
    }
    // The place in the text, also behind a SET.
    let got =
        visit.price("SET pgveil.epsilon = 0.3;\r\nSELECT count(*) FROM nls.women WHERE rase = 1");
    assert!(
        got.has("WHERE rase = 1\n                                     ^"),
        "{}",
        got.body
    );
    let spent = stage.veil.spent().await;
    assert_eq!(spent, 0.0);
}

/// A first answer that is paid for does not make what follows free: with a wanted error, a better
/// held answer is the first one, and shows what the next costs.
#[tokio::test(flavor = "multi_thread")]
async fn a_wanted_error_is_never_called_free_and_stays_within_its_most() {
    let stage = stage().await;
    let visit = stage.visit();
    let sum = "SELECT sum(weeks_worked) FROM nls.interviews";
    assert!(visit.ask(sum).has("1 row"));
    let left = stage.left().await;
    let priced = visit.price(&format!("SET pgveil.target_error = '1%'; {sum}"));
    assert!(
        !priced.has("Run, free") && !priced.has("free, as it was"),
        "{}",
        priced.body
    );
    let button = priced.body.split("Run: 0 % now, at most ").nth(1);
    let button = button.unwrap_or_else(|| panic!("{}", priced.body));
    let most: f64 = button.split(' ').next().unwrap().parse().unwrap();
    assert!(button.contains("% of the budget in all") && most > 0.0);
    let ended = visit.run(&priced);
    // Where one query may not spend what the error needs, that is said.
    let is_too_expensive = ended.has("more than the limit of") && ended.has("SQLSTATE 22023");
    assert!(ended.has("1 row") || is_too_expensive, "{}", ended.body);
    let spent = 100.0 * (left - stage.left().await);
    assert!(spent <= most * 1.001, "{spent} of {most}");
    // One that is near its target now costs more than nothing, and no more than was said.
    let wider = visit.price(&format!("SET pgveil.target_error = '4%'; {sum}"));
    assert!(
        !wider.has("Run, free") && wider.has("% of the budget in all"),
        "{}",
        wider.body
    );
    let left = stage.left().await;
    assert!(visit.run(&wider).has("1 row"));
    let spent = 100.0 * (left - stage.left().await);
    assert!((0.0..=most * 1.001).contains(&spent), "{spent} of {most}");
}

/// A desk over tables whose bounds the policy leaves to searches, which are made, and which bob has
/// not paid for.
async fn with_searches() -> Stage {
    let policy = format!(
        "version: 1
database: {{url: \"${{DATABASE_URL}}\"}}
ledger: {{url: \"${{PGVEIL_LEDGER}}\"}}
privacy: {{unit: buyer, budget: {{epsilon: 8, delta: 1e-6}}}}
roles:
  - {{name: analyst, password: '{}', budget: {{epsilon: 3, delta: 1e-7}}}}
  - {{name: bob, password: '{}', budget: {{epsilon: 3, delta: 1e-7}}}}
tables:
  public.buyers: {{unit: id, columns: {{score: {{bounds: auto}}}}}}
",
        make_verifier("analyst"),
        make_verifier(BOB)
    );
    let fill = async |client: &tokio_postgres::Client| {
        let tables = "CREATE TABLE buyers (id int PRIMARY KEY, score int);
            INSERT INTO buyers SELECT g, g % 40 FROM generate_series(1, 10000) g";
        client.batch_execute(tables).await.unwrap()
    };
    let veil = Veil::over(fill, &policy, None).await;
    for search in &veil.engine.policy().searches {
        make(&veil, search, 0.1, &mut Silent).await.unwrap();
    }
    let engine = veil.proxy(&veil.ledger).await;
    let (lifetimes, drain) = (Lifetimes::default(), Duration::from_secs(10));
    stage_over((veil, engine), lifetimes, None, drain).await
}

/// The first price of a role pays for the policy's searches: that is said, and agreed to, before.
#[tokio::test(flavor = "multi_thread")]
async fn searches_are_paid_for_by_a_separate_button() {
    let stage = with_searches().await;
    let visit = stage.visit_as("bob", BOB);
    let spent = async || {
        let balance = stage.veil.engine.ledger().balance("bob").await;
        balance.unwrap().spent.mu_squared.to_f64()
    };
    let sum = "SELECT sum(score) FROM buyers";
    for sql in [
        sum,
        "SELECT score FROM buyers",
        "SELECT sum(score) FROM buyers WHERE score > 1",
    ] {
        let asked = visit.price(sql);
        assert!(asked.has("Before the first price"), "{sql}: {}", asked.body);
        assert!(asked.has("Nothing was charged yet") && !asked.has("name=\"quote\""));
        assert_eq!(spent().await, 0.0, "{sql}");
    }
    // A question that shows nothing of them is free.
    assert!(visit.ask("SELECT 1 AS one").has("1 row"));
    assert_eq!(spent().await, 0.0);
    // Nobody pays who was not shown the price of it.
    let other = stage.visit_as("bob", BOB);
    let fresh = token(&other.get("/").body);
    let fields = [("sql", sum), ("pay", "searches")];
    let unseen = other.post_with(&fresh, "/price", &fields);
    assert!(unseen.has("Before the first price"), "{}", unseen.body);
    assert_eq!(spent().await, 0.0);
    let asked = visit.price(sum);
    let (button, paying) = (asked.body.split("Pay ").nth(1).unwrap(), token(&asked.body));
    let share: f64 = button.split(' ').next().unwrap().parse().unwrap();
    let priced = visit.post_with(&paying, "/price", &fields);
    assert!(priced.has("Run at this price"), "{}", priced.body);
    let paid = spent().await;
    let left = stage.veil.engine.ledger().balance("bob").await.unwrap();
    let off = (100.0 * (1.0 - left.fraction_left()) - share).abs();
    assert!(paid > 0.0 && off < 0.01 * share, "{share}");
    // Paid once, by whatever form.
    let again = visit.post_with(&paying, "/price", &fields);
    assert!(again.has("Run at this price") && other.price(sum).has("Run at this price"));
    assert_eq!(spent().await, paid);
    assert!(visit.run(&again).has("1 row"));
    // The record has what was charged for them.
    let records = stage.records().await;
    let explained = records.iter().filter_map(|record| match &record.event {
        Event::Statement(asked) if asked.verdict == Verdict::Explained => Some(asked.loss),
        Event::Statement(_) | Event::Login | Event::Act { .. } => None,
    });
    assert_eq!(explained.filter(|loss| !loss.is_zero()).count(), 1);
}

/// Searches that a new policy needs are not paid for by running a price of the old one.
#[tokio::test(flavor = "multi_thread")]
async fn a_reload_with_new_searches_charges_nothing_unseen() {
    let stage = with_searches().await;
    let visit = stage.visit_as("bob", BOB);
    let with_searches = stage.exchange.current();
    let fixed = |yaml: String| yaml.replace("bounds: auto", "bounds: [0, 40]");
    let next = stage.veil.proxy_with(&stage.veil.ledger, fixed).await;
    stage.exchange.replace(next);
    let priced = visit.price("SELECT sum(score) FROM buyers");
    assert!(priced.has("Run at this price"), "{}", priced.body);
    stage.exchange.replace(with_searches);
    let ended = visit.run(&priced);
    assert!(
        ended.has("Before the first price") && !ended.has("1 row"),
        "{}",
        ended.body
    );
    let balance = stage.veil.engine.ledger().balance("bob").await.unwrap();
    assert!(balance.spent.is_zero());
}

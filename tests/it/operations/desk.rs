//! The analysts' desk: whom it lets in, what it shows to whom, and that it asks as the wire does,
//! at the price that was shown.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use pgveil::desk::{Options, serve};
use pgveil::engine::Reloadable;
use pgveil::ledger::{Event, Record, Via};
use pgveil::operator::{Control, Sessions, State};
use pgveil::web::session::Lifetimes;
use pgveil::wire::scram::make_verifier;
use pgveil::wire::{Commons, Tls};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::console::{OWN, aside, cookie, still, token};
use super::demo_page::{Got, form, send};
use crate::fixture::Veil;

const COUNT: &str = "SELECT count(*) FROM nls.women";
const BY_RACE: &str = "SELECT race, count(*) AS women FROM nls.women GROUP BY race ORDER BY 1";
/// Another role, with another password.
const BOB: &str = "seven small dwarfs";

/// A desk over the demo, for its analyst and for bob.
pub struct Stage {
    pub address: SocketAddr,
    pub veil: Veil,
    exchange: Arc<Reloadable>,
    /// Those that operators see.
    sessions: Arc<Sessions>,
    shutdown: CancellationToken,
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

fn with_bob(policy: String) -> String {
    let verifier = make_verifier(BOB);
    let bob = format!(
        "  - {{name: bob, password: '{verifier}', budget: {{epsilon: 2, delta: 1e-7}}}}\n\n\
            tables:\n"
    );
    policy.replacen("\ntables:\n", &bob, 1)
}

pub async fn stage() -> Stage {
    stage_with(Lifetimes::default(), None, with_bob).await
}

async fn stage_with(
    lifetimes: Lifetimes,
    tls: Option<Tls>,
    edit: impl Fn(String) -> String,
) -> Stage {
    let veil = Veil::demo(edit, None).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let exchange = Arc::new(Reloadable::new(Arc::clone(&veil.engine)));
    let options = Options {
        tls,
        hosts: vec!["desk.internal".to_owned()],
        lifetimes,
        // However slow this machine is.
        first_wait: Duration::from_secs(60),
        drain: Duration::from_secs(10),
    };
    let shutdown = CancellationToken::new();
    let (sender, _) = mpsc::channel(1);
    let control = Control::new(Arc::clone(&exchange), sender, shutdown.clone(), None);
    let sessions = Arc::clone(control.sessions());
    let served = serve(
        listener,
        Arc::clone(&exchange),
        Commons::new(Some(Arc::new(control))),
        options,
        shutdown.clone(),
    );
    tokio::spawn(served);
    Stage {
        address,
        veil,
        exchange,
        sessions,
        shutdown,
    }
}

/// A browser with a cookie.
struct Visit<'s> {
    stage: &'s Stage,
    cookie: String,
}

impl Stage {
    fn send(&self, method: &str, path: &str, headers: &[&str], body: &str) -> Got {
        aside(|| send(&self.address.to_string(), method, path, headers, body))
    }

    fn log_in(&self, name: &str, password: &str) -> Got {
        let body = form(&[("name", name), ("password", password)]);
        self.send("POST", "/login", &[OWN], &body)
    }

    fn visit_as(&self, name: &str, password: &str) -> Visit<'_> {
        let got = self.log_in(name, password);
        assert_eq!(got.status, 303, "{}", got.body);
        let cookie = cookie(&got);
        Visit {
            stage: self,
            cookie: format!("Cookie: {}", cookie.split(';').next().unwrap()),
        }
    }

    fn visit(&self) -> Visit<'_> {
        self.visit_as("analyst", "analyst")
    }

    /// The newest records, newest first.
    async fn records(&self) -> Vec<Record> {
        let ledger = self.veil.engine.ledger();
        ledger.flush().await;
        let records = ledger.recent_records(i64::MAX, 100).await.unwrap();
        records.into_iter().map(|(_, record)| record).collect()
    }
}

impl Visit<'_> {
    fn get(&self, path: &str) -> Got {
        self.stage.send("GET", path, &[&self.cookie], "")
    }

    fn post_with(&self, token: &str, path: &str, fields: &[(&str, &str)]) -> Got {
        let fields: Vec<_> = fields.iter().copied().chain([("token", token)]).collect();
        let headers = [OWN, self.cookie.as_str()];
        self.stage.send("POST", path, &headers, &form(&fields))
    }

    fn price(&self, sql: &str) -> Got {
        let token = token(&self.get("/").body);
        self.post_with(&token, "/price", &[("sql", sql)])
    }

    /// Presses the button of a price.
    fn run(&self, priced: &Got) -> Got {
        let (token, quote) = (token(&priced.body), quote(&priced.body));
        self.post_with(&token, "/run", &[("quote", &quote)])
    }

    fn ask(&self, sql: &str) -> Got {
        let priced = self.price(sql);
        assert!(priced.has("name=\"quote\""), "{sql}: {}", priced.body);
        self.run(&priced)
    }
}

/// The number of a price.
fn quote(body: &str) -> String {
    let rest = body.split("name=\"quote\" value=\"").nth(1).unwrap();
    rest.split('"').next().unwrap().to_owned()
}

/// A page without numbers of prices.
fn without_quote(body: &str) -> String {
    match body.contains("name=\"quote\"") {
        true => body.replace(&format!("name=\"quote\" value=\"{}\"", quote(body)), ""),
        false => body.to_owned(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_let_in_without_a_session() {
    let stage = stage().await;
    for path in ["/", "/budget", "/statements", "/?show=tables", "/else"] {
        for cookie in ["Cookie: a=b", "Cookie: pgveil=00"] {
            let got = stage.send("GET", path, &[cookie], "");
            let is_sent_away = got.head.contains("location: /login");
            assert!(got.status == 303 && is_sent_away, "{path}: {}", got.head);
        }
    }
    for path in ["/price", "/run", "/logout"] {
        let body = form(&[("token", ""), ("sql", COUNT), ("quote", "1")]);
        let got = stage.send("POST", path, &[OWN], &body);
        assert_eq!(got.status, 401, "{path}");
    }
    for (name, password) in [
        ("analyst", ""),
        ("analyst", BOB),
        ("", "analyst"),
        ("x", "x"),
    ] {
        assert_eq!(stage.log_in(name, password).status, 401, "{name}");
    }
    assert_eq!(stage.veil.spent().await, 0.0);
    let records = stage.records().await;
    assert_eq!(records.len(), 4);
    for record in records {
        assert_eq!(
            (record.sqlstate.as_str(), record.event),
            ("28P01", Event::Login)
        );
        assert_eq!(record.origin.via, Via::Desk);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn other_hosts_and_other_sites_are_refused() {
    let stage = stage().await;
    for host in ["evil.example", "desk.internal.evil.example"] {
        let got = stage.send("GET", "/login", &[&format!("Host: {host}")], "");
        assert_eq!(got.status, 421, "{host}");
    }
    let own = stage.send("GET", "/login", &["Host: desk.internal:1"], "");
    assert_eq!(own.status, 200);
    let visit = stage.visit();
    let priced = visit.price(COUNT);
    let (token, quote) = (token(&priced.body), quote(&priced.body));
    let fields = form(&[("token", &token), ("quote", &quote), ("sql", COUNT)]);
    for site in [
        "Sec-Fetch-Site: cross-site",
        "Sec-Fetch-Site: same-site",
        "Sec-Fetch-Site: none",
        "Origin: http://evil.example",
        "Origin: null",
        "X: y",
    ] {
        for path in ["/run", "/price", "/login", "/logout"] {
            let headers = [site, visit.cookie.as_str()];
            let got = stage.send("POST", path, &headers, &fields);
            assert_eq!(got.status, 403, "{site} {path}");
        }
    }
    assert_eq!(stage.veil.spent().await, 0.0);
    // From the page itself, but without its token.
    let got = visit.post_with("", "/run", &[("quote", &quote)]);
    assert!(got.status == 403 && got.has("This form was sent before"));
    assert_eq!(stage.veil.spent().await, 0.0);
    // An old browser, which names its origin alone.
    let origin = format!("Origin: http://{}", stage.address);
    let headers = [origin.as_str(), visit.cookie.as_str()];
    let got = stage.send("POST", "/run", &headers, &fields);
    assert!(got.status == 200 && got.has("Answer"), "{}", got.body);
    assert!(stage.veil.spent().await > 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_has_the_headers() {
    let stage = stage().await;
    let visit = stage.visit();
    for got in [
        &visit.get("/"),
        &stage.send("GET", "/", &["Host: e.example"], ""),
        &visit.get("/style.css"),
        &visit.get("/budget"),
        &visit.get("/statements"),
        &visit.get("/nothing"),
        &visit.price(BY_RACE),
        &visit.ask(BY_RACE),
        &visit.price("SELECT x"),
        &stage.log_in("analyst", "wrong"),
    ] {
        for wanted in [
            "content-security-policy: default-src 'none'; style-src 'self'; form-action 'self'; \
                base-uri 'none'; frame-ancestors 'none'\r\n",
            "x-content-type-options: nosniff\r\n",
            "referrer-policy: same-origin\r\n",
            "cross-origin-opener-policy: same-origin\r\n",
            "cross-origin-resource-policy: same-origin\r\n",
            "cache-control: no-store\r\n",
        ] {
            let head = format!("{}\r\n", got.head);
            assert!(head.contains(wanted), "{wanted} in {head}");
        }
        assert!(!got.has("<script") && !got.has(" style=") && !got.has(" onclick="));
    }
    assert_eq!(visit.get("/nothing").status, 404);
    let headers = [OWN, visit.cookie.as_str()];
    assert_eq!(stage.send("DELETE", "/", &headers, "").status, 405);
    assert_eq!(visit.get("/run").status, 405);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_a_cookie_that_nobody_chooses() {
    let stage = stage().await;
    // A planted cookie is not the one that the login gives.
    let port = stage.address.port();
    let planted = format!("Cookie: pgveil-{port}={}", "0".repeat(64));
    let body = form(&[("name", "analyst"), ("password", "analyst")]);
    let got = stage.send("POST", "/login", &[OWN, &planted], &body);
    assert_eq!(stage.send("GET", "/", &[&planted], "").status, 303);
    let set = cookie(&got);
    let (pair, attributes) = set.split_once("; ").unwrap();
    assert_eq!(attributes, "path=/; httponly; samesite=strict");
    let (name, secret) = pair.split_once('=').unwrap();
    assert_eq!(name, format!("pgveil-{port}"));
    assert!(secret.len() == 64 && secret != "0".repeat(64));
    let (first, second) = (stage.visit(), stage.visit());
    assert_ne!(first.cookie, second.cookie);
    // Forms and prices of one session are not valid in another.
    let priced = first.price(COUNT);
    let (its, number) = (token(&priced.body), quote(&priced.body));
    let got = second.post_with(&its, "/run", &[("quote", &number)]);
    assert_eq!(got.status, 403);
    let own = token(&second.get("/").body);
    let got = second.post_with(&own, "/run", &[("quote", &number)]);
    assert!(
        got.status == 409 && got.has("not kept any more"),
        "{}",
        got.body
    );
    assert_eq!(stage.veil.spent().await, 0.0);
    let leaving = token(&first.get("/").body);
    let left = first.post_with(&leaving, "/logout", &[]);
    assert!(left.status == 303 && cookie(&left).contains("max-age=0"));
    assert_eq!(first.get("/").status, 303);
    assert_eq!(second.get("/").status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_session_asks_nothing() {
    let lifetimes = Lifetimes {
        idle: Duration::ZERO,
        whole: Duration::from_secs(3600),
    };
    let stage = stage_with(lifetimes, None, with_bob).await;
    let visit = stage.visit();
    let got = visit.get("/budget");
    assert!(got.status == 303 && got.head.contains("location: /login"));
    let got = visit.post_with("", "/price", &[("sql", COUNT)]);
    assert!(got.status == 401 && got.has("The session has ended"));
}

#[tokio::test(flavor = "multi_thread")]
async fn guesses_are_slowed_down_and_recorded() {
    let stage = stage().await;
    let mut shown = Vec::new();
    for name in ["analyst", "nobody"].into_iter().cycle().take(10) {
        let got = stage.log_in(name, "wrong");
        assert_eq!(got.status, 401, "{name}");
        shown.push(got.body);
    }
    shown.dedup();
    assert_eq!(shown.len(), 1);
    for _ in 0..3 {
        let got = stage.log_in("analyst", "analyst");
        assert!(got.status == 429 && !got.head.contains("set-cookie"));
    }
    stage.visit_as("bob", BOB);
    let records = stage.records().await;
    let of = |name: &str| records.iter().filter(|r| r.name == name).count();
    assert_eq!([of("analyst"), of("nobody"), of("bob")], [6, 5, 1]);
    assert!(records.iter().all(|r| r.origin.address.is_some()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_that_changes_a_role_ends_its_session() {
    let stage = stage().await;
    let (analyst, bob) = (stage.visit(), stage.visit_as("bob", BOB));
    assert!(analyst.get("/").status == 200 && bob.get("/").status == 200);
    let verifier = make_verifier(BOB);
    let edited = |yaml: String| {
        let old = yaml.split("name: bob, password: '").nth(1).unwrap();
        let old = old.split('\'').next().unwrap().to_owned();
        yaml.replace(&old, &verifier)
    };
    let next = stage.veil.proxy_with(&stage.veil.ledger, edited).await;
    stage.exchange.replace(next);
    assert_eq!(bob.get("/").status, 303);
    assert_eq!(analyst.get("/").status, 200);
    assert_eq!(stage.visit_as("bob", BOB).get("/").status, 200);
}

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
    let seen = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%nls.women%' \
        AND pid <> pg_backend_pid()";
    assert_eq!(stage.veil.direct(seen).await, ["0"]);
    let answered = visit.run(&priced);
    assert_eq!(answered.status, 200);
    for wanted in [
        "privacy cost:",
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
    assert_eq!(got.status, 409);
    assert_eq!(visit.run(&again).status, 403);
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
    let dearer =
        |yaml: String| yaml.replace("per_query: {epsilon: 0.5,", "per_query: {epsilon: 1,");
    let next = stage.veil.proxy_with(&stage.veil.ledger, dearer).await;
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
    stage
        .veil
        .client
        .batch_execute(
            "DELETE FROM nls.interviews WHERE woman_id IN (SELECT woman_id FROM nls.women LIMIT 9);
             DELETE FROM nls.women WHERE woman_id NOT IN (SELECT woman_id FROM nls.interviews)",
        )
        .await
        .unwrap();
    let after = crawl();
    for (at, (before, after)) in before.iter().zip(&after).enumerate() {
        if at != 2 {
            assert_eq!(still(before), still(after));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_limited() {
    let stage = stage().await;
    let visit = stage.visit();
    let big = "x".repeat(70_000);
    assert_eq!(visit.price(&big).status, 413);
    let long = format!("X: {big}");
    assert_eq!(stage.send("GET", "/", &[&long], "").status, 431);
    assert_eq!(visit.get("/").status, 200);
}

/// Sends the form of a price, and waits until its question has begun.
async fn begin(visit: &Visit<'_>, priced: &Got) -> TcpStream {
    let (token, number) = (token(&priced.body), quote(&priced.body));
    let body = form(&[("token", &token), ("quote", &number)]);
    let address = visit.stage.address;
    let mut socket = TcpStream::connect(address).unwrap();
    let request = format!(
        "POST /run HTTP/1.1\r\nHost: {address}\r\n{OWN}\r\n{}\r\nContent-Length: {}\r\n\
            Content-Type: application/x-www-form-urlencoded\r\n\r\n{body}",
        visit.cookie,
        body.len()
    );
    socket.write_all(request.as_bytes()).unwrap();
    while visit.stage.sessions.all()[0].state() != State::Running {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    socket
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_asks_one_question_at_a_time() {
    let stage = stage().await;
    let visit = stage.visit();
    let (priced, other) = (visit.price(COUNT), visit.price(BY_RACE));
    // As while a policy is loaded: no question goes on.
    let held = stage.exchange.quiet().await;
    let mut running = begin(&visit, &priced).await;
    for busy in [visit.price(COUNT), visit.run(&other)] {
        assert_eq!(busy.status, 503);
        assert!(busy.has("A question of this session is still running"));
    }
    drop(held);
    let mut text = Vec::new();
    aside(|| running.read_to_end(&mut text)).unwrap();
    let answered = Got::of(text);
    assert!(answered.has("1 row"), "{}", answered.body);
    assert_eq!(visit.price(BY_RACE).status, 200);
}

/// A client that leaves is shown nothing, and releases that are unpaid by then stay unpaid.
#[tokio::test(flavor = "multi_thread")]
async fn a_question_ends_when_its_client_leaves() {
    let stage = stage().await;
    let visit = stage.visit();
    let priced = visit.price(COUNT);
    let held = stage.exchange.quiet().await;
    drop(begin(&visit, &priced).await);
    while stage.sessions.all()[0].state() != State::Idle {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    drop(held);
    // The session goes on once the question has ended.
    while visit.price(BY_RACE).status != 200 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(stage.veil.spent().await, 0.0);
    let records = stage.records().await;
    let left = records.iter().filter(|record| record.sqlstate == "08006");
    assert_eq!(left.count(), 1, "{records:?}");
}

/// An operator's KILL ends a session of the desk as one of the wire.
#[tokio::test(flavor = "multi_thread")]
async fn an_operator_lists_and_ends_sessions() {
    let stage = stage().await;
    let visit = stage.visit();
    let open = stage.sessions.all();
    let [session] = open.as_slice() else {
        panic!("{open:?}")
    };
    assert_eq!(
        (session.name.as_str(), session.is_operator),
        ("analyst", false)
    );
    assert_eq!(session.application(), "pgveil desk");
    let priced = visit.price(COUNT);
    session.end();
    assert_eq!(visit.run(&priced).status, 401);
    assert_eq!(visit.get("/").status, 303);
    assert_eq!(stage.veil.spent().await, 0.0);
    drop(open);
    assert!(stage.sessions.all().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_take_the_places_of_clients() {
    let limited = |policy: String| {
        with_bob(policy).replacen("\nlimits:\n", "\nlimits:\n  connections_per_role: 2\n", 1)
    };
    let stage = stage_with(Lifetimes::default(), None, limited).await;
    let first = stage.visit();
    let _second = stage.visit();
    let third = stage.log_in("analyst", "analyst");
    assert!(
        third.status == 503 && third.has("too many connections for role"),
        "{}",
        third.body
    );
    stage.visit_as("bob", BOB);
    let leaving = token(&first.get("/").body);
    assert_eq!(first.post_with(&leaving, "/logout", &[]).status, 303);
    stage.visit();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_needs_a_certificate_does_not_get_around_it() {
    let certified = |policy: String| {
        with_bob(policy).replacen("{name: bob,", "{name: bob, certificate: required,", 1)
    };
    let stage = stage_with(Lifetimes::default(), None, certified).await;
    assert_eq!(stage.log_in("bob", BOB).status, 401);
    stage.visit();
}

#[tokio::test(flavor = "multi_thread")]
async fn beyond_this_machine_the_cookie_is_for_tls_alone() {
    let (config, certificate) = crate::wire::tls::configuration();
    let tls = Some(Tls::from(Some(config)));
    let stage = stage_with(Lifetimes::default(), tls, with_bob).await;
    let body = form(&[("name", "analyst"), ("password", "analyst")]);
    let host = stage.address;
    let request = format!(
        "POST /login HTTP/1.1\r\nHost: {host}\r\nOrigin: https://{host}\r\nConnection: close\r\n\
            Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let got = Got::of(crate::wire::tls::exchanged(host, &certificate, request.as_bytes()).await);
    assert_eq!(got.status, 303, "{}", got.body);
    let set = cookie(&got);
    assert!(set.starts_with(&format!("__host-pgveil-{}=", host.port())));
    assert!(
        set.ends_with("; path=/; httponly; samesite=strict; secure"),
        "{set}"
    );
}

#[test]
fn a_desk_without_tls_is_not_opened_beyond_this_machine() {
    let done = std::process::Command::new(super::stage::PGVEIL)
        .args(["serve", "--listen", "127.0.0.1:0", "--desk", "0.0.0.0:0"])
        .args(["--policy", "policies/demo.yaml"])
        .env("DATABASE_URL", "postgres://nowhere/nls")
        .env("PGVEIL_LEDGER", "sqlite:///nowhere/ledger.db")
        .output()
        .unwrap();
    let reported = String::from_utf8_lossy(&done.stderr);
    let wanted = "the desk at 0.0.0.0:0 would be reached without TLS";
    assert!(
        !done.status.success() && reported.contains(wanted),
        "{reported}"
    );
}

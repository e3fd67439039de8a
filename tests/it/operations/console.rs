//! The console: whom it lets in, what it shows to whom, what it does, and that it has no way to
//! rows.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use pgveil::console::{ConsoleOptions, InForce, serve};
use pgveil::engine::{Reloadable, Service};
use pgveil::ledger::{
    Act, Decided, Event, KeyedStatementDigest, LoggedStatement, Origin, Record, Verdict, now,
};
use pgveil::mechanism::Loss;
use pgveil::parse::{ExplainFormat, Statement, parse};
use pgveil::policy::File;
use pgveil::web::rate_limit::RequestLimit;
use pgveil::web::session::Lifetimes;
use pgveil::wire::Tls;
use pgveil::wire::scram::make_verifier;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::demo_page::{Got, form};
use super::pages::{
    FEWER, OWN, Visit, cookie, is_closed, log_in, logs_in_by_tls, sent, still, token,
};
use crate::fixture::Veil;

pub const PASSWORD: &str = "three blind mice";
const OWNED: [&str; 5] = ["/budgets", "/statements", "/explore", "/policy", "/checks"];
const COUNT: &str = "SELECT count(*) FROM nls.women";

/// A console over the demo, with olga, who may own, and wim, who may watch.
pub struct Stage {
    pub address: SocketAddr,
    pub veil: Veil,
    exchange: Arc<Reloadable>,
    verifier: String,
    _shutdown: tokio_util::sync::DropGuard,
}

pub async fn stage(lifetimes: Lifetimes, tls: Option<Tls>) -> Stage {
    stage_of(lifetimes, tls, "").await
}

/// The same; `more` is said of olga in the policy.
pub async fn stage_of(lifetimes: Lifetimes, tls: Option<Tls>, more: &str) -> Stage {
    let verifier = make_verifier(PASSWORD);
    let operators = |policy: String| {
        let operator =
            |name: &str, may: &str| format!("{{name: {name}, password: '{verifier}', may: {may}}}");
        let own = format!("[watch, own]{more}");
        let (olga, wim) = (operator("olga", &own), operator("wim", "[watch]"));
        format!("{policy}\noperators: [{olga}, {wim}]\n")
    };
    let veil = Veil::demo(operators, None).await;
    let bare = File::parse_without_secrets("policy.yaml", &veil.yaml, |_| None).ok();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let exchange = Arc::new(Reloadable::new(Arc::clone(&veil.engine)));
    let options = ConsoleOptions {
        tls,
        hosts: vec!["pgveil.internal".to_owned()],
        lifetimes,
        // However slow this machine is.
        first_wait: Duration::from_secs(60),
        pace: RequestLimit::default(),
    };
    let shutdown = CancellationToken::new();
    let in_force = Arc::new(InForce::new(bare));
    let served = serve(
        listener,
        Arc::clone(&exchange),
        in_force,
        options,
        shutdown.clone(),
    );
    tokio::spawn(served);
    Stage {
        address,
        veil,
        exchange,
        verifier,
        _shutdown: shutdown.drop_guard(),
    }
}

impl Stage {
    fn send(&self, method: &str, path: &str, headers: &[&str], body: &str) -> Got {
        sent(self.address, method, path, headers, body)
    }

    fn log_in(&self, name: &str, password: &str) -> Got {
        log_in(self.address, name, password)
    }

    fn visit(&self, name: &str) -> Visit {
        Visit::begin(self.address, name, PASSWORD)
    }

    async fn is_frozen(&self) -> bool {
        let balance = self.veil.engine.ledger().balance("analyst").await;
        balance.unwrap().frozen
    }

    async fn decided(&self) -> Vec<Decided> {
        self.veil.engine.ledger().decisions().await.unwrap()
    }
}

impl Visit {
    fn explore(&self, sql: &str) -> Got {
        let fields = [("role", "analyst"), ("epsilon", ""), ("sql", sql)];
        self.post("/explore", "/explore", &fields)
    }

    fn draft(&self, draft: &str) -> Got {
        self.post("/policy", "/policy", &[("draft", draft)])
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_let_in_without_a_session() {
    let stage = stage(Lifetimes::default(), None).await;
    for path in ["/", "/budgets", "/explore", "/policy", "/checks", "/else"] {
        for cookie in ["Cookie: a=b", "Cookie: pgveil=00"] {
            let got = stage.send("GET", path, &[cookie], "");
            let is_sent_away = got.head.contains("location: /login");
            assert!(got.status == 303 && is_sent_away, "{path}: {}", got.head);
        }
    }
    for path in ["/freeze", "/logout", "/explore", "/policy"] {
        let body = form(&[
            ("token", ""),
            ("account", "all"),
            ("why", "x"),
            ("draft", "x"),
            ("role", "analyst"),
            ("epsilon", ""),
            ("sql", COUNT),
        ]);
        let got = stage.send("POST", path, &[OWN], &body);
        assert_eq!(got.status, 401, "{path}");
    }
    assert!(!stage.is_frozen().await);
    // Roles do not log in here, and a role's password opens nothing.
    assert_eq!(stage.log_in("analyst", "analyst").status, 401);
    assert_eq!(stage.log_in("olga", "").status, 401);
    assert_eq!(stage.log_in("", PASSWORD).status, 401);
    let shown = stage.send("GET", "/login", &[], "");
    assert!(shown.status == 200 && !shown.has("name=\"token\""));
}

#[tokio::test(flavor = "multi_thread")]
async fn other_hosts_and_other_sites_are_refused() {
    let stage = stage(Lifetimes::default(), None).await;
    for host in ["evil.example", "pgveil.internal.evil.example", ""] {
        let got = stage.send("GET", "/login", &[&format!("Host: {host}")], "");
        // Without a host it is no request of HTTP/1.1 at all.
        assert!(got.status == 421 || host.is_empty(), "{host}: {}", got.head);
        assert_ne!(got.status, 200, "{host}");
    }
    let own = stage.send("GET", "/login", &["Host: pgveil.internal:1"], "");
    assert_eq!(own.status, 200);
    let visit = stage.visit("olga");
    let page = visit.get("/budgets");
    let fields = [
        ("token", &*token(&page.body)),
        ("account", "all"),
        ("why", "x"),
        ("sure", "yes"),
    ];
    for site in [
        "Sec-Fetch-Site: cross-site",
        "Sec-Fetch-Site: same-site",
        "Sec-Fetch-Site: none",
        "Origin: http://evil.example",
        "Origin: null",
        "X: y",
    ] {
        let headers = [site, visit.cookie.as_str()];
        let got = stage.send("POST", "/freeze", &headers, &form(&fields));
        assert_eq!(got.status, 403, "{site}");
    }
    let body = form(&[("name", "olga"), ("password", PASSWORD)]);
    let got = stage.send("POST", "/login", &["Sec-Fetch-Site: cross-site"], &body);
    assert!(got.status == 403 && !got.head.contains("set-cookie"));
    assert!(!stage.is_frozen().await && stage.decided().await.is_empty());
    // An old browser, which names its origin alone.
    let origin = format!("Origin: http://{}", stage.address);
    let headers = [origin.as_str(), visit.cookie.as_str()];
    let got = stage.send("POST", "/freeze", &headers, &form(&fields));
    assert_eq!(got.status, 303, "{}", got.body);
    assert!(stage.is_frozen().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_has_the_headers() {
    let stage = stage(Lifetimes::default(), None).await;
    let visit = stage.visit("olga");
    let (own, foreign) = (
        visit.get("/"),
        stage.send("GET", "/", &["Host: e.example"], ""),
    );
    for got in [
        &own,
        &foreign,
        &visit.get("/style.css"),
        &visit.get("/nothing"),
        &visit.post_with("", "/freeze", &[("account", "all"), ("why", "x")]),
        &stage.log_in("olga", "wrong"),
    ] {
        is_closed(got);
    }
    assert_eq!(visit.get("/nothing").status, 404);
    assert_eq!(visit.post_with("", "/freeze", &[]).status, 422);
    assert_eq!(
        stage.send("DELETE", "/", &[OWN, &visit.cookie], "").status,
        405
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn guesses_of_a_password_are_slowed_down() {
    let stage = stage(Lifetimes::default(), None).await;
    let mut shown = Vec::new();
    for name in ["olga", "nobody"].into_iter().cycle().take(10) {
        let got = stage.log_in(name, "wrong");
        assert_eq!(got.status, 401, "{name}");
        shown.push(got.body);
    }
    // An existing name reads like one that does not exist.
    shown.dedup();
    assert_eq!(shown.len(), 1);
    // Five failures of this name from here: also the right password waits now.
    for _ in 0..3 {
        let got = stage.log_in("olga", PASSWORD);
        assert_eq!(got.status, 429, "{}", got.body);
        assert!(got.has("Too many failures. Try again in"));
        assert!(!got.head.contains("set-cookie"));
    }
    // Another name is not slowed down by that.
    stage.visit("wim");
    // All are counted, for the alert on guesses.
    let counted = stage.exchange.meter().print();
    for wanted in [
        "pgveil_logins_total{outcome=\"accepted\"} 1\n",
        "pgveil_logins_total{outcome=\"refused\"} 13\n",
    ] {
        assert!(counted.contains(wanted), "{wanted} in {counted}");
    }
    // The record has one of the tries that came too early.
    stage.veil.engine.ledger().flush().await;
    let records = stage.veil.engine.ledger().recent_records(i64::MAX, 100);
    let records = records.await.unwrap();
    let refused = records
        .iter()
        .filter(|(_, record)| record.name == "olga")
        .map(|(_, record)| record.sqlstate());
    let refused: Vec<&str> = refused.collect();
    assert_eq!(
        refused,
        ["57P03", "28P01", "28P01", "28P01", "28P01", "28P01"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_a_cookie_that_scripts_and_other_sites_do_not_get() {
    let stage = stage(Lifetimes::default(), None).await;
    let got = stage.log_in("olga", PASSWORD);
    let set = cookie(&got);
    let (pair, attributes) = set.split_once("; ").unwrap();
    assert_eq!(attributes, "path=/; httponly; samesite=strict");
    let (name, secret) = pair.split_once('=').unwrap();
    assert_eq!(name, format!("pgveil-{}", stage.address.port()));
    assert_eq!(secret.len(), 64);
    let first = stage.visit("olga");
    let second = stage.visit("olga");
    assert_ne!(first.cookie, second.cookie);
    // A guessed neighbour of an identifier.
    let mut other = first.cookie.clone();
    let last = if other.ends_with('0') { "1" } else { "0" };
    other.replace_range(other.len() - 1.., last);
    assert_eq!(stage.send("GET", "/", &[&other], "").status, 303);
    assert!(first.get("/").has("olga may watch and act for the owner"));
    let left = first.post("/", "/logout", &[]);
    assert_eq!(left.status, 303);
    assert!(cookie(&left).contains("max-age=0"));
    assert_eq!(first.get("/").status, 303);
    assert_eq!(second.get("/").status, 200);
    // A form of one session is not valid in another.
    let third = stage.visit("olga");
    let token = token(&third.get("/budgets").body);
    let fields = [("account", "all"), ("why", "x")];
    assert_eq!(second.post_with(&token, "/freeze", &fields).status, 403);
    assert!(!stage.is_frozen().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_session_is_sent_to_the_login() {
    let lifetimes = Lifetimes {
        idle: Duration::ZERO,
        whole: Duration::from_secs(3600),
    };
    let stage = stage(lifetimes, None).await;
    let visit = stage.visit("olga");
    let got = visit.get("/budgets");
    assert!(got.status == 303 && got.head.contains("location: /login"));
    let got = visit.post_with("", "/freeze", &[("account", "all"), ("why", "x")]);
    assert!(got.status == 401 && got.has("The session has ended"));
    assert!(!stage.is_frozen().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_that_changes_an_operator_ends_the_session() {
    let stage = stage(Lifetimes::default(), None).await;
    let (olga, wim) = (stage.visit("olga"), stage.visit("wim"));
    assert!(olga.get("/").status == 200 && wim.get("/").status == 200);
    // The same password, made a verifier again: the holder of the old one may be somebody else.
    let (verifier, place) = (make_verifier(PASSWORD), stage.veil.ledger.clone());
    let edited = |yaml: String| yaml.replacen(&stage.verifier, &verifier, 1);
    stage
        .exchange
        .replace(stage.veil.proxy_with(&place, edited).await);
    assert_eq!(olga.get("/").status, 303);
    assert_eq!(wim.get("/").status, 200);
    assert_eq!(stage.visit("olga").get("/budgets").status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_watch_sees_no_budget() {
    let stage = stage(Lifetimes::default(), None).await;
    let visit = stage.visit("wim");
    let overview = visit.get("/");
    assert_eq!(overview.status, 200);
    assert!(overview.has("Ready") && overview.has("database: reached"));
    for absent in [
        "analyst",
        "Left of each budget",
        "Acts of the last day",
        "Open sessions",
        "/budgets",
        "/policy",
    ] {
        assert!(!overview.has(absent), "{absent}");
    }
    for path in OWNED {
        let got = visit.get(path);
        assert!(got.status == 403 && !got.has("analyst"), "{path}");
    }
    let fields = [("account", "all"), ("why", "x")];
    assert_eq!(visit.post("/", "/freeze", &fields).status, 403);
    let fields = [("role", "analyst"), ("epsilon", ""), ("sql", COUNT)];
    assert_eq!(visit.post("/", "/explore", &fields).status, 403);
    assert!(!stage.is_frozen().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_is_frozen_and_the_ledger_says_who_did_it() {
    let stage = stage(Lifetimes::default(), None).await;
    let visit = stage.visit("olga");
    stage.veil.ask(COUNT).await.unwrap();
    let page = visit.get("/budgets");
    assert!(page.has("Freeze analyst") && page.has("Freeze all") && page.has("no forecast"));
    assert!(page.has("1 more at epsilon") || page.has(" more at epsilon"));
    for (account, why) in [
        ("role nobody", "x"),
        ("", "x"),
        ("analyst", "x"),
        ("role analyst", " "),
        // Without the box.
        ("all", "x"),
    ] {
        let fields = [("account", account), ("why", why)];
        let got = visit.post("/budgets", "/freeze", &fields);
        assert_eq!(got.status, 400, "{account} {why}");
    }
    assert!(!stage.is_frozen().await);
    let (token, why) = (token(&page.body), "<b>incident</b> 12");
    let fields = [("account", "role analyst"), ("why", why)];
    let got = visit.post_with(&token, "/freeze", &fields);
    assert!(got.status == 303 && got.head.contains("location: /budgets"));
    assert!(stage.is_frozen().await);
    let decided = stage.decided().await;
    let [Decided { decision, .. }] = decided.as_slice() else {
        panic!("{decided:?}")
    };
    let role = Some("analyst".to_owned());
    assert_eq!(decision.act, Act::Freeze { role });
    assert_eq!(decision.who, "olga");
    assert_eq!(decision.why, why);
    // The same form again does nothing.
    assert_eq!(visit.post_with(&token, "/freeze", &fields).status, 403);
    assert_eq!(stage.decided().await.len(), 1);
    // Another form for what is frozen already changes nothing.
    let again = visit.post("/budgets", "/freeze", &fields);
    assert!(again.status == 400 && again.has("frozen already"));
    assert_eq!(stage.decided().await.len(), 1);
    let refused = stage.veil.ask("SELECT count(*) FROM nls.interviews").await;
    assert!(refused.is_err());
    let page = visit.get("/budgets");
    assert!(page.has("frozen") && page.has("&lt;b&gt;incident&lt;/b&gt; 12"));
    assert!(!page.has("<b>"));
    assert!(visit.get("/").has("freeze role analyst"));
}

/// A ledger that takes no decision, as if its disk were full.
#[tokio::test(flavor = "multi_thread")]
async fn a_freeze_that_cannot_be_recorded_is_not_done() {
    let stage = stage(Lifetimes::default(), None).await;
    let visit = stage.visit("olga");
    let path = stage.veil.ledger.strip_prefix("sqlite://").unwrap();
    let other = rusqlite::Connection::open(path).unwrap();
    other.busy_timeout(Duration::from_secs(20)).unwrap();
    other
        .execute_batch(
            "CREATE TRIGGER full BEFORE INSERT ON decision BEGIN SELECT RAISE(ABORT, 'full'); END",
        )
        .unwrap();
    let fields = [("account", "role analyst"), ("why", "x")];
    let got = visit.post("/budgets", "/freeze", &fields);
    assert!(
        got.status == 503 && got.has("the log says why"),
        "{}",
        got.body
    );
    assert!(!got.has("full") && !stage.is_frozen().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn exploring_charges_nothing_and_runs_nothing() {
    let stage = stage(Lifetimes::default(), None).await;
    let visit = stage.visit("olga");
    let got = visit.explore(COUNT);
    assert_eq!(got.status, 200);
    for wanted in [
        "Price and noise",
        "Scan nls.women (private",
        "of the budget",
        "Such answers",
        "<svg class=\"plot\"",
        "the role&#39;s own",
    ] {
        assert!(
            got.has(wanted) || got.has(&wanted.replace("&#39;", "'")),
            "{wanted}"
        );
    }
    assert_eq!(stage.veil.spent().await, 0.0);
    // Refusals as the role would get them, with what was typed as text.
    let script = "SELECT '<script>alert(1)</script>' FROM nls.women";
    let refused = visit.explore(script);
    assert!(refused.has("SQLSTATE") && refused.has("&lt;script&gt;alert(1)"));
    assert!(!refused.has("<script"));
    for sql in [
        "",
        "SELECT 1; SELECT 2",
        "DELETE FROM nls.women",
        "SET a = b",
    ] {
        assert!(visit.explore(sql).has("class=\"refused\""), "{sql}");
    }
    for (role, epsilon) in [
        ("nobody", ""),
        ("analyst", "x"),
        ("analyst", "1e9"),
        ("analyst", "-1"),
    ] {
        let fields = [("role", role), ("epsilon", epsilon), ("sql", COUNT)];
        let got = visit.post("/explore", "/explore", &fields);
        assert!(got.has("class=\"refused\""), "{role} {epsilon}");
    }
    let wide = visit.post(
        "/explore",
        "/explore",
        &[("role", "analyst"), ("epsilon", "0.25"), ("sql", COUNT)],
    );
    assert!(wide.has("0.25"));
    // Settings hold for the text, as they would in a session of the role.
    let set = |settings: &str| visit.explore(&format!("{settings}; {COUNT}"));
    for (settings, wanted) in [
        ("SET pgveil.epsilon = 0.25", ">0.25</td>"),
        (
            "SET pgveil.epsilon = '0.25'; SET TimeZone = 'Asia/Tokyo'",
            ">0.25</td>",
        ),
        (
            "SET pgveil.target_error = 1000",
            "pgveil.target_error is left out",
        ),
        ("SET pgveil.epsilon = 1e9", "SQLSTATE 22023"),
        ("SET pgveil.nonsense = 1", "SQLSTATE 42704"),
        ("SET search_path = public", "SQLSTATE"),
    ] {
        let sql = match settings.contains("search_path") {
            true => format!("{settings}; SELECT count(*) FROM women"),
            false => format!("{settings}; {COUNT}"),
        };
        let got = visit.explore(&sql);
        assert!(got.has(wanted), "{settings}: {}", got.body);
    }
    assert!(!set("SET pgveil.epsilon = 0.25").has("SQLSTATE"));
    assert!(got.has("Of all roles together: 100.00 % left; after this query"));
    // Nothing of it reached the database.
    let asked = "SELECT count(*) FROM pg_stat_activity WHERE \
        backend_type = 'client backend' AND query LIKE '%nls.women%' \
        AND pid <> pg_backend_pid()";
    assert_eq!(stage.veil.direct(asked).await, ["0"]);
    assert_eq!(stage.veil.spent().await, 0.0);
    let history = stage
        .veil
        .engine
        .ledger()
        .spent_since(None, 0, 10)
        .await
        .unwrap();
    assert!(history.is_empty(), "{history:?}");
    // It is in the record, under the operator's name, and shown so.
    stage.veil.engine.ledger().flush().await;
    let statements = visit.get("/statements?verdict=explained");
    assert!(statements.has("olga, as analyst") && statements.has("console 127.0.0.1"));
    assert!(!statements.has("SELECT count") && !statements.has("nls.women WHERE"));
    // As the wire records it: with its tables and its plan.
    let of_table = visit.get("/statements?verdict=explained&table=nls.women");
    assert!(of_table.has("olga, as analyst"));
    let explained = explained_record(&stage, "olga").await;
    let wired = on_the_wire(&stage).await;
    assert_eq!(explained, wired);
    // Texts that cannot be read are recorded too.
    let refused = visit.get("/statements?verdict=refused&sqlstate=0A000");
    assert!(refused.has("olga, as analyst"));
}

/// What the record says of the first COUNT that was explained, by an operator or without one.
async fn explained_record(stage: &Stage, actor: &str) -> LoggedStatement {
    let ledger = stage.veil.engine.ledger();
    ledger.flush().await;
    let records = ledger.records(0, 1000).await.unwrap();
    let found = records
        .into_iter()
        .find_map(|(_, record)| match record.event {
            Event::Statement(asked) => {
                let by = record.origin.actor.unwrap_or_default();
                (asked.verdict == Verdict::Explained && by == actor).then_some(asked)
            }
            Event::Login | Event::Act { .. } => None,
        });
    found.unwrap()
}

/// The record of `COUNT`, explained by the role itself.
async fn on_the_wire(stage: &Stage) -> LoggedStatement {
    let statements = parse(COUNT).unwrap();
    let [Statement::Query(query)] = statements.as_slice() else {
        panic!("one query")
    };
    let (format, cancel) = (ExplainFormat::Text, CancellationToken::new());
    let requester = Veil::requester();
    let engine = &stage.veil.engine;
    let explained = engine.explain(&requester, query, &[], &[], format, cancel);
    explained.await.unwrap();
    let asked = explained_record(stage, "").await;
    assert!(
        asked.plan.is_some() && asked.tables == ["nls.women"],
        "{asked:?}"
    );
    asked
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draft_is_compared_and_reads_nothing() {
    let stage = stage(Lifetimes::default(), None).await;
    let visit = stage.visit("olga");
    let yaml = stage.veil.yaml.clone();
    assert!(visit.draft(&yaml).has("The draft changes nothing"));
    // Line ends as browsers send them.
    assert!(
        visit
            .draft(&yaml.replace('\n', "\r\n"))
            .has("The draft changes nothing")
    );
    let wider = yaml.replace("epsilon: 8,", "epsilon: 9,");
    assert_ne!(wider, yaml);
    let got = visit.draft(&wider);
    assert!(got.has("The draft loosens the policy") && got.has("epsilon"));
    let tighter = visit.draft(&yaml.replace("epsilon: 8,", "epsilon: 7,"));
    assert!(tighter.has("The draft loosens nothing"));
    // No variable is looked up, also not one that is there.
    let named = yaml.replace("${DATABASE_URL}", "${PATH}");
    let path = std::env::var("PATH").unwrap();
    assert!(!visit.draft(&named).has(&path));
    // A private table that a draft calls public is not read.
    let private = "<i>x</i>";
    let broken = format!("version: 1\n{private}: {{domain: nls.women.race}}\n");
    let got = visit.draft(&broken);
    assert!(got.has("The draft is no policy yet") && got.has("draft:"));
    assert!(got.has("&lt;i&gt;x&lt;/i&gt;") && !got.has(private));
    assert!(visit.get("/policy").has("Protected: one woman"));
    let seen = "SELECT count(*) FROM pg_stat_activity WHERE \
        backend_type = 'client backend' AND query LIKE '%nls.%' \
        AND pid <> pg_backend_pid()";
    assert_eq!(stage.veil.direct(seen).await, ["0"]);
}

/// Every page as each kind of operator, for secrets; and again after rows of the private tables
/// have changed.
#[tokio::test(flavor = "multi_thread")]
async fn the_last_audit_is_shown() {
    let stage = stage(Lifetimes::default(), None).await;
    let visit = stage.visit("olga");
    assert!(visit.get("/checks").has("None is among the last"));
    let in_force = File::parse_without_secrets("policy.yaml", &stage.veil.yaml, |_| None);
    let digest = in_force.unwrap().digest.to_string();
    for (target, wanted) in [
        ("00".repeat(32), "Of another policy than the one in force."),
        (digest, "Of the policy in force."),
    ] {
        let event = Event::Act {
            act: "audit".to_owned(),
            target,
            why: "No finding: 3 <questions>".to_owned(),
        };
        let act = Record::now("otto", 0, Origin::default(), event);
        stage.veil.engine.ledger().record_act(act).await.unwrap();
        let got = visit.get("/checks");
        assert!(
            got.has("by otto: No finding: 3 &lt;questions&gt;."),
            "{}",
            got.body
        );
        assert!(got.has(wanted), "{}", got.body);
    }
}

/// A draft after which stored answers are bought again says what was paid for of late.
#[tokio::test(flavor = "multi_thread")]
async fn a_draft_says_what_is_bought_again() {
    let stage = stage(Lifetimes::default(), None).await;
    let visit = stage.visit("olga");
    let draft = |from: &str, to: &str| {
        assert!(stage.veil.yaml.contains(from), "{from}");
        visit.draft(&stage.veil.yaml.replacen(from, to, 1))
    };
    let wider = ("rows_per_unit: 15 ", "rows_per_unit: 16 ");
    let got = draft(wider.0, wider.1);
    assert!(got.has("no stored answer is shown again"), "{}", got.body);
    assert!(got.has("Nothing was charged in the last 7 days."));
    for sql in [COUNT, COUNT, "SELECT count(*) FROM nls.interviews"] {
        stage.veil.ask(sql).await.unwrap();
    }
    let got = draft(wider.0, wider.1);
    let wanted = "2 plans were charged in the last 7 days, mu ";
    assert!(
        got.has(wanted) && got.has("of the owner's total"),
        "{}",
        got.body
    );
    let same = visit.draft(&stage.veil.yaml);
    assert!(!same.has("in the last 7 days"));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_page_shows_a_secret_or_depends_on_a_row() {
    let stage = stage(Lifetimes::default(), None).await;
    stage.veil.ask(COUNT).await.unwrap();
    let crawl = |visit: &Visit| {
        let mut bodies = Vec::new();
        for path in [
            "/",
            "/budgets",
            "/budgets?days=7",
            "/explore",
            "/policy",
            "/checks",
        ] {
            bodies.push(visit.get(path).body);
        }
        bodies.push(visit.explore(COUNT).body);
        bodies.push(visit.draft("version: 1").body);
        bodies.push(stage.send("GET", "/login", &[], "").body);
        bodies
    };
    let (olga, wim) = (stage.visit("olga"), stage.visit("wim"));
    let before = crawl(&olga);
    stage.veil.engine.ledger().flush().await;
    let record = olga.get("/statements").body;
    // The login of each, and the question.
    for shown in ["wim", "nls.women", "answered", "login", "console 127.0.0.1"] {
        assert!(record.contains(shown), "{shown} in {record}");
    }
    let own: Vec<String> = ["/", "/nothing"].map(|path| wim.get(path).body).to_vec();
    let (_, keys) = stage.verifier.rsplit_once('$').unwrap();
    let secret = olga.cookie.rsplit('=').next().unwrap();
    for body in before.iter().chain(&own).chain([&record]) {
        for forbidden in [
            "SCRAM-SHA-256$",
            keys,
            secret,
            PASSWORD,
            "nowhere",
            "postgres://",
        ] {
            assert!(!body.contains(forbidden), "{forbidden} in {body}");
        }
    }
    stage.veil.client.batch_execute(FEWER).await.unwrap();
    let after = crawl(&olga);
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(still(before), still(after));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_record_is_filtered() {
    let stage = stage(Lifetimes::default(), None).await;
    let visit = stage.visit("olga");
    stage.veil.ask(COUNT).await.unwrap();
    assert!(stage.veil.ask("SELECT * FROM nls.women").await.is_err());
    assert_eq!(stage.log_in("<b>eve</b>", "guess").status, 401);
    let shaped = Event::Statement(LoggedStatement {
        statement: KeyedStatementDigest::new([7; 32]),
        plan: None,
        tables: Vec::new(),
        shape: Some("SELECT race < $1".to_owned()),
        verdict: Verdict::Explained,
        loss: Loss::ZERO,
    });
    let record = Record::now("bob", 0, Origin::default(), shaped);
    stage.veil.engine.ledger().record(record).await;
    stage.veil.engine.ledger().flush().await;
    let rows = |query: &str| {
        let got = visit.get(&format!("/statements{query}"));
        assert_eq!(got.status, 200, "{query}");
        got.body
    };
    let all = rows("");
    assert!(all.contains("&lt;b&gt;eve&lt;/b&gt;") && !all.contains("<b>"));
    assert!(all.contains("refused 28P01") && all.contains("refused 42501"));
    assert!(all.contains("What cost most, of these"));
    assert!(rows("?name=bob").contains("SELECT race &lt; $1"));
    let logins = rows("?kind=login");
    assert!(logins.contains("olga") && !logins.contains("refused 42501"));
    let answered = rows("?verdict=answered&table=nls.women&name=analyst&sqlstate=00000");
    assert!(answered.contains("answered") && !answered.contains("refused 4"));
    let digest = answered.split("<code>").nth(1).unwrap().get(..16).unwrap();
    assert!(rows(&format!("?digest={digest}")).contains("answered"));
    for nothing in [
        "?digest=0000000000000000",
        "?name=nobody",
        "?table=x",
        "?kind=act",
        "?before=0",
    ] {
        assert!(rows(nothing).contains("Nothing fits."), "{nothing}");
    }
    assert_eq!(visit.get("/statements?before=x").status, 400);
    for (times, is_within) in [
        ("?from=2020-01-01", true),
        ("?from=2020-02-29T23:59&to=2999-12-31T00:00", true),
        ("?to=2020-01-01", false),
        ("?from=2999-01-01", false),
        ("?from=2999-01-01T00:00&to=2020-01-01", false),
    ] {
        assert_eq!(rows(times).contains("refused 42501"), is_within, "{times}");
    }
    // A clock was far ahead for a while: what was recorded then hides nothing that came later.
    let login = |name: &str, microseconds: i64| Record {
        microseconds,
        ..Record::now(name, 0, Origin::default(), Event::Login)
    };
    let ledger = stage.veil.engine.ledger();
    let ahead = now() + 100 * 365 * 86_400_000_000;
    for early in 0..9 {
        ledger.record(login("early", ahead + early)).await;
    }
    ledger.record(login("late", now())).await;
    ledger.flush().await;
    let until = rows("?to=2099-01-01");
    assert!(
        until.contains("late") && !until.contains("early"),
        "{until}"
    );
    assert!(rows("?from=2099-01-01").contains("early"));
    for wrong in [
        "?from=x",
        "?to=2021-02-29",
        "?from=2020-01-01T24:00",
        "?to=1-1",
    ] {
        let got = visit.get(&format!("/statements{wrong}"));
        assert!(got.status == 400 && got.has("A time is written"), "{wrong}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_limited() {
    let stage = stage(Lifetimes::default(), None).await;
    let visit = stage.visit("olga");
    let big = "x".repeat(70_000);
    // The text is there to be shortened.
    for refused in [visit.draft(&big), visit.explore(&big)] {
        assert!(refused.status == 413 && refused.has(&format!("\n{big}</textarea>")));
        assert!(refused.has("has 70000 bytes, and the console takes 65536"));
    }
    let more = visit.post_with(&"x".repeat(1 << 20), "/policy", &[("draft", "x")]);
    assert!(
        more.status == 413 && more.has("nothing was done"),
        "{}",
        more.head
    );
    is_closed(&more);
    let long = format!("X: {big}");
    assert_eq!(stage.send("GET", "/", &[&long], "").status, 431);
    assert_eq!(visit.get("/").status, 200);
}

/// An operator asks this often and no more; the text stays, and a freeze is never slowed down.
#[tokio::test(flavor = "multi_thread")]
async fn requests_of_an_operator_are_counted() {
    let stage = stage(Lifetimes::default(), None).await;
    let visit = stage.visit("olga");
    let token = token(&visit.get("/explore").body);
    // One more each two seconds: these take less.
    let slowed = (0..1_000).map(|_| visit.get("/statements"));
    let slowed = slowed.map(|got| got.status).find(|status| *status == 429);
    assert_eq!(slowed, Some(429));
    let fields = [("role", "analyst"), ("epsilon", ""), ("sql", COUNT)];
    let asked = (0..1_000).map(|_| visit.post_with(&token, "/explore", &fields));
    let refused = asked.into_iter().find(|got| got.status == 429).unwrap();
    assert!(refused.has("All sessions of an operator") && refused.has(COUNT));
    let drafts = (0..1_000).map(|_| visit.post_with(&token, "/policy", &[("draft", "a: b")]));
    let refused = drafts.into_iter().find(|got| got.status == 429).unwrap();
    assert!(refused.has(">\na: b</textarea>"), "{}", refused.body);
    assert_eq!(stage.visit("wim").get("/").status, 200);
    let fields = [("account", "role analyst"), ("why", "incident")];
    assert_eq!(visit.post("/explore", "/freeze", &fields).status, 303);
    assert!(stage.is_frozen().await);
}

/// A form that does nothing gives back what was typed.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_typed_is_not_lost() {
    let stage = stage(Lifetimes::default(), None).await;
    let visit = stage.visit("olga");
    let (sql, draft) = ("SELECT 'of mine'", "draft: of mine");
    let of_sql = [("role", "analyst"), ("epsilon", "0.25"), ("sql", sql)];
    let of_draft = [("draft", draft)];
    let forms = [
        ("/explore", &of_sql[..], "SELECT &#39;of mine&#39;"),
        ("/policy", &of_draft[..], draft),
    ];
    let has = |got: &Got, text: &str| got.has(text) || got.has(&text.replace("&#39;", "'"));
    for (path, fields, text) in forms {
        let other = visit.post_with("00", path, fields);
        assert!(other.status == 403 && has(&other, text), "{path}");
        assert!(other.has("Nothing was done") && other.has("</textarea>"));
        // The same form may be sent again: it changes nothing.
        let token = token(&visit.get(path).body);
        for _ in 0..2 {
            assert_eq!(visit.post_with(&token, path, fields).status, 200);
        }
    }
    assert_eq!(visit.post("/", "/logout", &[]).status, 303);
    for (path, fields, text) in forms {
        let ended = visit.post_with("00", path, fields);
        assert!(ended.status == 401 && has(&ended, text), "{path}");
        assert!(ended.has("The session has ended") && ended.has("What you typed"));
    }
    // Who may not see the page gets no form.
    let wim = stage.visit("wim").post("/", "/explore", &of_sql);
    assert!(wim.status == 403 && !has(&wim, "of mine"));
}

#[tokio::test(flavor = "multi_thread")]
async fn beyond_this_machine_the_cookie_is_for_tls_alone() {
    let (config, certificate) = crate::wire::tls::configuration();
    let stage = stage(Lifetimes::default(), Some(Tls::from(Some(config)))).await;
    let body = form(&[("name", "olga"), ("password", PASSWORD)]);
    let host = stage.address;
    logs_in_by_tls(host, &certificate, &body).await;
    // Plain HTTP gets no page there.
    let mut socket = tokio::net::TcpStream::connect(host).await.unwrap();
    let mut text = Vec::new();
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let plain = format!("GET /login HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let _ = socket.write_all(plain.as_bytes()).await;
    let _ = socket.read_to_end(&mut text).await;
    assert!(!String::from_utf8_lossy(&text).contains("html"));
}

/// No operator, no console; no TLS, no console beyond this machine.
#[test]
fn a_console_that_nobody_should_reach_is_not_opened() {
    let policy = std::fs::read_to_string("policies/demo.yaml").unwrap();
    let directory = crate::fixture::TemporaryDirectory::new("console");
    let path = directory.0.join("policy.yaml");
    let verifier = make_verifier(PASSWORD);
    let operators =
        format!("{policy}\noperators: [{{name: olga, password: '{verifier}', may: [watch]}}]\n");
    let certified = operators.replace("may: [watch]", "may: [watch], certificate: required");
    let line = policy.lines().count() + 2;
    let place = certified.lines().last().unwrap();
    let column = place.find("required").unwrap() + 1;
    let place = format!("policy.yaml:{line}:{column}: operator \"olga\" needs a certificate, and ");
    for (text, address, wanted) in [
        (&policy, "127.0.0.1:0", "the policy lists no operator"),
        (&operators, "0.0.0.0:0", "would be reached without TLS"),
        (
            &certified,
            "127.0.0.1:0",
            &format!("{place}no authority is named"),
        ),
        (
            &certified,
            "127.0.0.1:0",
            &format!("{place}the console at 127.0.0.1:0 has no TLS"),
        ),
    ] {
        std::fs::write(&path, text).unwrap();
        let done = std::process::Command::new(super::stage::PGVEIL)
            .args([
                "serve",
                "--listen",
                "127.0.0.1:0",
                "--console",
                address,
                "--policy",
            ])
            .arg(&path)
            .env("DATABASE_URL", "postgres://nowhere/nls")
            .env("PGVEIL_LEDGER", "sqlite:///nowhere/ledger.db")
            .output()
            .unwrap();
        let reported = String::from_utf8_lossy(&done.stderr);
        assert!(
            !done.status.success() && reported.contains(wanted),
            "{wanted}: {reported}"
        );
    }
}

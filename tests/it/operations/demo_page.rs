//! The demo's web page: what it shows, what it costs, and whom it refuses.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use pgveil::demo::questions::QUESTIONS;
use pgveil::postgres::{LocalPostgres, ServerOptions};

const PGVEIL: &str = env!("CARGO_BIN_EXE_pgveil");

/// A running demo with its page.
pub struct Page {
    child: Child,
    /// `127.0.0.1:12345`.
    pub address: String,
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Page {
    pub fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(PGVEIL);
        command
            .args(["demo", "--listen", "127.0.0.1:0", "--page", "127.0.0.1:0"])
            .args(arguments)
            .env("PGVEIL_CACHE", "off")
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut address = None;
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            if let Some(rest) = line.strip_prefix("Open http://") {
                address = rest.split('/').next().map(str::to_owned);
            }
            if line.contains("Ctrl-C") {
                break;
            }
        }
        let address = address.expect("the demo says where its page is");
        Self { child, address }
    }

    fn send(&self, method: &str, path: &str, headers: &[&str], body: &str) -> Got {
        send(&self.address, method, path, headers, body)
    }

    pub fn get(&self, path: &str) -> Got {
        self.send("GET", path, &[], "")
    }

    /// A form of the page itself.
    pub fn post(&self, path: &str, fields: &[(&str, &str)]) -> Got {
        self.send(
            "POST",
            path,
            &["Sec-Fetch-Site: same-origin"],
            &form(fields),
        )
    }

    fn ask(&self, sql: &str) -> Got {
        self.post("/ask", &[("sql", sql), ("action", "ask")])
    }

    /// Tenths of a per cent that are left of the survey's budget.
    fn left(&self) -> u32 {
        self.left_at("/")
    }

    /// Tenths of a per cent that are left of a page's budget.
    pub fn left_at(&self, path: &str) -> u32 {
        let body = self.get(path).body;
        let text = body.split(" % of the budget is left").next().unwrap();
        let number = text.rsplit('>').next().unwrap();
        number.replace('.', "").parse().unwrap()
    }
}

/// Status, head and body of a request with these headers.
pub fn send(address: &str, method: &str, path: &str, headers: &[&str], body: &str) -> Got {
    let mut socket = TcpStream::connect(address).unwrap();
    let mut request = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    if !headers.iter().any(|header| header.starts_with("Host:")) {
        request += &format!("Host: {address}\r\n");
    }
    for header in headers {
        request += &format!("{header}\r\n");
    }
    if method == "POST" {
        request += "Content-Type: application/x-www-form-urlencoded\r\n";
        request += &format!("Content-Length: {}\r\n", body.len());
    }
    // The server may refuse before it has read everything.
    let _ = socket.write_all(format!("{request}\r\n{body}").as_bytes());
    let mut text = Vec::new();
    let _ = socket.read_to_end(&mut text);
    Got::of(text)
}

pub struct Got {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Got {
    pub fn of(text: Vec<u8>) -> Self {
        let text = String::from_utf8(text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").expect("an answer");
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Self {
            status,
            head: head.to_lowercase(),
            body: body.to_owned(),
        }
    }

    pub fn has(&self, part: &str) -> bool {
        self.body.contains(part)
    }
}

pub fn form(fields: &[(&str, &str)]) -> String {
    let escape =
        |text: &str| -> String { text.bytes().map(|byte| format!("%{byte:02X}")).collect() };
    let pairs: Vec<String> = fields
        .iter()
        .map(|(name, value)| format!("{name}={}", escape(value)))
        .collect();
    pairs.join("&")
}

/// The exact value that stands next to the first measure of a one-row answer.
fn exact(body: &str) -> &str {
    let cell = body.split("<td class=\"number exact\">").nth(1).unwrap();
    cell.split('<').next().unwrap()
}

#[test]
fn the_demos_page_answers_and_charges_like_psql() {
    let page = Page::start(&[]);
    assert_eq!(page.left(), 1000);
    // The price is shown free, in EXPLAIN's words.
    let count = QUESTIONS[0].sql;
    let priced = page.post("/ask", &[("sql", count), ("action", "price")]);
    assert!(
        priced.has("3.5 % of the budget: 100.0 % before, 96.5 % after."),
        "{}",
        priced.body
    );
    assert!(priced.has("standard deviation") && priced.has("Scan nls.women (private"));
    assert_eq!(page.left(), 1000);
    let first = page.ask(count);
    assert!(
        first.has("Cost 3.5 % of the budget; 96.5 % is left."),
        "{}",
        first.body
    );
    assert_eq!(exact(&first.body), "4711");
    assert!(
        first.has("95 % between") && first.has("exact 4,711"),
        "{}",
        first.body
    );
    // A repeat is free, and the same to the digit.
    let value = |got: &Got| got.body.split("aria-label=\"count: ").nth(1).unwrap()[..5].to_owned();
    let again = page.ask(count);
    assert!(again.has("Free: the budget stays at 96.5 %."));
    assert_eq!(value(&again), value(&first));
    // Every example has error bars, a price like the others', and exact values next to them.
    let mut left = page.left();
    for question in &QUESTIONS[1..] {
        let got = page.ask(question.sql);
        assert_eq!(got.status, 200);
        assert!(
            got.has("class=\"whisker\"") && got.has("; exact "),
            "{}",
            got.body
        );
        assert!(!got.has("The exact side did not answer"));
        let now = page.left();
        assert!(
            (34..=37).contains(&(left - now)),
            "{}: {left} {now}",
            question.title
        );
        left = now;
        if let Some(coarser) = question.coarser {
            let got = page.ask(coarser);
            assert!(got.has("Free: ") && got.has("; exact "), "{}", got.body);
            assert_eq!(page.left(), left);
        }
    }
    // A refused query costs nothing, and the refusal says what to write.
    let rows = page.ask("SELECT *\nFROM nls.women");
    assert!(rows.has("rows of a private table are not shown") && rows.has("42501"));
    for sql in [
        "SELECT 1; SELECT 2",
        "DROP TABLE nls.women",
        "SET pgveil.epsilon = 1",
        "",
    ] {
        let got = page.ask(sql);
        assert!(got.has("<h2>Refused</h2>"), "{sql}: {}", got.body);
    }
    // A regression's star is its fields. The number of rows has an interval, and is drawn.
    let fit = "SELECT (pgveil.linregr(hourly_wage, ARRAY[1, tenure_years])).* FROM nls.interviews";
    let fit = page.ask(fit);
    assert!(fit.has(">noise_err</th>"), "{}", fit.body);
    let drawn = fit.has("<strong>num_rows</strong>") && fit.has("class=\"whisker\"");
    assert!(drawn, "{}", fit.body);
    left = page.left();
    let script = page.ask("SELECT '<script>alert(1)</script>' AS \"<b>\"");
    assert!(script.has("&lt;script&gt;") && !script.has("<script") && !script.has("<b>"));
    assert_eq!(page.left(), left);
    attacks(&page, left);
}

fn attacks(page: &Page, mut left: u32) {
    let attack = |kind: &str| page.post("/attack", &[("kind", kind)]);
    let difference = attack("difference");
    assert!(
        difference.has(">15.10<") && difference.has("class=\"line\""),
        "{}",
        difference.body
    );
    assert!((69..=72).contains(&(left - page.left())));
    left = page.left();
    let repeats = attack("repeats");
    assert!(
        repeats.has("All 100 answers are ") && repeats.has("none of them revealed anything new")
    );
    // A sum of groups that were paid for above.
    assert!(repeats.has("The attack was free"));
    assert_eq!(page.left(), left);
    let averaging = attack("averaging");
    assert!(averaging.has("The mean is ") && averaging.has("class=\"band\""));
    assert!(
        (7..=11).contains(&(left - page.left())),
        "{left} {}",
        page.left()
    );
    assert!(attack("other").has("there is no such attack"));
}

#[test]
fn the_demos_page_is_for_this_machine_and_its_own_forms() {
    let page = Page::start(&[]);
    let home = page.get("/");
    assert_eq!(home.status, 200);
    for header in [
        "content-security-policy: default-src 'none'; style-src 'self'; form-action 'self'; \
            base-uri 'none'; frame-ancestors 'none'",
        "x-content-type-options: nosniff",
        "referrer-policy: same-origin",
        "cross-origin-opener-policy: same-origin",
        "cross-origin-resource-policy: same-origin",
        "cache-control: no-store",
    ] {
        assert!(home.head.contains(header), "{header}: {}", home.head);
    }
    // Nothing that the policy would stop, and nothing from elsewhere.
    for part in [
        "<script",
        "style=",
        "onclick",
        "javascript:",
        "//fonts",
        "https://",
    ] {
        assert!(!home.has(part), "{part}");
    }
    let style = page.get("/style.css");
    assert!(style.head.contains("content-type: text/css") && !style.has("url("));
    assert_eq!(page.get("/nothing").status, 404);
    // A name that its owner could rebind to this machine.
    for host in [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example:80",
    ] {
        let host = format!("Host: {host}");
        let got = page.send("GET", "/", &[&host], "");
        assert_eq!((got.status, got.has("nls")), (421, false), "{host}");
        assert!(got.head.contains("content-security-policy"));
    }
    let body = form(&[("sql", "SELECT count(*) FROM nls.women"), ("action", "ask")]);
    let own = format!("Origin: http://{}", page.address);
    for headers in [
        &[][..],
        &["Origin: null"],
        &["Origin: http://evil.example"],
        &["Sec-Fetch-Site: cross-site", &own],
        &["Sec-Fetch-Site: same-site"],
        &["Sec-Fetch-Site: none"],
    ] {
        let got = page.send("POST", "/ask", headers, &body);
        assert_eq!(got.status, 403, "{headers:?}");
    }
    assert_eq!(page.send("GET", "/ask", &[], "").status, 405);
    let large = format!("action=ask&sql={}", "x".repeat(1 << 20));
    let got = page.send("POST", "/ask", &["Sec-Fetch-Site: same-origin"], &large);
    assert_eq!(got.status, 413);
    assert_eq!(page.left(), 1000, "none of that was charged");
    assert_eq!(page.send("POST", "/ask", &[&own], &body).status, 200);
    assert_eq!(page.left(), 965);
}

/// The exact side has its own copy of the public data: it says what is in this binary, whatever
/// the database holds that pgveil protects.
#[tokio::test(flavor = "multi_thread")]
async fn exact_answers_never_read_the_protected_database() {
    let server = LocalPostgres::start(ServerOptions {
        database: Some("mine".to_owned()),
        ..ServerOptions::default()
    })
    .await
    .unwrap();
    let url = server.url().to_owned();
    let once = ["demo", "--once", "SELECT 1", "--database", &url];
    let loaded = Command::new(PGVEIL).args(once).output().unwrap();
    assert!(loaded.status.success());
    let connected = pgveil::postgres::connect(&server.config()).await.unwrap();
    let half = "DELETE FROM nls.interviews WHERE woman_id > 2400; \
        DELETE FROM nls.women WHERE woman_id > 2400";
    connected.client.batch_execute(half).await.unwrap();
    let one = "SELECT count(*) FROM nls.women";
    let private: i64 = connected.client.query_one(one, &[]).await.unwrap().get(0);
    assert!(private < 2401);
    connected.close().await;
    let asked = tokio::task::spawn_blocking(move || {
        let page = Page::start(&["--database", &url]);
        page.ask("SELECT count(*) FROM nls.women").body
    });
    let body = asked.await.unwrap();
    assert_eq!(exact(&body), "4711");
    let shown = body.split("aria-label=\"count: ").nth(1).unwrap();
    let shown: i64 = shown.split(',').take(2).collect::<String>()[..4]
        .parse()
        .unwrap();
    assert!((shown - private).abs() < 200, "{shown} {private}");
}

/// A served policy has no page, and no option to get one.
#[test]
fn serve_has_no_page() {
    for option in ["--page", "--shell"] {
        let arguments = [
            "serve",
            "--policy",
            "policies/demo.yaml",
            option,
            "127.0.0.1:0",
        ];
        let output = Command::new(PGVEIL).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{option}");
    }
}

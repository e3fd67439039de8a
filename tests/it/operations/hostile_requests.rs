//! Requests of every shape to the console and to the desk of one `pgveil serve`: pages and forms
//! with parts exchanged, doubled, cut and filled with what pages, SQL and YAML take badly. Each
//! answer is a page with its headers, none is an error of the server, and nothing that was sent
//! comes back as markup.
//!
//! `PGVEIL_HOSTILE=3600 cargo test --test it -- --ignored hostile --nocapture` runs for an hour;
//! without the variable, for a minute. `PGVEIL_SEED` draws the same requests again, with the tokens
//! and prices of the new run. `PGVEIL_BINARY` names another build of pgveil.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rand::seq::{IndexedMutRandom, IndexedRandom};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;

use super::demo_page::{Got, form};
use super::pages::{OWN, Visit, is_closed, token};
use super::serve::{GROWTH_KB, Running, free_port};
use super::stage::Stage;

/// Comes back escaped, or not at all.
const MARK: &str = "<zz9 a='\"&";
/// Operators, and roles: requests that plan are limited by name.
const NAMES: usize = 12;

/// The pages of a site, and its forms with their fields.
struct Shape {
    pages: &'static [&'static str],
    forms: &'static [(&'static str, &'static [&'static str])],
}
const CONSOLE: Shape = Shape {
    pages: &[
        "/",
        "/budgets",
        "/statements",
        "/explore",
        "/policy",
        "/checks",
        "/login",
        "/style.css",
    ],
    forms: &[
        ("/explore", &["role", "epsilon", "sql"]),
        ("/policy", &["draft"]),
        ("/freeze", &["account", "why", "sure"]),
        ("/logout", &[]),
    ],
};
const DESK: Shape = Shape {
    pages: &[
        "/",
        "/?show=tables",
        "/answer?of=1",
        "/budget",
        "/statements",
        "/login",
        "/style.css",
    ],
    forms: &[
        ("/price", &["sql", "pay"]),
        ("/run", &["quote"]),
        ("/logout", &[]),
    ],
};
const FIELDS: [&str; 17] = [
    "sql", "draft", "epsilon", "role", "account", "why", "sure", "quote", "pay", "name",
    "password", "token", "page", "before", "from", "until", "target",
];
const VALUES: [&str; 26] = [
    "",
    MARK,
    "SELECT count(*) FROM shop.people",
    "SELECT age / 10 AS decade, count(*), avg(age) FROM shop.people GROUP BY 1 ORDER BY 1",
    "SELECT kind AS \"<zz9 a='\" FROM shop.kinds",
    "SELECT count(*) AS \"<zz9\" FROM shop.people WHERE age > '<zz9'",
    "EXPLAIN (FORMAT JSON) SELECT sum(age) FROM shop.people",
    "SELECT ((((((((((((((((((((((((((((((((((((((((1",
    "SET pgveil.epsilon = 1e400; SELECT 1; SELECT '<zz9'",
    "SELECT * FROM \"<zz9\".\"<zz9\"",
    "COPY shop.people TO STDOUT",
    "version: 1\ntables: {\"<zz9\": {unit: \"<zz9\"}}",
    "version: 1\nroles: [{name: \"<zz9\", password: x}]\n<zz9: &a [*a, *a]",
    "a: &a [1]\nb: &b [*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c]\ne: [*d,*d,*d]",
    "analyst0",
    "operator0",
    "analyst0\u{0}",
    "-1",
    "0.1",
    "1e308",
    "NaN",
    "18446744073709551616",
    "\u{202e}\u{feff}\u{1f600}",
    "yes",
    "searches",
    "2026-02-30",
];
const HEADERS: [&str; 12] = [
    OWN,
    "Sec-Fetch-Site: cross-site",
    "Origin: null",
    "Origin: http://<zz9",
    "Host: evil.example",
    "Cookie: a=b; pgveil=<zz9",
    "Content-Type: multipart/form-data; boundary=x",
    "Content-Type: text/plain",
    "Transfer-Encoding: chunked",
    "Expect: 100-continue",
    "Accept: <zz9",
    "X-Forwarded-For: 10.0.0.1",
];

/// A site, the sessions of its visitors, and the price that it quoted last.
struct Site {
    address: SocketAddr,
    shape: Shape,
    who: &'static str,
    visits: Vec<Visit>,
    quote: Option<String>,
}

impl Site {
    fn open(port: u16, shape: Shape, who: &'static str) -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut site = Self {
            address,
            shape,
            who,
            visits: Vec::new(),
            quote: None,
        };
        for at in 0..NAMES {
            let visit = site.visit(at);
            site.visits.push(visit);
        }
        site.is_there();
        site
    }

    /// The site has every page and form.
    fn is_there(&self) {
        for path in self.shape.pages {
            let got = self.visits[0].get(path);
            let is_kept = got.status != 404 || got.has("not kept on this page");
            assert!(is_kept, "{path}: {}", got.status);
        }
        for (path, _) in self.shape.forms {
            let got = self.visits[0].post("/", path, &[("no", "field")]);
            assert!(![404, 405].contains(&got.status), "{path}: {}", got.status);
        }
    }

    fn visit(&self, at: usize) -> Visit {
        Visit::begin(self.address, &format!("{}{at}", self.who), "analyst")
    }

    /// A method, a path, and the fields of its form.
    fn target(
        &self,
        random: &mut ChaCha20Rng,
    ) -> (&'static str, &'static str, &'static [&'static str]) {
        match random.random_range(0..20) {
            0..12 => {
                let (path, fields) = self.shape.forms.choose(random).unwrap();
                ("POST", path, fields)
            }
            12..18 => ("GET", self.shape.pages.choose(random).unwrap(), &[]),
            18 => ("POST", self.shape.pages.choose(random).unwrap(), &[]),
            _ => {
                let method = ["HEAD", "PUT", "DELETE", "OPTIONS"].choose(random).unwrap();
                (method, self.shape.pages.choose(random).unwrap(), &[])
            }
        }
    }

    /// One request. A visitor who was logged out logs in again.
    fn request(&mut self, random: &mut ChaCha20Rng) -> Vec<u8> {
        let at = random.random_range(0..NAMES);
        let page = self.visits[at].get("/");
        if page.status != 200 {
            self.visits[at] = self.visit(at);
        }
        let token = if page.status == 200 {
            token(&page.body)
        } else {
            String::new()
        };
        let (method, path, names) = self.target(random);
        let mut fields: Vec<_> = names.iter().map(|name| (*name, value(random))).collect();
        if let Some((quote, (_, value))) = self.quote.as_ref().zip(fields.first_mut())
            && path == "/run"
            && random.random_bool(0.5)
        {
            value.clone_from(quote);
        }
        for _ in 0..random.random_range(0..3) {
            fields.push((*FIELDS.choose(random).unwrap(), value(random)));
        }
        if random.random_bool(0.9) {
            fields.push(("token", token));
        }
        let fields: Vec<_> = fields
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        let body = form(&fields);
        let (path, body) = match method {
            "POST" => (path.to_owned(), body),
            _ => (format!("{path}?{body}"), String::new()),
        };
        let mut headers = vec![
            format!("Host: {}", self.address),
            self.visits[at].cookie.clone(),
        ];
        if random.random_bool(0.9) {
            headers.push(OWN.to_owned());
        }
        if random.random_bool(0.1) {
            headers.push((*HEADERS.choose(random).unwrap()).to_owned());
        }
        let body = if method == "POST" {
            body
        } else {
            String::new()
        };
        let kind = "Content-Type: application/x-www-form-urlencoded";
        let head = headers.join("\r\n");
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nConnection: close\r\n{head}\r\n{kind}\r\n\
                Content-Length: {length}\r\n\r\n{body}"
        );
        mutated(request.into_bytes(), random)
    }
}

fn value(random: &mut ChaCha20Rng) -> String {
    let mut value = (*VALUES.choose(random).unwrap()).to_owned();
    match random.random_range(0..12) {
        0 => value += *VALUES.choose(random).unwrap(),
        1 => value = value.repeat(random.random_range(2..400)),
        2 => value.truncate(value.floor_char_boundary(random.random_range(0..40))),
        _ => {}
    }
    value
}

/// Now and then with bytes changed, left out or doubled, wherever they are.
fn mutated(mut request: Vec<u8>, random: &mut ChaCha20Rng) -> Vec<u8> {
    if random.random_bool(0.7) {
        return request;
    }
    for _ in 0..random.random_range(1..4) {
        let at = random.random_range(0..request.len());
        match random.random_range(0..3) {
            0 => request[at] = random.random(),
            1 => drop(request.remove(at)),
            _ => request.insert(at, request[at]),
        }
    }
    request
}

/// The answer; `None` where the connection was closed without one.
fn answer(address: SocketAddr, request: &[u8]) -> Option<Vec<u8>> {
    let mut socket = TcpStream::connect(address).unwrap();
    // The server waits for the rest of a body that is shorter than was said.
    socket
        .set_read_timeout(Some(Duration::from_millis(500)))
        .unwrap();
    let _ = socket.write_all(request);
    let (mut text, mut part) = (Vec::new(), [0; 4096]);
    loop {
        match socket.read(&mut part) {
            Ok(0) | Err(_) => break,
            Ok(bytes) => text.extend_from_slice(&part[..bytes]),
        }
    }
    (!text.is_empty()).then_some(text)
}

/// The number of the price that a page quotes.
fn quoted(text: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(text);
    let rest = text.split("name=\"quote\" value=\"").nth(1)?;
    rest.split('"').next().map(str::to_owned)
}

/// Counts the answer by its status. One that hyper makes of a request that is none has no body.
fn judge(request: &[u8], text: Vec<u8>) -> u16 {
    let shown = String::from_utf8_lossy(request).into_owned();
    let text = String::from_utf8(text).unwrap_or_else(|error| panic!("{error}: {shown}"));
    let text = text.trim_start_matches("HTTP/1.1 100 Continue\r\n\r\n");
    // It waited for the rest of a body.
    if text.is_empty() {
        return 0;
    }
    assert!(text.starts_with("HTTP/1.1 "), "{text} to {shown}");
    assert!(text.contains("\r\n\r\n"), "{text} to {shown}");
    let got = Got::of(text.into());
    assert!(got.status != 500, "{text} to {shown}");
    assert!(
        !got.body.contains("<zz9") && !got.head.contains("<zz9"),
        "{} to {shown}",
        got.body
    );
    if !got.body.is_empty() {
        is_closed(&got);
    }
    got.status
}

fn policy(text: &str) -> String {
    let many = |one: &dyn Fn(usize) -> String| (0..NAMES).map(one).collect::<Vec<_>>().join(", ");
    let role = |at: usize| {
        format!(
            "{{name: analyst{at}, password: \"${{VERIFIER}}\", \
                budget: {{epsilon: 50, delta: 1e-7}}}}"
        )
    };
    let operator = |at: usize| {
        format!("{{name: operator{at}, password: \"${{VERIFIER}}\", may: [watch, own]}}")
    };
    let roles = text
        .lines()
        .find(|line| line.starts_with("roles: "))
        .unwrap();
    let text = text.replace(roles, &format!("roles: [{}]", many(&role)));
    format!("{text}operators: [{}]\n", many(&operator))
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a long run, for its own command"]
async fn hostile_requests_are_answered_and_nothing_comes_back_as_markup() {
    let number = |name: &str| {
        std::env::var(name)
            .ok()
            .map(|text| text.parse::<u64>().unwrap())
    };
    let time = Duration::from_secs(number("PGVEIL_HOSTILE").unwrap_or(60));
    let seed = number("PGVEIL_SEED").unwrap_or_else(rand::random);
    println!("PGVEIL_SEED={seed}");
    let stage = Stage::new().await;
    stage.write_edited(policy);
    let ports = [free_port(), free_port(), free_port()];
    let at = ports.map(|port| format!("127.0.0.1:{port}"));
    let arguments = ["--listen", &at[0], "--console", &at[1], "--desk", &at[2]];
    let mut running = stage.serve("log", &arguments);
    assert_eq!(stage.reported(), "READY=1", "{}", stage.log("log"));
    let counted = tokio::task::block_in_place(|| ask(ports, seed, time, &running));
    println!("{counted:?}");
    for status in [200, 303, 403, 404, 405, 422] {
        assert!(counted.contains_key(&status), "no answer was {status}");
    }
    running.signal("-TERM");
    assert!(running.0.wait().unwrap().success());
    let log = stage.log("log");
    assert!(!log.contains("panic"), "{log}");
    let policy = stage.file("policy.yaml").display().to_string();
    let verified = stage.run(&["ledger", "verify", "--policy", &policy]);
    assert!(verified.status.success(), "{verified:?}");
}

/// How often each status was answered.
fn ask(ports: [u16; 3], seed: u64, time: Duration, running: &Running) -> BTreeMap<u16, usize> {
    let mut random = ChaCha20Rng::seed_from_u64(seed);
    let mut sites = [
        Site::open(ports[1], CONSOLE, "operator"),
        Site::open(ports[2], DESK, "analyst"),
    ];
    let (begun, mut counted, mut levels) = (Instant::now(), BTreeMap::new(), Vec::new());
    let mut next_level = begun;
    while begun.elapsed() < time {
        let site = sites.choose_mut(&mut random).unwrap();
        let request = site.request(&mut random);
        let answered = answer(site.address, &request);
        if let Some(quote) = answered.as_deref().and_then(quoted) {
            site.quote = Some(quote);
        }
        let status = answered.map_or(0, |text| judge(&request, text));
        *counted.entry(status).or_default() += 1;
        if Instant::now() >= next_level {
            levels.push(running.resident_kb());
            next_level += time / 60;
        }
    }
    println!("resident KiB {levels:?}");
    let warm = levels[levels.len() / 3];
    assert!(levels[levels.len() - 1] < warm + GROWTH_KB, "{levels:?}");
    counted
}

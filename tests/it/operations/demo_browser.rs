//! The demo's page in a real browser: Debian's chromium, by WebDriver. The page forbids scripts.
//! Skipped, with a line that says so, where chromium or its driver is missing.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::demo_page::Page;

const PATIENCE: Duration = Duration::from_secs(120);

/// A browser, and the driver that steers it.
pub struct Browser {
    driver: Child,
    port: u16,
    session: String,
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = call(self.port, "DELETE", &self.session, &Value::Null);
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// One request to the driver.
fn call(port: u16, method: &str, path: &str, body: &Value) -> std::io::Result<Value> {
    let mut socket = TcpStream::connect(("127.0.0.1", port))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
            Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    socket.write_all((head + &body).as_bytes())?;
    let (mut answer, mut buffer) = (Vec::new(), [0; 1 << 16]);
    // The driver may keep the connection open, so its length decides.
    loop {
        let text = String::from_utf8_lossy(&answer).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.to_lowercase();
            // Some drivers write a blank behind the colon, some do not.
            let length = length
                .split("content-length:")
                .nth(1)
                .unwrap_or("no length");
            let length = length.split("\r\n").next().unwrap().trim();
            let length: usize = length.parse().unwrap_or_else(|_| panic!("{path}: {head}"));
            if body.len() >= length {
                let mut answered: Value = serde_json::from_str(body)
                    .unwrap_or_else(|e| panic!("{path}: {e}: {head} {} bytes", body.len()));
                return Ok(answered["value"].take());
            }
        }
        let read = socket.read(&mut buffer)?;
        if read == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        answer.extend_from_slice(&buffer[..read]);
    }
}

impl Browser {
    /// `None` where there is no browser on this machine.
    pub fn start(width: u32, height: u32) -> Option<Self> {
        Self::start_with(width, height, &json!({}))
    }

    /// With preferences of chromium.
    pub fn start_with(width: u32, height: u32, preferences: &Value) -> Option<Self> {
        let has = |program: &str| {
            let found = Command::new(program)
                .arg("--version")
                .stdout(Stdio::null())
                .status();
            found.is_ok_and(|status| status.success())
        };
        if !has("chromedriver") || !has("chromium") {
            eprintln!("skipped: chromium and chromium-driver are not installed");
            return None;
        }
        let port = super::serve::free_port();
        let driver = Command::new("chromedriver")
            .arg(format!("--port={port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut browser = Self {
            driver,
            port,
            session: String::new(),
        };
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(started.elapsed() < PATIENCE, "the driver does not listen");
            std::thread::sleep(Duration::from_millis(50));
        }
        let capabilities = json!({"capabilities": {"alwaysMatch": {
            "goog:loggingPrefs": {"browser": "ALL"},
            "goog:chromeOptions": {
                "args": ["--headless=new", "--no-sandbox", "--disable-gpu",
                    "--disable-dev-shm-usage", "--hide-scrollbars"],
                "prefs": preferences,
                "mobileEmulation": {"deviceMetrics":
                    {"width": width, "height": height, "pixelRatio": 1.0, "mobile": false}},
            },
        }}});
        let made = call(port, "POST", "/session", &capabilities).unwrap();
        let id = made["sessionId"]
            .as_str()
            .unwrap_or_else(|| panic!("no session: {made}"));
        browser.session = format!("/session/{id}");
        Some(browser)
    }

    pub fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        call(self.port, method, &format!("{}{path}", self.session), body).unwrap()
    }

    pub fn open(&self, url: &str) {
        self.call("POST", "/url", &json!({ "url": url }));
    }

    /// The element of a selector, once it is there.
    pub fn find(&self, selector: &str) -> String {
        let started = Instant::now();
        loop {
            let body = json!({"using": "css selector", "value": selector});
            let found = self.call("POST", "/element", &body);
            if let Some(id) = found
                .as_object()
                .and_then(|found| found.values().next()?.as_str())
                && !found["error"].is_string()
            {
                return format!("/element/{id}");
            }
            assert!(started.elapsed() < PATIENCE, "{selector}: {found}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub fn click(&self, selector: &str) {
        let element = self.find(selector);
        self.call("POST", &format!("{element}/click"), &json!({}));
    }

    pub fn text(&self, selector: &str) -> String {
        let element = self.find(selector);
        let text = self.call("GET", &format!("{element}/text"), &Value::Null);
        text.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until the answer's heading is this one.
    fn heading(&self, wanted: &str) {
        let started = Instant::now();
        while self.text("#answer h2") != wanted {
            assert!(
                started.elapsed() < PATIENCE,
                "{wanted}: {}",
                self.text("#answer")
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn size(&self, selector: &str) -> (f64, f64) {
        let element = self.find(selector);
        let rect = self.call("GET", &format!("{element}/rect"), &Value::Null);
        (
            rect["width"].as_f64().unwrap(),
            rect["height"].as_f64().unwrap(),
        )
    }

    /// The browser complains of nothing: no blocked style, no missing file.
    pub fn is_content(&self) {
        let log = self.call("POST", "/se/log", &json!({"type": "browser"}));
        let errors: Vec<&Value> = log.as_array().into_iter().flatten().collect();
        let errors: Vec<_> = errors
            .iter()
            .filter(|entry| {
                !entry["message"]
                    .as_str()
                    .unwrap_or_default()
                    .contains("favicon")
            })
            .collect();
        assert!(errors.is_empty(), "{errors:#?}");
    }

    /// Writes a picture to the folder that `PGVEIL_SCREENSHOTS` names.
    pub fn picture(&self, name: &str) {
        let Some(folder) = std::env::var_os("PGVEIL_SCREENSHOTS") else {
            return;
        };
        use base64::Engine;
        let element = self.find("body");
        let picture = self.call("GET", &format!("{element}/screenshot"), &Value::Null);
        let bytes = base64::engine::general_purpose::STANDARD
            .decode(
                picture
                    .as_str()
                    .unwrap_or_else(|| panic!("no picture: {picture}")),
            )
            .unwrap();
        let path = std::path::Path::new(&folder).join(format!("{name}.png"));
        std::fs::write(path, bytes).unwrap();
    }
}

#[test]
fn the_demos_page_works_in_a_browser() {
    let Some(browser) = Browser::start(1000, 2000) else {
        return;
    };
    let page = Page::start(&[]);
    browser.open(&format!("http://{}/", page.address));
    assert_eq!(browser.text("h1"), "pgveil demo");
    // An example, its price, the answer, and the answer again.
    browser.click("nav li:nth-child(3) a");
    browser.heading("Did marriage become more common?");
    browser.click("button[value=price]");
    browser.heading("The price");
    browser.click("button.primary");
    browser.heading("Did marriage become more common?");
    assert!(
        browser
            .text("#answer .lead")
            .starts_with("Cost 3.5 % of the budget")
    );
    let (width, height) = browser.size("svg.columns");
    assert!(width > 500.0 && height > 200.0, "{width} {height}");
    let (width, height) = browser.size("svg.columns .bar");
    assert!(width > 10.0 && height > 50.0, "{width} {height}");
    browser.picture("answer");
    browser.click("#answer .buttons button");
    let started = Instant::now();
    while !browser.text("#answer .lead").starts_with("Free") {
        assert!(started.elapsed() < PATIENCE);
    }
    for (kind, heading) in [
        ("difference", "Attack: one woman by difference"),
        ("averaging", "Attack: averaging"),
    ] {
        browser.click(&format!("button[value={kind}]"));
        browser.heading(heading);
        let (width, height) = browser.size("#answer svg.plot");
        assert!(width > 500.0 && height > 200.0, "{kind}: {width} {height}");
        browser.picture(kind);
    }
    browser.is_content();
}

/// The dashboards: the budget falls once for each of them, and then stands still.
#[test]
fn the_demos_dashboards_work_in_a_browser() {
    let Some(browser) = Browser::start(1000, 2400) else {
        return;
    };
    let page = Page::start(&[]);
    browser.open(&format!("http://{}/", page.address));
    browser.click(".pages li:nth-child(2) a");
    browser.heading("Start here");
    let button = |list: usize, button: usize| {
        format!(".dashboards li:nth-child({list}) form:nth-child({button}) button")
    };
    browser.click(&button(1, 1));
    browser.heading("Members by branch");
    assert!(browser.text("#answer .lead").starts_with("Cost 3.5 %"));
    let left = browser.text(".budget .figure");
    assert_eq!(left, "96.5 % of the budget is left");
    for (at, heading) in [
        (2, "Members by age"),
        (3, "Where are the young?"),
        (4, "How far do they walk?"),
        (5, "Branch and age, with subtotals"),
    ] {
        browser.click(&button(1, at));
        browser.heading(heading);
        assert!(
            browser.text("#answer .lead").starts_with("Free"),
            "{heading}"
        );
        assert_eq!(browser.text(".budget .figure").lines().next(), Some(&*left));
        browser.picture(&format!("library-{at}"));
    }
    browser.click(&button(2, 1));
    browser.heading("Loans by week");
    browser.click("#answer .buttons form:nth-child(1) button");
    browser.find("svg.columns .bar.new");
    let (width, height) = browser.size("svg.columns");
    assert!(width > 500.0 && height > 200.0, "{width} {height}");
    assert!(browser.text("#answer .lead").starts_with("Cost 3.5 %"));
    browser.picture("library-weeks");
    browser.click(&button(3, 1));
    browser.heading("New members since January");
    assert!(browser.text("#answer .lead").starts_with("Cost 3.5 %"));
    browser.click("#answer .buttons form:nth-child(1) button");
    browser.find("svg.columns .bar.new");
    assert!(browser.text("#answer .lead").starts_with("Free"));
    browser.picture("library-totals");
    browser.is_content();
}

#[test]
fn the_demos_dashboards_fit_a_phone() {
    let Some(browser) = Browser::start(360, 740) else {
        return;
    };
    let page = Page::start(&[]);
    browser.open(&format!("http://{}/library", page.address));
    browser.click(".dashboards li:nth-child(3) form button");
    browser.heading("New members since January");
    for part in ["body", "#answer", ".dashboards li", "svg.columns"] {
        let width = browser.size(part).0;
        assert!(width <= 360.0, "{part}: {width}");
    }
    browser.picture("library-phone");
    browser.is_content();
}

#[test]
fn the_demos_page_fits_a_phone() {
    let Some(browser) = Browser::start(360, 740) else {
        return;
    };
    let page = Page::start(&[]);
    browser.open(&format!("http://{}/?q=5", page.address));
    browser.heading("Where were the unions?");
    browser.click("button.primary");
    let lane = browser.size("svg.lane").0;
    assert!((200.0..360.0).contains(&lane), "{lane}");
    // Nothing is wider than the screen.
    for part in ["body", "#answer", "textarea", ".connect pre"] {
        let width = browser.size(part).0;
        assert!(width <= 360.0, "{part}: {width}");
    }
    browser.picture("phone");
    browser.is_content();
}

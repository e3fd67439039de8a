//! The console in a real browser with scripts off, by keyboard alone. Skipped, with a line that
//! says so, where chromium or its driver is missing.

use std::time::{Duration, Instant};

use pgveil::web::session::Lifetimes;
use serde_json::{Value, json};

use super::console::{PASSWORD, stage};
use super::demo_browser::Browser;

const PATIENCE: Duration = Duration::from_secs(60);
const TAB: &str = "\u{e004}";
const ENTER: &str = "\u{e007}";
/// More controls than any page has.
const CONTROLS_MAX: usize = 60;

impl Browser {
    pub fn keys(&self, text: &str) {
        let presses: Vec<Value> = text
            .chars()
            .flat_map(|key| {
                ["keyDown", "keyUp"].map(|kind| json!({"type": kind, "value": key.to_string()}))
            })
            .collect();
        let actions = json!({"actions": [{"type": "key", "id": "keys", "actions": presses}]});
        self.call("POST", "/actions", &actions);
    }

    /// The text of what has the focus.
    fn focused(&self) -> String {
        let found = self.call("GET", "/element/active", &Value::Null);
        let id = found.as_object().and_then(|found| found.values().next());
        let id = id.and_then(Value::as_str).unwrap_or_default().to_owned();
        let text = self.call("GET", &format!("/element/{id}/text"), &Value::Null);
        text.as_str().unwrap_or_default().to_owned()
    }

    /// Whether the control of this id has the focus.
    fn is_focused(&self, id: &str) -> bool {
        let found = self.call("GET", "/element/active", &Value::Null);
        let element = found.as_object().and_then(|found| found.values().next());
        let element = element.and_then(Value::as_str).unwrap_or_default();
        let path = format!("/element/{element}/property/id");
        self.call("GET", &path, &Value::Null) == json!(id)
    }

    /// Waits until the page has given the focus to the control of this id.
    pub fn awaits_focus(&self, id: &str) {
        for _ in 0..600 {
            if self.is_focused(id) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        panic!("{id} never had the focus: {}", self.text("body"));
    }

    /// Goes by Tab to the control of this id.
    pub fn reach(&self, id: &str) {
        for _ in 0..CONTROLS_MAX {
            self.keys(TAB);
            if self.is_focused(id) {
                return;
            }
        }
        panic!("{id} is out of the keyboard's reach: {}", self.text("body"));
    }

    /// Goes by Tab to the control of this text, and presses it.
    pub fn press(&self, control: &str) {
        self.press_where(control, |text| text == control);
    }

    /// Presses the first control whose text has this beginning.
    pub fn press_first(&self, beginning: &str) {
        self.press_where(beginning, |text| text.starts_with(beginning));
    }

    fn press_where(&self, control: &str, is_wanted: impl Fn(&str) -> bool) {
        for _ in 0..CONTROLS_MAX {
            self.keys(TAB);
            if is_wanted(&self.focused()) {
                return self.keys(ENTER);
            }
        }
        panic!(
            "{control} is out of the keyboard's reach: {}",
            self.text("body")
        );
    }

    /// Waits until the page has this text.
    pub fn shows(&self, text: &str) {
        let started = Instant::now();
        while !self.text("body").contains(text) {
            assert!(
                started.elapsed() < PATIENCE,
                "{text}: {}",
                self.text("body")
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_console_works_by_keyboard_and_without_scripts() {
    let no_scripts = json!({"profile.managed_default_content_settings.javascript": 2});
    let Some(browser) = Browser::start_with(1100, 1500, &no_scripts) else {
        return;
    };
    let stage = stage(Lifetimes::default(), None).await;
    for sql in [
        "SELECT count(*) FROM nls.women",
        "SELECT race, count(*) FROM nls.women GROUP BY race",
    ] {
        stage.veil.ask(sql).await.unwrap();
    }
    let address = stage.address;
    tokio::task::block_in_place(|| {
        browser.open(&format!("http://{address}/"));
        browser.shows("Operator");
        browser.awaits_focus("name");
        browser.keys("olga");
        browser.keys(TAB);
        browser.keys(PASSWORD);
        browser.keys(ENTER);
        browser.shows("database: reached");
        browser.picture("console-overview");
        browser.press("Budgets");
        browser.shows("Spent, in per cent of the budget");
        browser.picture("console-budgets");
        browser.press("Explore");
        browser.shows("What would a question cost");
        // From the first control of the form to the statement.
        while browser.focused() != "analyst" {
            browser.keys(TAB);
        }
        browser.keys(TAB);
        browser.keys(TAB);
        browser.keys("SELECT count(*) FROM nls.women WHERE race = 'black'");
        browser.press("Explore");
        browser.shows("Price and noise");
        browser.picture("console-explore");
        browser.press("Policy");
        browser.shows("Protected: one woman");
        browser.press("Budgets");
        browser.shows("Freeze analyst");
        browser.reach("why-1");
        browser.keys("stopped by hand");
        browser.press("Freeze analyst");
        browser.shows("stopped by hand");
        browser.shows("freeze analyst");
        browser.press("Log out");
        browser.shows("Operator");
        browser.open(&format!("http://{address}/budgets"));
        browser.shows("Operator");
        browser.is_content();
    });
    let balance = stage.veil.engine.ledger().balance("analyst").await.unwrap();
    assert!(balance.frozen);
    let decided = stage.veil.engine.ledger().decisions().await.unwrap();
    assert_eq!(decided.len(), 1);
}

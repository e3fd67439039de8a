//! The desk in a real browser with scripts off, by keyboard alone. Skipped, with a line that says
//! so, where chromium or its driver is missing.

use serde_json::json;

use super::demo_browser::Browser;
use super::desk::stage;

const TAB: &str = "\u{e004}";
const ENTER: &str = "\u{e007}";

#[tokio::test(flavor = "multi_thread")]
async fn the_desk_works_by_keyboard_and_without_scripts() {
    let no_scripts = json!({"profile.managed_default_content_settings.javascript": 2});
    let Some(browser) = Browser::start_with(1100, 1200, &no_scripts) else {
        return;
    };
    let stage = stage().await;
    let address = stage.address;
    tokio::task::block_in_place(|| {
        browser.open(&format!("http://{address}/"));
        browser.shows("Role");
        browser.awaits_focus("name");
        for text in ["analyst", TAB, "analyst", ENTER] {
            browser.keys(text);
        }
        browser.shows("Show the price");
        browser.reach("sql");
        browser.keys(
            "SELECT year, avg(hourly_wage) AS wage FROM nls.interviews GROUP BY year ORDER BY 1",
        );
        browser.press("Show the price");
        browser.shows("of your budget");
        browser.picture("desk-price");
    });
    assert_eq!(stage.veil.spent().await, 0.0);
    tokio::task::block_in_place(|| {
        browser.press_first("Run at this price");
        browser.shows("privacy cost:");
        browser.picture("desk-answer");
        browser.press("My budget");
        browser.shows("Spent, in per cent of the budget");
        browser.picture("desk-budget");
        browser.press("My statements");
        browser.shows("newest first");
        browser.press("Ask");
        browser.shows("Show the price");
        browser.press("Tables");
        browser.shows("FROM pgveil.tables");
        browser.press("Show the price");
        browser.press_first("Run, free");
        browser.shows("interviews");
        browser.press("Log out");
        browser.shows("Role");
        browser.open(&format!("http://{address}/budget"));
        browser.shows("Role");
        browser.is_content();
    });
    assert!(stage.veil.spent().await > 0.0);
}

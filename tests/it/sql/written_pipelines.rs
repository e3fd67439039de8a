//! What becomes of rows that were written, where a client mixes the protocols or errs.

use std::time::Duration;

use super::writes::{MEMO, Survey, insert};
use crate::wire::socket::{Socket, bind, execute, message, parse, query, startup, sync};

/// A socket of the role that writes.
async fn collector(survey: &Survey) -> Socket {
    let mut socket = Socket::open(survey.stage.veiled).await;
    let who = [("user", "collector"), ("database", "nls")];
    socket.send(&startup(&who)).await;
    socket.authenticate("analyst", None).await;
    socket.until_ready().await;
    socket.ask("SET search_path = \"Survey\"").await;
    socket
}

fn one(person: i32) -> String {
    let row = format!("({person}, 1, 'yes', 'flu', 'a', true, false, 1000)");
    insert(&row)
}

/// A statement in the messages of the extended protocol, without Sync.
fn pipelined(sql: &str) -> Vec<u8> {
    [parse("", sql), bind("", "", &[], &[]), execute("", 0)].concat()
}

async fn persons(survey: &Survey) -> String {
    let sql = "SELECT coalesce(string_agg(\"Person\"::text, ',' ORDER BY \"Person\"), '') FROM \
        \"Survey\".\"Answers\"";
    survey.direct(sql).await.remove(0)
}

/// Whatever message fails after a row of a pipeline, the row is gone, and rows that are written
/// later are not.
#[tokio::test(flavor = "multi_thread")]
async fn a_failed_pipeline_takes_its_rows_and_no_others() {
    let survey = Survey::new(MEMO).await;
    for (at, failing) in [query("foo('"), message(b'F', &[0; 8]), query("SELECT 1/0")]
        .into_iter()
        .enumerate()
    {
        let mut socket = collector(&survey).await;
        let unsynced = [pipelined(&one(1)), message(b'H', b""), failing].concat();
        socket.send(&unsynced).await;
        let replies = socket.until_ready().await;
        assert!(replies.iter().any(|r| r.kind == b'E'), "{replies:?}");
        let later = 10 + i32::try_from(at).unwrap();
        let replies = socket.ask(&one(later)).await;
        let complete = replies.iter().find(|r| r.kind == b'C').unwrap();
        assert_eq!(complete.text(), "INSERT 0 1");
        let unsynced = [pipelined(&one(2)), parse("", "foo('"), sync()].concat();
        socket.send(&unsynced).await;
        socket.until_ready().await;
    }
    assert_eq!(persons(&survey).await, "10,11,12");
}

/// Sync amid a COPY is no end: what fails after the rows takes them along.
#[tokio::test(flavor = "multi_thread")]
async fn a_pipelined_copy_is_committed_by_the_sync_after_it() {
    let survey = Survey::new(MEMO).await;
    let mut socket = collector(&survey).await;
    let columns = "\"Person\", \"Wave\", \"Smoked\", \"Illness\", \"Letter\", \"Tea\", \
        \"Coffee\", \"Income\"";
    let copy = format!("COPY \"Answers\" ({columns}) FROM STDIN");
    for (person, after, is_written) in [(1, "foo('", false), (2, "SELECT 1", true)] {
        let row = format!("{person}\t1\tyes\tflu\ta\tt\tf\t1000\n");
        let sent = [
            pipelined(&copy),
            sync(),
            message(b'd', row.as_bytes()),
            message(b'c', b""),
            pipelined(after),
            sync(),
        ];
        socket.send(&sent.concat()).await;
        let replies = socket.until_ready().await;
        let has_error = replies.iter().any(|r| r.kind == b'E');
        assert_eq!(has_error, !is_written, "{replies:?}");
    }
    assert_eq!(persons(&survey).await, "2");
}

/// The statements of one string belong together, also in a pipeline.
#[tokio::test(flavor = "multi_thread")]
async fn a_string_within_a_pipeline_is_written_whole_or_not() {
    let survey = Survey::new(MEMO).await;
    let mut socket = collector(&survey).await;
    let both = format!("{}; SELECT 1/0", one(1));
    let sent = [parse("", "SELECT 1"), query(&both), sync()].concat();
    socket.send(&sent).await;
    let replies = socket.until_ready().await;
    assert!(replies.iter().any(|r| r.kind == b'E'), "{replies:?}");
    socket.until_ready().await;
    assert_eq!(persons(&survey).await, "");
}

/// ROLLBACK TO undoes the settings by which the database reads values; they are set again.
#[tokio::test(flavor = "multi_thread")]
async fn values_are_read_by_the_sessions_settings_after_a_rollback() {
    let survey = Survey::new(MEMO).await;
    let mut socket = collector(&survey).await;
    let at = |person: i32| {
        one(person)
            .replace("(\"Person\"", "(at, \"Person\"")
            .replace(
                &format!("({person},"),
                &format!("('2026-01-02 00:00', {person},"),
            )
    };
    for sql in [
        "SET TimeZone = 'UTC'".to_owned(),
        format!("BEGIN; {}; SAVEPOINT a", at(1)),
        "SET TimeZone = '+05'".to_owned(),
        at(2),
        "ROLLBACK TO a".to_owned(),
        "SET TimeZone = '+05'".to_owned(),
        at(3),
        "COMMIT".to_owned(),
    ] {
        let replies = socket.ask(&sql).await;
        assert!(replies.iter().all(|r| r.kind != b'E'), "{sql}: {replies:?}");
    }
    let sql = "SELECT \"Person\", extract(epoch FROM at - timestamptz '2026-01-02 00:00+00')::int \
        FROM \"Survey\".\"Answers\" ORDER BY 1";
    let written = survey.direct(sql).await;
    assert_eq!(written[0], "1|0");
    // Whichever sign the zone's name has, both rows of one zone would be read alike.
    assert!(
        ["3|18000", "3|-18000"].contains(&written[1].as_str()),
        "{written:?}"
    );
}

/// Whatever the spelling of a unit, one text of it is stored, and casts that PostgreSQL would
/// compute are refused.
#[tokio::test(flavor = "multi_thread")]
async fn a_unit_is_stored_in_one_form() {
    let survey = Survey::new(MEMO).await;
    let mut socket = collector(&survey).await;
    for (wave, person) in ["'007'", "7", "+7", "'7'::text", "7::bigint", "' 7 '"]
        .iter()
        .enumerate()
    {
        let row = format!(
            "({person}, {}, 'yes', 'flu', 'a', true, false, 1000)",
            wave + 1
        );
        let replies = socket.ask(&insert(&row)).await;
        assert!(replies.iter().all(|r| r.kind != b'E'), "{row}: {replies:?}");
    }
    for person in [
        "7.0",
        "'7'::numeric",
        "'7'::float8",
        "'7'::varchar(1)",
        "7e0",
    ] {
        let row = format!("({person}, 9, 'yes', 'flu', 'a', true, false, 1000)");
        let replies = socket.ask(&insert(&row)).await;
        assert!(replies.iter().any(|r| r.kind == b'E'), "{row}: {replies:?}");
    }
    let sql = "SELECT count(*), count(DISTINCT \"Person\"), count(DISTINCT (\"Smoked\", \
        \"Illness\", \"Letter\", \"Tea\", \"Coffee\", \"Income\")) FROM \"Survey\".\"Answers\"";
    assert_eq!(survey.direct(sql).await, ["6|1|1"]);
}

/// Once a client has heard that a write timed out, nothing of it runs on, and nothing is written.
/// A COPY whose client is silent ends too.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_timed_out_is_over() {
    let survey = Survey::new(MEMO).await;
    let slow = "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
        PERFORM pg_sleep(600); RETURN NEW; END $$; \
        CREATE TRIGGER slow BEFORE INSERT ON \"Survey\".\"Answers\" FOR EACH ROW WHEN \
        (NEW.\"Person\" = 1) EXECUTE FUNCTION slow()";
    survey.direct(slow).await;
    let mut socket = collector(&survey).await;
    socket.ask("SET statement_timeout = '200ms'").await;
    assert_eq!(socket.refused(&one(1)).await, "57014");
    let asleep = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'writer' AND \
        wait_event = 'PgSleep'";
    assert_eq!(survey.direct(asleep).await, ["0"]);
    let copy = "COPY \"Answers\" (\"Person\", \"Wave\", \"Smoked\", \"Illness\", \"Letter\", \
        \"Tea\", \"Coffee\", \"Income\") FROM STDIN";
    assert_eq!(socket.refused(copy).await, "57014");
    // The client has sent all rows, and the database has not taken them.
    let row = message(b'd', b"1\t1\tyes\tflu\ta\tt\tf\t1000\n");
    let whole = [query(copy), row, message(b'c', b"")].concat();
    socket.send(&whole).await;
    let replies = socket.until_ready().await;
    let error = replies.iter().find(|r| r.kind == b'E').unwrap();
    assert!(error.text().contains("57014"), "{replies:?}");
    // A request to cancel has no answer.
    let waited = async {
        while survey.direct(asleep).await != ["0"] {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(60), waited).await;
    waited.expect("the rows of a COPY that was given up are not taken");
    socket.ask("RESET statement_timeout").await;
    let replies = socket.ask(&one(2)).await;
    assert!(replies.iter().all(|r| r.kind != b'E'), "{replies:?}");
    assert_eq!(persons(&survey).await, "2");
}

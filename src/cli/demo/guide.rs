//! The text that the demo prints when it is ready.

use std::net::SocketAddr;

use super::console::OPERATOR;
use crate::demo::questions::{DemoQuestion, LIBRARY_QUESTIONS, QUESTIONS};
use crate::demo::session::reachable;
use crate::demo::streams::STREAMS;
use crate::demo::{ANALYST, LIBRARY};

/// The command with which psql connects.
pub fn psql(listening: SocketAddr, database: &str) -> String {
    let address = reachable(listening);
    let (host, port, user) = (address.ip(), address.port(), ANALYST);
    format!(
        "psql \"host={host} port={port} user={user} dbname={database} password={user} \
            sslmode=prefer\""
    )
}

/// Prints how to log in to the console. The password is kept nowhere else.
pub fn print_console(address: SocketAddr, password: &str) {
    println!("The console of operators: http://{address}/");
    println!("  name {OPERATOR}, password {password}\n");
}

/// Questions to the library's proxy, each with what it teaches: two that a summary answers, and two
/// looks at a stream.
pub fn library_questions() -> Vec<(&'static str, String)> {
    let [received, free, ..] = &LIBRARY_QUESTIONS;
    let of_summary = [received, free].map(|question| (question.why, question.sql.to_owned()));
    let [weeks, _] = &STREAMS;
    let looks = [
        weeks.why,
        "A week later: eight weeks are there, and one is bought.",
    ];
    let looks = looks.into_iter().enumerate();
    let looks = looks.filter_map(|(look, why)| Some((why, weeks.sql(look)?)));
    of_summary.into_iter().chain(looks).collect()
}

/// Prints a question, and what it teaches.
pub fn print_question(why: &str, sql: &str) {
    println!("  -- {why}\n  {}\n", sql.replace('\n', "\n  "));
}

/// Prints how to connect to the survey and to the library, the questions, and how to stop.
pub fn print(
    to_survey: &str,
    (page, library): (Option<SocketAddr>, SocketAddr),
    is_throw_away: bool,
) {
    println!("pgveil is ready: 4,711 women, interviewed up to 15 times from 1968 to 1988.\n");
    if let Some(page) = page {
        println!(
            "Open http://{}/ in a browser, or connect from another terminal:\n",
            reachable(page)
        );
    } else {
        println!("Connect from another terminal:\n");
    }
    println!("  {to_survey}\n");
    println!("Questions worth asking (each says what it cost; EXPLAIN in front of one is free):\n");
    for DemoQuestion { why, sql, .. } in QUESTIONS {
        print_question(why, sql);
    }
    println!("And one that is refused: SELECT * FROM nls.women;\n");
    println!(
        "Dashboards pay once. A made-up library of 16,000 members has its own policy and budget; \
            it starts\nwhen you first connect, which takes some seconds:\n\n  {}\n",
        psql(library, LIBRARY)
    );
    if let Some(page) = page {
        println!("Or open http://{}/library\n", reachable(page));
    }
    for (why, sql) in library_questions() {
        print_question(why, &sql);
    }
    if is_throw_away {
        println!(
            "Ctrl-C stops everything. A copy of the loaded database stays in the cache directory."
        );
    } else {
        println!(
            "Ctrl-C stops the proxy and forgets what was spent; schema nls stays in your database."
        );
    }
}

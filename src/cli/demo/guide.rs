//! The text that the demo prints when it is ready.

use std::net::SocketAddr;

use super::console::OPERATOR;
use crate::demo::ANALYST;
use crate::demo::questions::{DemoQuestion, QUESTIONS};
use crate::demo::session::reachable;

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

/// Prints how to connect, the questions, and how to stop.
pub fn print(psql: &str, page: Option<SocketAddr>, is_throw_away: bool) {
    println!("pgveil is ready: 4,711 women, interviewed up to 15 times from 1968 to 1988.\n");
    if let Some(page) = page {
        println!(
            "Open http://{}/ in a browser, or connect from another terminal:\n",
            reachable(page)
        );
    } else {
        println!("Connect from another terminal:\n");
    }
    println!("  {psql}\n");
    if let Some(page) = page {
        println!(
            "Dashboards, which pay once: http://{}/library\n",
            reachable(page)
        );
    }
    println!("Questions worth asking (each says what it cost; EXPLAIN in front of one is free):\n");
    for DemoQuestion { why, sql, .. } in QUESTIONS {
        println!("  -- {why}\n  {}\n", sql.replace('\n', "\n  "));
    }
    println!("And one that is refused: SELECT * FROM nls.women;\n");
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

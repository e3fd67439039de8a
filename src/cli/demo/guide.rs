//! The text that the demo prints when it is ready.

use std::net::SocketAddr;

/// Pairs of an explanation and a question. A test asks each question.
pub const QUESTIONS: [(&str, &str); 5] = [
    (
        "How many women? One pass over one table; the answer is off by a few dozen at most.",
        "SELECT count(*) FROM nls.women;",
    ),
    (
        "What did white and black women earn? Without WHERE the third, small group is there too, \
            and drowns in noise.",
        "SELECT race, round(avg(hourly_wage), 2) AS wage\n  FROM nls.women JOIN nls.interviews \
            USING (woman_id)\n  WHERE race IN ('white', 'black') GROUP BY race ORDER BY wage DESC;",
    ),
    (
        "How did wages move over twenty years? Fifteen groups, and a woman counts in up to fifteen \
            of them.",
        "SELECT year, round(avg(hourly_wage), 2) AS wage FROM nls.interviews GROUP BY year ORDER \
            BY \
            year;",
    ),
    (
        "Which industries paid best? Joins a public table for the names, and leaves out small \
            groups by their noisy count.",
        "SELECT i.industry, round(avg(v.hourly_wage), 2) AS wage\n  FROM nls.interviews v JOIN \
            nls.industries i USING (industry_code) GROUP BY i.industry\n  HAVING count(*) > 1500 \
            ORDER BY wage DESC;",
    ),
    (
        "What share was in a union? Arithmetic over two noisy counts costs nothing more.",
        "SELECT round(100.0 * count(*) FILTER (WHERE union_member = 1) / count(union_member), 1) \
            AS \
            percent_in_union\n  FROM nls.interviews;",
    ),
];

/// Prints how to connect, the questions, and how to stop.
pub fn print(address: SocketAddr, database: &str, is_throw_away: bool) {
    let (host, port, user) = (address.ip(), address.port(), super::ANALYST);
    println!(
        "pgveil is ready: 4,711 women, interviewed up to 15 times from 1968 to 1988. Connect from \
            another terminal:\n"
    );
    println!(
        "  psql \"host={host} port={port} user={user} dbname={database} password={user} \
            sslmode=prefer\"\n"
    );
    println!(
        "Five questions worth asking (each says what it cost; EXPLAIN in front of one is free):\n"
    );
    for (why, sql) in QUESTIONS {
        println!("  -- {why}\n  {}\n", sql.replace('\n', "\n  "));
    }
    println!("And one that is refused: SELECT * FROM nls.women;\n");
    if is_throw_away {
        println!("Ctrl-C stops everything and leaves nothing behind.");
    } else {
        println!(
            "Ctrl-C stops the proxy and forgets what was spent; schema nls stays in your database."
        );
    }
}

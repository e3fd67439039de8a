//! One session, byte for byte, against a database and against its neighbour, with the same noise:
//! the replies are the same to the byte, except for released values.

use tokio_postgres::Client;

use super::paths::Gate;
use crate::fixture::{Veil, load, streams};
use crate::privacy::neighbouring_databases::{BY_DOMAIN, questions};
use crate::sql::corpus::texts;
use crate::sql::corpus::texts::Text;
use crate::sql::outer_query::rich;
use crate::wire::socket::{Reply, Socket, bind, describe, execute, message, parse, sync};

/// The demo's data without the rows of one woman, or with all.
pub async fn gate(without: Option<&str>, sampler: pgveil::engine::MakeSampler) -> Gate {
    let yaml = rich(std::fs::read_to_string("policies/demo.yaml").unwrap());
    let fill = async |client: &Client| {
        load(client).await;
        if let Some(woman) = without {
            let gone = format!(
                "DELETE FROM nls.interviews WHERE woman_id = {woman}; DELETE FROM nls.women WHERE \
                    woman_id = {woman}; ANALYZE"
            );
            client.batch_execute(&gone).await.unwrap();
        }
    };
    Gate::before(Veil::over(fill, &yaml, Some(sampler)).await).await
}

/// A message as it must be on both sides.
type Shape = (char, Vec<u8>);

/// Everything that is not a released value. It leaves out rows and their number (in a tag, and in
/// whether a portal is at its end), which is released where keys are; and the error of an answer,
/// which for ratios is computed from released values. From EXPLAIN it leaves out only the errors of
/// sums of groups: they follow from released clips.
fn shape(replies: Vec<Reply>, is_plan: bool) -> Vec<Shape> {
    let is_added_up = is_plan
        && replies
            .iter()
            .any(|reply| contains(&reply.body, b"answered by groups"));
    let rest = replies
        .into_iter()
        .filter(|reply| is_plan || !matches!(reply.kind, b'D' | b'd'));
    rest.map(|Reply { kind, mut body }| match kind {
        b'C' if !is_plan => {
            body.retain(|byte| !byte.is_ascii_digit());
            ('C', body)
        }
        b'D' if is_added_up && is_error(&body) => {
            // Behind the number of columns and the length of the line.
            body.drain(..6);
            body.retain(|byte| !byte.is_ascii_digit() && *byte != b'.');
            ('D', body)
        }
        b's' => ('C', b"SELECT \0".to_vec()),
        b'N' => {
            // The errors of sums of groups follow from released clips.
            if contains(&body, b"answered by groups") {
                body.retain(|byte| !byte.is_ascii_digit() && *byte != b'.');
            }
            // The number of units that a look saw, and the rows that its limit cuts, are released.
            let body = up_to(up_to(body, b"noise of"), b"clip of");
            ('N', up_to(body, b"rows of aggregate"))
        }
        // Its number is random. The number of units that a look saw is released.
        b'E' => ('E', up_to(up_to(body, b"under incident"), b"clip (about")),
        _ => (char::from(kind), body),
    })
    .collect()
}

/// Whether a line of EXPLAIN has the error of an answer.
fn is_error(line: &[u8]) -> bool {
    contains(line, "at most ±".as_bytes()) || contains(line, b"answered by groups")
}

fn contains(body: &[u8], words: &[u8]) -> bool {
    body.windows(words.len()).any(|found| found == words)
}

fn up_to(mut body: Vec<u8>, words: &[u8]) -> Vec<u8> {
    if let Some(at) = body.windows(words.len()).position(|found| found == words) {
        body.truncate(at);
    }
    body
}

/// How a text goes there and back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProtocolPath {
    Simple,
    ExtendedText,
    ExtendedBinary,
    Prepared,
    Cursor,
    Held,
    Copy,
    Several,
    Explain,
}

pub const PATHS: [ProtocolPath; 9] = [
    ProtocolPath::Simple,
    ProtocolPath::ExtendedText,
    ProtocolPath::ExtendedBinary,
    ProtocolPath::Prepared,
    ProtocolPath::Cursor,
    ProtocolPath::Held,
    ProtocolPath::Copy,
    ProtocolPath::Several,
    ProtocolPath::Explain,
];

impl ProtocolPath {
    /// All that comes back, in a session that is usable afterwards.
    async fn send(self, socket: &mut Socket, sql: &str) -> Vec<Reply> {
        match self {
            Self::Simple => socket.ask(sql).await,
            Self::ExtendedText => extended(socket, sql, 0).await,
            Self::ExtendedBinary => extended(socket, sql, 1).await,
            Self::Prepared => {
                all(
                    socket,
                    &[
                        &format!("PREPARE p AS {sql}"),
                        "EXECUTE p",
                        "DEALLOCATE ALL",
                    ],
                )
                .await
            }
            Self::Cursor => {
                all(
                    socket,
                    &[
                        &format!("BEGIN; DECLARE c CURSOR FOR {sql}"),
                        "FETCH 1 FROM c",
                        "ROLLBACK",
                    ],
                )
                .await
            }
            Self::Held => {
                let declared = format!("BEGIN; DECLARE h CURSOR WITH HOLD FOR {sql}; COMMIT");
                all(
                    socket,
                    &[&declared, "FETCH FORWARD 2 FROM h", "CLOSE ALL", "ROLLBACK"],
                )
                .await
            }
            Self::Copy => socket.ask(&format!("COPY ({sql}) TO STDOUT")).await,
            Self::Several => socket.ask(&format!("SELECT 1; {sql}; SELECT 2")).await,
            Self::Explain => socket.ask(&format!("EXPLAIN VERBOSE {sql}")).await,
        }
    }

    async fn travel(self, socket: &mut Socket, sql: &str) -> Vec<Shape> {
        shape(self.send(socket, sql).await, self == Self::Explain)
    }
}

async fn extended(socket: &mut Socket, sql: &str, format: i16) -> Vec<Reply> {
    let close = message(b'C', b"Sq\0");
    socket
        .send(
            &[
                parse("q", sql),
                describe('S', "q"),
                bind("", "q", &[], &[format]),
                execute("", 2),
                close,
                sync(),
            ]
            .concat(),
        )
        .await;
    socket.until_ready().await
}

async fn all(socket: &mut Socket, texts: &[&str]) -> Vec<Reply> {
    let mut replies = Vec::new();
    for text in texts {
        replies.extend(socket.ask(text).await);
    }
    replies
}

/// Two sessions, one on each side, and the results of comparing them.
pub struct Both {
    left: Socket,
    right: Socket,
    pub different: Vec<String>,
    /// Texts that PostgreSQL's own arithmetic over released values refused on one side: a zero
    /// divisor, a row too many for a scalar.
    pub of_values: usize,
    pub asked: usize,
}

impl Both {
    pub fn new(left: Socket, right: Socket) -> Self {
        Self {
            left,
            right,
            different: Vec::new(),
            of_values: 0,
            asked: 0,
        }
    }

    /// Sends a text of the session itself.
    pub async fn set(&mut self, sql: &str) {
        for socket in [&mut self.left, &mut self.right] {
            socket.ask(sql).await;
        }
    }

    /// A text by each of these paths.
    pub async fn ask(&mut self, sql: &str, paths: &[ProtocolPath]) {
        // A clock that is read twice may show two times, so answers that may hold a clock are not
        // compared.
        let has_clock = ["now", "current_", "local", "clock"]
            .iter()
            .any(|word| sql.to_lowercase().contains(word));
        for path in paths
            .iter()
            .filter(|path| !has_clock || **path != ProtocolPath::Explain)
        {
            let (here, there) = tokio::join!(
                path.travel(&mut self.left, sql),
                path.travel(&mut self.right, sql)
            );
            self.asked += 1;
            if here == there {
                continue;
            }
            if is_of_values(&here) || is_of_values(&there) {
                self.of_values += 1;
            } else {
                self.different.push(format!(
                    "{path:?}: {sql}\n{}\n-- but without the unit\n{}",
                    printed(&here),
                    printed(&there)
                ));
            }
        }
    }

    /// A text in which no released value could fail: neither side may report an error that the
    /// other does not. Returns whether the first path answered it.
    pub async fn ask_of_rows(&mut self, sql: &str, paths: &[ProtocolPath]) -> bool {
        let mut answered = Vec::new();
        for path in paths {
            let (here, there) = tokio::join!(
                path.travel(&mut self.left, sql),
                path.travel(&mut self.right, sql)
            );
            self.asked += 1;
            let broke = |seen: &[Shape]| {
                seen.iter().any(|(kind, body)| {
                    *kind == 'E' && body.windows(6).any(|field| field == b"CXX000")
                })
            };
            if here != there || broke(&here) {
                self.different.push(format!(
                    "{path:?}: {sql}\n{}\n-- but without the unit\n{}",
                    printed(&here),
                    printed(&there)
                ));
            }
            answered.push(here.iter().all(|(kind, _)| *kind != 'E'));
        }
        answered[0]
    }

    /// A text whose answer has no released value, by each of these paths: rows and all.
    pub async fn ask_whole(&mut self, sql: &str, paths: &[ProtocolPath]) {
        for path in paths {
            let (here, there) = tokio::join!(
                path.send(&mut self.left, sql),
                path.send(&mut self.right, sql)
            );
            self.asked += 1;
            if here != there {
                self.different.push(format!(
                    "{path:?}, rows and all: {sql}\n{}\n-- but without the unit\n{}",
                    printed(&whole(here)),
                    printed(&whole(there))
                ));
            }
        }
    }

    pub fn end(&self, name: &str) {
        println!(
            "{name}: {} times asked of both, {} stopped by released values",
            self.asked, self.of_values
        );
        assert!(
            self.different.is_empty(),
            "{name}: {} different\n{}",
            self.different.len(),
            self.different.join("\n\n")
        );
        assert!(
            self.of_values * 10 <= self.asked,
            "{name}: too few could be compared"
        );
    }
}

/// An error of class 22, of a scalar subquery's rows, or of a look that saw too few.
fn is_of_values(seen: &[Shape]) -> bool {
    let state = |body: &[u8]| {
        let field = body
            .split(|byte| *byte == 0)
            .find(|field| field.first() == Some(&b'C'));
        let states: [&[u8]; 2] = [b"C21000", b"CPV002"];
        field.is_some_and(|field| field.starts_with(b"C22") || states.contains(&field))
    };
    seen.iter().any(|(kind, body)| *kind == 'E' && state(body))
}

fn whole(replies: Vec<Reply>) -> Vec<Shape> {
    replies
        .into_iter()
        .map(|reply| (char::from(reply.kind), reply.body))
        .collect()
}

fn printed(seen: &[Shape]) -> String {
    let one = |(kind, body): &Shape| {
        format!(
            "{kind} {}",
            String::from_utf8_lossy(body).replace('\0', " ")
        )
    };
    seen.iter().map(one).collect::<Vec<_>>().join("\n")
}

/// Every path, where `PGVEIL_REPLAY=all` asks for it; else the simple protocol, and this many
/// others in turn.
pub fn paths(turn: usize, others: usize) -> Vec<ProtocolPath> {
    if std::env::var("PGVEIL_REPLAY").is_ok_and(|asked| asked == "all") {
        return PATHS.to_vec();
    }
    let rest = &PATHS[1..];
    std::iter::once(ProtocolPath::Simple)
        .chain((0..others).map(|at| rest[(turn + at * rest.len() / others) % rest.len()]))
        .collect()
}

/// Other things that a session may look at: the budget, its cost so far, the catalogs.
const SURROUNDINGS: [&str; 12] = [
    "SELECT * FROM pgveil.budget",
    "SELECT mu, epsilon, rho, delta FROM pgveil.history ORDER BY 1, 2, 3, 4",
    "SELECT * FROM pgveil.tables",
    "SELECT * FROM pgveil.columns",
    "SELECT * FROM pgveil.settings",
    "SELECT * FROM pgveil.worth",
    "SELECT * FROM pgveil.group_privacy",
    "SELECT * FROM pgveil.meaning",
    "SELECT relname, reltuples, relpages FROM pg_class WHERE relnamespace = 'nls'::regnamespace \
        ORDER BY 1",
    "SELECT tablename, attname, n_distinct FROM pg_stats WHERE schemaname = 'nls' ORDER BY 1, 2",
    "SELECT pg_table_size('nls.women')",
    "SHOW ALL",
];

/// The error of an answer: for counts and sums the plan's own number.
const UNTOUCHED: [&str; 6] = [
    "SELECT pgveil.stderr(count(*)), pgveil.stderr(sum(hourly_wage)), pgveil.stderr(count(DISTINCT \
        woman_id)) FROM nls.interviews",
    "SELECT race, pgveil.stderr(count(*)), pgveil.stderr(sum(years_of_school)) FROM nls.women \
        GROUP \
        BY race",
    "SELECT year, pgveil.stderr(sum(hours_per_week)) FROM nls.interviews WHERE hourly_wage > 29 \
        GROUP BY year",
    "SELECT pgveil.stderr(count(*)) FROM nls.women WHERE woman_id < 0",
    // The first buys the answers for all values, the second is free.
    "SELECT pgveil.stderr(count(*)) FROM nls.women WHERE race = 'white' AND birth_year > 1944",
    "SELECT pgveil.stderr(count(*)) FROM nls.women WHERE race = 'black' AND birth_year > 1944",
];

#[tokio::test(flavor = "multi_thread")]
async fn neighbours_send_the_same_bytes() {
    let all = gate(None, streams()).await;
    let most = "SELECT woman_id FROM nls.interviews GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT 1";
    let woman: i32 = all.veil.client.query_one(most, &[]).await.unwrap().get(0);
    let fewer = gate(Some(&woman.to_string()), streams()).await;
    let mut both = Both::new(all.log_in().await, fewer.log_in().await);
    both.set("SET pgveil.notices = full").await;
    for (turn, sql) in questions().iter().enumerate() {
        both.ask(sql, &paths(turn, 2)).await;
    }
    both.end("tests and goldens");
    // How much noise a chosen clip needs is released too.
    both.set("SET pgveil.clip = fixed").await;
    for sql in SURROUNDINGS.iter().chain(&UNTOUCHED).chain(&BY_DOMAIN) {
        both.ask_whole(sql, &PATHS).await;
    }
    both.end("what has no released value");
    // The comparison is not blind: one more woman shows in released values under the same noise.
    both.ask_whole(
        "SELECT count(*) FROM nls.women WHERE woman_id > -7",
        &[ProtocolPath::Simple],
    )
    .await;
    assert_eq!(both.different.len(), 1);
}

/// A corpus's tables without the rows of one unit, or with all.
async fn corpus(name: &str, without: Option<&str>) -> Gate {
    let read =
        |file: &str| std::fs::read_to_string(format!("tests/corpora/{name}/{file}")).unwrap();
    let fill = async |client: &Client| {
        client.batch_execute(&read("schema.sql")).await.unwrap();
        if let Some(delete) = without {
            client.batch_execute(delete).await.unwrap();
        }
    };
    Gate::before(Veil::over(fill, &read("policy.yaml"), Some(streams())).await).await
}

/// How a unit leaves each corpus.
const LEAVES: [(&str, &str); 5] = [
    ("census", "DELETE FROM census WHERE id = 7"),
    (
        "devices",
        "DELETE FROM telemetry.crashes WHERE deviceid = 7; DELETE FROM telemetry.census WHERE \
            deviceid = 7; DELETE FROM telemetry.rollouts WHERE deviceid = 7",
    ),
    (
        "pums",
        "DELETE FROM pums.pums WHERE pid = 7; DELETE FROM pums.pums_null WHERE pid = 7",
    ),
    (
        "sales",
        "DELETE FROM sales.order_items WHERE order_id IN (SELECT id FROM sales.orders WHERE \
            customer_id = 7);
         DELETE FROM sales.orders WHERE customer_id = 7; DELETE FROM sales.customers WHERE id = 7",
    ),
    (
        "shop",
        "DELETE FROM shop.items WHERE order_id IN (SELECT id FROM shop.orders WHERE user_id = 7);
         DELETE FROM shop.orders WHERE user_id = 7; DELETE FROM shop.users WHERE id = 7",
    ),
];

/// Corpora of others, read where they lie.
#[tokio::test(flavor = "multi_thread")]
async fn corpora_send_the_same_bytes() {
    let texts: Vec<Text> = [
        texts::census(),
        texts::probe(),
        texts::smartnoise(),
        texts::business_tools(),
    ]
    .into_iter()
    .flatten()
    .collect();
    if texts.is_empty() {
        println!("skipped: the corpora's texts are not on this machine");
        return;
    }
    for (world, delete) in LEAVES {
        let (all, fewer) = tokio::join!(corpus(world, None), corpus(world, Some(delete)));
        let mut both = Both::new(all.log_in().await, fewer.log_in().await);
        for (turn, text) in texts.iter().filter(|text| text.world == world).enumerate() {
            both.ask(&text.sql, &paths(turn, 1)).await;
        }
        assert!(both.asked > 20, "{world}: {}", both.asked);
        both.end(world);
    }
}

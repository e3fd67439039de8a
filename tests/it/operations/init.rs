//! `pgveil init`: from a database to a policy that holds and answers, by catalogs alone.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use pgveil::postgres::{LocalPostgres, ServerOptions};
use tokio_postgres::{Client, NoTls};

use super::serve::{Running, free_port};
use crate::fixture::TemporaryDirectory;

const PGVEIL: &str = env!("CARGO_BIN_EXE_pgveil");

/// Made up: 2,500 households, 25,000 baskets of two lines. No foreign keys.
const RETAIL: &str = "CREATE SCHEMA retail;
    CREATE TABLE retail.household (household_key int PRIMARY KEY, age_desc text, income_desc text,
        marital_status varchar(10), email text);
    CREATE TABLE retail.product (product_id int PRIMARY KEY, department text, brand text, \
        commodity text, size text);
    CREATE TABLE retail.store (store_id int PRIMARY KEY, city text);
    CREATE TABLE retail.basket (basket_id bigint PRIMARY KEY, household_key int NOT NULL, \
        store_id int, day date, paid text CHECK (paid IN ('cash', 'card')));
    CREATE TABLE retail.basket_line (basket_id bigint NOT NULL, product_id int,
        quantity int CHECK (quantity BETWEEN 0 AND 20), sales_value numeric(10,2), \
        retail_disc numeric(10,2));
    INSERT INTO retail.household SELECT g, 'canaryvalue', 'low', 'm', 'x@y' \
        FROM generate_series(1, 2500) g;
    INSERT INTO retail.store VALUES (1, 'canaryvalue');
    INSERT INTO retail.product VALUES (1, 'a', 'b', 'c', 'd');
    INSERT INTO retail.basket SELECT g, 1 + g % 2500, 1, '2020-01-01', 'cash' \
        FROM generate_series(1, 25000) g;
    INSERT INTO retail.basket_line SELECT 1 + g % 25000, 1, 1, 2.5, 0 \
        FROM generate_series(1, 50000) g;";

/// Every decision of the retail database.
const DECISIONS: [&str; 21] = [
    "--unit",
    "retail.household.household_key",
    "--accept-links",
    "--budget",
    "4,1e-6",
    "--role",
    "analyst=2,1e-7",
    "--rows",
    "retail.basket=20",
    "--rows",
    "basket_line=40",
    "--bounds",
    "basket_line.sales_value=0..100",
    "--bounds",
    "basket_line.quantity=0..20",
    "--group-by",
    "household.age_desc",
    "--public",
    "store",
    "--public",
    "product",
];

/// Names that are hard to write.
const ODD: &str = r#"CREATE SCHEMA "My Schema"; CREATE SCHEMA "a.b";
    CREATE TYPE "My Schema".mood AS ENUM ('ok', 'not ok', 'yes');
    CREATE TABLE "My Schema"."Users" ("userId" int PRIMARY KEY, "select" text, "yes" boolean,
        mood "My Schema".mood, code char(3) CHECK (code IN ('A', 'BB', 'no')), "Full Name" text,
        "evil
  roles: []" int, tags text[], born date, js json, "q""uote" int, at timestamptz);
    CREATE TABLE "a.b"."order" ("order" int PRIMARY KEY,
        user_id int REFERENCES "My Schema"."Users", ip inet, n smallint CHECK (n > 0),
        lvl int CHECK (lvl IN (1, 2, 3) OR lvl IS NULL), st text CHECK (st = 'a' OR st = 'b'));
    CREATE TABLE "a.b".transfers (id int PRIMARY KEY, payer int REFERENCES "My Schema"."Users",
        payee int REFERENCES "My Schema"."Users", amount numeric);
    CREATE TABLE events (user_id int NOT NULL, at date NOT NULL, kind text,
        PRIMARY KEY (user_id, at)) PARTITION BY RANGE (at);
    CREATE TABLE events_2020 PARTITION OF events FOR VALUES FROM ('2020-01-01') TO ('2021-01-01');
    CREATE VIEW v AS SELECT * FROM events; CREATE TABLE secured (user_id int);
    ALTER TABLE secured ENABLE ROW LEVEL SECURITY; CREATE TABLE "weird"".x" (user_id int);"#;

/// A server that logs every statement, with a role that may connect and SELECT nothing.
struct Stage {
    server: LocalPostgres,
    folder: TemporaryDirectory,
}

impl Stage {
    async fn new(database: &str, schema: &str) -> (Self, Client) {
        let settings = [
            ("log_statement", "all"),
            ("log_min_messages", "log"),
            ("log_line_prefix", "~~by %u: "),
        ];
        let server = LocalPostgres::start(ServerOptions {
            database: Some(database.to_owned()),
            settings: settings
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .to_vec(),
            ..ServerOptions::default()
        })
        .await
        .unwrap();
        let (client, connection) = server.config().connect(NoTls).await.unwrap();
        tokio::spawn(connection);
        client
            .batch_execute("CREATE ROLE nobody LOGIN")
            .await
            .unwrap();
        client.batch_execute(schema).await.unwrap();
        let folder = TemporaryDirectory::new("init");
        (Self { server, folder }, client)
    }

    fn url(&self, role: &str) -> String {
        self.server.url().replace("postgres@", &format!("{role}@"))
    }

    fn file(&self, name: &str) -> String {
        self.folder.0.join(name).display().to_string()
    }

    fn init(&self, role: &str, flags: &[&str]) -> Output {
        Command::new(PGVEIL)
            .args([&["init", &self.url(role)], flags].concat())
            .current_dir(&self.folder.0)
            .env_remove("PGVEIL_LOG")
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// The policy that is drafted, without its password line.
    fn draft(&self, role: &str, flags: &[&str]) -> String {
        let output = self.init(role, flags);
        let (text, reported) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{reported}");
        without_password(&text)
    }

    /// The output of another `pgveil` command for the file.
    fn pgveil(&self, role: &str, arguments: &[&str]) -> Output {
        Command::new(PGVEIL)
            .args(arguments)
            .env("DATABASE_URL", self.url(role))
            .env(
                "PGVEIL_LEDGER",
                format!("sqlite://{}", self.file("ledger.db")),
            )
            .env_remove("PGVEIL_LOG")
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn without_password(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.contains("password: "));
    lines.map(|line| format!("{line}\n")).collect()
}

fn assert_lines(text: &str, wanted: &[&str]) {
    for line in wanted {
        assert!(
            text.lines().any(|known| known.starts_with(line)),
            "{line}\n{text}"
        );
    }
}

/// The role's statements in the log.
fn statements(log: &Path, role: &str) -> Vec<String> {
    let log = std::fs::read_to_string(log).unwrap();
    let marked = format!("~~by {role}: ");
    log.split(&marked)
        .skip(1)
        .map(|rest| rest.split("\n~~").next().unwrap_or(rest).to_owned())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draft_reads_catalogs_alone() {
    let (stage, client) = Stage::new("shop", RETAIL).await;
    client
        .batch_execute("REVOKE ALL ON SCHEMA public FROM PUBLIC")
        .await
        .unwrap();
    let drafted = stage.draft("nobody", &DECISIONS);
    // The superuser's rights do not change the draft.
    assert_eq!(drafted, stage.draft("postgres", &DECISIONS));
    assert!(!drafted.contains("canaryvalue"));
    let seen = statements(&stage.server.directory().join("log"), "nobody");
    assert!(seen.len() > 10, "{seen:#?}");
    let forbidden = [
        "retail",
        "household",
        "basket",
        "reltuples",
        "relpages",
        "pg_stat",
        "pg_description",
        "pg_sequence",
        "_size(",
        "information_schema.",
    ];
    for statement in &seen {
        for word in forbidden {
            let is_schema = word == "information_schema.";
            assert!(
                is_schema || !statement.contains(word),
                "{word} in {statement}"
            );
        }
        // Every relation that is read stands in pg_catalog, or in the statement itself.
        let words: Vec<&str> = statement.split_whitespace().collect();
        for pair in words
            .windows(2)
            .filter(|pair| ["FROM", "JOIN"].contains(&pair[0]))
        {
            let name = pair[1].trim_end_matches([')', ',', ';']);
            let is_own = [" AS (", "("]
                .iter()
                .any(|rest| statement.contains(&format!("{name}{rest}")));
            assert!(
                name.starts_with("pg_catalog.") || name == "LATERAL" || is_own,
                "{name} in {statement}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_without_foreign_keys_is_drafted_and_served() {
    let (stage, client) = Stage::new("shop", RETAIL).await;
    // Nothing is picked in silence.
    let open = stage.init("nobody", &[]);
    assert_eq!(open.status.code(), Some(3), "{}", text(&open.stderr));
    assert!(open.stdout.is_empty());
    assert_lines(
        &text(&open.stderr),
        &[
            "5 tables; links: 0 declared by foreign keys, 4 guessed from names and keys.",
            "undecided: whom does the policy protect?",
            "  --unit retail.household.household_key   # 2 tables below (basket, basket_line)",
        ],
    );
    // Open decisions block serving, and only they.
    let file = stage.file("open.yaml");
    let flags = ["--unit", "retail.household.household_key", "-o", &file];
    let open = stage.init("nobody", &flags);
    assert_eq!(open.status.code(), Some(0), "{}", text(&open.stderr));
    assert_lines(
        &text(&open.stdout),
        &[
            &format!("wrote {file}: 3 private tables, 0 public, 2 left out; 3 blocking, "),
            "  blocks serving: the owner's budget: --budget 4,1e-6",
            "  blocks serving: the way of retail.basket to a household: --link \
                'retail.basket.household_key -> retail.household.household_key', or --accept-links",
        ],
    );
    let checked = stage.pgveil("postgres", &["check", &file]);
    let reported = text(&checked.stderr);
    assert_eq!(checked.status.code(), Some(3), "{reported}");
    assert!(
        reported.ends_with("error: the policy does not hold (4 errors)\n"),
        "{reported}"
    );
    assert_eq!(reported.matches("not \"decide\"").count(), 4, "{reported}");
    // An existing file is never overwritten.
    let before = std::fs::read_to_string(&file).unwrap();
    let again = stage.init("nobody", &[&DECISIONS[..], &["-o", &file]].concat());
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again.stderr).contains("exists, and is not overwritten"));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), before);

    // The first of four commands.
    let file = stage.file("shop.yaml");
    let output = stage.init("nobody", &[&DECISIONS[..], &["-o", &file]].concat());
    let reported = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_lines(
        &reported,
        &[
            &format!("wrote {file}: 3 private tables, 2 public, 0 left out; 0 blocking, 3 to"),
            "Noise, of one answer in 95 % of cases",
            "  retail.basket",
            "    at epsilon 0.1: count(*) ±",
            "    at epsilon 1: count(*) ±",
            "   ALTER TABLE \"retail\".\"basket\" ADD FOREIGN KEY (\"household_key\") REFERENCES ",
            "   CREATE INDEX ON \"retail\".\"basket\" (\"household_key\");",
        ],
    );
    let policy = std::fs::read_to_string(&file).unwrap();
    assert_lines(
        &policy,
        &[
            "  retail.household:                 # one row a household",
            "      email: hidden                 # may identify a person",
            "    unit: {path: [household_key -> retail.household.household_key], trusted_path: ",
            "      paid: {values: [cash, card]}  # from a CHECK of the table",
            "      store_id: {domain: retail.store.store_id}",
            "      sales_value: {bounds: [0, 100]}",
            "      # retail_disc: {bounds: [lowest, highest]} # DECIDE: numeric(10,2)",
        ],
    );
    let password = reported.rsplit("shown once: ").next().unwrap().trim();
    assert!(
        password.len() == 23 && !policy.contains(password),
        "{reported}"
    );
    // The statements printed for the administrator are all that the role needs.
    for line in reported
        .lines()
        .filter(|line| line.starts_with("   GRANT "))
    {
        client.batch_execute(line).await.unwrap();
    }
    let checked = stage.pgveil("nobody", &["check", &file]);
    assert_eq!(checked.status.code(), Some(0), "{}", text(&checked.stderr));
    first_answer(&stage, &reported).await;
}

/// The environment and serve, as init printed them; then the analyst.
async fn served(stage: &Stage, reported: &str, database: &str) -> (Running, Client) {
    let port = free_port();
    let line = |begin: &str| {
        let mut lines = reported.lines().map(str::trim);
        lines
            .find(|line| line.starts_with(begin))
            .unwrap_or_else(|| panic!("no {begin}: {reported}"))
            .to_owned()
    };
    let serve = line("pgveil serve ").replacen("pgveil", PGVEIL, 1);
    let script = format!(
        "{}\nexec {serve} --listen 127.0.0.1:{port}",
        line("export ")
    );
    let password = reported.rsplit("shown once: ").next().unwrap().trim();
    let child = Command::new("sh")
        .args(["-c", &script])
        .stdin(Stdio::null())
        .stderr(std::fs::File::create(stage.file("log")).unwrap())
        .spawn()
        .unwrap();
    let running = Running(child);
    let config =
        format!("host=127.0.0.1 port={port} user=analyst password={password} dbname={database}");
    let begun = Instant::now();
    let client = loop {
        if let Ok((client, connection)) = tokio_postgres::connect(&config, NoTls).await {
            tokio::spawn(connection);
            break client;
        }
        let log = std::fs::read_to_string(stage.file("log")).unwrap();
        assert!(begun.elapsed() < Duration::from_secs(120), "{log}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    (running, client)
}

/// The other three: the environment, serve, psql.
async fn first_answer(stage: &Stage, reported: &str) {
    let (_running, client) = served(stage, reported, "shop").await;
    let count = "SELECT count(*) FROM retail.basket";
    let row = client.query_one(count, &[]).await.unwrap();
    let baskets: i64 = row.get(0);
    assert!((baskets - 25_000).abs() < 10_000, "{baskets}");
    let sums = "SELECT department, sum(sales_value)::float8 FROM retail.basket_line \
        JOIN retail.product USING (product_id) GROUP BY department";
    let rows = client.query(sums, &[]).await.unwrap();
    assert_eq!(rows.len(), 1);
    for refused in ["email", "income_desc"] {
        let sql = format!("SELECT count({refused}) FROM retail.household");
        let error = client.query_one(&sql, &[]).await.unwrap_err();
        assert_eq!(
            error.code().map(|code| code.code()),
            Some("42703"),
            "{refused}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_keys_tables_are_left_out_with_what_they_lack() {
    let schema = RETAIL.replace(" PRIMARY KEY", "");
    let (stage, client) = Stage::new("shop", &schema).await;
    let flags = [
        "--unit",
        "retail.household.household_key",
        "--budget",
        "4,1e-6",
    ];
    let output = stage.init("nobody", &flags);
    let (draft, reported) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{reported}");
    assert_lines(
        &reported,
        &[
            "drafted: 1 private table, 0 public, 4 left out; 0 blocking,",
            "   ALTER TABLE \"retail\".\"household\" ADD UNIQUE (\"household_key\");",
            "   ALTER TABLE \"retail\".\"basket\" ADD UNIQUE (\"basket_id\");",
        ],
    );
    assert!(!reported.contains("\"store\" ADD UNIQUE") && !reported.contains("basket_line\" ADD"));
    // Only what does not seem to be about a household may be published.
    assert!(draft.contains("  # retail.store: public") && !draft.contains("retail.basket: public"));
    let public = stage.init("nobody", &[&flags[..], &["--public", "basket"]].concat());
    assert_eq!(public.status.code(), Some(2), "{}", text(&public.stderr));
    // The statements that it prints give it what it lacked.
    for line in reported
        .lines()
        .filter(|line| line.starts_with("   ALTER TABLE"))
    {
        client.batch_execute(line).await.unwrap();
    }
    let draft = stage.draft("nobody", &[&flags[..], &["--accept-links"]].concat());
    assert_lines(&draft, &["  retail.basket:", "  retail.basket_line:"]);
}

/// Keys that no path follows: of two columns, not validated, through a table with row security.
#[tokio::test(flavor = "multi_thread")]
async fn every_foreign_key_is_a_suspicion() {
    let schema = "CREATE TABLE person (id int PRIMARY KEY, a int, b int, UNIQUE (a, b));
        CREATE TABLE pair (a int, b int, FOREIGN KEY (a, b) REFERENCES person (a, b));
        CREATE TABLE loose (p int);
        ALTER TABLE loose ADD FOREIGN KEY (p) REFERENCES person NOT VALID;
        CREATE TABLE hidden (id int PRIMARY KEY, p int REFERENCES person);
        ALTER TABLE hidden ENABLE ROW LEVEL SECURITY;
        CREATE TABLE below (h int REFERENCES hidden); CREATE TABLE other (n int);";
    let (stage, _client) = Stage::new("shop", schema).await;
    let flags = ["--unit", "person.id", "--budget", "4,1e-6", "--public"];
    for (table, key) in [
        ("pair", "pair_a_b_fkey (a, b) leads to public.person"),
        ("loose", "loose_p_fkey (p) leads to public.person"),
        ("below", "below_h_fkey (h) leads to public.hidden"),
    ] {
        let output = stage.init("nobody", &[&flags[..], &[table]].concat());
        let reported = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{reported}");
        assert!(reported.contains(key), "{reported}");
    }
    stage.draft("nobody", &[&flags[..], &["other"]].concat());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_and_tpch_are_drafted_as_they_are_protected() {
    let schema = std::fs::read_to_string("data/nls_young_women/schema.sql").unwrap();
    let schema = schema.split("\\copy").next().unwrap().to_owned();
    let (stage, client) = Stage::new("nls", &schema).await;
    let open = text(&stage.init("nobody", &[]).stderr);
    assert!(
        open.contains("\n  --unit nls.women.woman_id   # 1 table below (interviews)"),
        "{open}"
    );
    let flags = ["--unit", "nls.women.woman_id", "--budget", "8,1e-6"];
    let draft = stage.draft("nobody", &flags);
    assert_lines(
        &draft,
        &[
            "  unit: woman ",
            "    unit: {path: [woman_id -> nls.women.woman_id]} # by foreign keys",
            "  # nls.industries: public",
            "  # nls.occupations: public",
        ],
    );
    assert!(
        !draft.contains("decide:") && !draft.contains(": decide"),
        "{draft}"
    );
    // In one server: the schema of TPC-H, with its keys and without.
    let tpch = std::fs::read_to_string("tests/corpora/tpch/schema.sql").unwrap();
    client
        .batch_execute("CREATE SCHEMA tpch; SET search_path = tpch")
        .await
        .unwrap();
    client.batch_execute(&tpch).await.unwrap();
    let flags = [
        "--schema",
        "tpch",
        "--unit",
        "tpch.customer.c_custkey",
        "--budget",
        "8,1e-6",
    ];
    let declared = stage.draft("nobody", &flags);
    client
        .batch_execute("DROP SCHEMA tpch CASCADE; CREATE SCHEMA tpch")
        .await
        .unwrap();
    let keyless: Vec<String> = tpch
        .replace(
            ", FOREIGN KEY (l_partkey, l_suppkey) REFERENCES partsupp",
            "",
        )
        .split(" REFERENCES ")
        .enumerate()
        .map(|(at, part)| match at {
            0 => part.to_owned(),
            _ => part
                .trim_start_matches(|c: char| c.is_ascii_lowercase())
                .to_owned(),
        })
        .collect();
    client.batch_execute(&keyless.concat()).await.unwrap();
    let guessed = stage.draft("nobody", &[&flags[..], &["--accept-links"]].concat());
    let path = "[l_orderkey -> tpch.orders.o_orderkey, o_custkey -> tpch.customer.c_custkey]";
    assert!(
        declared.contains(&format!("{{path: {path}}}")),
        "{declared}"
    );
    assert!(
        guessed.contains(&format!("{{path: {path}, trusted_path: true}}")),
        "{guessed}"
    );
    let columns = |draft: &str| -> Vec<String> {
        let lines = draft.lines().filter(|line| line.starts_with("      "));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(columns(&declared), columns(&guessed));
    assert_lines(
        &declared,
        &[
            "      c_phone: hidden",
            "      # l_quantity: {bounds: [lowest,",
        ],
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn every_name_is_spelled_as_the_reader_reads_it() {
    let (stage, _client) = Stage::new("odd", ODD).await;
    let flags = [
        "--unit",
        "\"My Schema\".Users.userId",
        "--accept-links",
        "--budget",
        "0.5,1e-6",
    ];
    let draft = stage.draft("nobody", &flags);
    assert_lines(
        &draft,
        &[
            "  \"\\\"My Schema\\\".Users\":            # one row a user",
            "    unit: userId",
            "      \"yes\": {values: [false, true]}",
            "      mood: visible",
            "      code: {values: [A, BB, \"no\"]} # from a CHECK",
            "      \"Full Name\": hidden",
            "      # \"evil\\u000A  roles: []\": {bounds: ",
            "    unit: {path: [\"user_id -> \\\"My Schema\\\".Users.userId\"]} # by foreign keys",
            "      lvl: {values: [1, 2, 3]}",
            "      st: {values: [a, b]}",
            "  public.events:",
            "  # a.b.transfers                   # its rows lead to a user by several columns",
            "  # public.v                        # a view",
            "  # public.secured                  # it has row security",
            "  # public.weird\".x                 # a policy has no spelling for its name",
        ],
    );
    // For machines.
    let output = stage.init("nobody", &[&flags[..], &["--json"]].concat());
    let reported: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        without_password(reported["policy"].as_str().unwrap()),
        draft
    );
    assert_eq!(reported["unit"]["word"], "user");
    assert_eq!(reported["blocking"].as_array().unwrap().len(), 0);
    let open = stage.init("nobody", &["--json"]);
    let reported: serde_json::Value = serde_json::from_slice(&open.stdout).unwrap();
    assert_eq!(open.status.code(), Some(3));
    assert_eq!(
        reported["candidates"][0]["unit"],
        "\"My Schema\".Users.userId"
    );
}

/// The keys of the arrows.
const DOWN: &str = "\u{1b}[B";
const UP: &str = "\u{1b}[A";

/// A terminal that `script` makes, and its screen.
struct Terminal {
    child: Child,
    shown: std::sync::mpsc::Receiver<u8>,
    seen: String,
    questions: usize,
}

impl Terminal {
    fn new(command: &str) -> Self {
        let mut child = Command::new("script")
            .args(["-qec", command, "/dev/null"])
            .env_remove("PGVEIL_LOG")
            .env_remove("RUST_LOG")
            .env("TERM", "xterm")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("script, of util-linux");
        let mut output = child.stdout.take().unwrap();
        let (sender, shown) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut byte = [0];
            while output.read(&mut byte).is_ok_and(|read| read == 1) {
                if sender.send(byte[0]).is_err() {
                    break;
                }
            }
        });
        Self {
            child,
            shown,
            seen: String::new(),
            questions: 0,
        }
    }

    /// Waits for the question, and types the answer.
    fn answer(&mut self, question: &str, keys: &str) {
        let begun = Instant::now();
        while !self.seen.contains(question) {
            match self.shown.recv_timeout(Duration::from_secs(30)) {
                Ok(byte) => self.seen.push(char::from(byte)),
                Err(error) => panic!("no question {question}: {error}: {}", self.seen),
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "{}", self.seen);
        }
        self.seen.clear();
        self.questions += 1;
        // The question is drawn before the keys are read one by one.
        std::thread::sleep(Duration::from_millis(300));
        self.child
            .stdin
            .as_mut()
            .unwrap()
            .write_all(keys.as_bytes())
            .unwrap();
    }

    /// The exit code, the last output, and the number of answered questions.
    fn end(mut self) -> (Option<i32>, String, usize) {
        let code = self.child.wait().unwrap().code();
        let rest: Vec<u8> = self.shown.iter().collect();
        (code, self.seen + &text(&rest), self.questions)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_is_asked_ten_questions() {
    let (stage, _client) = Stage::new("shop", RETAIL).await;
    let file = stage.file("asked.yaml");
    let command = format!("{PGVEIL} init '{}' -o {file}", stage.url("nobody"));
    let asked = tokio::task::spawn_blocking(move || {
        let mut terminal = Terminal::new(&command);
        // Enter alone picks nobody.
        terminal.answer("Whom do you protect?", "\r\u{1b}[B\r");
        terminal.answer("retail.basket.household_key is the", "y\r");
        terminal.answer("retail.basket_line.basket_id is the", "y\r");
        terminal.answer("in retail.basket that count", "20\r");
        terminal.answer("in retail.basket_line that count", "40\r");
        terminal.answer("hold no row about one household", " \u{1b}[B \r");
        // The first text, and the first two numbers behind three texts.
        let marked = format!(" {DOWN}{DOWN}{DOWN} {DOWN} \r");
        terminal.answer("Which of these may analysts use?", &marked);
        terminal.answer("retail.basket_line.quantity (", "0 20\r");
        terminal.answer("retail.basket_line.sales_value (", "0 100\r");
        terminal.answer("Owner's budget", "4 1e-6\r");
        terminal.end()
    });
    let (code, reported, questions) = asked.await.unwrap();
    assert_eq!((code, questions), (Some(0), 10), "{reported}");
    assert!(
        reported.contains("3 private tables, 2 public, 0 left out; 0 blocking, 3 to"),
        "{reported}"
    );
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&file).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let asked = without_password(&std::fs::read_to_string(&file).unwrap());
    let flags = stage.draft("nobody", &DECISIONS);
    assert_eq!(asked, flags, "flags and answers draft the same");
}

#[tokio::test(flavor = "multi_thread")]
async fn check_tells_the_owner_how_the_policy_fits_the_rows() {
    let (stage, client) = Stage::new("shop", RETAIL).await;
    let file = stage.file("shop.yaml");
    let output = stage.init("nobody", &[&DECISIONS[..], &["-o", &file]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let policy = std::fs::read_to_string(&file).unwrap();
    let complete = "      paid: {values: [cash, card], complete: true}";
    let policy = policy.replace("      paid: {values: [cash, card]}", complete);
    std::fs::write(&file, policy).unwrap();
    // One household with 30 of 25,020 baskets, a value that the list lacks, prices and a line of
    // nobody.
    client
        .batch_execute(
            "ALTER TABLE retail.basket DROP CONSTRAINT basket_paid_check;
             INSERT INTO retail.basket SELECT 25000 + g, 1, 1, '2020-01-01', NULL \
                FROM generate_series(1, 20) g;
             UPDATE retail.basket SET paid = 'canaryvalue' WHERE basket_id <= 250;
             UPDATE retail.basket_line SET sales_value = 100.01 WHERE basket_id = 7;
             UPDATE retail.basket_line SET sales_value = -1 WHERE basket_id = 8;
             UPDATE retail.basket_line SET basket_id = 999999 WHERE basket_id = 9;",
        )
        .await
        .unwrap();
    let plain = stage.pgveil("postgres", &["check", &file]);
    assert!(!text(&plain.stdout).contains("EXACT"));
    let checked = stage.pgveil("postgres", &["check", &file, "--against-data"]);
    let (reported, logged) = (text(&checked.stdout), text(&checked.stderr));
    assert_eq!(checked.status.code(), Some(0), "{logged}");
    assert_lines(
        &reported,
        &[
            "EXACT AND PRIVATE. ",
            "    rows_per_unit 1: households above it none; rows beyond it none",
            "    rows_per_unit 20: households above it 0.0400 % (1 of 2500); rows beyond it 0.0400 \
                % (10 of 25020)",
            "    paid: outside the list 1.00 % (250 of 25000), though it is `complete`: WRONG",
            "    rows of no household, which no answer counts: 0.00400 % (2 of 50000)",
            "    quantity: below 0 none; above 20 none",
            "    sales_value: below 0 0.00400 % (2 of 50000); above 100 0.00400 % (2 of 50000)",
        ],
    );
    assert!(!reported.contains("canaryvalue") && !logged.contains("EXACT"));
    // Without the right to read, nothing of a row is said.
    let checked = stage.pgveil("nobody", &["check", &file, "--against-data"]);
    assert_eq!(checked.status.code(), Some(3), "{}", text(&checked.stdout));
}

/// A database, as its owner meets pgveil: the typed answers, and the analyst's first questions.
struct Begun {
    database: &'static str,
    schema: String,
    /// Next to the URL and the file.
    flags: &'static str,
    answers: Vec<(&'static str, String)>,
    /// Questions with one row a unit: the private tables are empty, and a look would see nobody.
    asked: &'static [&'static str],
}

fn begun() -> Vec<Begun> {
    let nls = std::fs::read_to_string("data/nls_young_women/schema.sql").unwrap();
    let budget = || ("Owner's budget", "4 1e-6\r".to_owned());
    // Enter alone picks nobody.
    let first = || ("Whom do you protect?", format!("\r{DOWN}\r"));
    vec![
        Begun {
            database: "nls",
            // Lists of groups come from public tables, so these have rows.
            schema: nls.split("\\copy").next().unwrap().to_owned()
                + "INSERT INTO nls.industries VALUES (1, 'mining');
                   INSERT INTO nls.occupations VALUES (1, 'clerical');",
            flags: "",
            answers: vec![
                first(),
                ("in nls.interviews that count", "15\r".to_owned()),
                ("hold no row about one woman", format!(" {DOWN} \r")),
                // A text, and the first two numbers.
                (
                    "Which of these may analysts use?",
                    format!(" {DOWN} {DOWN} \r"),
                ),
                ("nls.interviews.year (", "1968 1988\r".to_owned()),
                ("nls.interviews.age (", "14 46\r".to_owned()),
                budget(),
            ],
            asked: &["SELECT count(*) FROM nls.women"],
        },
        Begun {
            database: "tpch",
            schema: std::fs::read_to_string("tests/corpora/tpch/schema.sql").unwrap()
                + ";INSERT INTO region VALUES (0, 'AFRICA', '');
                   INSERT INTO nation VALUES (0, 'ALGERIA', 0, '');",
            flags: "",
            answers: vec![
                first(),
                ("in public.lineitem that count", "200\r".to_owned()),
                ("in public.orders that count", "50\r".to_owned()),
                ("hold no row about one customer", format!(" {DOWN} \r")),
                // The first text, and the last number.
                ("Which of these may analysts use?", format!(" {UP} \r")),
                ("public.orders.o_shippriority (", "0 5\r".to_owned()),
                budget(),
            ],
            asked: &["SELECT count(*) FROM customer"],
        },
        Begun {
            database: "shop",
            schema: RETAIL.replace(" PRIMARY KEY", ""),
            flags: "--unit retail.household.household_key",
            answers: vec![
                ("in retail.household that count", "1\r".to_owned()),
                ("hold no row about one household", format!(" {DOWN} \r")),
                ("Which of these may analysts use?", " \r".to_owned()),
                budget(),
            ],
            asked: &["SELECT count(*) FROM retail.household"],
        },
    ]
}

/// Four commands (init, the environment, serve, psql), no edit, ten questions at most: whether keys
/// and foreign keys are declared or not. The test above counts those of the shop with primary keys.
#[tokio::test(flavor = "multi_thread")]
async fn four_commands_and_ten_questions_to_the_first_answer() {
    for Begun {
        database,
        schema,
        flags,
        answers,
        asked,
    } in begun()
    {
        let (stage, owner) = Stage::new(database, &schema).await;
        let file = stage.file("policy.yaml");
        let command = format!(
            "cd {}; {PGVEIL} init '{}' {flags} -o {file}",
            stage.folder.0.display(),
            stage.url("nobody")
        );
        let typed = tokio::task::spawn_blocking(move || {
            let mut terminal = Terminal::new(&command);
            for (question, keys) in &answers {
                terminal.answer(question, keys);
            }
            terminal.end()
        });
        let (code, reported, questions) = typed.await.unwrap();
        assert_eq!(code, Some(0), "{database}: {reported}");
        assert!(
            questions <= 10 && reported.contains(" 0 blocking"),
            "{questions}: {reported}"
        );
        // The statements for the administrator, who is not a role of pgveil's.
        for line in reported
            .lines()
            .map(str::trim)
            .filter(|line| line.starts_with("GRANT "))
        {
            owner.batch_execute(line).await.unwrap();
        }
        let (_running, analyst) = served(&stage, &reported, database).await;
        for sql in asked {
            let rows = analyst.simple_query(sql).await;
            assert!(rows.is_ok(), "{database}: {sql}: {rows:?}");
        }
    }
}

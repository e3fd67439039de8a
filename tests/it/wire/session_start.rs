//! The start of a session and its questions about itself, as on the database: unqualified names,
//! `pg_backend_pid()` and the like, advisory locks.

use pgveil::engine::{Requester, Service};
use pgveil::policy::schemas;

use super::socket::{Socket, bind, execute, parse, startup, sync};
use crate::fixture::Veil;

const SCHEMA: &str = "
    CREATE SCHEMA \"Shop Data\"; CREATE SCHEMA archive; CREATE SCHEMA analyst; CREATE SCHEMA hidden;
    CREATE TABLE \"Shop Data\".\"Buyers\" (id int PRIMARY KEY, city text NOT NULL);
    CREATE TABLE \"Shop Data\".orders (id int PRIMARY KEY, buyer int NOT NULL REFERENCES \"Shop \
    Data\".\"Buyers\", price int NOT NULL);
    CREATE TABLE archive.orders (id int PRIMARY KEY, buyer int NOT NULL REFERENCES \"Shop \
    Data\".\"Buyers\", price int NOT NULL);
    CREATE TABLE analyst.mine (id int PRIMARY KEY, note text);
    CREATE TABLE hidden.mine (id int PRIMARY KEY);
    INSERT INTO \"Shop Data\".\"Buyers\" SELECT g, (ARRAY['Lyon', 'Lima'])[1 + g % 2] FROM \
    generate_series(1, 400) g;
    INSERT INTO \"Shop Data\".orders SELECT g, g, g % 50 FROM generate_series(1, 400) g;
    INSERT INTO archive.orders SELECT g, g, 7 FROM generate_series(1, 100) g;
    INSERT INTO analyst.mine VALUES (1, 'a'), (2, 'b')";

const POLICY: &str = "\
version: 1
database:
  url: ${DATABASE_URL}
ledger:
  url: ${PGVEIL_LEDGER}
privacy: {unit: buyer, budget: {epsilon: 90000, delta: 1e-3}, per_query: {epsilon: 8, max_epsilon: \
    8}}
roles: [{name: analyst, password: \"SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=\", budget: {epsilon: 90000, delta: 1e-3}}]
tables:
  Shop Data.Buyers: {unit: id, other_columns: visible}
  Shop Data.orders: \
  {unit: {path: [buyer -> Shop Data.Buyers.id]}, rows_per_unit: 1, other_columns: visible, \
  columns: {price: {bounds: [0, 100]}}}
  archive.orders: \
  {unit: {path: [buyer -> Shop Data.Buyers.id]}, rows_per_unit: 1, other_columns: visible, \
  columns: {price: {bounds: [0, 100]}}}
";

const OWN: &str = "  analyst.mine: public\n";

async fn veil(settings: &str, policy: &str) -> Veil {
    let fill = async |client: &tokio_postgres::Client| {
        client.batch_execute(SCHEMA).await.unwrap();
        client.batch_execute(settings).await.unwrap();
    };
    Veil::over_settings(fill, policy, Veil::silent()).await
}

async fn serve(veil: &Veil) -> std::net::SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(pgveil::wire::serve(
        listener,
        None,
        veil.engine.clone(),
        tokio_util::sync::CancellationToken::new(),
    ));
    address
}

async fn log_in(address: std::net::SocketAddr, more: &[(&str, &str)]) -> Socket {
    let mut socket = Socket::open(address).await;
    socket
        .send(&startup(
            &[&[("user", "analyst"), ("database", "nls")][..], more].concat(),
        ))
        .await;
    socket.authenticate("analyst", None).await;
    socket.until_ready().await;
    socket
}

async fn start_path(settings: &str, policy: &str) -> String {
    veil(settings, policy).await.engine.search_path("analyst")
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_start_with_the_search_path_of_the_database() {
    let shown = r#""$user", public, "Shop Data", archive"#;
    // Nothing of the policy is in reach by PostgreSQL's own default.
    assert_eq!(start_path("", POLICY).await, shown);
    // The role's own schema has a table.
    assert_eq!(
        start_path("", &format!("{POLICY}{OWN}")).await,
        r#""$user", public"#
    );
    let of_database = r#"ALTER DATABASE nls SET search_path = archive, "Shop Data""#;
    assert_eq!(
        start_path(of_database, POLICY).await,
        r#"archive, "Shop Data""#
    );
    assert_eq!(
        start_path("ALTER DATABASE nls SET search_path = hidden", POLICY).await,
        r#"hidden, "Shop Data", archive"#
    );
    let of_role = format!(
        "{of_database}; CREATE ROLE analyst; ALTER ROLE analyst SET search_path = public, \"Shop \
            Data\""
    );
    assert_eq!(start_path(&of_role, POLICY).await, r#"public, "Shop Data""#);
    assert_eq!(
        start_path(
            &format!("{of_role}; ALTER ROLE analyst IN DATABASE nls SET search_path = archive"),
            POLICY
        )
        .await,
        "archive"
    );
    let own = POLICY.replace(
        "budget: {epsilon: 90000, delta: 1e-3}}]",
        "budget: {epsilon: 90000, delta: 1e-3}, settings: {search_path: 'hidden,\"Shop Data\"'}}]",
    );
    assert_eq!(start_path(&of_role, &own).await, r#"hidden, "Shop Data""#);
}

#[tokio::test(flavor = "multi_thread")]
async fn unqualified_names_work_as_on_the_database() {
    let veil = veil(
        r#"ALTER DATABASE nls SET search_path = "Shop Data", archive"#,
        POLICY,
    )
    .await;
    veil.client
        .batch_execute(r#"SET search_path = "Shop Data", archive"#)
        .await
        .unwrap();
    let requester = Requester {
        search_path: schemas(&veil.engine.search_path("analyst"), "analyst"),
        ..Veil::requester()
    };
    let questions = [
        "SELECT sum(price) FROM orders",
        r#"SELECT city, count(*) FROM orders JOIN "Buyers" b ON b.id = orders.buyer
            GROUP BY city ORDER BY city"#,
        "SELECT sum(price) FROM archive.orders",
        "SELECT current_schema(), current_schemas(false)",
        r#"SELECT 'orders'::regclass::text, to_regclass('"Buyers"')::text,
            to_regclass('buyers') IS NULL,
            '"Buyers"'::regclass = '"Shop Data"."Buyers"'::regclass"#,
        "SELECT n.nspname, c.relname, pg_table_is_visible(c.oid) FROM pg_class c JOIN pg_namespace \
            n ON n.oid = c.relnamespace
         WHERE c.relkind = 'r' AND n.nspname IN ('Shop Data', 'archive') ORDER BY 1, 2",
    ];
    veil.answers_as_postgresql(&requester, &questions).await;
    let missing = veil
        .ask_as(&requester, "SELECT count(*) FROM mine")
        .await
        .err()
        .unwrap()
        .report();
    assert_eq!(missing.sqlstate, "42P01");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_is_set_shown_and_reset() {
    let veil = veil(
        r#"ALTER DATABASE nls SET search_path = "Shop Data", archive"#,
        POLICY,
    )
    .await;
    let address = serve(&veil).await;
    let mut socket = log_in(address, &[]).await;
    let sum = "SELECT sum(price)::int FROM orders";
    let (shop, archive) = ("9800", "700");
    assert_eq!(
        socket.value("SHOW search_path").await,
        r#""Shop Data", archive"#
    );
    assert_eq!(socket.value(sum).await, shop);
    socket.ask("SET search_path = archive").await;
    assert_eq!(
        (
            socket.value(sum).await.as_str(),
            socket.value("SELECT current_schema()").await.as_str()
        ),
        (archive, "archive")
    );
    socket
        .ask("BEGIN; SET LOCAL search_path = \"Shop Data\"")
        .await;
    assert_eq!(socket.value(sum).await, shop);
    socket.ask("COMMIT").await;
    assert_eq!(socket.value(sum).await, archive);
    for reset in [
        "RESET search_path",
        "SET search_path = archive; RESET ALL",
        "SET search_path TO DEFAULT",
    ] {
        socket.ask(reset).await;
        assert_eq!(
            socket.value("SHOW search_path").await,
            r#""Shop Data", archive"#,
            "{reset}"
        );
    }
    socket.ask("SET search_path = archive").await;
    socket.ask("DISCARD ALL").await;
    assert_eq!(socket.value(sum).await, shop);
    let mut other = log_in(address, &[("options", "-c search_path=archive")]).await;
    assert_eq!(other.value(sum).await, archive);
    other
        .ask("SET search_path = \"Shop Data\"; RESET search_path")
        .await;
    assert_eq!(other.value("SHOW search_path").await, "archive");
}

/// Alone, with other columns, of private rows and not, by every way to an answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_can_ask_about_itself_and_the_backing_server() {
    let veil = veil("", &format!("{POLICY}{OWN}")).await;
    let mut socket = log_in(serve(&veil).await, &[]).await;
    let process = i32::from_be_bytes(socket.key[..4].try_into().unwrap()).to_string();
    let version = veil.direct("SELECT version()").await.remove(0);
    let started = veil
        .direct("SET TimeZone = 'UTC'; SELECT pg_postmaster_start_time()")
        .await
        .remove(0);
    for (call, wanted) in [
        ("pg_backend_pid()", process.as_str()),
        ("version()", &version),
        ("pg_postmaster_start_time()", &started),
    ] {
        for sql in [
            format!("SELECT {call}"),
            format!("SELECT pg_catalog.{call} AS p, 1 AS one"),
            format!("SELECT {call} AS p, count(*) FROM \"Shop Data\".\"Buyers\""),
            format!("SELECT {call} AS p, id FROM analyst.mine ORDER BY id LIMIT 1"),
            format!("SELECT {call} AS p FROM pg_class LIMIT 1"),
            format!(
                "SELECT p FROM (SELECT {call} AS p, count(*) AS n FROM \"Shop Data\".\"Buyers\") \
                    AS \
                    t WHERE n > 0"
            ),
            format!("SELECT * FROM {call} AS v"),
        ] {
            assert_eq!(socket.value(&sql).await, wanted, "{sql}");
        }
        socket
            .ask(&format!(
                "PREPARE of_session AS SELECT {call}, count(*) FROM \"Shop Data\".\"Buyers\""
            ))
            .await;
        assert_eq!(socket.value("EXECUTE of_session").await, wanted, "{call}");
        socket
            .ask(&format!(
                "DEALLOCATE of_session; BEGIN; DECLARE c CURSOR FOR SELECT {call}"
            ))
            .await;
        assert_eq!(socket.value("FETCH c").await, wanted, "{call}");
        socket.ask("COMMIT").await;
        let copied = socket.ask(&format!("COPY (SELECT {call}) TO STDOUT")).await;
        assert_eq!(
            copied
                .iter()
                .find(|reply| reply.kind == b'd')
                .map(|reply| String::from_utf8_lossy(&reply.body).trim_end().to_owned())
                .as_deref(),
            Some(wanted)
        );
        socket
            .send(
                &[
                    parse("", &format!("SELECT {call}")),
                    bind("", "", &[], &[]),
                    execute("", 0),
                    sync(),
                ]
                .concat(),
            )
            .await;
        let replies = socket.until_ready().await;
        assert_eq!(
            replies
                .iter()
                .find(|reply| reply.kind == b'D')
                .unwrap()
                .values(),
            [Some(wanted.to_owned())]
        );
    }
    for (sql, wanted) in [
        (
            "SELECT current_database(), count(*) FROM \"Shop Data\".\"Buyers\"",
            "nls",
        ),
        ("SELECT current_catalog AS c", "nls"),
        (
            "SELECT session_user, current_role, count(*) FROM \"Shop Data\".\"Buyers\"",
            "analyst",
        ),
        (
            "SELECT pg_is_in_recovery() AS r, count(*) FROM \"Shop Data\".\"Buyers\"",
            "f",
        ),
        (
            "SELECT inet_server_addr() IS NULL AND inet_server_port() IS NULL",
            "t",
        ),
        (
            "SELECT v.version FROM (SELECT version(), count(*) FROM \"Shop Data\".\"Buyers\") AS v",
            &version,
        ),
    ] {
        assert_eq!(socket.value(sql).await, wanted, "{sql}");
    }
}

/// pgAdmin's first message, of several statements.
#[tokio::test(flavor = "multi_thread")]
async fn a_setting_is_set_over_the_list_of_settings() {
    let veil = veil("", POLICY).await;
    let mut socket = log_in(serve(&veil).await, &[]).await;
    let first = "SET DateStyle=ISO; SET client_min_messages=notice; SELECT \
        set_config('bytea_output','hex',false) FROM pg_show_all_settings() \
                 WHERE name = 'bytea_output'; SET client_encoding='utf-8';";
    let replies = socket.ask(first).await;
    assert_eq!(
        super::socket::kinds(&replies).replace('S', ""),
        "CCTDCCZ",
        "{replies:?}"
    );
    let none = socket
        .ask(
            "SELECT set_config('bytea_output','escape',false) FROM \
        pg_show_all_settings() WHERE name = 'no_such_setting'",
        )
        .await;
    assert!(none.iter().all(|reply| reply.kind != b'D'), "{none:?}");
    assert_eq!(socket.value("SHOW bytea_output").await, "hex");
}

#[tokio::test(flavor = "multi_thread")]
async fn advisory_locks_are_those_of_a_session_alone() {
    let veil = veil("", POLICY).await;
    let address = serve(&veil).await;
    let (mut one, mut other) = (log_in(address, &[]).await, log_in(address, &[]).await);
    for (sql, wanted) in [
        ("SELECT pg_advisory_lock(7)", ""),
        ("SELECT pg_try_advisory_lock(7) AS again", "t"),
        ("SELECT pg_advisory_unlock(7)", "t"),
        ("SELECT pg_advisory_unlock(7)", "t"),
        ("SELECT pg_advisory_unlock(7)", "f"),
        ("SELECT pg_try_advisory_lock_shared(1, 2)", "t"),
        ("SELECT pg_advisory_unlock(1, 2)", "f"),
        ("SELECT pg_advisory_unlock_shared(1, 2)", "t"),
        ("SELECT pg_try_advisory_xact_lock(hashtext('job'))", "t"),
        ("SELECT pg_advisory_lock(9)", ""),
        ("SELECT pg_advisory_unlock_all()", ""),
        ("SELECT pg_advisory_unlock(9)", "f"),
    ] {
        assert_eq!(one.value(sql).await, wanted, "{sql}");
    }
    one.ask("SELECT pg_advisory_lock(7)").await;
    assert_eq!(other.value("SELECT pg_try_advisory_lock(7)").await, "t");
    let warned = other.ask("SELECT pg_advisory_unlock(8)").await;
    assert!(
        warned.iter().any(|reply| reply.kind == b'N'
            && reply.field(b'M') == "you don't own a lock of type ExclusiveLock"),
        "{warned:?}"
    );
    other
        .send(
            &[
                parse("", "SELECT pg_advisory_unlock($1)"),
                bind("", "", &["7"], &[1]),
                execute("", 0),
                sync(),
            ]
            .concat(),
        )
        .await;
    let replies = other.until_ready().await;
    assert_eq!(
        replies
            .iter()
            .find(|reply| reply.kind == b'D')
            .unwrap()
            .body[6..],
        [1]
    );
    assert_eq!(
        one.refused("SELECT pg_advisory_lock(id) FROM \"Shop Data\".\"Buyers\"")
            .await,
        "42501"
    );
}

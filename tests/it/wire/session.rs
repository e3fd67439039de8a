//! Transactions and settings as clients see them.

use super::double::start;
use super::socket::{Socket, bind, execute, kinds, message, parse, startup, sync};

/// Status byte after each statement, or its SQLSTATE.
async fn statuses(socket: &mut Socket, statements: &[&str]) -> String {
    let mut found = Vec::new();
    for sql in statements {
        let replies = socket.ask(sql).await;
        let error = replies
            .iter()
            .find(|reply| reply.kind == b'E')
            .map(|reply| reply.field(b'C'));
        let tag = replies
            .iter()
            .rfind(|reply| reply.kind == b'C')
            .map(super::socket::Reply::text);
        let status = char::from(replies.last().unwrap().body[0]);
        found.push(format!("{}/{status}", error.or(tag).unwrap_or_default()));
    }
    found.join(" ")
}

#[tokio::test]
async fn transactions_go_through_their_states() {
    let running = start().await;
    let mut socket = Socket::log_in(running.address).await;
    for (statements, expected) in [
        (
            &["BEGIN", "SELECT 1", "COMMIT"][..],
            "BEGIN/T SELECT 1/T COMMIT/I",
        ),
        (
            &[
                "START TRANSACTION READ ONLY",
                "SELECT fail",
                "SELECT 1",
                "SHOW TimeZone",
                "COMMIT",
            ],
            "START TRANSACTION/T 42501/E 25P02/E 25P02/E ROLLBACK/I",
        ),
        (
            &["BEGIN", "INSERT INTO t VALUES (1)", "ROLLBACK"],
            "BEGIN/T 42501/E ROLLBACK/I",
        ),
        (&["BEGIN", "SELEC", "END"], "BEGIN/T 42601/E ROLLBACK/I"),
        (
            &[
                "BEGIN",
                "SAVEPOINT a",
                "SELECT fail",
                "ROLLBACK TO a",
                "SELECT 1",
                "RELEASE a",
                "ROLLBACK TO a",
                "ABORT",
            ],
            "BEGIN/T SAVEPOINT/T 42501/E ROLLBACK/T SELECT 1/T RELEASE/T 3B001/E ROLLBACK/I",
        ),
        (
            &["SAVEPOINT a", "RELEASE a", "ROLLBACK TO a"],
            "25P01/I 25P01/I 25P01/I",
        ),
        (
            &[
                "BEGIN",
                "COMMIT AND CHAIN",
                "ROLLBACK AND CHAIN",
                "ROLLBACK",
                "COMMIT AND CHAIN",
            ],
            "BEGIN/T COMMIT/T ROLLBACK/T ROLLBACK/I 25P01/I",
        ),
        (
            &["BEGIN", "DISCARD ALL", "ROLLBACK", "DISCARD ALL"],
            "BEGIN/T 25001/E ROLLBACK/I DISCARD ALL/I",
        ),
        (
            &["DISCARD ALL; SELECT 1", "SELECT 1; DISCARD ALL"],
            "25001/I 25001/I",
        ),
        (
            &["SELECT 1; BEGIN; SELECT fail", "ROLLBACK"],
            "42501/E ROLLBACK/I",
        ),
        (&["BEGIN; SELECT 1; COMMIT"], "COMMIT/I"),
        (
            &[
                "LISTEN a",
                "UNLISTEN *",
                "CLOSE ALL; UNLISTEN *; RESET ALL",
                "SET CONSTRAINTS ALL DEFERRED",
            ],
            "LISTEN/I UNLISTEN/I RESET/I SET CONSTRAINTS/I",
        ),
        (
            &[
                "NOTIFY a",
                "CREATE TABLE t (x int)",
                "COPY t FROM STDIN",
                "LOCK TABLE t",
            ],
            "42501/I 42501/I 42501/I 42501/I",
        ),
        (
            &[
                "DECLARE c CURSOR FOR SELECT 1",
                "FETCH 1 FROM c",
                "EXECUTE p",
                "EXPLAIN ANALYZE SELECT 1",
                "COPY t TO STDOUT",
            ],
            "25P01/I 34000/I 26000/I 42501/I 42501/I",
        ),
    ] {
        assert_eq!(
            statuses(&mut socket, statements).await,
            expected,
            "{statements:?}"
        );
    }
}

#[tokio::test]
async fn what_stands_behind_a_commit_in_a_string_is_one_again() {
    let running = start().await;
    let mut socket = Socket::log_in(running.address).await;
    socket
        .ask("SET bytea_output = escape; COMMIT; SET bytea_output = hex; SELECT fail")
        .await;
    assert_eq!(socket.value("SHOW bytea_output").await, "escape");
    socket.ask("COMMIT; SET bytea_output = hex; SELECT 1").await;
    assert_eq!(socket.value("SHOW bytea_output").await, "hex");
}

#[tokio::test]
async fn warnings_are_those_of_postgresql() {
    let running = start().await;
    let mut socket = Socket::log_in(running.address).await;
    for (sql, sqlstate) in [
        ("COMMIT", "25P01"),
        ("ROLLBACK", "25P01"),
        ("BEGIN; BEGIN; COMMIT", "25001"),
        ("SET LOCAL DateStyle = iso", "25P01"),
    ] {
        let replies = socket.ask(sql).await;
        let warning = replies
            .iter()
            .find(|reply| reply.kind == b'N')
            .unwrap_or_else(|| panic!("{sql}: {replies:?}"));
        assert_eq!(
            (warning.field(b'S').as_str(), warning.field(b'C').as_str()),
            ("WARNING", sqlstate),
            "{sql}"
        );
    }
    socket.ask("SET client_min_messages = error").await;
    assert_eq!(kinds(&socket.ask("COMMIT").await), "CZ");
}

#[tokio::test]
async fn settings_follow_the_transaction() {
    let running = start().await;
    let mut socket = Socket::log_in(running.address).await;
    socket.ask("BEGIN").await;
    socket.ask("SET bytea_output = escape").await;
    socket.ask("SET LOCAL DateStyle = German").await;
    assert_eq!(socket.value("SHOW datestyle").await, "German, DMY");
    socket
        .ask("SAVEPOINT a; SET bytea_output = hex; ROLLBACK TO a")
        .await;
    assert_eq!(socket.value("SHOW bytea_output").await, "escape");
    socket.ask("COMMIT").await;
    assert_eq!(
        (
            socket.value("SHOW datestyle").await.as_str(),
            socket.value("SHOW bytea_output").await.as_str()
        ),
        ("ISO, MDY", "escape")
    );
    socket.ask("BEGIN; RESET bytea_output").await;
    assert_eq!(socket.value("SHOW bytea_output").await, "hex");
    socket.ask("ROLLBACK").await;
    assert_eq!(socket.value("SHOW bytea_output").await, "escape");
    // A string of statements, and a pipeline, are separate transactions.
    socket.ask("SET bytea_output = hex; SELECT fail").await;
    assert_eq!(socket.value("SHOW bytea_output").await, "escape");
    let set = [
        parse("", "SET bytea_output = hex"),
        bind("", "", &[], &[]),
        execute("", 0),
    ]
    .concat();
    socket
        .send(&[set.clone(), parse("", "SELEC"), sync()].concat())
        .await;
    socket.until_ready().await;
    assert_eq!(socket.value("SHOW bytea_output").await, "escape");
    socket.send(&[set, sync()].concat()).await;
    socket.until_ready().await;
    assert_eq!(socket.value("SHOW bytea_output").await, "hex");
}

#[tokio::test]
async fn transaction_modes_are_shown() {
    let running = start().await;
    let mut socket = Socket::log_in(running.address).await;
    assert_eq!(
        socket.value("SHOW transaction_isolation").await,
        "read committed"
    );
    socket
        .ask("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE READ ONLY")
        .await;
    assert_eq!(
        socket.value("SHOW TRANSACTION ISOLATION LEVEL").await,
        "serializable"
    );
    assert_eq!(
        socket.value("SHOW default_transaction_read_only").await,
        "on"
    );
    socket
        .ask("BEGIN ISOLATION LEVEL REPEATABLE READ, READ WRITE")
        .await;
    assert_eq!(
        (
            socket.value("SHOW transaction_isolation").await.as_str(),
            socket.value("SHOW transaction_read_only").await.as_str()
        ),
        ("repeatable read", "off")
    );
    socket.ask("COMMIT").await;
    assert_eq!(
        socket.value("SHOW transaction_isolation").await,
        "serializable"
    );
}

#[tokio::test]
async fn clients_learn_of_changed_settings() {
    let running = start().await;
    let mut socket = Socket::log_in(running.address).await;
    socket.parameters.clear();
    socket
        .ask("SET application_name = 'bi'; SET DateStyle = German; SET bytea_output = escape")
        .await;
    let reported = |socket: &mut Socket| {
        std::mem::take(&mut socket.parameters)
            .into_iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        reported(&mut socket),
        ["application_name=bi", "DateStyle=German, DMY"]
    );
    socket.ask("BEGIN; SET TIME ZONE 'Europe/Berlin'").await;
    assert_eq!(reported(&mut socket), ["TimeZone=Europe/Berlin"]);
    socket.ask("ROLLBACK").await;
    assert_eq!(reported(&mut socket), ["TimeZone=UTC"]);
    socket.ask("SELECT 1").await;
    assert!(reported(&mut socket).is_empty());
}

#[tokio::test]
async fn the_asker_carries_the_session() {
    let running = start().await;
    let mut socket = Socket::log_in(running.address).await;
    assert_eq!(
        socket.value("SELECT client").await,
        "ann None [\"ann\", \"public\"] [(\"TimeZone\", \"UTC\"), (\"DateStyle\", \"ISO, MDY\"), \
            (\"IntervalStyle\", \"postgres\"), \
         (\"extra_float_digits\", \"1\"), (\"bytea_output\", \"hex\")]"
    );
    socket
        .ask(
            "SET pgveil.epsilon = 0.5; SET search_path = 'Main', x; SET TIME ZONE INTERVAL \
        '+00:00' HOUR TO MINUTE",
        )
        .await;
    assert!(
        socket
            .value("SELECT client")
            .await
            .starts_with("ann Some(0.5) [\"Main\", \"x\"] [(\"TimeZone\", \"<+00>-00\")")
    );
    for (sql, sqlstate) in [
        ("SET pgveil.epsilon = -1", "22023"),
        ("SET pgveil.epsilon = 'much'", "22023"),
        ("SET pgveil.noise = off", "42704"),
        ("SET role = admin", "42501"),
        ("SET SESSION AUTHORIZATION admin", "42501"),
        ("SET nonsense = 1", "42704"),
        ("SHOW nonsense", "42704"),
        ("SET client_encoding = LATIN1", "22023"),
        ("SET standard_conforming_strings = off", "22023"),
    ] {
        assert_eq!(socket.refused(sql).await, sqlstate, "{sql}");
    }
}

#[tokio::test]
async fn the_settings_of_pgveil_behave_as_settings_do() {
    let running = start().await;
    let mut socket = Socket::log_in(running.address).await;
    // The policy's default of the role is where RESET goes back to.
    assert_eq!(socket.value("SHOW pgveil.max_groups_per_unit").await, "7");
    socket
        .ask(
            "SET pgveil.max_groups_per_unit = 3; SET pgveil.target_error = '12.50 %'; SET \
        pgveil.keys TO DOMAIN; SET pgveil.reuse = false",
        )
        .await;
    let shown = [
        "max_groups_per_unit",
        "target_error",
        "keys",
        "reuse",
        "max_rows_per_unit",
        "notices",
    ];
    let mut values = Vec::new();
    for name in shown {
        values.push(socket.value(&format!("SHOW pgveil.{name}")).await);
    }
    assert_eq!(values, ["3", "12.5%", "domain", "off", "", "full"]);
    socket.ask("BEGIN; SET LOCAL pgveil.keys = threshold").await;
    assert_eq!(socket.value("SHOW pgveil.keys").await, "threshold");
    socket.ask("COMMIT").await;
    assert_eq!(socket.value("SHOW pgveil.keys").await, "domain");
    socket.ask("BEGIN; SET pgveil.reuse = on; ROLLBACK").await;
    assert_eq!(socket.value("SHOW pgveil.reuse").await, "off");
    socket
        .ask("RESET pgveil.max_groups_per_unit; SET pgveil.keys TO DEFAULT")
        .await;
    assert_eq!(socket.value("SHOW pgveil.max_groups_per_unit").await, "7");
    assert_eq!(socket.value("SHOW pgveil.keys").await, "auto");
    socket.ask("RESET ALL").await;
    assert_eq!(socket.value("SHOW pgveil.target_error").await, "");
    // Past the ceiling: at SET already, and nothing changes.
    assert_eq!(socket.refused("SET pgveil.epsilon = 3").await, "22023");
    assert_eq!(socket.value("SHOW pgveil.epsilon").await, "0.5");
    let all = socket.ask("SHOW ALL").await;
    let names: Vec<String> = all
        .iter()
        .filter(|r| r.kind == b'D')
        .map(|r| String::from_utf8_lossy(&r.body).into_owned())
        .collect();
    assert_eq!(
        names.iter().filter(|name| name.contains("pgveil.")).count(),
        pgveil::policy::SESSION_SETTINGS.len()
    );
}

#[tokio::test]
async fn startup_options_set_them_too() {
    let running = start().await;
    let mut socket = Socket::open(running.address).await;
    socket
        .send(&startup(&[
            ("user", "ann"),
            ("database", "survey"),
            ("options", "-c pgveil.epsilon=0.25 -c pgveil.notices=off"),
        ]))
        .await;
    socket.authenticate(super::double::PASSWORD, None).await;
    socket.until_ready().await;
    assert_eq!(socket.value("SHOW pgveil.epsilon").await, "0.25");
    socket.ask("SET pgveil.epsilon = 1; RESET ALL").await;
    assert_eq!(socket.value("SHOW pgveil.epsilon").await, "0.25");
    let mut socket = Socket::open(running.address).await;
    socket
        .send(&startup(&[
            ("user", "ann"),
            ("database", "survey"),
            ("options", "-c pgveil.epsilon=2.5"),
        ]))
        .await;
    socket.authenticate(super::double::PASSWORD, None).await;
    let refused = loop {
        let reply = socket.receive().await.unwrap();
        if reply.kind != b'R' {
            break reply;
        }
    };
    assert_eq!(
        (refused.kind, refused.field(b'C').as_str()),
        (b'E', "22023")
    );
}

#[tokio::test]
async fn notices_can_be_turned_off() {
    let running = start().await;
    let mut socket = Socket::log_in(running.address).await;
    let replies = socket.ask("SELECT noted").await;
    assert_eq!(
        (
            replies[0].kind,
            replies[0].field(b'S').as_str(),
            replies[0].field(b'C').as_str()
        ),
        (b'N', "NOTICE", "00000")
    );
    assert_eq!(replies[0].field(b'M'), "spent epsilon 0.1");
    for (sql, expected) in [
        ("SET pgveil.notices = off", "TDCZ"),
        ("SET pgveil.notices = cost", "NTDCZ"),
        ("SET client_min_messages = warning", "TDCZ"),
        ("RESET ALL", "NTDCZ"),
    ] {
        socket.ask(sql).await;
        assert_eq!(kinds(&socket.ask("SELECT noted").await), expected, "{sql}");
    }
}

#[tokio::test]
async fn what_drivers_send_by_themselves_is_taken() {
    let running = start().await;
    let mut socket = Socket::log_in(running.address).await;
    for sql in [
        // psqlODBC, pgJDBC, SQLAlchemy, Npgsql, asyncpg, node-pg, psql.
        "SET DateStyle = 'ISO';SET extra_float_digits = 2;show transaction_isolation",
        "BEGIN;SAVEPOINT _EXEC_SVP_0x1;select 1;RELEASE _EXEC_SVP_0x1;COMMIT",
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
        "SET application_name = 'PostgreSQL JDBC Driver'",
        "show standard_conforming_strings",
        "CLOSE ALL;UNLISTEN *;RESET ALL",
        "SET SESSION AUTHORIZATION DEFAULT;RESET ALL",
        "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE;ROLLBACK",
        "SET client_encoding='UTF8';SET client_min_messages TO WARNING;SET jit = 'off'",
        "SHOW password_encryption; SHOW role; SHOW server_version_num; SHOW max_identifier_length; \
            SHOW ALL",
    ] {
        let replies = socket.ask(sql).await;
        assert!(!kinds(&replies).contains('E'), "{sql}: {replies:?}");
    }
}

/// The number of BackendKeyData, for tools that want to cancel by it.
#[tokio::test]
async fn a_session_knows_its_number() {
    let running = start().await;
    let mut socket = Socket::log_in(running.address).await;
    let number = socket.key[..4].to_vec();
    let text = i32::from_be_bytes(number.clone().try_into().unwrap()).to_string();
    assert_eq!(socket.value("SELECT pg_backend_pid()").await, text);
    assert_eq!(
        socket.value("select pg_catalog.pg_backend_pid()").await,
        text
    );
    socket
        .send(
            &[
                parse("", "SELECT pg_backend_pid()"),
                bind("", "", &[], &[1]),
                execute("", 0),
                sync(),
            ]
            .concat(),
        )
        .await;
    let replies = socket.until_ready().await;
    let row = replies.iter().find(|reply| reply.kind == b'D').unwrap();
    assert_eq!(row.body[6..], number);
}

/// Django and PostgREST set this way; the same names and rules as SET.
#[tokio::test]
async fn set_config_alone_is_set() {
    let running = start().await;
    let mut socket = Socket::log_in(running.address).await;
    assert_eq!(
        socket
            .value("SELECT set_config('TimeZone', 'Europe/Berlin', false)")
            .await,
        "Europe/Berlin"
    );
    assert_eq!(socket.value("SHOW TimeZone").await, "Europe/Berlin");
    assert_eq!(
        socket
            .value("SELECT pg_catalog.set_config('search_path', '', false)")
            .await,
        ""
    );
    assert_eq!(
        socket
            .value("SELECT set_config('search_path', 'a, b', false)")
            .await,
        "a, b"
    );
    assert_eq!(
        socket
            .value("SELECT set_config('search_path', 'Main', false)")
            .await,
        "main"
    );
    assert_eq!(
        socket
            .value("SELECT set_config('search_path', 'Main, \"Other one\"', false)")
            .await,
        "main, \"Other one\""
    );
    // The items of SET are names already.
    socket.ask("SET search_path = 'a, b', \"C\"").await;
    assert_eq!(socket.value("SHOW search_path").await, "\"a, b\", \"C\"");
    assert!(
        socket
            .value("SELECT client")
            .await
            .starts_with("ann None [\"a, b\", \"C\"]")
    );
    assert_eq!(
        socket
            .value("SELECT set_config('TimeZone', NULL, false)")
            .await,
        "UTC"
    );
    let asked = running.service.answers();
    for (sql, sqlstate) in [
        ("SELECT set_config('role', 'postgres', false)", "42501"),
        ("SELECT set_config('no_such_setting', 'x', false)", "42704"),
        ("SELECT set_config('server_version', '1', false)", "55P02"),
        (
            "SELECT set_config('TimeZone', '../../etc/passwd', false)",
            "22023",
        ),
        ("SELECT set_config('search_path', 'a b', false)", "22023"),
        ("SELECT set_config('search_path', 'a,', false)", "22023"),
    ] {
        assert_eq!(socket.refused(sql).await, sqlstate, "{sql}");
    }
    assert_eq!(running.service.answers(), asked);
    let prepared = [
        parse("", "SELECT set_config('TimeZone', $1, true)"),
        bind("", "", &["Asia/Tokyo"], &[1]),
        execute("", 0),
        sync(),
    ]
    .concat();
    socket.ask("BEGIN").await;
    socket.send(&prepared).await;
    let replies = socket.until_ready().await;
    assert!(kinds(&replies).starts_with("12DC"), "{replies:?}");
    assert_eq!(socket.value("SHOW TimeZone").await, "Asia/Tokyo");
    socket.ask("COMMIT").await;
    assert_eq!(socket.value("SHOW TimeZone").await, "UTC");
    // A binary value of type text is still text, and text has no zero byte.
    let zero = b"\0\0\0\x01\0\x01\0\x01\0\0\0\x03a\0b\0\0";
    socket
        .send(
            &[
                parse("", "SELECT set_config('search_path', $1, false)"),
                message(b'B', zero),
                execute("", 0),
                sync(),
            ]
            .concat(),
        )
        .await;
    assert_eq!(socket.until_ready().await[2].field(b'C'), "22021");
}

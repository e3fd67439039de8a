//! The shadow says what PostgreSQL says, on every engine, and holds nothing private.

use std::time::{Duration, Instant};

use bytes::Bytes;
use pgveil::catalog::{TableFingerprint, Type, UniqueKey};
use pgveil::engine::{Argument, Description, Format, MemoryShare, Requester};
use pgveil::policy::{
    Accounting, Budget, Column, Limits, Policy, Previews, Privacy, Protection, Secret,
    SessionSettings, Table, Unit, UnitStep,
};
use pgveil::postgres::{LocalPostgres, PostgresEngine, ServerOptions, connect};
use pgveil::refusal::Refusal;
use pgveil::shadow::{Shadow, ShadowError, ShadowOptions, ShadowSource};

use super::postgres::austrian;

const BOOL: u32 = 16;
const INT8: u32 = 20;
const INT4: u32 = 23;
const TEXT: u32 = 25;
const BPCHAR: u32 = 1042;
const DATE: u32 = 1082;
const TIMESTAMPTZ: u32 = 1184;
const NUMERIC: u32 = 1700;

fn column(name: &str, data_type: Type, not_null: bool) -> Column {
    Column {
        name: name.to_owned(),
        data_type,
        declared: None,
        not_null,
        deterministic_collation: true,
        collation: None,
        bounds: None,
        unit_total: None,
        domain: None,
        is_complete: false,
        extent: None,
        collected: None,
    }
}

fn table(
    schema: &str,
    name: &str,
    protection: Protection,
    columns: Vec<Column>,
    key: &str,
) -> Table {
    let unique_keys = vec![
        UniqueKey::plain([key], true),
        UniqueKey::plain(["hidden"], false),
    ];
    Table {
        oid: 1,
        schema: schema.to_owned(),
        name: name.to_owned(),
        protection,
        columns,
        unique_keys,
        foreign_keys: Vec::new(),
        claimed_unique: Vec::new(),
        indexes: Vec::new(),
        fingerprint: TableFingerprint::default(),
        listing: None,
        content: None,
        lists_from: Vec::new(),
        periods: None,
        holdout: None,
    }
}

fn unit(path: Vec<UnitStep>, column: &str) -> Protection {
    Protection::Private(Unit {
        path,
        column: column.to_owned(),
        data_type: Type::Int4,
        is_primary_key: false,
        rows_per_unit: 10,
    })
}

fn policy() -> Policy {
    let step = UnitStep {
        column: "customer_id".to_owned(),
        schema: "public".to_owned(),
        table: "customers".to_owned(),
        referenced: "id".to_owned(),
    };
    let odd = Type::Other {
        oid: 99_999,
        name: "mood".to_owned(),
    };
    let tags = Type::Other {
        oid: 1009,
        name: "text[]".to_owned(),
    };
    let customers = vec![
        column("id", Type::Int4, true),
        column("city", Type::Varchar(Some(30)), false),
        column("feeling", odd, false),
    ];
    let orders = vec![
        column("id", Type::Int8, true),
        column("customer_id", Type::Int4, true),
        column("amount", Type::Numeric(Some((12, 2))), true),
        column("placed", Type::Timestamptz, false),
        column("tags", tags.clone(), false),
    ];
    let rates = vec![
        column("code", Type::Char(Some(3)), true),
        column("rate", Type::Numeric(None), false),
        column("tags", tags, false),
    ];
    let big = vec![column("id", Type::Int4, true)];
    let budget = Budget {
        epsilon: 1.0,
        delta: 1e-6,
    };
    Policy {
        version: String::new(),
        database_url: None,
        ledger_url: None,
        shadow_url: None,
        privacy: Privacy {
            unit: "customer".to_owned(),
            budget,
            epsilon_default: 0.1,
            epsilon_max: 1.0,
            epsilon_min: 0.01,
            accounting: Accounting::Gdp,
            threshold_share: 0.5,
            data_version: "1".to_owned(),
            units: None,
        },
        roles: Vec::new(),
        operators: Vec::new(),
        types: Vec::new(),
        tables: vec![
            table(
                "Sales \"x\"",
                "orders",
                unit(vec![step], "id"),
                orders,
                "id",
            ),
            table(
                "public",
                "customers",
                unit(Vec::new(), "id"),
                customers,
                "id",
            ),
            table("public", "rates", Protection::Public, rates, "code"),
            table("public", "big", Protection::Public, big, "id"),
        ],
        searches: Vec::new(),
        summaries: Vec::new(),
        limits: Limits {
            groups_per_unit: 1,
            rows_per_unit: 1,
            groups: 1,
            mirror_rows: 3,
            monitor_questions: 0,
            failures: 1,
            statement_timeout: Duration::from_secs(30),
            connections: 4,
            connections_per_role: 4,
            connections_per_address: 4,
            stream_rows: true,
        },
        previews: Previews::Refused,
        records_shape: false,
        quantum: None,
        time_grain: None,
        writing: None,
    }
}

/// The real database: two public tables with rows, one private table with a row.
const REAL: &str = "CREATE TABLE public.rates (code char(3) PRIMARY KEY, rate numeric, tags \
    text[], \
    hidden int);
    INSERT INTO rates VALUES ('EUR', 1.10, '{a,\"b \\\"c\"}', 7), ('USD', 'NaN', NULL, 8), ('CHF', \
    NULL, '{}', 9);
    CREATE TABLE public.big (id int PRIMARY KEY); INSERT INTO big SELECT generate_series(1, 4);
    CREATE TABLE public.customers (id int PRIMARY KEY, city varchar(30)); INSERT INTO customers \
    VALUES (1, 'secret city')";

fn requester() -> Requester {
    Requester {
        role: "ann".to_owned(),
        session_settings: SessionSettings::with_fixed_clips(),
        settings: Vec::new(),
        search_path: vec!["Sales \"x\"".to_owned(), "public".to_owned()],
        process: 0,
        origin: Default::default(),
        given_up: Default::default(),
        share: MemoryShare::default(),
    }
}

fn asker_with(settings: &[(&str, &str)]) -> Requester {
    let settings = settings
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    Requester {
        settings,
        ..requester()
    }
}

fn refusal<T: std::fmt::Debug>(outcome: Result<T, ShadowError>) -> Refusal {
    match outcome {
        Err(ShadowError::Refusal(refusal)) => refusal,
        other => panic!("not a refusal: {other:?}"),
    }
}

fn value(format: Format, bytes: &[u8]) -> Argument {
    Argument {
        format,
        value: Some(Bytes::copy_from_slice(bytes)),
    }
}

async fn texts(shadow: &Shadow, requester: &Requester, sql: &str) -> Vec<Vec<Option<String>>> {
    let description = shadow.describe(requester, sql, &[]).await.unwrap();
    let rows = shadow
        .run(requester, sql, &description, &[])
        .await
        .unwrap()
        .rows;
    let text = |value: Option<Bytes>| value.map(|value| String::from_utf8(value.to_vec()).unwrap());
    rows.into_iter()
        .map(|row| row.into_iter().map(text).collect())
        .collect()
}

async fn one(shadow: &Shadow, requester: &Requester, sql: &str) -> String {
    texts(shadow, requester, sql).await[0][0].clone().unwrap()
}

async fn describes_like_postgres(shadow: &Shadow) {
    let sql = "SELECT count(*), sum(amount), avg(amount), sum(o.id), o.placed::date, amount, 'x' \
        AS \
        lit, city FROM orders o JOIN customers c ON c.id = customer_id \
               WHERE amount > $1 AND city = $2 AND o.placed > $3 GROUP BY 5, 6, 8";
    let Description {
        parameters,
        columns,
    } = shadow.describe(&requester(), sql, &[]).await.unwrap();
    assert_eq!(parameters, [NUMERIC, TEXT, TIMESTAMPTZ]);
    let seen: Vec<_> = columns
        .iter()
        .map(|c| (c.name.as_str(), c.type_oid, c.type_size, c.type_modifier))
        .collect();
    let expected = [
        ("count", INT8, 8, -1),
        ("sum", NUMERIC, -1, -1),
        ("avg", NUMERIC, -1, -1),
        ("sum", NUMERIC, -1, -1),
        ("placed", DATE, 4, -1),
        ("amount", NUMERIC, -1, (12 << 16) + 2 + 4),
        ("lit", TEXT, -1, -1),
        ("city", 1043, -1, 34),
    ];
    assert_eq!(seen, expected);
    assert_eq!(
        shadow
            .describe(&requester(), "SELECT $1", &[INT8])
            .await
            .unwrap()
            .parameters,
        [INT8]
    );
    assert_eq!(
        shadow
            .describe(&requester(), "SELECT $1::int4 + $2", &[0, 0])
            .await
            .unwrap()
            .parameters,
        [INT4, INT4]
    );
    // Twice: the cache answers alike.
    assert_eq!(
        shadow
            .describe(&requester(), sql, &[])
            .await
            .unwrap()
            .columns,
        columns
    );
}

async fn errors_are_postgres_own(shadow: &Shadow) {
    let missing = refusal(
        shadow
            .describe(&requester(), "SELECT * FROM nowhere", &[])
            .await,
    );
    assert_eq!(
        (
            missing.sqlstate.as_str(),
            missing.message.as_str(),
            missing.position
        ),
        ("42P01", "relation \"nowhere\" does not exist", Some(15))
    );
    let column = refusal(
        shadow
            .describe(&requester(), "SELECT citi FROM customers", &[])
            .await,
    );
    assert_eq!(
        (column.sqlstate.as_str(), column.message.as_str()),
        ("42703", "column \"citi\" does not exist")
    );
    assert_eq!(
        column.hint.as_deref(),
        Some("Perhaps you meant to reference the column \"customers.city\".")
    );
    assert_eq!(
        refusal(
            shadow
                .describe(&requester(), "SELECT feeling FROM customers", &[])
                .await
        )
        .sqlstate,
        "42703"
    );
    let function = refusal(shadow.describe(&requester(), "SELECT frob(1)", &[]).await);
    assert_eq!(function.message, "function frob(integer) does not exist");
    assert_eq!(
        refusal(
            shadow
                .describe(&asker_with(&[("TimeZone", "Mars/Base")]), "SELECT 1", &[])
                .await
        )
        .sqlstate,
        "22023"
    );
    assert_eq!(
        refusal(
            shadow
                .describe(&asker_with(&[("work_mem", "1GB")]), "SELECT 1", &[])
                .await
        )
        .sqlstate,
        "42704"
    );
    let no_path = Requester {
        search_path: Vec::new(),
        ..requester()
    };
    assert_eq!(
        refusal(
            shadow
                .describe(&no_path, "SELECT * FROM customers", &[])
                .await
        )
        .sqlstate,
        "42P01"
    );
    let division = shadow
        .describe(&requester(), "SELECT 1 / x FROM (VALUES (0)) v (x)", &[])
        .await
        .unwrap();
    let division = refusal(
        shadow
            .run(
                &requester(),
                "SELECT 1 / x FROM (VALUES (0)) v (x)",
                &division,
                &[],
            )
            .await,
    );
    assert_eq!(
        (division.sqlstate.as_str(), division.message.as_str()),
        ("22012", "division by zero")
    );
}

async fn rows_in_text_and_binary(shadow: &Shadow) {
    let sql = "SELECT 1::int2, 2::int4, 3::int8, 'NaN'::numeric, 1.50::numeric(5,2), 0.1::float8, \
        'Infinity'::float4, true, NULL::int4, 'é\\''\"'::text, \
               '\\x00ff'::bytea, '1 day 02:03:04'::interval, ARRAY[1,NULL,3], date '2024-02-29', \
               timestamptz '2024-01-01 00:00:00+00', \
               'a'::char(3), '{\"a\": 1}'::jsonb, '00000000-0000-0000-0000-000000000001'::uuid, \
               now()";
    let description = shadow.describe(&requester(), sql, &[]).await.unwrap();
    let in_text = texts(shadow, &requester(), sql).await.remove(0);
    let expected = ["1", "2", "3", "NaN", "1.50", "0.1", "Infinity", "t"];
    assert_eq!(
        in_text[..8]
            .iter()
            .map(|v| v.as_deref().unwrap())
            .collect::<Vec<_>>(),
        expected
    );
    assert_eq!(in_text[8], None);
    let rest = [
        "é\\'\"",
        "\\x00ff",
        "1 day 02:03:04",
        "{1,NULL,3}",
        "2024-02-29",
        "2024-01-01 00:00:00+00",
        "a  ",
        "{\"a\": 1}",
    ];
    assert_eq!(
        in_text[9..17]
            .iter()
            .map(|v| v.as_deref().unwrap())
            .collect::<Vec<_>>(),
        rest
    );
    let binary = shadow
        .run(&requester(), sql, &description, &[Format::Binary])
        .await
        .unwrap()
        .rows
        .remove(0);
    assert_eq!(binary[1].as_deref(), Some(&[0, 0, 0, 2][..]));
    assert_eq!(binary[3].as_deref(), Some(&[0, 0, 0, 0, 0xC0, 0, 0, 0][..]));
    assert_eq!(binary[7].as_deref(), Some(&[1][..]));
    assert_eq!(binary[8], None);
    assert_eq!(binary[10].as_deref(), Some(&[0x00, 0xff][..]));
    assert_eq!(binary[17].as_ref().map(Bytes::len), Some(16));
    let mut formats = vec![Format::Text; 19];
    formats[1] = Format::Binary;
    let mixed = shadow
        .run(&requester(), sql, &description, &formats)
        .await
        .unwrap()
        .rows
        .remove(0);
    assert_eq!(
        (mixed[1].clone(), mixed[0].as_deref()),
        (binary[1].clone(), Some(&b"1"[..]))
    );
    // Binary numeric from text equals binary numeric from the server's own values: several rows, in
    // order.
    let sql = "SELECT x, -x FROM generate_series(1, 1000) x ORDER BY x DESC";
    let description = shadow.describe(&requester(), sql, &[]).await.unwrap();
    let rows = shadow
        .run(
            &requester(),
            sql,
            &description,
            &[Format::Binary, Format::Text],
        )
        .await
        .unwrap()
        .rows;
    assert_eq!(rows.len(), 1000);
    assert_eq!(
        (rows[0][0].as_deref(), rows[0][1].as_deref()),
        (Some(&[0, 0, 3, 0xE8][..]), Some(&b"-1000"[..]))
    );
}

async fn settings_reach_the_text_and_do_not_linger(shadow: &Shadow) {
    let sql = "SELECT timestamptz '2024-01-01 00:00:00+00'";
    let paris = asker_with(&[("TimeZone", "Europe/Paris"), ("DateStyle", "German")]);
    assert_eq!(one(shadow, &paris, sql).await, "01.01.2024 01:00:00 CET");
    assert_eq!(
        one(shadow, &requester(), sql).await,
        "2024-01-01 00:00:00+00"
    );
    let odd = asker_with(&[
        ("timezone", "America/New_York"),
        ("intervalstyle", "iso_8601"),
        ("bytea_output", "escape"),
        ("extra_float_digits", "0"),
    ]);
    assert_eq!(one(shadow, &odd, sql).await, "2023-12-31 19:00:00-05");
    assert_eq!(
        one(shadow, &odd, "SELECT interval '1 day 2 hours'").await,
        "P1DT2H"
    );
    assert_eq!(one(shadow, &odd, "SELECT 'a'::bytea").await, "a");
    assert_eq!(
        one(shadow, &odd, "SELECT 0.1::float8 + 0.2::float8").await,
        "0.3"
    );
    assert_eq!(
        one(shadow, &requester(), "SELECT 0.1::float8 + 0.2::float8").await,
        "0.30000000000000004"
    );
    let injection = asker_with(&[("TimeZone", "UTC'; CREATE TABLE x (); --")]);
    assert_eq!(
        refusal(shadow.describe(&injection, sql, &[]).await).sqlstate,
        "22023"
    );
}

async fn arguments_become_canonical_text(shadow: &Shadow) {
    let oids = [
        INT4,
        INT4,
        NUMERIC,
        NUMERIC,
        DATE,
        DATE,
        TIMESTAMPTZ,
        BOOL,
        TEXT,
        TEXT,
        BPCHAR,
        INT8,
        0,
    ];
    let arguments = [
        value(Format::Text, b" 0042 "),
        value(Format::Binary, &7_i32.to_be_bytes()),
        value(Format::Text, b"1.500"),
        value(Format::Text, b"nan"),
        value(Format::Text, b"03/02/2024"),
        value(Format::Binary, &60_i32.to_be_bytes()),
        value(Format::Text, b"2024-06-01 12:00"),
        value(Format::Text, b"yes"),
        value(Format::Text, "it's \\ \"é\" $1 \u{1F600}\n".as_bytes()),
        value(Format::Binary, b""),
        value(Format::Text, b"ab  "),
        Argument {
            format: Format::Binary,
            value: None,
        },
        value(Format::Text, b"free"),
    ];
    let paris = asker_with(&[("TimeZone", "Europe/Paris"), ("DateStyle", "German, DMY")]);
    let printed = shadow
        .normalize_arguments(&paris, &oids, &arguments)
        .await
        .unwrap();
    let text = "it's \\ \"é\" $1 \u{1F600}\n";
    let expected = [
        "42",
        "7",
        "1.500",
        "NaN",
        "2024-02-03",
        "2000-03-01",
        "2024-06-01 10:00:00+00",
        "t",
        text,
        "",
        "ab  ",
    ];
    assert_eq!(
        printed[..11]
            .iter()
            .map(|v| v.as_deref().unwrap())
            .collect::<Vec<_>>(),
        expected
    );
    assert_eq!(
        (printed[11].as_deref(), printed[12].as_deref()),
        (None, Some("free"))
    );
    let malformed = refusal(
        shadow
            .normalize_arguments(&requester(), &[INT4], &[value(Format::Text, b"4x")])
            .await,
    );
    assert_eq!(
        (malformed.sqlstate.as_str(), malformed.message.as_str()),
        ("22P02", "invalid input syntax for type integer: \"4x\"")
    );
    assert_eq!(
        refusal(
            shadow
                .normalize_arguments(&requester(), &[INT4], &[value(Format::Binary, b"abc")])
                .await
        )
        .sqlstate,
        "22P03"
    );
    assert_eq!(
        refusal(
            shadow
                .normalize_arguments(
                    &requester(),
                    &[INT4],
                    &[value(Format::Text, b"99999999999")]
                )
                .await
        )
        .sqlstate,
        "22003"
    );
    assert_eq!(
        refusal(
            shadow
                .normalize_arguments(&requester(), &[TEXT], &[value(Format::Text, b"\xff")])
                .await
        )
        .sqlstate,
        "22021"
    );
    assert_eq!(
        refusal(
            shadow
                .normalize_arguments(&requester(), &[DATE], &[value(Format::Text, b"2024-02-30")])
                .await
        )
        .sqlstate,
        "22008"
    );
    assert_eq!(
        shadow
            .normalize_arguments(&requester(), &[], &[])
            .await
            .unwrap(),
        Vec::<Option<String>>::new()
    );
}

async fn nothing_can_be_changed_or_reached(shadow: &Shadow) {
    assert_eq!(
        one(
            shadow,
            &requester(),
            "SELECT current_setting('is_superuser')"
        )
        .await,
        "off"
    );
    assert_eq!(
        one(shadow, &requester(), "SELECT current_user::text").await,
        "pgveil_shadow"
    );
    for (sql, sqlstate) in [
        (
            "INSERT INTO public.rates (code) VALUES ('ABC') RETURNING code",
            &["25006", "42501"][..],
        ),
        ("SELECT pg_sleep(0)::text", &["42501"]),
        (
            "SELECT set_config('default_transaction_read_only', 'off', false)",
            &["42501"],
        ),
        ("SELECT lo_creat(-1)", &["25006", "42501"]),
        ("SELECT pg_read_file('/etc/passwd')", &["42501"]),
        (
            "SELECT query_to_xml('SELECT 1', true, true, '')",
            &["42501"],
        ),
        ("SELECT pg_advisory_lock(1)::text", &["42501"]),
        ("SELECT rolpassword FROM pg_authid", &["42501"]),
        ("SELECT 1; DROP TABLE public.rates", &["42601"]),
    ] {
        let described = shadow.describe(&requester(), sql, &[]).await;
        let refused = match described {
            Ok(description) => refusal(shadow.run(&requester(), sql, &description, &[]).await),
            Err(_) => refusal(described),
        };
        assert!(
            sqlstate.contains(&refused.sqlstate.as_str()),
            "{sql}: {refused:?}"
        );
    }
    let keys = "SELECT constraint_type FROM information_schema.table_constraints WHERE table_name \
        = \
        'orders' AND constraint_type <> 'CHECK' ORDER BY 1";
    assert_eq!(
        texts(shadow, &requester(), keys).await,
        [
            [Some("FOREIGN KEY".to_owned())],
            [Some("PRIMARY KEY".to_owned())]
        ]
    );
}

async fn public_rows_are_mirrored_and_private_ones_are_not(shadow: &Shadow) {
    let real = LocalPostgres::start_engine(PostgresEngine::Native, ServerOptions::default())
        .await
        .unwrap();
    let source = connect(&real.config()).await.unwrap();
    source.client.batch_execute(REAL).await.unwrap();
    for _ in 0..2 {
        let copied = shadow.copy_public(&source.client).await.unwrap();
        let seen: Vec<_> = copied.iter().map(|m| (m.table.as_str(), m.rows)).collect();
        assert_eq!(seen, [("rates", Some(3)), ("big", None)]);
    }
    let rates = texts(
        shadow,
        &requester(),
        "SELECT code, rate, tags FROM rates ORDER BY code",
    )
    .await;
    let expected = [
        [Some("CHF"), None, Some("{}")],
        [Some("EUR"), Some("1.10"), Some("{a,\"b \\\"c\"}")],
        [Some("USD"), Some("NaN"), None],
    ];
    assert_eq!(
        rates,
        expected.map(|row| row.map(|value| value.map(str::to_owned)).to_vec())
    );
    for table in ["big", "customers", "orders"] {
        assert_eq!(
            one(
                shadow,
                &requester(),
                &format!("SELECT count(*) FROM {table}")
            )
            .await,
            "0"
        );
    }
    source.close().await;
    real.stop().await;
}

async fn conforms(source: ShadowSource) {
    let has_any_locale = matches!(source, ShadowSource::LocalEngine(PostgresEngine::Native));
    let locale = austrian().await;
    let started = Instant::now();
    let options = ShadowOptions {
        locale: Some(locale),
        ..ShadowOptions::new(source, "shop", "15.18")
    };
    let shadow = Shadow::start(&policy(), options).await.unwrap();
    let differs = shadow
        .warnings()
        .iter()
        .any(|w| w.contains("that of the database de-AT of ICU"));
    assert_eq!(differs, !has_any_locale, "{:?}", shadow.warnings());
    eprintln!(
        "{:?} shadow start: {:?}",
        shadow.engine(),
        started.elapsed()
    );
    assert!(
        shadow
            .warnings()
            .iter()
            .any(|w| w.contains("public.customers.feeling")),
        "{:?}",
        shadow.warnings()
    );
    assert_eq!(
        one(&shadow, &requester(), "SELECT current_database()").await,
        "shop"
    );
    describes_like_postgres(&shadow).await;
    errors_are_postgres_own(&shadow).await;
    rows_in_text_and_binary(&shadow).await;
    settings_reach_the_text_and_do_not_linger(&shadow).await;
    arguments_become_canonical_text(&shadow).await;
    nothing_can_be_changed_or_reached(&shadow).await;
    public_rows_are_mirrored_and_private_ones_are_not(&shadow).await;
    let stopping = Instant::now();
    shadow.stop().await;
    eprintln!("shadow stop: {:?}", stopping.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn native_conforms() {
    conforms(ShadowSource::LocalEngine(PostgresEngine::Native)).await;
}

#[cfg(feature = "embedded")]
#[tokio::test(flavor = "multi_thread")]
async fn embedded_conforms() {
    conforms(ShadowSource::LocalEngine(PostgresEngine::Embedded)).await;
}

/// A server with a database for a shadow, as an operator names one.
async fn named_server() -> LocalPostgres {
    let options = ServerOptions {
        database: Some("shop".to_owned()),
        ..ServerOptions::default()
    };
    LocalPostgres::start_engine(PostgresEngine::Native, options)
        .await
        .unwrap()
}

fn at(server: &LocalPostgres) -> ShadowSource {
    ShadowSource::Url(Secret::from(server.url().to_owned()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_named_server_conforms_twice_and_a_strangers_database_is_left_alone() {
    let server = named_server().await;
    conforms(at(&server)).await;
    conforms(at(&server)).await;
    let admin = connect(&server.config()).await.unwrap();
    let rates = admin
        .client
        .query_one("SELECT count(*) FROM public.rates", &[])
        .await
        .unwrap();
    assert_eq!(rates.get::<_, i64>(0), 3);
    let mut turned_private = policy();
    turned_private.tables[2].protection = unit(Vec::new(), "code");
    let options = ShadowOptions::new(at(&server), "shop", "15.18");
    Shadow::start(&turned_private, options)
        .await
        .unwrap()
        .stop()
        .await;
    let rates = admin
        .client
        .query_one("SELECT count(*) FROM public.rates", &[])
        .await
        .unwrap();
    assert_eq!(rates.get::<_, i64>(0), 0);
    admin
        .client
        .batch_execute("CREATE DATABASE precious")
        .await
        .unwrap();
    let mut other = server.config();
    let precious = connect(other.dbname("precious")).await.unwrap();
    precious
        .client
        .batch_execute("CREATE TABLE keep_me (x int)")
        .await
        .unwrap();
    let url = server.url().replace("/shop?", "/precious?");
    let refused = Shadow::start(
        &policy(),
        ShadowOptions::new(ShadowSource::Url(Secret::from(url)), "shop", "15.18"),
    )
    .await
    .unwrap_err();
    assert!(refused.to_string().contains("did not make"), "{refused}");
    precious
        .client
        .batch_execute("SELECT * FROM keep_me")
        .await
        .unwrap();
}

/// Another proxy would rebuild it under this one. The engines of one process share the lock.
#[tokio::test(flavor = "multi_thread")]
async fn a_named_shadow_is_held_by_one_proxy() {
    let server = named_server().await;
    let options = || ShadowOptions::new(at(&server), "shop", "15.18");
    let first = Shadow::start(&policy(), options()).await.unwrap();
    let refused = Shadow::start(&policy(), options()).await.unwrap_err();
    let wanted = "another pgveil uses the database of shadow.url";
    assert!(refused.to_string().contains(wanted), "{refused}");
    let again = ShadowOptions {
        hold: first.hold(),
        ..options()
    };
    let reloaded = Shadow::start(&policy(), again).await.unwrap();
    first.stop().await;
    assert!(Shadow::start(&policy(), options()).await.is_err());
    reloaded.stop().await;
    let next = Shadow::start(&policy(), options()).await.unwrap();
    assert!(next.answers().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_sessions_are_replaced_long_statements_end_and_abandoned_ones_are_cancelled() {
    let mut options = ShadowOptions::new(
        ShadowSource::LocalEngine(PostgresEngine::Native),
        "shop",
        "15.18",
    );
    // Longer than the shadow's own statements take, and shorter than the slow one.
    options.statement_timeout = Duration::from_secs(4);
    options.connections = 1;
    let shadow = Shadow::start(&policy(), options).await.unwrap();
    let slow = "SELECT count(*) FROM generate_series(1, 40000) a, generate_series(1, 40000) b";
    let description = shadow.describe(&requester(), slow, &[]).await.unwrap();
    assert_eq!(
        refusal(shadow.run(&requester(), slow, &description, &[]).await).sqlstate,
        "57014"
    );
    let abandoned = tokio::time::timeout(
        Duration::from_millis(50),
        shadow.run(&requester(), slow, &description, &[]),
    )
    .await;
    assert!(abandoned.is_err());
    assert_eq!(one(&shadow, &requester(), "SELECT 1").await, "1");
    let many = "SELECT x FROM generate_series(1, 1000001) x";
    let mut options = ShadowOptions::new(
        ShadowSource::LocalEngine(PostgresEngine::Native),
        "shop",
        "15.18",
    );
    options.connections = 1;
    let patient = Shadow::start(&policy(), options).await.unwrap();
    let description = patient.describe(&requester(), many, &[]).await.unwrap();
    assert_eq!(
        refusal(patient.run(&requester(), many, &description, &[]).await).sqlstate,
        "54000"
    );
    assert_eq!(one(&patient, &requester(), "SELECT 1").await, "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminated_session_is_replaced() {
    let server = named_server().await;
    let shadow = Shadow::start(&policy(), ShadowOptions::new(at(&server), "shop", "15.18"))
        .await
        .unwrap();
    assert_eq!(one(&shadow, &requester(), "SELECT 1").await, "1");
    let admin = connect(&server.config()).await.unwrap();
    admin
        .client
        .batch_execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()",
        )
        .await
        .unwrap();
    assert_eq!(one(&shadow, &requester(), "SELECT 2").await, "2");
}

/// A backend that hangs ends no statement by itself: its session is left in time, and another one
/// answers.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_hangs_is_left() {
    let server = named_server().await;
    let source = at(&server);
    let options = ShadowOptions {
        statement_timeout: Duration::from_secs(4),
        ..ShadowOptions::new(source, "shop", "15.18")
    };
    let shadow = Shadow::start(&policy(), options).await.unwrap();
    let hung = one(&shadow, &requester(), "SELECT pg_backend_pid()").await;
    let signal = |name: &str| {
        let mut kill = std::process::Command::new("kill");
        assert!(kill.args([name, &hung]).status().unwrap().success());
    };
    signal("-STOP");
    let answered = one(&shadow, &requester(), "SELECT 2").await;
    signal("-CONT");
    assert_eq!(answered, "2");
}

//! Only the shown schema can be reached.

use pgveil::engine::{Format, Requester, Service};
use pgveil::parse::{Statement, parse};
use tokio_util::sync::CancellationToken;

use super::shop::Shop;

/// Rows as text; an error by its SQLSTATE and message.
async fn ask(shop: &Shop, sql: &str) -> Result<Vec<String>, String> {
    ask_as(shop, &Shop::requester(), sql).await
}

async fn ask_as(shop: &Shop, requester: &Requester, sql: &str) -> Result<Vec<String>, String> {
    let refused =
        |refusal: pgveil::refusal::Refusal| format!("{} {}", refusal.sqlstate, refusal.message);
    let statements = parse(sql).map_err(refused)?;
    let [Statement::Query(query)] = statements.as_slice() else {
        panic!("one query is wanted: {sql}")
    };
    let answer = shop
        .engine
        .answer(
            requester,
            query,
            &[],
            &[],
            &[Format::Text],
            CancellationToken::new(),
        )
        .await;
    let answer = answer.map_err(|error| refused(error.report()))?;
    let text = |value: &Option<bytes::Bytes>| {
        value.as_ref().map_or("∅".to_owned(), |bytes| {
            String::from_utf8_lossy(bytes).into_owned()
        })
    };
    Ok(answer
        .rows
        .iter()
        .map(|row| row.iter().map(text).collect::<Vec<_>>().join("|"))
        .collect())
}

/// Each would change, wait, signal, read files, run SQL from text, or reveal the server.
const DENIED: [&str; 46] = [
    "SELECT pg_sleep(100)",
    "SELECT pg_catalog.pg_sleep(100) FROM pg_class",
    "SELECT * FROM pg_sleep(100)",
    "SELECT 1 FROM pg_class ORDER BY pg_sleep(1)",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT * FROM pg_ls_dir('/')",
    "SELECT pg_stat_file('/etc/passwd') FROM pg_class",
    "SELECT query_to_xml('select 1', true, true, '') FROM pg_class",
    "SELECT table_to_xml('pg_authid'::regclass, true, true, '')",
    "SELECT lo_creat(1) FROM pg_class",
    "SELECT lo_import('/etc/passwd'), current_schema()",
    "SELECT set_config('role', 'postgres', false)",
    "SELECT set_config('search_path', 'x', false) FROM pg_class",
    "SELECT set_config('jit', relname, false) FROM pg_class",
    "SELECT current_setting('data_directory')",
    "SELECT current_setting(CASE WHEN extract(microseconds FROM clock_timestamp())::int % 2 = 0 \
        THEN 'timezone' ELSE 'shared_buffers' END) FROM pg_class",
    "SELECT current_setting(current_setting(lower(relname))) FROM pg_class",
    "SELECT current_setting('hba_file'), version()",
    "SELECT pg_catalog.current_setting('data' || '_directory', true, 1)",
    "SELECT s FROM current_setting('shared_buffers') s, pg_class",
    "SELECT s FROM pg_class, LATERAL pg_tablespace_size('pg_default') s",
    "SELECT pg_terminate_backend(1)",
    "SELECT pg_cancel_backend(oid::int) FROM pg_class",
    "SELECT nextval('x') FROM pg_class",
    "SELECT setval('x', 1), current_schema()",
    "SELECT currval('x'), current_schema()",
    "SELECT txid_current(), current_schema()",
    "SELECT pg_current_xact_id() FROM pg_class",
    "SELECT pg_advisory_lock(1)",
    "SELECT pg_try_advisory_lock(oid::bigint) FROM pg_class",
    "SELECT pg_notify('a', 'b')",
    "SELECT dblink('', 'select 1'), current_schema()",
    "SELECT pg_reload_conf()",
    "SELECT pg_stat_get_activity(NULL)",
    "SELECT * FROM pg_authid",
    "SELECT * FROM pg_catalog.pg_shadow",
    "SELECT * FROM pg_hba_file_rules",
    "SELECT * FROM pg_file_settings",
    "SELECT * FROM pg_statistic",
    "SELECT * FROM pg_largeobject",
    "SELECT * FROM pg_config",
    "SELECT * FROM (SELECT * FROM (VALUES (1)) v, pg_catalog.pg_authid) x",
    "SELECT (SELECT count(*) FROM pg_shadow), version()",
    "WITH pg_authid AS (SELECT 1) SELECT * FROM pg_authid, pg_class",
    "SELECT * INTO t FROM pg_class",
    "SELECT * FROM pg_class FOR UPDATE",
];

#[tokio::test(flavor = "multi_thread")]
async fn catalog_statements_reach_the_shown_schema_alone() {
    let shop = Shop::open().await;
    for sql in DENIED {
        let error = ask(&shop, sql).await.expect_err(sql);
        assert!(error.starts_with("42501 "), "{sql}: {error}");
    }
    for (sql, sqlstate) in [
        (
            "SELECT * FROM pg_class c JOIN sales.orders o ON true",
            "0A000",
        ),
        (
            "SELECT count(*) FROM sales.orders WHERE EXISTS (SELECT FROM pg_class)",
            "0A000",
        ),
        (
            "WITH pg_roles AS (SELECT 1 AS a) SELECT * FROM pg_roles, pg_class",
            "0A000",
        ),
        (
            "SELECT format('%1000000000s', relname) FROM pg_class",
            "0A000",
        ),
        (
            "WITH gone AS (DELETE FROM pg_class RETURNING 1) SELECT * FROM gone",
            "42501",
        ),
        // 42P01 from version 16 on.
        ("SELECT 'payroll.salaries'::regclass", "3F000"),
        ("SELECT 'sales.secret_offers'::regclass", "42P01"),
        ("SELECT 'payroll'::regnamespace", "3F000"),
        (
            "SELECT has_table_privilege('sales.secret_offers', 'select')",
            "42P01",
        ),
        ("SELECT * FROM pg_class, payroll.salaries", "42P01"),
    ] {
        let error = ask(&shop, sql).await.expect_err(sql);
        assert!(
            error.starts_with(sqlstate)
                || (sql.contains("DELETE") && error.starts_with("42601"))
                || (sql.contains("regclass") && error.starts_with("42P01")),
            "{sql}: {error}"
        );
    }
    // A WITH name elsewhere in the statement does not turn a table into its empty copy.
    let requester = Requester {
        search_path: vec!["sales".to_owned()],
        ..Shop::requester()
    };
    let sql = "SELECT (SELECT count(*) FROM orders), (WITH orders AS (SELECT 1) SELECT count(*) \
        FROM pg_class)";
    assert!(
        ask_as(&shop, &requester, sql)
            .await
            .expect_err(sql)
            .starts_with("0A000 ")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dotted_name_calls_no_function() {
    let shop = Shop::open().await;
    for sql in [
        "SELECT g.current_setting FROM unnest(array['port']) g",
        "SELECT G.\"current_setting\" FROM unnest(array['port']) G, pg_class",
        "SELECT g.SetSeed FROM generate_series(0, 0) g",
        "SELECT count(*) FROM generate_series(1, 1) g WHERE g.pg_sleep IS NULL",
        "SELECT (g).pg_sleep FROM generate_series(1, 1) g, pg_class",
        "SELECT 1 FROM unnest(array['SELECT 1']) g ORDER BY g.ts_stat",
        "SELECT t.regclass FROM (SELECT 'pg_authid'::text) t(x)",
        "SELECT t.regrole FROM (SELECT 'postgres'::text) t(x)",
        "SELECT (x).pid FROM (SELECT (NULL::int).pg_stat_get_activity x FROM pg_am) t",
        "SELECT (oid).pg_stat_get_db_xact_commit FROM pg_database",
        "SELECT oid, (SELECT d.pg_database_size) FROM pg_database d",
        "SELECT (16384::oid).pg_stat_get_db_tuples_inserted FROM pg_am",
        "SELECT 1 FROM sales.regions r JOIN generate_series(1, 1) g ON g.pg_sleep IS NULL",
        "WITH g AS (SELECT 'a'::text AS b) SELECT g.current_setting FROM g GROUP BY \
            g.current_setting",
    ] {
        let error = ask(&shop, sql).await.expect_err(sql);
        let is_reported = error.starts_with("0A000 a column named")
            || error.starts_with("42601")
            || error.starts_with("0A000 a field of a row");
        assert!(is_reported, "{sql}: {error}");
    }
    for (sql, rows) in [
        (
            "SELECT g.date, g.format, g.name, g.timestamp FROM (SELECT 1 AS date, 2 AS format, 3 \
                AS \
                name, 4 AS timestamp) g",
            "1|2|3|4",
        ),
        (
            "SELECT pg_database_size(oid), pg_catalog.pg_tablespace_size('pg_default') FROM \
                pg_database WHERE datname = current_database()",
            "∅|∅",
        ),
    ] {
        assert_eq!(ask(&shop, sql).await, Ok(vec![rows.to_owned()]), "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn catalogs_tell_of_the_client_and_of_nothing_inside() {
    let shop = Shop::open().await;
    for (sql, rows) in [
        (
            "SELECT current_user, session_user, current_database(), current_schemas(false)::text",
            vec!["analyst|analyst|shop|{public}"],
        ),
        (
            "SELECT rolname FROM pg_roles WHERE rolname !~ '^pg_' ORDER BY 1",
            vec!["analyst"],
        ),
        (
            "SELECT usename FROM pg_catalog.pg_user ORDER BY 1",
            vec!["analyst", "pg_database_owner"],
        ),
        (
            "SELECT datname, pg_get_userbyid(datdba) FROM pg_database",
            vec!["shop|pg_database_owner"],
        ),
        (
            "SELECT r.rolname FROM pg_class c JOIN pg_roles r ON r.oid = c.relowner WHERE \
                c.relname \
                = \
            'orders'",
            vec!["pg_database_owner"],
        ),
        (
            "SELECT DISTINCT pg_get_userbyid(oid::int) FROM generate_series(1, 99999) oid WHERE \
            pg_get_userbyid(oid::int) !~ '^pg_'",
            vec!["analyst"],
        ),
        ("SELECT count(*) FROM pg_stat_activity", vec!["0"]),
        (
            "SELECT count(*) FROM pg_settings WHERE name ~ 'file|dir|host|port|shared'",
            vec!["0"],
        ),
        (
            "SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' ORDER BY 1",
            vec!["information_schema", "pgveil", "public", "sales"],
        ),
        (
            "SELECT relname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE \
                nspname = 'sales' AND relkind = 'r' ORDER BY 1",
            vec!["customers", "order_items", "orders", "products", "regions"],
        ),
        (
            "SELECT column_name FROM information_schema.columns WHERE table_name = 'customers' \
                ORDER BY ordinal_position",
            vec!["customer_id", "name", "country", "email", "joined"],
        ),
        (
            "SELECT reltuples > 0 OR relpages > 0 FROM pg_class WHERE relname IN ('customers', \
            'orders') GROUP BY 1",
            vec!["f"],
        ),
        (
            "SELECT sum(n_live_tup), sum(seq_scan) FROM pg_stat_user_tables",
            vec!["0|0"],
        ),
        (
            "SELECT (SELECT count(*) FROM pg_statio_all_tables), (SELECT count(*) FROM \
            pg_catalog.pg_stat_wal w), (SELECT count(*) FROM pg_stat_bgwriter)",
            vec!["0|0|0"],
        ),
        // Sequelize's describeTable, in short.
        (
            "SELECT pk.constraint_type, c.column_name, (SELECT pgd.description FROM \
                pg_catalog.pg_statio_all_tables AS st
               INNER JOIN pg_catalog.pg_description pgd ON (pgd.objoid = st.relid) WHERE \
               c.ordinal_position = pgd.objsubid AND c.table_name = st.relname) AS c
             FROM information_schema.columns c LEFT JOIN (SELECT tc.table_name, cu.column_name, \
             tc.constraint_type FROM information_schema.table_constraints tc
               JOIN information_schema.key_column_usage cu ON tc.constraint_name = \
               cu.constraint_name AND tc.constraint_type = 'PRIMARY KEY') pk
               ON pk.table_name = c.table_name AND pk.column_name = c.column_name
             WHERE c.table_name = 'products' AND c.table_schema = 'sales' ORDER BY \
             c.ordinal_position",
            vec!["PRIMARY KEY|product_id|∅", "∅|title|∅", "∅|price|∅"],
        ),
        (
            "SELECT v, p IS NOT NULL FROM current_database() AS v, pg_backend_pid() AS p",
            vec!["shop|t"],
        ),
        (
            "SELECT txid_current_if_assigned(), inet_server_port()",
            vec!["∅|∅"],
        ),
        (
            "SELECT obj_description('sales.orders'::regclass), shobj_description(oid, \
                'pg_database') FROM pg_database WHERE datname = current_database()",
            vec!["∅|∅"],
        ),
        (
            "SELECT to_regclass('payroll.salaries'), to_regclass('sales.secret_offers'), \
            to_regclass('sales.orders')",
            vec!["∅|∅|sales.orders"],
        ),
        (
            "SELECT count(*) FROM information_schema.table_constraints WHERE constraint_type = \
            'FOREIGN KEY'",
            vec!["4"],
        ),
        // The key of a public table, whose rows are here in any order.
        (
            "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = \
                'sales.regions'::regclass AND contype = 'f'",
            vec!["FOREIGN KEY (parent) REFERENCES sales.regions(region)"],
        ),
        (
            "SELECT a.region, b.region FROM sales.regions a JOIN sales.regions b ON a.parent = \
            b.region ORDER BY 1",
            vec!["1|2", "3|1"],
        ),
        (
            "SELECT current_setting('jit') IN ('on', 'off'), set_config('jit', 'off', false)",
            vec!["t|off"],
        ),
        ("SELECT current_setting('no.such', true)", vec!["∅"]),
        (
            "SELECT current_setting('data_' || 'directory'), current_setting('ji' || 't') IN \
                ('on', \
            'off')",
            vec!["∅|t"],
        ),
        (
            "SELECT enumlabel FROM pg_enum e JOIN pg_type t ON t.oid = enumtypid WHERE typname = \
                'order_status' ORDER BY enumsortorder",
            vec!["new", "open", "it's paid"],
        ),
        (
            "SELECT udt_schema, udt_name, data_type, domain_name FROM information_schema.columns \
                WHERE table_schema = 'sales' AND column_name IN ('status', 'email') ORDER BY 2",
            vec![
                "sales|order_status|USER-DEFINED|∅",
                "pg_catalog|varchar|character \
                varying|address",
            ],
        ),
    ] {
        assert_eq!(
            ask(&shop, sql).await.as_deref(),
            Ok(rows
                .into_iter()
                .map(str::to_owned)
                .collect::<Vec<_>>()
                .as_slice()),
            "{sql}"
        );
    }
    let version = ask(
        &shop,
        "SELECT version(), current_setting('server_version_num')",
    )
    .await
    .unwrap();
    assert!(version[0].starts_with("PostgreSQL 1"), "{version:?}");
    let answer = {
        let statements =
            parse("SELECT version(), session_user, current_setting('server_version')").unwrap();
        let [Statement::Query(query)] = statements.as_slice() else {
            panic!("one query is wanted")
        };
        shop.engine
            .answer(
                &Shop::requester(),
                query,
                &[],
                &[],
                &[Format::Text],
                CancellationToken::new(),
            )
            .await
            .unwrap()
    };
    let names: Vec<&str> = answer
        .columns
        .iter()
        .map(|column| column.name.as_str())
        .collect();
    assert_eq!(names, ["version", "session_user", "current_setting"]);
}

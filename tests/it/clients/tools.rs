//! Tools that cannot run here, played from recordings.

use super::stage::Stage;
use crate::wire::socket::{Socket, kinds, startup};

async fn log_in(stage: &Stage) -> Socket {
    let mut socket = Socket::open(stage.veiled).await;
    socket
        .send(&startup(&[("user", "analyst"), ("database", "nls")]))
        .await;
    socket.authenticate("analyst", None).await;
    socket.until_ready().await;
    socket
}

/// Its first message, and its queries to the server and the database before it shows the tree.
#[tokio::test(flavor = "multi_thread")]
async fn pgadmin() {
    let stage = Stage::shop().await;
    let mut socket = log_in(&stage).await;
    let first = "SET DateStyle=ISO; SET client_min_messages=notice; SELECT \
        set_config('bytea_output','hex',false) FROM pg_show_all_settings() \
                 WHERE name = 'bytea_output'; SET client_encoding='utf-8';";
    assert_eq!(kinds(&socket.ask(first).await).replace('S', ""), "CCTDCCZ");
    for sql in [
        "SELECT version()",
        "SELECT db.oid as did, db.datname, db.datallowconn, pg_encoding_to_char(db.encoding) AS \
            serverencoding,
            has_database_privilege(db.oid, 'CREATE') as cancreate, datistemplate FROM \
            pg_catalog.pg_database db WHERE db.datname = current_database()",
        "SELECT roles.oid as id, roles.rolname as name, roles.rolsuper as is_superuser, CASE WHEN \
            roles.rolsuper THEN true ELSE roles.rolcreaterole END
            as can_create_role, CASE WHEN roles.rolsuper THEN true ELSE roles.rolcreatedb END as \
            can_create_db
            FROM pg_catalog.pg_roles as roles WHERE rolname = current_user",
        "SELECT nsp.oid, nsp.nspname as name FROM pg_catalog.pg_namespace nsp WHERE nspname NOT \
            LIKE E'pg\\\\_%' ORDER BY nspname",
        "SELECT rel.oid, rel.relname AS name FROM pg_catalog.pg_class rel WHERE rel.relkind IN \
            ('r','s','t','p')
            AND rel.relnamespace = 'shop'::regnamespace AND NOT rel.relispartition ORDER BY \
            rel.relname",
    ] {
        let replies = socket.ask(sql).await;
        assert!(
            replies.iter().any(|reply| reply.kind == b'D'),
            "{sql}: {replies:?}"
        );
    }
}

/// Tableau tries temporary tables, takes the refusal for an answer, and goes on with cursors, in
/// messages of several statements.
#[tokio::test(flavor = "multi_thread")]
async fn tableau() {
    let stage = Stage::shop().await;
    let mut socket = log_in(&stage).await;
    let select = concat!(
        r#"SELECT "orders"."country" AS "country", SUM("orders"."price") AS "sum:price:ok" "#,
        r#"FROM "shop"."orders" "orders" GROUP BY 1"#
    );
    for sql in [
        concat!(
            r##"CREATE LOCAL TEMPORARY TABLE "#Tableau_1_1_Connect" ("COL" INTEGER) "##,
            "ON COMMIT PRESERVE ROWS"
        ),
        concat!(
            r##"CREATE GLOBAL TEMPORARY TABLE "#Tableau_1_2_Connect" ("COL" INTEGER) "##,
            "ON COMMIT PRESERVE ROWS"
        ),
        concat!(
            r##"SELECT "orders"."id" AS "COL" INTO TEMPORARY TABLE "#Tableau_1_3_Connect" "##,
            r##"FROM "shop"."orders" "orders" LIMIT 1"##
        ),
    ] {
        let state = socket.refused(sql).await;
        assert!(
            ["42501", "0A000"].contains(&state.as_str()),
            "{sql}: {state}"
        );
        assert_eq!(socket.value("SELECT 1").await, "1");
    }
    for drop in [
        r##"DROP TABLE "#Tableau_1_1_Connect""##,
        r##"DROP TABLE IF EXISTS "#Tableau_1_1_Connect""##,
    ] {
        assert_eq!(socket.refused(drop).await, "42501", "{drop}");
    }
    let cursor = r#""SQL_CUR0x7f8a""#;
    let batched =
        format!("BEGIN;declare {cursor} cursor with hold for {select};fetch 2048 in {cursor}");
    let replies = socket.ask(&batched).await;
    assert_eq!(
        replies.iter().filter(|reply| reply.kind == b'D').count(),
        10,
        "{replies:?}"
    );
    let end = socket
        .ask(r#"fetch 2048 in "SQL_CUR0x7f8a";close "SQL_CUR0x7f8a";COMMIT"#)
        .await;
    assert!(
        end.iter()
            .all(|reply| reply.kind != b'E' && reply.kind != b'D'),
        "{end:?}"
    );
    for sql in [
        format!(r#"SELECT * FROM ({select}) "Custom SQL Query" LIMIT 0"#),
        concat!(
            r#"SELECT SUM(1) AS "sum:Number of Records:ok" FROM "shop"."orders" "orders" "#,
            "HAVING (COUNT(1) > 0)"
        )
        .to_owned(),
        concat!(
            r#"SELECT CAST(EXTRACT(YEAR FROM "orders"."placed") AS INTEGER) AS "yr:placed:ok", "#,
            r#"COUNT(1) AS "n" FROM "shop"."orders" "orders" GROUP BY 1"#
        )
        .to_owned(),
        concat!(
            r#"SELECT "orders"."country" AS "country" FROM "shop"."orders" "orders" "#,
            "GROUP BY 1 ORDER BY 1 ASC"
        )
        .to_owned(),
        concat!(
            r#"SELECT MIN("orders"."placed") AS "low", MAX("orders"."placed") AS "high" "#,
            r#"FROM "shop"."orders" "orders""#
        )
        .to_owned(),
    ] {
        let replies = socket.ask(&sql).await;
        assert!(
            replies.iter().all(|reply| reply.kind != b'E'),
            "{sql}: {replies:?}"
        );
    }
}

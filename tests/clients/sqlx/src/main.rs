//! sqlx against pgveil: its pool, its cache of prepared statements, its rows in binary.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions, PgSslMode};
use sqlx::{Column, Connection, Executor, PgConnection, Row, Statement, TypeInfo};

const WOMEN: &str = "SELECT count(*) FROM nls.women";
const SLOW: &str = "SELECT count(*) FROM nls.interviews i JOIN nls.interviews j \
    USING (woman_id), nls.industries a, nls.occupations b, nls.industries c";

fn options(user: &str) -> PgConnectOptions {
    let port = std::env::var("VEILED_PORT").unwrap().parse().unwrap();
    PgConnectOptions::new_without_pgpass()
        .host("127.0.0.1")
        .port(port)
        .username(user)
        .password("analyst")
        .database("nls")
        .ssl_mode(PgSslMode::Require)
}

fn state<T>(answer: Result<T, sqlx::Error>) -> String {
    match answer {
        Ok(_) => "answered".to_owned(),
        Err(error) => error
            .as_database_error()
            .and_then(|error| error.code().map(|code| code.into_owned()))
            .unwrap_or_else(|| panic!("{error}")),
    }
}

/// The role's spending by its own view; free statements do not change it.
async fn left(connection: &mut PgConnection) -> String {
    let row = sqlx::query("SELECT mu_spent::text FROM pgveil.budget")
        .fetch_one(connection)
        .await
        .unwrap();
    row.get(0)
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut one = PgConnection::connect_with(&options("analyst"))
        .await
        .unwrap();
    println!("does tls scram");
    assert_eq!(
        state(
            PgConnection::connect_with(&options("analyst").password("wrong"))
                .await
                .map(drop)
        ),
        "28P01"
    );

    let tables: Vec<String> = sqlx::query_scalar(
        "SELECT table_name::text FROM information_schema.tables WHERE \
            table_schema = $1 ORDER BY 1",
    )
    .bind("nls")
    .fetch_all(&mut one)
    .await
    .unwrap();
    assert_eq!(tables, ["industries", "interviews", "occupations", "women"]);
    let described = one
        .prepare(
            "SELECT race, count(*), avg(birth_year) FROM nls.women WHERE \
        birth_year > $1 GROUP BY race",
        )
        .await
        .unwrap();
    let types: Vec<String> = described
        .columns()
        .iter()
        .map(|column| format!("{} {}", column.name(), column.type_info().name()))
        .collect();
    assert_eq!(types, ["race TEXT", "count INT8", "avg NUMERIC"]);
    // The queries of the macros at compile time: types, and which columns may be NULL, by the
    // catalogs and by EXPLAIN of the prepared statement.
    let known = one
        .describe(
            "SELECT race, count(*) FROM nls.women WHERE birth_year > $1 GROUP BY \
        race",
        )
        .await
        .unwrap();
    let names: Vec<String> = known
        .columns()
        .iter()
        .map(|column| format!("{} {}", column.name(), column.type_info().name()))
        .collect();
    assert_eq!(names, ["race TEXT", "count INT8"]);
    assert_eq!(
        known
            .parameters
            .map(|parameters| parameters.left().unwrap().len()),
        Some(1)
    );
    println!("does list describe");

    let aggregate = "SELECT race, count(*) AS n, avg(years_of_school)::float8 AS school FROM \
        nls.women WHERE birth_year > $1 AND race <> $2 GROUP BY race ORDER BY n DESC";
    // A role that no other client has, so that its account shows this client alone.
    let mut poor = PgConnection::connect_with(&options(&std::env::var("POOR").unwrap()))
        .await
        .unwrap();
    let first: Vec<(String, i64, f64)> = sqlx::query_as(aggregate)
        .bind(1947_i16)
        .bind("other")
        .fetch_all(&mut poor)
        .await
        .unwrap();
    assert_eq!(first.len(), 2);
    let paid = left(&mut poor).await;
    for _ in 0..10 {
        let again: Vec<(String, i64, f64)> = sqlx::query_as(aggregate)
            .bind(1947_i16)
            .bind("other")
            .fetch_all(&mut poor)
            .await
            .unwrap();
        assert_eq!(again, first);
    }
    assert_eq!(
        left(&mut poor).await,
        paid,
        "the same question ten times is one question"
    );
    println!("does binary prepared");
    let text = one
        .fetch_one(sqlx::raw_sql("SELECT count(*)::text FROM nls.women"))
        .await
        .unwrap();
    assert_eq!(text.get::<String, _>(0), "4711");
    println!("does text");

    let mut rows = sqlx::query(
        "SELECT year, race, count(*) FROM nls.interviews JOIN nls.women \
        USING (woman_id) GROUP BY 1, 2",
    )
    .fetch(&mut one);
    let mut read = 0;
    while let Some(row) = rows.next().await {
        row.unwrap();
        read += 1;
    }
    drop(rows);
    assert_eq!(read, 45);
    let mut transaction = one.begin().await.unwrap();
    transaction
        .execute(
            "DECLARE c CURSOR FOR SELECT year, count(*) FROM nls.interviews GROUP BY \
        year ORDER BY year",
        )
        .await
        .unwrap();
    let mut batches = Vec::new();
    loop {
        let batch = transaction.fetch_all("FETCH 7 FROM c").await.unwrap();
        if batch.is_empty() {
            break;
        }
        batches.push(batch.len());
    }
    assert_eq!(batches, [7, 7, 1]);
    transaction.commit().await.unwrap();
    println!("does cursor");

    assert_eq!(
        state(one.fetch_all("SELECT * FROM nls.women LIMIT 5").await),
        "42501"
    );
    assert_eq!(
        sqlx::query_scalar::<_, i64>(WOMEN)
            .fetch_one(&mut one)
            .await
            .unwrap(),
        4711
    );
    println!("does refused");

    let mut transaction = one.begin().await.unwrap();
    let mut savepoint = transaction.begin().await.unwrap();
    assert_eq!(
        state(savepoint.fetch_all("SELECT * FROM nls.women LIMIT 5").await),
        "42501"
    );
    assert_eq!(state(savepoint.fetch_all("SELECT 1").await), "25P02");
    savepoint.rollback().await.unwrap();
    assert_eq!(
        sqlx::query_scalar::<_, i64>(WOMEN)
            .fetch_one(&mut *transaction)
            .await
            .unwrap(),
        4711
    );
    transaction.commit().await.unwrap();
    println!("does transaction savepoint");

    // sqlx sends no cancel request: it bounds a statement by the server's own timeout, or closes
    // the connection.
    one.execute("SET statement_timeout = 300").await.unwrap();
    assert_eq!(state(sqlx::query(SLOW).fetch_all(&mut one).await), "57014");
    println!("does cancel");

    let heard = Arc::new(Mutex::new(0));
    let counted = heard.clone();
    let pool = PgPoolOptions::new()
        .max_connections(2)
        .acquire_timeout(Duration::from_secs(20))
        .after_release(move |connection, _| {
            let counted = counted.clone();
            Box::pin(async move {
                connection.execute("DISCARD ALL").await?;
                *counted.lock().unwrap() += 1;
                connection.clear_cached_statements().await?;
                Ok(true)
            })
        });
    let pool = pool.connect_with(options("analyst")).await.unwrap();
    for _ in 0..5 {
        let mut lent = pool.acquire().await.unwrap();
        lent.execute("SET application_name = 'lent'").await.unwrap();
        drop(lent);
        tokio::time::sleep(Duration::from_millis(50)).await;
        let name: String = sqlx::query_scalar("SHOW application_name")
            .fetch_one(&pool)
            .await
            .unwrap();
        assert_ne!(name, "lent");
    }
    assert!(*heard.lock().unwrap() > 0);
    let all: Vec<i64> = futures_util::stream::iter(0..8)
        .then(|_| sqlx::query_scalar::<_, i64>(WOMEN).fetch_one(&pool))
        .try_collect()
        .await
        .unwrap();
    assert_eq!(all, [4711; 8]);
    println!("does pool");

    let mut ended = String::new();
    for year in 0..50 {
        ended = state(
            poor.fetch_all(format!("{WOMEN} WHERE birth_year > {year}").as_str())
                .await,
        );
        if ended != "answered" {
            break;
        }
    }
    assert_eq!(ended, "53400");
    assert_eq!(
        sqlx::query_scalar::<_, i32>("SELECT 1")
            .fetch_one(&mut poor)
            .await
            .unwrap(),
        1
    );
    println!("does exhausted");
    println!("ok     sqlx");
}

//! tokio-postgres: everything by the extended protocol in binary, portals with row limits, cancel,
//! TLS with channel binding.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use rustls::{ClientConfig, RootCertStore};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_postgres::config::{ChannelBinding, SslMode};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;
use tokio_postgres::{AsyncMessage, Client, Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::stage::{Stage, poor};

const WOMEN: &str = "SELECT count(*) FROM nls.women";
const SLOW: &str = "SELECT count(*) FROM nls.interviews i JOIN nls.interviews j USING (woman_id), \
    nls.industries a, nls.occupations b, nls.industries c";

fn config(stage: &Stage, user: &str) -> Config {
    let mut config = Config::new();
    config
        .host("localhost")
        .hostaddr(stage.veiled.ip())
        .port(stage.veiled.port())
        .user(user)
        .password("analyst")
        .dbname("nls");
    config
}

/// A client, and the messages that no statement waits for.
async fn plain(config: &Config) -> (Client, UnboundedReceiver<String>) {
    let (client, mut connection) = config
        .clone()
        .ssl_mode(SslMode::Disable)
        .connect(NoTls)
        .await
        .unwrap();
    let (sender, notices) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut messages =
            futures::stream::poll_fn(move |context| connection.poll_message(context));
        while let Some(Ok(message)) = messages.next().await {
            if let AsyncMessage::Notice(notice) = message {
                let _ = sender.send(notice.message().to_owned());
            }
        }
    });
    (client, notices)
}

fn tls(stage: &Stage) -> MakeRustlsConnect {
    let mut roots = RootCertStore::empty();
    roots.add(stage.certificate.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap();
    MakeRustlsConnect::new(versions.with_root_certificates(roots).with_no_client_auth())
}

/// How many charges were reported since the last call. A notice comes before its rows.
fn costs(notices: &mut UnboundedReceiver<String>) -> usize {
    std::iter::from_fn(|| notices.try_recv().ok())
        .filter(|notice| notice.contains("privacy cost") && !notice.contains("nothing"))
        .count()
}

async fn state(
    future: impl Future<Output = Result<impl Sized, tokio_postgres::Error>>,
) -> SqlState {
    match future.await {
        Ok(_) => panic!("it was not refused"),
        Err(error) => error.code().unwrap_or_else(|| panic!("{error}")).clone(),
    }
}

/// The end of a slow statement that is cancelled until it ends.
async fn cancelled(client: &tokio_postgres::Client) -> SqlState {
    let token = client.cancel_token();
    let (ended, mut is_over) = tokio::sync::oneshot::channel();
    let asked = async {
        let found = state(client.query(SLOW, &[])).await;
        ended.send(()).unwrap();
        found
    };
    // An early request finds nothing to cancel. Requests are seconds apart, so that none is on its
    // way when the statement has ended.
    let cancel = async {
        tokio::time::sleep(Duration::from_millis(700)).await;
        loop {
            let _ = token.cancel_query(NoTls).await;
            if tokio::time::timeout(Duration::from_secs(2), &mut is_over)
                .await
                .is_ok()
            {
                break;
            }
        }
    };
    tokio::join!(asked, cancel).0
}

#[tokio::test(flavor = "multi_thread")]
async fn tokio_postgres() {
    let stage = Stage::shared().await;
    let analyst = config(&stage, "analyst");

    let mut bound = analyst.clone();
    let (secure, connection) = bound
        .ssl_mode(SslMode::Require)
        .channel_binding(ChannelBinding::Require)
        .connect(tls(&stage))
        .await
        .unwrap();
    tokio::spawn(connection);
    assert_eq!(
        secure.query_one(WOMEN, &[]).await.unwrap().get::<_, i64>(0),
        4711
    );
    assert_eq!(
        state(analyst.clone().password("wrong").connect(NoTls)).await,
        SqlState::INVALID_PASSWORD
    );
    assert_eq!(
        state(analyst.clone().dbname("elsewhere").connect(NoTls)).await,
        SqlState::INVALID_CATALOG_NAME
    );

    let (mut client, mut notices) = plain(&analyst).await;
    let tables =
        "SELECT table_name::text FROM information_schema.tables WHERE table_schema = $1 ORDER BY 1";
    let tables: Vec<String> = client
        .query(tables, &[&"nls"])
        .await
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect();
    assert_eq!(tables, ["industries", "interviews", "occupations", "women"]);
    let statement = client
        .prepare(
            "SELECT race, count(*), avg(age)::float8, count(*) > 1 FROM \
        nls.women JOIN nls.interviews USING (woman_id) WHERE year < $1 AND race <> $2 GROUP BY \
        race",
        )
        .await
        .unwrap();
    assert_eq!(statement.params(), [Type::INT2, Type::TEXT]);
    let types: Vec<_> = statement
        .columns()
        .iter()
        .map(|c| (c.name().to_owned(), c.type_().clone()))
        .collect();
    let named = |name: &str, kind: Type| (name.to_owned(), kind);
    assert_eq!(
        types,
        [
            named("race", Type::TEXT),
            named("count", Type::INT8),
            named("avg", Type::FLOAT8),
            named("?column?", Type::BOOL)
        ]
    );
    assert!(notices.try_recv().is_err(), "to prepare is free");
    for _ in 0..10 {
        assert_eq!(
            client
                .query(&statement, &[&1975_i16, &"other"])
                .await
                .unwrap()
                .len(),
            2
        );
    }
    assert_eq!(
        costs(&mut notices),
        1,
        "the same question ten times is one question"
    );

    // One portal, read in three parts, is one question.
    let transaction = client.transaction().await.unwrap();
    let portal = transaction
        .bind(
            "SELECT year, count(*) FROM nls.interviews WHERE age <> 77 GROUP BY year",
            &[],
        )
        .await
        .unwrap();
    let mut read = Vec::new();
    for _ in 0..3 {
        read.push(transaction.query_portal(&portal, 7).await.unwrap().len());
    }
    assert_eq!(read, [7, 7, 1]);
    assert_eq!(costs(&mut notices), 1);
    assert_eq!(
        state(transaction.query("SELECT * FROM nls.women LIMIT 5", &[])).await,
        SqlState::INSUFFICIENT_PRIVILEGE
    );
    assert_eq!(
        state(transaction.query("SELECT 1", &[])).await,
        SqlState::IN_FAILED_SQL_TRANSACTION
    );
    transaction.rollback().await.unwrap();
    let mut transaction = client.transaction().await.unwrap();
    let savepoint = transaction.savepoint("s").await.unwrap();
    assert_eq!(
        state(savepoint.query("SELECT * FROM nls.women", &[])).await,
        SqlState::INSUFFICIENT_PRIVILEGE
    );
    savepoint.rollback().await.unwrap();
    assert_eq!(
        transaction
            .query_one(WOMEN, &[])
            .await
            .unwrap()
            .get::<_, i64>(0),
        4711
    );
    transaction.commit().await.unwrap();

    assert_eq!(cancelled(&client).await, SqlState::QUERY_CANCELED);
    assert_eq!(
        state(client.copy_out("COPY nls.women TO STDOUT")).await,
        SqlState::INSUFFICIENT_PRIVILEGE
    );
    assert_eq!(client.simple_query("").await.unwrap().len(), 1);
    // Pipelined: both are sent before either is answered.
    let (one, two) = tokio::join!(
        client.query_one("SELECT 1::int8", &[]),
        client.query_one(WOMEN, &[])
    );
    assert_eq!(
        (one.unwrap().get::<_, i64>(0), two.unwrap().get::<_, i64>(0)),
        (1, 4711)
    );

    regression(&client).await;

    // The statements that a pool sends between two users.
    client
        .batch_execute("SET application_name = 'lent'")
        .await
        .unwrap();
    client.batch_execute("DISCARD ALL").await.unwrap();
    assert_eq!(
        client
            .query_one("SHOW application_name", &[])
            .await
            .unwrap()
            .get::<_, String>(0),
        ""
    );
    super::run::tell_what_it_did(
        "tokio",
        "does tls scram list describe text binary prepared cursor refused transaction savepoint \
            cancel pool",
    );

    let (client, _notices) = plain(&config(&stage, &poor("tokio"))).await;
    let spend = async {
        for year in 0..50 {
            client
                .query(&format!("{WOMEN} WHERE birth_year > {year}"), &[])
                .await?;
        }
        Ok(())
    };
    assert_eq!(state(spend).await, SqlState::CONFIGURATION_LIMIT_EXCEEDED);
    assert_eq!(
        client
            .query_one("SELECT 1", &[])
            .await
            .unwrap()
            .get::<_, i32>(0),
        1
    );
}

/// The fields of a record, described when it is prepared, in binary and as text.
async fn regression(client: &Client) {
    let call = "(pgveil.linregr(hourly_wage, ARRAY[1, tenure_years]))";
    let sql = format!("SELECT {call}.* FROM nls.interviews WHERE year > $1::int4");
    let prepared = client.prepare(&sql).await.unwrap();
    assert_eq!(prepared.params(), [Type::INT4]);
    let columns = prepared.columns().iter();
    let columns: Vec<(&str, &Type)> = columns.map(|c| (c.name(), c.type_())).collect();
    assert_eq!(
        columns,
        [
            ("coef", &Type::FLOAT8_ARRAY),
            ("std_err", &Type::FLOAT8_ARRAY),
            ("noise_err", &Type::FLOAT8_ARRAY),
            ("r2", &Type::FLOAT8),
            ("num_rows", &Type::INT8),
            ("condition_no", &Type::FLOAT8),
            ("penalty", &Type::FLOAT8),
        ]
    );
    let row = client.query_one(&prepared, &[&1960i32]).await.unwrap();
    let numbers = |field: &str| row.get::<_, Vec<f64>>(field);
    let (coef, errors) = (numbers("coef"), numbers("noise_err"));
    assert_eq!(
        (coef.len(), errors.len(), numbers("std_err").len()),
        (2, 2, 2)
    );
    assert!(row.get::<_, i64>("num_rows") > 10_000);
    let text = format!("SELECT {call}.coef FROM nls.interviews WHERE year > 1960");
    let rows = client.simple_query(&text).await.unwrap();
    let shown = rows.iter().find_map(|message| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    });
    assert_eq!(shown, Some(format!("{{{},{}}}", coef[0], coef[1])));
}

//! kill -9 between debit and answer: the answer is lost, the charge is not.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pgveil::ledger::Ledger;
use pgveil::mechanism::Loss;
use pgveil::policy::{File, Policy, check};
use pgveil::postgres::LocalPostgres;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::Notify;

use crate::fixture::{TemporaryDirectory, account, load};
use crate::operations::serve::free_port;

/// Rows enough to keep the database busy for seconds: every interview joined to every code, several
/// times over.
const SLOW: &str = "SELECT count(*) FROM nls.interviews CROSS JOIN nls.industries a CROSS JOIN \
    nls.industries b CROSS JOIN nls.industries c";

/// Six steps, each a statement over both columns.
const FIT: &str = "SELECT (pgveil.logregr(college_graduate = 1, ARRAY[1, birth_year - 1948])).coef \
    FROM nls.women";

/// A sum whose clip a look chooses.
const LOOKED_AT: &str = "SELECT sum(hours_per_week) FROM nls.interviews JOIN nls.women USING \
    (woman_id) WHERE college_graduate >= 0 AND birth_year > 1940";

/// For a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

struct Proxy(Child);

impl Proxy {
    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The demo's database and a ledger, which outlive the proxies over them.
struct Stage {
    database_url: String,
    ledger_url: String,
    policy: Policy,
    port: u16,
    _directory: TemporaryDirectory,
}

impl Stage {
    /// `database_url` is where the proxies find the server.
    async fn new(
        (server, client): (&LocalPostgres, &tokio_postgres::Client),
        database_url: String,
    ) -> Self {
        load(client).await;
        let directory = TemporaryDirectory::new("crash");
        let ledger_url = format!("sqlite://{}", directory.0.join("ledger.db").display());
        let yaml = std::fs::read_to_string("policies/demo.yaml").unwrap();
        let variables = |name: &str| {
            Some(if name == "DATABASE_URL" {
                server.url().to_owned()
            } else {
                ledger_url.clone()
            })
        };
        let file = File::parse("policies/demo.yaml", &yaml, variables).unwrap();
        let catalog = pgveil::catalog::load(client).await.unwrap();
        let policy = check(&file, &catalog, client).await.unwrap().policy;
        Self {
            database_url,
            ledger_url,
            policy,
            port: free_port(),
            _directory: directory,
        }
    }

    fn start(&self) -> Proxy {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pgveil"));
        let listen = format!("127.0.0.1:{}", self.port);
        command
            .args([
                "serve",
                "--policy",
                "policies/demo.yaml",
                "--listen",
                &listen,
            ])
            .env("DATABASE_URL", &self.database_url)
            .env("PGVEIL_LEDGER", &self.ledger_url)
            .env_remove("PGVEIL_LOG")
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Proxy(command.spawn().unwrap())
    }

    async fn analyst(&self) -> tokio_postgres::Client {
        let deadline = Instant::now() + PATIENCE;
        let config = format!(
            "host=127.0.0.1 port={} user=analyst password=analyst dbname=nls sslmode=disable",
            self.port
        );
        loop {
            match tokio_postgres::connect(&config, tokio_postgres::NoTls).await {
                Ok((client, connection)) => {
                    tokio::spawn(connection);
                    return client;
                }
                Err(error) => assert!(Instant::now() < deadline, "no proxy: {error:?}"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// What the analyst and the owner have spent. Opening the ledger verifies its sums.
    async fn spent(&self) -> [Loss; 2] {
        let role = self.policy.role("analyst").unwrap();
        let ledger = Ledger::open(
            &self.ledger_url,
            account("owner", self.policy.privacy.budget, &self.policy),
            &[account("analyst", role.budget, &self.policy)],
        )
        .await
        .unwrap();
        let balances = ledger.balances("analyst").await.unwrap();
        [balances.role.spent, balances.owner.spent]
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_between_debit_and_answer() {
    let (server, client) = crate::fixture::started("nls", Vec::new()).await;
    let stage = Stage::new((&server, &client), server.url().to_owned()).await;
    let mut proxy = stage.start();
    let analyst = stage.analyst().await;
    let asked = tokio::spawn(async move { analyst.simple_query(SLOW).await.map(|_| ()) });
    let deadline = Instant::now() + PATIENCE;
    let charged = loop {
        let charged = stage.spent().await;
        if charged != [Loss::ZERO; 2] {
            break charged;
        }
        assert!(
            !asked.is_finished() && Instant::now() < deadline,
            "no debit came"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert!(!asked.is_finished(), "the query is too quick for this test");
    proxy.kill();
    assert!(asked.await.unwrap().is_err(), "no answer came");
    assert_eq!(stage.spent().await, charged);

    let _proxy = stage.start();
    let analyst = stage.analyst().await;
    let next = "SELECT count(*) FROM nls.women";
    analyst.simple_query(next).await.unwrap();
    let both = stage.spent().await;
    assert!(
        both[0].mu_squared > charged[0].mu_squared,
        "the next question is charged on top"
    );
}

/// The network keeps the third step's statement, so that the proxy dies with two steps drawn and
/// none kept. The whole fit stays charged. It is asked again, and charged the same once more:
/// nobody saw the two steps, and their noise is gone. Then the answer stands, free.
#[tokio::test(flavor = "multi_thread")]
async fn killed_at_the_third_step_of_a_fit() {
    let (server, client) = crate::fixture::started("nls", Vec::new()).await;
    let network = Network::new(&server, 3).await;
    let stage = Stage::new((&server, &client), network.url.clone()).await;
    let mut proxy = stage.start();
    let analyst = stage.analyst().await;
    let asked = tokio::spawn(async move { analyst.simple_query(FIT).await.map(|_| ()) });
    tokio::time::timeout(PATIENCE, network.kept.notified())
        .await
        .unwrap_or_else(|_| panic!("no third step came; ended: {}", asked.is_finished()));
    let charged = stage.spent().await;
    assert_ne!(charged, [Loss::ZERO; 2]);
    proxy.kill();
    assert!(asked.await.unwrap().is_err(), "no answer came");
    assert_eq!(stage.spent().await, charged, "the whole debit stands");

    let _proxy = stage.start();
    let analyst = stage.analyst().await;
    let first = analyst.simple_query(FIT).await.unwrap();
    let twice = charged.map(|loss| loss.compose(loss).unwrap());
    assert_eq!(stage.spent().await, twice, "all six steps once more");
    assert_eq!(
        network.steps(),
        3 + 6,
        "the repeat runs no step less than it pays for"
    );
    let again = analyst.simple_query(FIT).await.unwrap();
    assert_eq!(format!("{again:?}"), format!("{first:?}"));
    assert_eq!(stage.spent().await, twice, "an answer that is kept is free");
}

/// The network keeps the statement, so that the proxy dies between the debit of the look and that
/// of the sums: the first one stands alone. The repeat has another look, and both debits.
#[tokio::test(flavor = "multi_thread")]
async fn killed_between_the_two_debits_of_a_look() {
    let (server, client) = crate::fixture::started("nls", Vec::new()).await;
    let network = Network::new(&server, 1).await;
    let stage = Stage::new((&server, &client), network.url.clone()).await;
    let mut proxy = stage.start();
    let analyst = stage.analyst().await;
    let asked = tokio::spawn(async move { analyst.simple_query(LOOKED_AT).await.map(|_| ()) });
    tokio::time::timeout(PATIENCE, network.kept.notified())
        .await
        .unwrap_or_else(|_| panic!("no statement came; ended: {}", asked.is_finished()));
    let look = stage.spent().await;
    proxy.kill();
    assert!(asked.await.unwrap().is_err(), "no answer came");
    assert_eq!(stage.spent().await, look);

    let _proxy = stage.start();
    let analyst = stage.analyst().await;
    let first = analyst.simple_query(LOOKED_AT).await.unwrap();
    let all = stage.spent().await;
    for (all, look) in all.iter().zip(&look) {
        let [all, look] = [all, look].map(|loss| loss.mu_squared.to_f64());
        let whole = all - look;
        assert!((look / whole - 0.3).abs() < 1e-3, "{look}, {whole}");
    }
    let again = analyst.simple_query(LOOKED_AT).await.unwrap();
    assert_eq!(format!("{again:?}"), format!("{first:?}"));
    assert_eq!(stage.spent().await, all, "an answer that is kept is free");
}

/// Passes messages between proxies and the server, but for one step's statement.
struct Network {
    url: String,
    counts: Arc<Steps>,
    kept: Arc<Notify>,
}

struct Steps {
    seen: AtomicUsize,
    kept: usize,
}

impl Network {
    /// The `kept`-th step does not arrive.
    async fn new(server: &LocalPostgres, kept: usize) -> Self {
        let socket = server.directory().join(".s.PGSQL.5432");
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let counts = Arc::new(Steps {
            seen: AtomicUsize::new(0),
            kept,
        });
        let network = Self {
            url: format!("postgresql://postgres@127.0.0.1:{port}/nls?sslmode=disable"),
            counts: Arc::clone(&counts),
            kept: Arc::default(),
        };
        let notify = Arc::clone(&network.kept);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = UnixStream::connect(&socket).await.unwrap();
                tokio::spawn(pass(
                    client,
                    server,
                    Arc::clone(&counts),
                    Arc::clone(&notify),
                ));
            }
        });
        network
    }

    /// How many steps the proxies sent.
    fn steps(&self) -> usize {
        self.counts.seen.load(Ordering::SeqCst)
    }
}

/// Ends with either connection.
async fn pass(client: TcpStream, server: UnixStream, counts: Arc<Steps>, kept: Arc<Notify>) {
    let ((from, mut to), (mut back, forth)) = (client.into_split(), server.into_split());
    let answers = tokio::spawn(async move { tokio::io::copy(&mut back, &mut to).await });
    let _ = pass_messages(from, forth, &counts, &kept).await;
    answers.abort();
}

async fn pass_messages(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    counts: &Steps,
    kept: &Notify,
) -> std::io::Result<()> {
    // The first message alone has no tag.
    let mut tag = None;
    loop {
        let length = from.read_u32().await?;
        let mut body = vec![0; length as usize - 4];
        from.read_exact(&mut body).await?;
        if is_step(tag, &body) && counts.seen.fetch_add(1, Ordering::SeqCst) + 1 == counts.kept {
            kept.notify_one();
            // Until the proxy is gone.
            tokio::io::copy(&mut from, &mut tokio::io::sink()).await?;
            return Ok(());
        }
        if let Some(tag) = tag {
            to.write_u8(tag).await?;
        }
        to.write_u32(length).await?;
        to.write_all(&body).await?;
        tag = Some(from.read_u8().await?);
    }
}

/// A Query or a Parse that sums what the fit reads. No statement about the catalog does.
fn is_step(tag: Option<u8>, body: &[u8]) -> bool {
    let has = |word: &str| body.windows(word.len()).any(|at| at == word.as_bytes());
    matches!(tag, Some(b'Q' | b'P'))
        && ["sum(", "college_graduate", "birth_year"]
            .iter()
            .all(|w| has(w))
}

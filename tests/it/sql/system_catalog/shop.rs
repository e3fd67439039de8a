//! A small shop under a policy, and next to it a plain PostgreSQL that holds the same schema and
//! nothing else.

use std::sync::Arc;

use pgveil::engine::{Engine, Requester};
use pgveil::execute::Backend;
use pgveil::ledger::{AccountSpec, Ledger};
use pgveil::policy::{File, VIEWS, check};
use pgveil::postgres::{LocalPostgres, ServerOptions};
use pgveil::shadow::{Shadow, ShadowOptions, ShadowSource};
use tokio_postgres::{Client, NoTls};

use crate::fixture::{TemporaryDirectory, Veil, account};

/// The objects that the policy shows.
const SHOWN: &str = "
    CREATE SCHEMA sales;
    CREATE TYPE sales.order_status AS ENUM ('new', 'open', 'it''s paid');
    CREATE DOMAIN sales.address AS varchar(200);
    CREATE TABLE sales.customers (customer_id integer PRIMARY KEY, name text NOT NULL, country \
    varchar(2), email sales.address UNIQUE, joined date);
    CREATE TABLE sales.products (product_id integer PRIMARY KEY, title text NOT NULL, price \
    numeric(10,2));
    CREATE TABLE sales.orders (order_id bigint PRIMARY KEY, customer_id integer NOT NULL \
    REFERENCES \
    sales.customers, status sales.order_status,
        amount numeric(10,2), ordered_at timestamp with time zone, paid boolean);
    CREATE TABLE sales.order_items (order_id bigint NOT NULL REFERENCES sales.orders, product_id \
    integer NOT NULL REFERENCES sales.products,
        quantity integer, PRIMARY KEY (order_id, product_id));
    CREATE TABLE sales.regions (region integer PRIMARY KEY, parent integer REFERENCES \
    sales.regions);
";

/// The objects that it hides.
const HIDDEN: &str = "
    CREATE SCHEMA payroll;
    CREATE TABLE payroll.salaries (employee integer PRIMARY KEY, salary numeric);
    CREATE TABLE sales.secret_offers (offer integer PRIMARY KEY);
    ALTER TABLE sales.customers ADD COLUMN iban text;
    COMMENT ON TABLE sales.orders IS 'reported to nobody';
    INSERT INTO sales.customers SELECT n, 'c' || n, 'de', n || '@x', '2020-01-01', 'DE' || n FROM \
    generate_series(1, 3000) n;
    INSERT INTO sales.orders SELECT n, n, 'open', n, now(), true FROM generate_series(1, 3000) n;
    INSERT INTO sales.regions VALUES (2, NULL), (1, 2), (3, 1);
    ANALYZE;
";

pub struct Shop {
    pub engine: Arc<Engine>,
    /// The direct connection, as `analyst`.
    pub direct: Client,
    _servers: [LocalPostgres; 2],
    _directory: TemporaryDirectory,
}

impl Shop {
    pub async fn open() -> Self {
        let (real, admin) = server().await;
        admin
            .batch_execute(&format!("{SHOWN}{HIDDEN}"))
            .await
            .unwrap();
        let (plain, owner) = server().await;
        owner
            .batch_execute(&format!("{SHOWN}{}", views()))
            .await
            .unwrap();
        let rights =
            "CREATE ROLE analyst LOGIN; GRANT USAGE ON SCHEMA sales TO PUBLIC; GRANT SELECT, \
                REFERENCES ON ALL TABLES IN SCHEMA sales TO PUBLIC;
            GRANT USAGE ON SCHEMA pgveil TO PUBLIC; GRANT SELECT, REFERENCES ON ALL TABLES IN \
            SCHEMA pgveil TO PUBLIC;
            REVOKE ALL ON DATABASE shop FROM PUBLIC; GRANT CONNECT ON DATABASE shop TO PUBLIC; \
            REVOKE CREATE ON SCHEMA public FROM PUBLIC";
        owner.batch_execute(rights).await.unwrap();
        let direct = connect(plain.config().user("analyst")).await;

        let directory = TemporaryDirectory::new("shop");
        let ledger = format!("sqlite://{}", directory.0.join("ledger.db").display());
        let variables = |name: &str| {
            Some(if name == "DATABASE_URL" {
                "postgres://nowhere/shop".to_owned()
            } else {
                ledger.clone()
            })
        };
        let file = File::parse(
            "shop.yaml",
            &std::fs::read_to_string("tests/it/sql/system_catalog/shop.yaml").unwrap(),
            variables,
        )
        .unwrap_or_else(|e| panic!("{e:?}"));
        let catalog = pgveil::catalog::load(&admin).await.unwrap();
        let policy = check(&file, &catalog, &admin)
            .await
            .unwrap_or_else(|e| panic!("{e:?}"))
            .policy;
        let shadow = Shadow::start(
            &policy,
            ShadowOptions::new(ShadowSource::Local, "shop", catalog.server_version.clone()),
        )
        .await
        .unwrap();
        shadow.copy_public(&admin).await.unwrap();
        let roles: Vec<AccountSpec> = policy
            .roles
            .iter()
            .map(|role| account(&role.name, role.budget, &policy))
            .collect();
        let ledger = Ledger::open(
            &ledger,
            account("owner", policy.privacy.budget, &policy),
            &roles,
        )
        .await
        .unwrap();
        let engine = Engine::new(
            policy,
            Backend::new(real.config(), 2),
            shadow,
            ledger,
            "shop".to_owned(),
            catalog.server_version,
        );
        Self {
            engine: Arc::new(engine),
            direct,
            _servers: [real, plain],
            _directory: directory,
        }
    }

    pub fn requester() -> Requester {
        Requester {
            search_path: vec!["analyst".to_owned(), "public".to_owned()],
            ..Veil::requester()
        }
    }
}

/// Aggregates that give records.
const RECORDS: &str = "
CREATE TYPE pgveil.linregr_result AS (coef float8[], std_err float8[], noise_err float8[],
    r2 float8, num_rows bigint, condition_no float8, penalty float8);
CREATE FUNCTION pgveil.linregr_step(pgveil.linregr_result, float8, float8[])
    RETURNS pgveil.linregr_result LANGUAGE sql IMMUTABLE AS 'SELECT $1';
CREATE AGGREGATE pgveil.linregr(float8, float8[])
    (SFUNC = pgveil.linregr_step, STYPE = pgveil.linregr_result);
CREATE FUNCTION pgveil.linregr_step(pgveil.linregr_result, float8, float8[], float8)
    RETURNS pgveil.linregr_result LANGUAGE sql IMMUTABLE AS 'SELECT $1';
CREATE AGGREGATE pgveil.linregr(float8, float8[], float8)
    (SFUNC = pgveil.linregr_step, STYPE = pgveil.linregr_result);
CREATE TYPE pgveil.logregr_result AS (coef float8[], std_err float8[], noise_err float8[],
    num_rows bigint, num_iterations int);
CREATE FUNCTION pgveil.logregr_step(pgveil.logregr_result, bool, float8[])
    RETURNS pgveil.logregr_result LANGUAGE sql IMMUTABLE AS 'SELECT $1';
CREATE AGGREGATE pgveil.logregr(bool, float8[])
    (SFUNC = pgveil.logregr_step, STYPE = pgveil.logregr_result);
CREATE FUNCTION pgveil.logregr_step(pgveil.logregr_result, float8, float8[])
    RETURNS pgveil.logregr_result LANGUAGE sql IMMUTABLE AS 'SELECT $1';
CREATE AGGREGATE pgveil.logregr(float8, float8[])
    (SFUNC = pgveil.logregr_step, STYPE = pgveil.logregr_result);
CREATE TYPE pgveil.pca_result AS (variance float8[], noise_err float8[], loadings float8[],
    loadings_err float8[], proportion float8[], mean float8[], num_rows bigint);
CREATE FUNCTION pgveil.pca_step(pgveil.pca_result, float8[])
    RETURNS pgveil.pca_result LANGUAGE sql IMMUTABLE AS 'SELECT $1';
CREATE AGGREGATE pgveil.pca(float8[]) (SFUNC = pgveil.pca_step, STYPE = pgveil.pca_result);
CREATE FUNCTION pgveil.pca_step(pgveil.pca_result, float8[], int)
    RETURNS pgveil.pca_result LANGUAGE sql IMMUTABLE AS 'SELECT $1';
CREATE AGGREGATE pgveil.pca(float8[], int) (SFUNC = pgveil.pca_step, STYPE = pgveil.pca_result);
";

/// pgveil's own views and functions, which the catalogs list too.
fn views() -> String {
    let tables = VIEWS.iter().map(|view| {
        let columns: Vec<String> = view
            .columns
            .iter()
            .map(|(name, data_type)| format!("{name} {data_type}"))
            .collect();
        format!(
            "CREATE TABLE pgveil.{} ({});",
            view.name,
            columns.join(", ")
        )
    });
    let functions = ["stderr", "ci_low", "ci_high", "low_by"].map(|name| {
        format!(
            "CREATE FUNCTION pgveil.{name}(anyelement) RETURNS float8 LANGUAGE sql \
            IMMUTABLE AS 'SELECT NULL::double precision';"
        )
    });
    std::iter::once("CREATE SCHEMA pgveil;".to_owned())
        .chain(tables)
        .chain(functions)
        .chain([RECORDS.to_owned()])
        .collect()
}

async fn server() -> (LocalPostgres, Client) {
    let server = LocalPostgres::start(ServerOptions {
        database: Some("shop".to_owned()),
        ..ServerOptions::default()
    })
    .await
    .unwrap();
    let client = connect(&server.config()).await;
    (server, client)
}

async fn connect(config: &tokio_postgres::Config) -> Client {
    let (client, connection) = config.connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

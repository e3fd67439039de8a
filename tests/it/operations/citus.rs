//! A coordinator and two workers of Citus: keys that nobody enforces prove nothing, and every
//! server is pinned alike. Where the sources of Citus, or what it takes to build them, are not
//! there, a line says so.

mod layout;
mod tpch;

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use futures::SinkExt;
use pgveil::catalog::{Distribution, fingerprints, load};
use pgveil::engine::Engine;
use pgveil::policy::{File, check};
use sha2::{Digest, Sha256};
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage, SimpleQueryRow};

use super::serve::free_port;
use crate::fixture::{TemporaryDirectory, Veil, engine_over, rows_of};

const SOURCES: &str = "../shared/citus";
const BINARIES: &str = "/usr/lib/postgresql/15/bin";
/// The libraries that a build reads apart from the sources.
const NEEDED: &[&str] = &[
    "/usr/lib/postgresql/15/lib/pgxs/src/makefiles/pgxs.mk",
    "/usr/include/postgresql/15/server/postgres.h",
    "/usr/include/lz4.h",
    "/usr/include/zstd.h",
    "/usr/include/gssapi/gssapi.h",
    "/usr/include/openssl/ssl.h",
];

/// The binaries of a server that knows Citus; made once on a machine, for each tarball and version
/// of the server.
fn binaries() -> Result<PathBuf, String> {
    let tarball = std::fs::read(Path::new(SOURCES).join("citus-src.tar.xz"))
        .map_err(|_| format!("{SOURCES} has no sources"))?;
    if let Some(missing) = NEEDED.iter().find(|path| !Path::new(path).exists()) {
        return Err(format!("{missing} is missing"));
    }
    let version = Command::new(Path::new(BINARIES).join("postgres"))
        .arg("--version")
        .output()
        .map_err(|e| e.to_string())?;
    let key: String = Sha256::new()
        .chain_update(tarball)
        .chain_update(version.stdout)
        .finalize()
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let root = std::env::temp_dir().join(format!("pgveil-citus-{key}"));
    if !root.exists() {
        let sources = std::fs::canonicalize(SOURCES).unwrap();
        let built = Command::new("tests/it/operations/citus/build")
            .arg(sources)
            .args([Path::new(BINARIES), &root])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(
            built.status.success(),
            "{}",
            String::from_utf8_lossy(&[built.stdout, built.stderr].concat())
        );
    }
    Ok(root.join(&BINARIES[1..]))
}

/// Three servers; ended and gone when it is dropped.
struct Cluster {
    servers: Vec<Child>,
    ports: Vec<u16>,
    directory: TemporaryDirectory,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for server in &mut self.servers {
            // The child is the server itself; SIGQUIT ends it at once.
            let _ = Command::new("kill")
                .args(["-QUIT", &server.id().to_string()])
                .status();
            let _ = server.wait();
        }
    }
}

impl Cluster {
    async fn start(binaries: &Path) -> Self {
        let directory = TemporaryDirectory::new("cluster");
        let is_root = std::fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0);
        if is_root {
            std::os::unix::fs::chown(&directory.0, Some(65534), Some(65534)).unwrap();
        }
        let program = |name: &str| {
            let path = binaries.join(name);
            let mut command = if is_root {
                Command::new("setpriv")
            } else {
                Command::new(&path)
            };
            if is_root {
                command
                    .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
                    .arg(path);
            }
            command
                .current_dir(&directory.0)
                .env("HOME", &directory.0)
                .stdin(Stdio::null());
            command
        };
        let (mut servers, mut ports) = (Vec::new(), Vec::new());
        for number in 0..3 {
            let (data, port) = (format!("data{number}"), free_port());
            let made = program("initdb")
                .args([
                    "--no-sync",
                    "-A",
                    "trust",
                    "-U",
                    "postgres",
                    "-E",
                    "UTF8",
                    "--locale=C.UTF-8",
                    "-D",
                    &data,
                ])
                .output()
                .unwrap();
            assert!(
                made.status.success(),
                "{}",
                String::from_utf8_lossy(&made.stderr)
            );
            let log = std::fs::File::create(directory.0.join(format!("log{number}"))).unwrap();
            let mut server = program("postgres");
            for setting in [
                format!("port={port}").as_str(),
                "listen_addresses=127.0.0.1",
                "unix_socket_directories=",
                "shared_preload_libraries=citus",
                "citus.node_conninfo=sslmode=disable",
                "citus.shard_count=4",
                "fsync=off",
                "wal_level=logical",
                "shared_buffers=16MB",
                "max_connections=60",
                "log_statement=all",
            ] {
                server.args(["-c", setting]);
            }
            servers.push(
                server
                    .args(["-D", &data])
                    .stdout(Stdio::null())
                    .stderr(log)
                    .spawn()
                    .unwrap(),
            );
            ports.push(port);
        }
        let cluster = Self {
            servers,
            ports,
            directory,
        };
        for number in 0..3 {
            cluster
                .client(number)
                .await
                .batch_execute("CREATE EXTENSION citus")
                .await
                .unwrap();
        }
        let nodes: Vec<String> = cluster.ports[1..]
            .iter()
            .map(|port| format!("SELECT citus_add_node('127.0.0.1', {port});"))
            .collect();
        let host = format!(
            "SELECT citus_set_coordinator_host('127.0.0.1', {});",
            cluster.ports[0]
        );
        cluster
            .client(0)
            .await
            .batch_execute(&(host + &nodes.concat()))
            .await
            .unwrap();
        cluster
    }

    fn config(&self, number: usize, user: &str) -> Config {
        format!(
            "host=127.0.0.1 port={} user={user} dbname=postgres application_name=pgveil",
            self.ports[number]
        )
        .parse()
        .unwrap()
    }

    /// The superuser's connection to one server, once it answers.
    async fn client(&self, number: usize) -> Client {
        for _ in 0..1_200 {
            if let Ok((client, connection)) = self.config(number, "postgres").connect(NoTls).await {
                tokio::spawn(connection);
                return client;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        panic!("server {number}: {}", self.log(number));
    }

    /// The log of a server's statements.
    fn log(&self, number: usize) -> String {
        String::from_utf8_lossy(
            &std::fs::read(self.directory.0.join(format!("log{number}"))).unwrap(),
        )
        .into_owned()
    }
}

const TABLES: &str = "
    CREATE SCHEMA s; CREATE ROLE veil LOGIN;
    CREATE TABLE s.people (id int PRIMARY KEY, age int NOT NULL, town text NOT NULL);
    CREATE TABLE s.visits (uid int NOT NULL, n int NOT NULL, cost int NOT NULL, PRIMARY KEY (uid, \
    n));
    CREATE TABLE s.parts (uid int NOT NULL, at date NOT NULL, PRIMARY KEY (uid, at)) PARTITION BY \
    RANGE (at);
    CREATE TABLE s.parts2020 PARTITION OF s.parts FOR VALUES FROM ('2020-01-01') TO ('2021-01-01');
    CREATE TABLE s.apart (uid int PRIMARY KEY); CREATE TABLE s.otherwise (uid int NOT NULL, n int \
    PRIMARY KEY);
    CREATE TABLE s.appended (uid int PRIMARY KEY, age int NOT NULL); CREATE TABLE s.ranged (uid \
    int \
    PRIMARY KEY);
    CREATE TABLE s.single (uid int PRIMARY KEY); CREATE TABLE s.managed (uid int PRIMARY KEY); \
    CREATE TABLE s.plain (uid int PRIMARY KEY);
    CREATE TABLE s.towns (town text PRIMARY KEY); CREATE TABLE s.codes (code int PRIMARY KEY);
    SELECT create_distributed_table('s.people', 'id');
    SELECT create_distributed_table('s.visits', 'uid', colocate_with => 's.people');
    SELECT create_distributed_table('s.parts', 'uid', colocate_with => 's.people');
    SELECT create_distributed_table('s.apart', 'uid', colocate_with => 'none');
    SELECT create_distributed_table('s.otherwise', 'n', colocate_with => 's.people');
    SELECT create_distributed_table('s.appended', 'uid', 'append'); SELECT \
    create_distributed_table('s.codes', 'code', 'append');
    SELECT create_distributed_table('s.ranged', 'uid', 'range'); SELECT \
    create_distributed_table('s.single', null);
    SELECT create_reference_table('s.towns'); SELECT citus_add_local_table_to_metadata('s.managed');
    ALTER TABLE s.visits ADD FOREIGN KEY (uid) REFERENCES s.people (id);
    INSERT INTO s.towns VALUES ('Lima'), ('Lyon');
    INSERT INTO s.people SELECT g, g % 90, (ARRAY['Lima', 'Lyon'])[1 + g % 2] FROM \
    generate_series(1, 600) g;
    INSERT INTO s.visits SELECT g, n, g % 7 FROM generate_series(1, 600) g, generate_series(1, 2) n;
    INSERT INTO s.parts SELECT g, '2020-01-01'::date + g % 300 FROM generate_series(1, 600) g;
    GRANT USAGE ON SCHEMA s TO veil; GRANT SELECT ON ALL TABLES IN SCHEMA s TO veil";

fn policy(tables: &str) -> String {
    format!(
        "version: 1
privacy: {{unit: person, budget: {{epsilon: 100000, delta: 1e-3}}, per_query: {{epsilon: 1, \
max_epsilon: 1}}}}
roles: [{{name: analyst, \
password: \"SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=\", budget: {{epsilon: 90000, delta: 1e-4}}}}]
tables:
{tables}"
    )
}

const PEOPLE: &str = "  s.people: \
    {unit: id, columns: {age: {bounds: [0, 100]}, town: {domain: s.towns.town}}}\n  s.towns: \
    public\n";

/// Errors of a policy of these tables, or else its warnings.
async fn reported(client: &Client, tables: &str) -> Result<Vec<String>, Vec<String>> {
    let file = File::parse("p.yaml", &policy(tables), |_| None).unwrap_or_else(|e| panic!("{e:?}"));
    let texts = |all: Vec<pgveil::policy::PolicyError>| {
        all.into_iter()
            .map(|finding| finding.message)
            .collect::<Vec<_>>()
    };
    match check(&file, &load(client).await.unwrap(), client).await {
        Ok(checked) => Ok(texts(checked.warnings)),
        Err(errors) => Err(texts(errors)),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_citus_cluster_is_read_as_it_keeps_its_rows() {
    let binaries = match tokio::task::spawn_blocking(binaries).await.unwrap() {
        Ok(binaries) => binaries,
        Err(why) => {
            println!("skipped: Citus is not built: {why}");
            return;
        }
    };
    let cluster = Cluster::start(&binaries).await;
    let owner = cluster.client(0).await;
    owner.batch_execute(TABLES).await.unwrap();
    keys_are_read(&owner).await;
    tables_are_judged(&owner).await;
    distribution_is_in_the_fingerprint(&owner).await;
    workers_are_pinned(&cluster, &owner).await;
    layout::joins_are_answered(&cluster, &owner).await;
    layout::rows_in_wrong_shards_are_found(&cluster, &owner).await;
    tpch::answers_are_those_of_a_plain_server(&cluster).await;
}

async fn keys_are_read(client: &Client) {
    // One person in two shards, against a primary key.
    for (number, age) in [(1, 20), (2, 90)] {
        let shard: i64 = client
            .query_one("SELECT master_create_empty_shard('s.appended')", &[])
            .await
            .unwrap()
            .get(0);
        let sink = client
            .copy_in(&format!(
                "COPY s.appended FROM STDIN WITH (append_to_shard {shard})"
            ))
            .await
            .unwrap();
        let mut sink = std::pin::pin!(sink);
        sink.send(bytes::Bytes::from(format!("1\t{age}\n")))
            .await
            .unwrap();
        assert_eq!(sink.finish().await.unwrap(), 1, "shard {number}");
    }
    assert_eq!(
        client
            .query("SELECT uid FROM s.appended WHERE uid = 1", &[])
            .await
            .unwrap()
            .len(),
        2
    );

    let catalog = load(client).await.unwrap();
    let table = |name: &str| catalog.table("s", name).unwrap_or_else(|| panic!("{name}"));
    let is = |name: &str, wanted: fn(&Distribution) -> bool| {
        assert!(
            wanted(&table(name).distribution),
            "{name}: {:?}",
            table(name).distribution
        )
    };
    for name in [
        "people",
        "visits",
        "parts",
        "parts2020",
        "apart",
        "otherwise",
    ] {
        is(
            name,
            |found| matches!(found, Distribution::Hash(hash) if hash.tiles),
        );
    }
    assert_eq!(
        table("people").distribution,
        Distribution::Hash(pgveil::catalog::Hash {
            column: "id".to_owned(),
            ..hash(&table("visits").distribution)
        })
    );
    assert_ne!(
        hash(&table("people").distribution).colocation,
        hash(&table("apart").distribution).colocation
    );
    is("appended", |found| {
        *found == Distribution::Unenforced("append".to_owned())
    });
    is("ranged", |found| {
        *found == Distribution::Unenforced("range".to_owned())
    });
    is("single", |found| *found == Distribution::Single);
    is("towns", |found| *found == Distribution::Reference);
    is("managed", |found| *found == Distribution::Local);
    is("plain", |found| *found == Distribution::Local);
    let keys = |name: &str| table(name).unique_keys.len();
    assert_eq!(
        ["people", "visits", "towns", "single", "managed"].map(keys),
        [1; 5]
    );
    assert_eq!(
        ["appended", "ranged", "codes"].map(keys),
        [0; 3],
        "in pg_index they are valid"
    );
    assert!(
        !catalog
            .tables
            .iter()
            .any(|table| table.name.starts_with("citus_") || table.schema.starts_with("columnar")),
        "its own tables and views are nobody's"
    );
}

fn hash(distribution: &Distribution) -> pgveil::catalog::Hash {
    match distribution {
        Distribution::Hash(hash) => hash.clone(),
        other => panic!("{other:?}"),
    }
}

async fn tables_are_judged(client: &Client) {
    let path = |table: &str| {
        format!(
            "{PEOPLE}  s.{table}: {{unit: {{path: [uid -> s.people.id], trusted_path: true}}, \
                rows_per_unit: 2}}\n"
        )
    };
    for table in ["visits", "parts"] {
        let warnings = reported(client, &path(table)).await;
        assert!(
            warnings.as_ref().is_ok_and(|warnings| !warnings
                .iter()
                .any(|w| w.contains("citus") || w.contains("distributed"))),
            "{table}: {warnings:?}"
        );
    }
    for table in ["plain", "managed"] {
        let warnings = reported(client, &path(table)).await;
        assert!(
            warnings.as_ref().is_ok_and(|warnings| warnings
                .iter()
                .any(|w| w.contains("local table and not distributed like s.people"))),
            "{warnings:?}"
        );
    }
    for (table, why) in [
        (
            "appended",
            "s.appended is distributed by append: Citus enforces no key of it",
        ),
        (
            "ranged",
            "s.ranged is distributed by range: Citus enforces no key of it",
        ),
        ("single", "s.single lies in one shard"),
        ("apart", "s.apart and s.people are not colocated"),
        (
            "otherwise",
            "s.otherwise is distributed by n, so that rows of one person may lie in many shards",
        ),
    ] {
        let errors = reported(client, &path(table)).await.unwrap_err();
        assert!(
            matches!(
                errors.as_slice(),
                [error] if error.starts_with(why) && error.contains("create_distributed_table(")
            ),
            "{table}: {errors:?}"
        );
    }
    let errors = reported(client, "  s.towns: {unit: town}\n")
        .await
        .unwrap_err();
    assert!(
        errors[0].starts_with("s.towns is a reference table"),
        "{errors:?}"
    );
    // The breach: a plan of one row a unit over a key that nobody enforces.
    let errors = reported(
        client,
        "  s.appended: {unit: uid, columns: {age: {bounds: [0, 100]}}}\n",
    )
    .await
    .unwrap_err();
    assert!(
        errors[0].starts_with("s.appended is distributed by append"),
        "{errors:?}"
    );
    let warnings = reported(client, &format!("{PEOPLE}  s.codes: public\n"))
        .await
        .unwrap();
    assert!(
        warnings
            .iter()
            .any(|w| w.starts_with("no key of s.codes is trusted: it is distributed by append")),
        "{warnings:?}"
    );
}

async fn distribution_is_in_the_fingerprint(client: &Client) {
    client
        .batch_execute(
            "CREATE TABLE s.later (uid int PRIMARY KEY); CREATE TABLE s.sooner (uid \
        int PRIMARY KEY)",
        )
        .await
        .unwrap();
    let oid = async |name: &str| {
        client
            .query_one(&format!("SELECT '{name}'::regclass::oid"), &[])
            .await
            .unwrap()
            .get::<_, u32>(0)
    };
    let oids = [
        oid("s.later").await,
        oid("s.sooner").await,
        oid("s.people").await,
    ];
    let before = fingerprints(client, &oids).await.unwrap();
    client
        .batch_execute(
            "SELECT create_distributed_table('s.later', 'uid', 'append'); SELECT \
            create_distributed_table('s.sooner', 'uid')",
        )
        .await
        .unwrap();
    let after = fingerprints(client, &oids).await.unwrap();
    assert_ne!(before[&oids[0]], after[&oids[0]]);
    assert_ne!(before[&oids[1]], after[&oids[1]]);
    // Where a shard is, is Citus's own business.
    let moved = "SELECT citus_move_shard_placement(s.shardid, p.nodename, p.nodeport, o.nodename, \
        o.nodeport, 'block_writes')
        FROM pg_dist_shard s JOIN pg_dist_placement USING (shardid) JOIN pg_dist_node p USING \
        (groupid), pg_dist_node o
        WHERE s.logicalrelid = 's.people'::regclass AND o.groupid NOT IN (0, p.groupid) ORDER BY \
        s.shardid LIMIT 1";
    client.batch_execute(moved).await.unwrap();
    assert_eq!(fingerprints(client, &oids).await.unwrap(), after);
}

/// The rows of a statement as text, columns joined by `|`.
async fn printed(client: &Client, sql: &str) -> Vec<String> {
    let text = |row: &SimpleQueryRow| {
        (0..row.len())
            .map(|at| row.get(at).unwrap_or("∅"))
            .collect::<Vec<_>>()
            .join("|")
    };
    let messages = client.simple_query(sql).await;
    let messages = messages.unwrap_or_else(|e| panic!("{sql}: {e:?}"));
    messages
        .iter()
        .filter_map(|m| {
            if let SimpleQueryMessage::Row(row) = m {
                Some(text(row))
            } else {
                None
            }
        })
        .collect()
}

async fn workers_are_pinned(cluster: &Cluster, owner: &Client) {
    let reader = cluster.config(0, "veil");
    let (client, connection) = reader.connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    let directory = TemporaryDirectory::new("citus-veil");
    let ledger = format!("sqlite://{}", directory.0.join("ledger.db").display());
    let tables = format!(
        "{PEOPLE}  s.visits: {{unit: {{path: [uid -> s.people.id]}}, rows_per_unit: 20, columns: \
            {{cost: {{bounds: [0, 10]}}}}}}\n"
    );
    let engine: Arc<Engine> =
        Arc::new(engine_over(reader, &client, &policy(&tables), &ledger, Veil::silent()).await);
    let before = [0, 1, 2].map(|number| cluster.log(number).len());
    for sql in [
        "SELECT count(*), sum(age) FROM s.people",
        "SELECT town, count(*) FROM s.people GROUP BY town ORDER BY town",
        "SELECT p.town, sum(v.cost) FROM s.people p JOIN s.visits v ON v.uid = p.id GROUP BY \
            p.town \
            ORDER BY p.town",
        "SELECT count(*), sum(cost) FROM s.visits",
        "SELECT p.town, count(*), sum(v.cost) FROM s.people p JOIN s.visits v ON v.uid = p.id \
            GROUP BY p.town ORDER BY p.town",
        "SELECT count(*) FROM s.people p JOIN s.towns t ON t.town = p.town WHERE EXISTS (SELECT 1 \
            FROM s.visits v WHERE v.uid = p.id AND v.cost > 3)",
    ] {
        let wanted = printed(owner, sql).await;
        assert_eq!(
            rows_of(&engine, &Veil::requester(), sql)
                .await
                .unwrap_or_else(|e| panic!("{sql}: {:?}", e.report())),
            wanted,
            "{sql}"
        );
    }
    let set = |log: &str| {
        let names = log
            .split("SET LOCAL ")
            .skip(1)
            .filter_map(|rest| rest.split([' ', '=']).next())
            .map(|name| name.trim_matches('"').to_lowercase());
        names.collect::<std::collections::BTreeSet<String>>()
    };
    let pinned = set(&cluster.log(0)[before[0]..]);
    assert!(
        pinned.len() == 15
            && [
                "citus.propagate_set_commands",
                "timezone",
                "statement_timeout"
            ]
            .iter()
            .all(|name| pinned.contains(*name)),
        "{pinned:?}"
    );
    for worker in [1, 2] {
        let reached = set(&cluster.log(worker)[before[worker]..]);
        let missed: Vec<&String> = pinned
            .iter()
            .filter(|name| *name != "citus.propagate_set_commands" && !reached.contains(*name))
            .collect();
        assert!(
            missed.is_empty(),
            "worker {worker} was not reported {missed:?}"
        );
    }
}

//! The login that writes, as `pgveil check` and the start judge it.

use tokio_postgres::NoTls;

use super::stage::Stage;

pub(super) const TABLES: &str =
    "CREATE TABLE shop.answers (row bigserial PRIMARY KEY, person int NOT NULL,
    smoked text NOT NULL);
    CREATE ROLE writer LOGIN; CREATE ROLE other NOLOGIN; GRANT USAGE ON SCHEMA shop TO writer";

/// The right to insert all columns but the key, which is the database's.
pub(super) const GRANT: &str = "GRANT INSERT (person, smoked) ON shop.answers TO writer";

pub(super) const POLICY: &str = "version: 1
database: {url: \"${DATABASE_URL}\", write_url: \"${SHADOW_URL}\"}
ledger: {url: \"${PGVEIL_LEDGER}\"}
local: {memo: false}
privacy: {unit: person, budget: {epsilon: 1000, delta: 1e-6}}
roles: [{name: collector, password: \"${VERIFIER}\", budget: none, writes: [shop.answers]}]
tables:
  shop.answers:
    unit: person
    columns: {smoked: {values: [no, yes], local: {mechanism: coin, truth: 1/2, yes: 1/2}}}
";

/// Every right that the login has and should not have, itself or as a member of a role, is named,
/// and the policy refused; also a right that it needs.
#[tokio::test(flavor = "multi_thread")]
async fn the_login_may_insert_and_nothing_else() {
    let stage = Stage::new().await;
    let (owner, connection) = stage.server.config().connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    owner.batch_execute(TABLES).await.unwrap();
    let host = stage.server.directory().display();
    let url = |user: &str| format!("postgresql://{user}@/nls?host={host}");
    let check = |user: &str| {
        let text = POLICY.replace("${SHADOW_URL}", &url(user));
        std::fs::write(stage.file("policy.yaml"), text).unwrap();
        let policy = stage.file("policy.yaml").display().to_string();
        let checked = stage.run(&["check", &policy]);
        let said = [checked.stdout, checked.stderr].concat();
        (checked.status.success(), String::from_utf8(said).unwrap())
    };
    let (is_good, said) = check("writer");
    assert!(
        !is_good && said.contains("may not INSERT into shop.answers"),
        "{said}"
    );
    owner.batch_execute(GRANT).await.unwrap();
    let (is_good, said) = check("writer");
    assert!(is_good, "{said}");
    assert!(said.contains("reports add up"), "{said}");
    let kept = "Kept by pgveil itself:\n  shop.answers: true values of smoked are never held by \
        the database, its administrators or its backups; pgveil's memory holds them for a moment \
        (local)\n";
    assert!(said.contains(kept), "{said}");
    assert!(
        !said.contains("smoked was randomised with the odds"),
        "{said}"
    );
    for (grant, revoke, wanted) in [
        (
            "GRANT SELECT ON shop.people TO writer",
            "REVOKE SELECT ON shop.people FROM writer",
            "has SELECT on shop.people",
        ),
        (
            "GRANT SELECT (age) ON shop.people TO writer",
            "REVOKE SELECT (age) ON shop.people FROM writer",
            "has SELECT on shop.people",
        ),
        (
            "GRANT SELECT (smoked) ON shop.answers TO PUBLIC",
            "REVOKE SELECT (smoked) ON shop.answers FROM PUBLIC",
            "has SELECT on shop.answers",
        ),
        (
            "GRANT INSERT ON shop.people TO writer",
            "REVOKE INSERT ON shop.people FROM writer",
            "has INSERT on shop.people",
        ),
        (
            "GRANT UPDATE (smoked) ON shop.answers TO writer",
            "REVOKE UPDATE (smoked) ON shop.answers FROM writer",
            "has UPDATE on shop.answers",
        ),
        (
            "GRANT DELETE ON shop.answers TO writer",
            "REVOKE DELETE ON shop.answers FROM writer",
            "has DELETE on shop.answers",
        ),
        (
            "GRANT TRUNCATE ON shop.answers TO writer",
            "REVOKE TRUNCATE ON shop.answers FROM writer",
            "has TRUNCATE on shop.answers",
        ),
        (
            "GRANT other TO writer; GRANT SELECT ON shop.people TO other; \
                ALTER ROLE writer NOINHERIT",
            "REVOKE other FROM writer; REVOKE SELECT ON shop.people FROM other",
            "has SELECT on shop.people",
        ),
        (
            "ALTER ROLE other SUPERUSER; GRANT other TO writer",
            "REVOKE other FROM writer; ALTER ROLE other NOSUPERUSER",
            "is a member of role other, which is a superuser",
        ),
        (
            "GRANT pg_read_all_data TO writer",
            "REVOKE pg_read_all_data FROM writer",
            "is a member of role pg_read_all_data",
        ),
        (
            "ALTER ROLE writer BYPASSRLS",
            "ALTER ROLE writer NOBYPASSRLS",
            "BYPASSRLS",
        ),
        (
            "ALTER ROLE writer CREATEROLE",
            "ALTER ROLE writer NOCREATEROLE",
            "CREATEROLE",
        ),
        (
            "ALTER ROLE writer REPLICATION",
            "ALTER ROLE writer NOREPLICATION",
            "REPLICATION",
        ),
        (
            "ALTER ROLE writer SUPERUSER",
            "ALTER ROLE writer NOSUPERUSER",
            "is a superuser",
        ),
        (
            "GRANT CREATE ON SCHEMA shop TO writer",
            "REVOKE CREATE ON SCHEMA shop FROM writer",
            "may CREATE in schema shop",
        ),
        (
            "ALTER TABLE shop.kinds OWNER TO writer",
            "ALTER TABLE shop.kinds OWNER TO postgres",
            "owns shop.kinds",
        ),
    ] {
        owner.batch_execute(grant).await.unwrap();
        let (is_good, said) = check("writer");
        assert!(!is_good && said.contains(wanted), "{grant}: {said}");
        owner.batch_execute(revoke).await.unwrap();
    }
    let (is_good, said) = check("writer");
    assert!(is_good, "{said}");
    for (change, back, wanted) in [
        (
            "REVOKE USAGE ON SCHEMA shop FROM writer",
            "GRANT USAGE ON SCHEMA shop TO writer",
            "has no USAGE on the schema of shop.answers",
        ),
        (
            "REVOKE INSERT ON shop.answers FROM writer; \
                GRANT INSERT (person) ON shop.answers TO writer",
            GRANT,
            "may not INSERT into column smoked of shop.answers",
        ),
        (
            "CREATE UNIQUE INDEX hidden ON shop.answers (person) WHERE smoked = 'no'",
            "DROP INDEX shop.hidden",
            "index \"hidden\"",
        ),
        (
            "CREATE UNIQUE INDEX hidden ON shop.answers (person, (smoked || 'x'))",
            "DROP INDEX shop.hidden",
            "index \"hidden\"",
        ),
        (
            "ALTER TABLE shop.answers ADD CONSTRAINT hidden UNIQUE (person, smoked) DEFERRABLE",
            "ALTER TABLE shop.answers DROP CONSTRAINT hidden",
            "index \"hidden\"",
        ),
        (
            "ALTER TABLE shop.answers ADD CONSTRAINT hidden EXCLUDE (smoked WITH =)",
            "ALTER TABLE shop.answers DROP CONSTRAINT hidden",
            "index \"hidden\"",
        ),
    ] {
        owner.batch_execute(change).await.unwrap();
        let (is_good, said) = check("writer");
        assert!(!is_good && said.contains(wanted), "{change}: {said}");
        owner.batch_execute(back).await.unwrap();
    }
    // What the database makes itself, pgveil cannot write: here the unit.
    for (change, back) in [
        (
            "ALTER TABLE shop.answers ALTER person ADD GENERATED ALWAYS AS IDENTITY",
            "ALTER TABLE shop.answers ALTER person DROP IDENTITY",
        ),
        (
            "ALTER TABLE shop.answers DROP person, ADD person int NOT NULL GENERATED ALWAYS AS \
                (length(smoked)) STORED",
            "ALTER TABLE shop.answers ALTER person DROP EXPRESSION",
        ),
    ] {
        owner.batch_execute(change).await.unwrap();
        let (is_good, said) = check("writer");
        let wanted = "the database makes its column \"person\" itself";
        assert!(!is_good && said.contains(wanted), "{change}: {said}");
        owner.batch_execute(back).await.unwrap();
    }
    owner
        .batch_execute("CREATE DATABASE elsewhere")
        .await
        .unwrap();
    let elsewhere = url("writer").replace("/nls?", "/elsewhere?");
    let text = POLICY.replace("${SHADOW_URL}", &elsewhere);
    std::fs::write(stage.file("policy.yaml"), text).unwrap();
    let checked = stage.run(&["check", &stage.file("policy.yaml").display().to_string()]);
    let said = String::from_utf8([checked.stdout, checked.stderr].concat()).unwrap();
    assert!(said.contains("is another database than"), "{said}");
    // The start refuses too.
    let (is_good, said) = check("postgres");
    assert!(!is_good && said.contains("is a superuser"), "{said}");
    let mut refused = stage.serve("log", &["--listen", "127.0.0.1:0"]);
    assert!(!refused.0.wait().unwrap().success());
    assert!(
        stage.log("log").contains("database.write_url"),
        "{}",
        stage.log("log")
    );
}

/// The ledger has a mark of the secret, and not the secret. Another secret is refused, at the start
/// and at a reload, until the operator asks for it.
#[tokio::test(flavor = "multi_thread")]
async fn another_secret_is_noticed() {
    let stage = Stage::new().await;
    let (owner, connection) = stage.server.config().connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    owner.batch_execute(TABLES).await.unwrap();
    owner.batch_execute(GRANT).await.unwrap();
    let host = stage.server.directory().display();
    let url = format!("postgresql://writer@/nls?host={host}");
    let secrets = ["a".repeat(40), "b".repeat(40)];
    let with = |secret: &str| {
        let text = POLICY
            .replace("${SHADOW_URL}", &url)
            .replace("{memo: false}", &format!("{{secret: {secret}}}"));
        std::fs::write(stage.file("policy.yaml"), text).unwrap();
    };
    let listen: &[&str] = &["--listen", "127.0.0.1:0"];
    let new: &[&str] = &["--listen", "127.0.0.1:0", "--new-secret"];
    for (secret, arguments, is_taken) in [
        (&secrets[0], listen, true),
        (&secrets[0], listen, true),
        (&secrets[1], listen, false),
        (&secrets[1], new, true),
        (&secrets[1], listen, true),
        (&secrets[0], listen, false),
    ] {
        with(secret);
        let mut running = stage.serve("log", arguments);
        if is_taken {
            assert_eq!(stage.reported(), "READY=1", "{}", stage.log("log"));
            running.signal("-TERM");
            assert_eq!(stage.reported(), "STOPPING=1");
        }
        assert_eq!(
            running.0.wait().unwrap().success(),
            is_taken,
            "{}",
            stage.log("log")
        );
        let log = stage.log("log");
        assert_eq!(
            log.contains("is not the one with which reports were made"),
            !is_taken
        );
        assert!(!log.contains(secret.as_str()));
    }
    let ledger = std::fs::read(stage.file("ledger.db")).unwrap();
    let has = |part: &[u8]| ledger.windows(part.len()).any(|window| window == part);
    assert!(has(b"local.secret has the mark "));
    assert!(!has(&secrets[0].as_bytes()[..32]) && !has(&secrets[1].as_bytes()[..32]));
}

/// A column of cohorts that the database makes itself is refused: pgveil must write it.
#[tokio::test(flavor = "multi_thread")]
async fn cohorts_are_written_by_pgveil_alone() {
    let stage = Stage::new().await;
    let (owner, connection) = stage.server.config().connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    let tables = "CREATE TABLE shop.answers (person int NOT NULL, page bit(16), cohort int); \
        CREATE ROLE writer LOGIN; GRANT USAGE ON SCHEMA shop TO writer; GRANT INSERT ON \
        shop.answers TO writer";
    owner.batch_execute(tables).await.unwrap();
    let host = stage.server.directory().display();
    let (head, _) = POLICY.split_once("    columns:").unwrap();
    let text = format!(
        "{head}    columns:\n      cohort: visible\n      page: {{values: [a, b], local: \
            {{mechanism: rappor, bits: 16, hashes: 1, cohorts: 4, f: 1/2, p: 1/2, q: 3/4, cohort: \
            cohort}}}}\n"
    );
    let text = text
        .replace(
            "${SHADOW_URL}",
            &format!("postgresql://writer@/nls?host={host}"),
        )
        .replace("{memo: false}", &format!("{{secret: {}}}", "a".repeat(40)));
    std::fs::write(stage.file("policy.yaml"), text).unwrap();
    let policy = stage.file("policy.yaml").display().to_string();
    let check = || {
        let checked = stage.run(&["check", &policy]);
        let said = [checked.stdout, checked.stderr].concat();
        (checked.status.success(), String::from_utf8(said).unwrap())
    };
    let (is_good, said) = check();
    assert!(is_good, "{said}");
    for change in [
        "ALTER TABLE shop.answers ALTER cohort SET NOT NULL, ALTER cohort ADD GENERATED ALWAYS AS \
            IDENTITY",
        "ALTER TABLE shop.answers DROP cohort, ADD cohort int GENERATED ALWAYS AS (person % 4) \
            STORED",
    ] {
        owner.batch_execute(change).await.unwrap();
        let (is_good, said) = check();
        let wanted = "the database makes its column \"cohort\" itself (GENERATED), which pgveil \
            must write";
        assert!(!is_good && said.contains(wanted), "{change}: {said}");
    }
}

/// `pgveil explain` says exactly how many random words make each report, in the terms of a role
/// that asks; of a question that reads no report, nothing.
#[tokio::test(flavor = "multi_thread")]
async fn explain_has_the_exact_odds() {
    let stage = Stage::new().await;
    let (owner, connection) = stage.server.config().connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    owner.batch_execute(TABLES).await.unwrap();
    owner.batch_execute(GRANT).await.unwrap();
    let host = stage.server.directory().display();
    let analyst = "roles: [{name: analyst, password: \"${VERIFIER}\", budget: {epsilon: 9, delta: \
        1e-7}}, {name: collector";
    let text = POLICY
        .replace(
            "${SHADOW_URL}",
            &format!("postgresql://writer@/nls?host={host}"),
        )
        .replace("roles: [{name: collector", analyst);
    std::fs::write(stage.file("policy.yaml"), text).unwrap();
    let policy = stage.file("policy.yaml").display().to_string();
    let explained = |sql: &str| {
        let made = stage.run(&["explain", "--policy", &policy, "--role", "analyst", sql]);
        String::from_utf8([made.stdout, made.stderr].concat()).unwrap()
    };
    let count = "SELECT count(*) FROM shop.answers";
    let said = explained(&format!("{count} WHERE smoked = 'yes'"));
    // 3/4 and 1/4 of 2^64, less and more by 1e-11 of them.
    let line = "Reports: answers.smoked by coin, made by pgveil; of 2^64 random words, the second \
        value for 13835058055143813120 where it is true and 4611686018473504768 where it is not; \
        epsilon 1.10\n";
    assert!(said.contains(line), "{said}");
    let said = explained(count);
    assert!(
        said.contains("Cost:") && !said.contains("Reports:"),
        "{said}"
    );
}

//! What of a table that roles write could tell of rows that are there, or refuse a report, as
//! `pgveil check` finds it.

use pgveil::catalog;
use tokio_postgres::NoTls;

use super::stage::Stage;
use super::writes::{GRANT, POLICY, TABLES};

/// What could tell a writer of rows that are there, or refuse a report, is named, and the policy
/// refused. The owner may let writers learn the first, never the second.
#[tokio::test(flavor = "multi_thread")]
async fn what_writers_could_learn_is_refused() {
    let stage = Stage::new().await;
    let (owner, connection) = stage.server.config().connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    owner.batch_execute(TABLES).await.unwrap();
    let code = "CREATE FUNCTION shop.seen(int) RETURNS bool LANGUAGE sql STABLE AS 'SELECT NOT \
        EXISTS (SELECT FROM shop.people WHERE id = $1)'; \
        CREATE DOMAIN shop.unseen AS int CHECK (shop.seen(VALUE)); \
        CREATE TYPE shop.pair AS (a int, b shop.unseen); \
        CREATE TYPE shop.answer_sort AS ENUM ('a'); \
        CREATE FUNCTION shop.sort_of(text) RETURNS shop.answer_sort LANGUAGE sql STABLE AS 'SELECT \
        ''a''::shop.answer_sort FROM shop.people LIMIT 1'; \
        CREATE FUNCTION shop.order_of(int, int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT \
        btint4cmp($1, $2)'; \
        CREATE OPERATOR CLASS shop.ordered FOR TYPE int USING btree AS OPERATOR 1 <, \
        OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, \
        FUNCTION 1 shop.order_of(int, int); \
        CREATE TYPE shop.two AS (a int, b int); \
        CREATE FUNCTION shop.order_of(shop.two, shop.two) RETURNS int LANGUAGE sql IMMUTABLE AS \
        'SELECT 0'; \
        CREATE OPERATOR CLASS shop.ordered_two DEFAULT FOR TYPE shop.two USING btree AS \
        FUNCTION 1 shop.order_of(shop.two, shop.two); \
        CREATE FUNCTION shop.looks() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'";
    owner.batch_execute(code).await.unwrap();
    owner.batch_execute(GRANT).await.unwrap();
    let host = stage.server.directory().display();
    let refused = POLICY.replace(
        "${SHADOW_URL}",
        &format!("postgresql://writer@/nls?host={host}"),
    ) + "  shop.kinds: public\n";
    let shown = refused.replace(
        "    unit: person\n",
        "    unit: person\n    constraints: shown\n",
    );
    let check = |policy: &str| {
        std::fs::write(stage.file("policy.yaml"), policy).unwrap();
        let checked = stage.run(&["check", &stage.file("policy.yaml").display().to_string()]);
        let said = [checked.stdout, checked.stderr].concat();
        (checked.status.success(), String::from_utf8(said).unwrap())
    };
    let (is_good, said) = check(&refused);
    assert!(is_good, "{said}");
    let table = "ALTER TABLE shop.answers";
    for (change, back, wanted) in [
        (
            "GRANT INSERT (row) ON shop.answers TO writer",
            "REVOKE INSERT (row) ON shop.answers FROM writer",
            "could learn from the unique index \"answers_pkey\" which rows are there, free",
        ),
        (
            "ALTER TABLE shop.answers ALTER row SET DEFAULT 1",
            "ALTER TABLE shop.answers ALTER row SET DEFAULT nextval('shop.answers_row_seq')",
            "the unique index \"answers_pkey\"",
        ),
        (
            "ALTER TABLE shop.answers ADD CONSTRAINT once UNIQUE (person)",
            "ALTER TABLE shop.answers DROP CONSTRAINT once",
            "the unique index \"once\"",
        ),
        (
            "ALTER TABLE shop.answers ADD CONSTRAINT apart EXCLUDE USING btree (person WITH =)",
            "ALTER TABLE shop.answers DROP CONSTRAINT apart",
            "the exclusion constraint \"apart\"",
        ),
        (
            "ALTER TABLE shop.answers ADD CONSTRAINT known FOREIGN KEY (person) REFERENCES \
                shop.people",
            "ALTER TABLE shop.answers DROP CONSTRAINT known",
            "the foreign key \"known\" to shop.people",
        ),
        (
            "CREATE TRIGGER looks BEFORE INSERT ON shop.answers FOR EACH ROW EXECUTE FUNCTION \
                shop.looks()",
            "DROP TRIGGER looks ON shop.answers",
            "the trigger \"looks\"",
        ),
        (
            "ALTER SEQUENCE shop.answers_row_seq MAXVALUE 9 CYCLE",
            "ALTER SEQUENCE shop.answers_row_seq NO MAXVALUE NO CYCLE",
            "the unique index \"answers_pkey\"",
        ),
        (
            "ALTER TABLE shop.answers ADD number int GENERATED ALWAYS AS IDENTITY (CYCLE) \
                CONSTRAINT numbered UNIQUE",
            "ALTER TABLE shop.answers DROP number",
            "the unique index \"numbered\"",
        ),
        (
            "ALTER TABLE shop.answers ADD several shop.unseen[]",
            "ALTER TABLE shop.answers DROP several",
            "the constraint unseen_check, which calls a function of the database",
        ),
        (
            "ALTER TABLE shop.answers ADD both_of shop.pair",
            "ALTER TABLE shop.answers DROP both_of",
            "the constraint unseen_check, which calls a function of the database",
        ),
        (
            "ALTER TABLE shop.answers ADD kind shop.answer_sort; CREATE CAST (text AS \
                shop.answer_sort) WITH FUNCTION shop.sort_of(text) AS ASSIGNMENT",
            "DROP CAST (text AS shop.answer_sort); ALTER TABLE shop.answers DROP kind",
            "the cast from text to shop.answer_sort, which calls a function of the database",
        ),
        (
            "ALTER TABLE shop.answers ADD CONSTRAINT seen CHECK (shop.seen(person))",
            "ALTER TABLE shop.answers DROP CONSTRAINT seen",
            "the constraint seen on table shop.answers, which calls a function of the database",
        ),
        (
            "CREATE INDEX by_order ON shop.answers (person shop.ordered)",
            "DROP INDEX shop.by_order",
            "the index shop.by_order, which calls a function of the database",
        ),
        (
            "ALTER TABLE shop.answers ADD several shop.two[]",
            "ALTER TABLE shop.answers DROP several",
            "the operator class shop.ordered_two for access method btree, which calls a function",
        ),
        (
            "ALTER TABLE shop.answers ADD unseen bool DEFAULT shop.seen(1)",
            "ALTER TABLE shop.answers DROP unseen",
            "column unseen of table shop.answers, which calls a function of the database",
        ),
    ] {
        owner.batch_execute(change).await.unwrap();
        let (is_good, said) = check(&refused);
        assert!(!is_good && said.contains(wanted), "{change}: {said}");
        assert!(said.contains("`constraints: shown` of the table"), "{said}");
        let (is_good, said) = check(&shown);
        assert!(is_good, "{change}: {said}");
        owner.batch_execute(back).await.unwrap();
    }
    // What is public, and what sees nothing but the row itself, tells nothing.
    for harmless in [
        "ADD kind text REFERENCES shop.kinds",
        "ADD CHECK (person > 0)",
        "ADD UNIQUE (person, row)",
        "ADD other uuid DEFAULT gen_random_uuid() UNIQUE",
        "ADD number int GENERATED ALWAYS AS IDENTITY UNIQUE",
    ] {
        owner
            .batch_execute(&format!("{table} {harmless}"))
            .await
            .unwrap();
        let (is_good, said) = check(&refused);
        assert!(is_good, "{harmless}: {said}");
    }
    // A report that is refused would be written once more, whatever the owner says.
    let domain = "CREATE DOMAIN shop.answer AS text CHECK (VALUE <> 'maybe')";
    owner.batch_execute(domain).await.unwrap();
    for (change, back, wanted) in [
        (
            "ADD CONSTRAINT listed CHECK (smoked IN ('no', 'yes'))",
            "DROP CONSTRAINT listed",
            "its CHECK constraint \"listed\"",
        ),
        (
            "ADD CONSTRAINT whole CHECK (answers IS NOT NULL)",
            "DROP CONSTRAINT whole",
            "its CHECK constraint \"whole\"",
        ),
        (
            "ALTER smoked TYPE shop.answer",
            "ALTER smoked TYPE text",
            "its CHECK constraint \"answer_check\"",
        ),
    ] {
        owner
            .batch_execute(&format!("{table} {change}"))
            .await
            .unwrap();
        for policy in [&refused, &shown] {
            let (is_good, said) = check(policy);
            assert!(!is_good && said.contains(wanted), "{change}: {said}");
        }
        owner
            .batch_execute(&format!("{table} {back}"))
            .await
            .unwrap();
    }
    let (is_good, said) = check(&refused);
    assert!(is_good, "{said}");
}

/// Row security, rules and inheritance, which other checks of the policy refuse too: what an INSERT
/// of this login meets is named, and nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn what_an_insert_never_meets_is_not_named() {
    let stage = Stage::new().await;
    let mut config = stage.server.config();
    let (owner, connection) = config.connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    owner.batch_execute(TABLES).await.unwrap();
    owner.batch_execute(GRANT).await.unwrap();
    let more = "ALTER TABLE shop.answers ADD selected bool; CREATE ROLE nobody_here NOLOGIN";
    owner.batch_execute(more).await.unwrap();
    let (writer, connection) = config.user("writer").connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    let oid = "SELECT 'shop.answers'::regclass::oid";
    let oid: u32 = owner.query_one(oid, &[]).await.unwrap().get(0);
    let known = "CREATE POLICY known ON shop.answers FOR INSERT WITH CHECK (EXISTS (SELECT FROM \
        shop.people WHERE id = person) AND smoked <> 'maybe')";
    let others = known.replace("INSERT WITH", "INSERT TO nobody_here WITH");
    let row_security = |of: &str| format!("ALTER TABLE shop.answers {of} ROW LEVEL SECURITY");
    let (shown, refusing) = (
        "the row security policy \"known\"",
        "row security policy \"known\"",
    );
    for (change, wanted) in [
        (known.to_owned(), ["", ""]),
        (row_security("ENABLE"), [shown, refusing]),
        (
            format!("DROP POLICY known ON shop.answers; {others}"),
            ["", ""],
        ),
        (
            "CREATE POLICY own ON shop.answers FOR INSERT WITH CHECK (selected)".to_owned(),
            ["", ""],
        ),
        (
            "CREATE POLICY reads ON shop.answers FOR SELECT USING (smoked = 'no')".to_owned(),
            ["", ""],
        ),
        (
            "CREATE POLICY whole ON shop.answers USING (answers IS NOT NULL)".to_owned(),
            ["", "row security policy \"whole\""],
        ),
        (row_security("DISABLE"), ["", ""]),
        (
            "CREATE RULE also AS ON INSERT TO shop.answers DO ALSO NOTIFY written".to_owned(),
            ["the rule \"also\"", ""],
        ),
        (
            "ALTER TABLE shop.answers DISABLE RULE also".to_owned(),
            ["", ""],
        ),
        (
            "CREATE TABLE shop.heir (UNIQUE (person), CHECK (smoked <> 'maybe')) INHERITS \
                (shop.answers)"
                .to_owned(),
            ["", ""],
        ),
    ] {
        owner.batch_execute(&change).await.unwrap();
        let local = ["smoked".to_owned()];
        let shown = catalog::what_inserts_show(&writer, oid, &[]).await;
        let refusing = catalog::checks_that_refuse(&writer, oid, &local).await;
        let found = [shown.unwrap().join(", "), refusing.unwrap().join(", ")];
        assert_eq!(found, wanted, "{change}");
        let indexes = catalog::indexes_that_refuse(&writer, oid, &["person".to_owned()]).await;
        assert!(indexes.unwrap().is_empty(), "{change}");
    }
}

/// Bounds of partitions over a column with `local` would refuse some reports, in the table itself
/// and in those above it.
#[tokio::test(flavor = "multi_thread")]
async fn partitions_by_reports_are_refused() {
    let stage = Stage::new().await;
    let (owner, connection) = stage.server.config().connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    let role = "CREATE ROLE writer LOGIN; GRANT USAGE ON SCHEMA shop TO writer";
    owner.batch_execute(role).await.unwrap();
    let host = stage.server.directory().display();
    let text = POLICY.replace(
        "${SHADOW_URL}",
        &format!("postgresql://writer@/nls?host={host}"),
    );
    std::fs::write(stage.file("policy.yaml"), text).unwrap();
    let columns = "(person int NOT NULL, smoked text NOT NULL, day date)";
    let part = "CREATE TABLE shop.answers PARTITION OF shop.top DEFAULT";
    for (tables, wanted) in [
        (
            format!("CREATE TABLE shop.answers {columns} PARTITION BY LIST (smoked)"),
            "its key of partitions of shop.answers",
        ),
        (
            format!("CREATE TABLE shop.answers {columns} PARTITION BY HASH (upper(smoked))"),
            "its key of partitions of shop.answers",
        ),
        (
            format!("CREATE TABLE shop.top {columns} PARTITION BY LIST (smoked); {part}"),
            "its key of partitions of shop.top",
        ),
        (
            format!("CREATE TABLE shop.top {columns} PARTITION BY RANGE (person, day); {part}"),
            "",
        ),
    ] {
        let made = format!(
            "DROP TABLE IF EXISTS shop.answers, shop.top; {tables}; GRANT INSERT (person, smoked) \
                ON shop.answers TO writer"
        );
        owner.batch_execute(&made).await.unwrap();
        let checked = stage.run(&["check", &stage.file("policy.yaml").display().to_string()]);
        let said = String::from_utf8([checked.stdout, checked.stderr].concat()).unwrap();
        assert_eq!(
            checked.status.success(),
            wanted.is_empty(),
            "{tables}: {said}"
        );
        assert!(said.contains(wanted), "{tables}: {said}");
    }
}

//! Columns that identify a row by the owner's word: joins on them are answered, and pair no two
//! units, whatever the word is worth.

use crate::fixture::{Veil, without_units};

/// Every key begins with the customer, as in tables that are distributed by it. Orders are
/// partitioned too, so that no key of `Id` alone is possible.
const SCHEMA: &str = r#"
CREATE SCHEMA "Shop";
CREATE TYPE "Shop".state AS ENUM ('open', 'paid', 'sent');
CREATE TABLE "Shop".customer (id int PRIMARY KEY, segment char(8) NOT NULL);
CREATE TABLE "Shop"."Order" (customer int NOT NULL REFERENCES "Shop".customer,
    "Id" bigint NOT NULL, state "Shop".state NOT NULL,
    PRIMARY KEY (customer, "Id")) PARTITION BY HASH (customer);
CREATE TABLE "Shop".order_0 PARTITION OF "Shop"."Order" FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE "Shop".order_1 PARTITION OF "Shop"."Order" FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE "Shop".line (customer int NOT NULL REFERENCES "Shop".customer,
    order_id bigint NOT NULL, number int NOT NULL, amount numeric(8, 2) NOT NULL,
    loose bigint NOT NULL,
    PRIMARY KEY (customer, order_id, number),
    FOREIGN KEY (customer, order_id) REFERENCES "Shop"."Order" (customer, "Id"));
INSERT INTO "Shop".customer
    SELECT n, (ARRAY['home', 'trade'])[1 + n % 2] FROM generate_series(1, 200) n;
INSERT INTO "Shop"."Order" SELECT 1 + n * 7 % 200, n,
    (ARRAY['open', 'paid', 'sent'])[1 + n % 3]::"Shop".state FROM generate_series(1, 600) n;
INSERT INTO "Shop".line SELECT 1 + o * 7 % 200, o, n, (o * n) % 50 + 0.25, o
    FROM generate_series(1, 600) o, generate_series(1, 4) n WHERE n <= 1 + o % 4;
"#;

const TABLES: &str = r#"  Shop.customer:
    unit: id
    columns: {segment: {values: [home, trade], complete: true}}
  Shop.Order:
    unit: {path: [customer -> Shop.customer.id]}
    rows_per_unit: 20
    unique: [Id]
    columns: {Id: visible, state: {values: [open, paid, sent]}}
  Shop.line:
    unit: {path: [customer -> Shop.customer.id]}
    rows_per_unit: 80
    columns: {order_id: visible, loose: visible, amount: {bounds: [0, 100]}}
"#;

async fn refusal(veil: &Veil, sql: &str) -> String {
    let refused = veil.ask_as(&Veil::requester(), sql).await;
    refused.map_or_else(
        |error| error.report().message,
        |_| panic!("answered: {sql}"),
    )
}

async fn shop(schema: &str, tables: &str) -> Veil {
    let policy = without_units(&std::fs::read_to_string("policies/demo.yaml").unwrap());
    let (head, _) = policy.split_once("\ntables:").unwrap();
    let limits = "limits: {groups_per_unit: 100, rows_per_unit: 100, groups: 10000, failures: 10, \
        statement_timeout: 60s, connections: 4}\n";
    let yaml = super::outer_query::rich(format!("{head}\ntables:\n{tables}{limits}"));
    let made = async |client: &tokio_postgres::Client| client.batch_execute(schema).await.unwrap();
    Veil::over(made, &yaml, Veil::silent()).await
}

const QUESTIONS: [&str; 7] = [
    r#"SELECT count(*), sum(l.amount) FROM "Shop"."Order" o JOIN "Shop".line l
        ON l.order_id = o."Id" WHERE o.state = 'paid'"#,
    r#"SELECT o.state, count(*) FROM "Shop"."Order" o LEFT JOIN "Shop".line l
        ON o."Id" = l.order_id AND l.amount > 20 GROUP BY o.state ORDER BY o.state"#,
    r#"SELECT count(*) FROM "Shop"."Order" o
        WHERE EXISTS (SELECT FROM "Shop".line l WHERE l.order_id = o."Id" AND l.amount > 30)"#,
    r#"SELECT count(*) FROM "Shop"."Order"
        WHERE "Id" NOT IN (SELECT order_id FROM "Shop".line WHERE amount > 10)"#,
    r#"SELECT c.segment, sum(l.amount) FROM "Shop".customer c, "Shop"."Order" o, "Shop".line l
        WHERE c.id = o.customer AND l.order_id = o."Id" GROUP BY c.segment ORDER BY c.segment"#,
    // Two rows that refer to one order.
    r#"SELECT count(*) FROM "Shop".line a WHERE EXISTS (SELECT FROM "Shop".line b
        WHERE b.order_id = a.order_id AND b.amount > a.amount)"#,
    r#"SELECT count(*) FROM (SELECT l.order_id, l.customer, sum(l.amount) AS of_order
        FROM "Shop".line l GROUP BY l.order_id, l.customer) s
        JOIN "Shop"."Order" o ON o."Id" = s.order_id WHERE s.of_order > 60 AND o.state <> 'sent'"#,
];

#[tokio::test(flavor = "multi_thread")]
async fn joins_on_what_is_claimed_are_answered() {
    let veil = shop(SCHEMA, TABLES).await;
    for sql in QUESTIONS {
        veil.answers_as_postgresql(&Veil::requester(), &[sql]).await;
    }
}

/// Nothing but the claim, the foreign key and the types makes two rows meet.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_else_ties_two_rows() {
    let unclaimed = TABLES.replace("    unique: [Id]\n", "");
    let veil = shop(SCHEMA, &unclaimed).await;
    let words = "must equate the woman they belong to";
    for sql in &QUESTIONS[..3] {
        let refused = refusal(&veil, sql).await;
        assert!(
            refused.contains(words) || refused.contains("must equate its woman"),
            "{sql}: {refused}"
        );
    }
    // A column that is no foreign key to what is claimed.
    let veil = shop(SCHEMA, TABLES).await;
    let loose = r#"SELECT count(*) FROM "Shop"."Order" o JOIN "Shop".line l ON l.loose = o."Id""#;
    let refused = refusal(&veil, loose).await;
    assert!(refused.contains(words), "{refused}");
    let both = format!("{loose} AND l.customer = o.customer");
    veil.answers_as_postgresql(&Veil::requester(), &[&both])
        .await;
}

/// Two customers have an order of the same number: the claim is wrong. Their rows do not meet.
#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_claim_costs_rows_and_pairs_no_two_units() {
    let shared = r#"
        INSERT INTO "Shop"."Order" VALUES (1, 9000, 'paid'), (2, 9000, 'paid');
        INSERT INTO "Shop".line
            VALUES (1, 9000, 1, 7, 0), (2, 9000, 1, 9, 0), (2, 9000, 2, 9, 0);"#;
    let veil = shop(&format!("{SCHEMA}{shared}"), TABLES).await;
    // PostgreSQL pairs each of two orders with each of three lines.
    for (sql, own, exact) in [
        (
            r#"SELECT count(*) FROM "Shop"."Order" o JOIN "Shop".line l ON l.order_id = o."Id"
                WHERE o."Id" = 9000"#,
            "3",
            "6",
        ),
        (
            r#"SELECT count(*), count(l.amount) FROM "Shop"."Order" o LEFT JOIN "Shop".line l
                ON l.order_id = o."Id" AND l.amount > 8 WHERE o."Id" = 9000"#,
            "3|2",
            "4|4",
        ),
        (
            r#"SELECT count(*) FROM "Shop"."Order" o WHERE o."Id" = 9000 AND EXISTS
                (SELECT FROM "Shop".line l WHERE l.order_id = o."Id" AND l.amount > 8)"#,
            "1",
            "2",
        ),
        (
            r#"SELECT count(*) FROM "Shop"."Order" WHERE "Id" = 9000 AND "Id" NOT IN
                (SELECT order_id FROM "Shop".line WHERE amount > 8)"#,
            "1",
            "0",
        ),
        (
            r#"SELECT count(*) FROM "Shop"."Order" o JOIN (SELECT order_id, customer,
                sum(amount) AS of_order FROM "Shop".line GROUP BY order_id, customer) s
                ON s.order_id = o."Id" WHERE o."Id" = 9000"#,
            "2",
            "4",
        ),
    ] {
        let answered = veil.rows_as(&Veil::requester(), sql).await;
        assert_eq!(answered.unwrap(), [own], "{sql}");
        assert_eq!(veil.direct(sql).await, [exact], "{sql}");
    }
}

/// A row that has NULL in its foreign key refers to nothing, so that its order may be another's.
#[tokio::test(flavor = "multi_thread")]
async fn keys_that_may_refer_to_nothing_tie_no_rows() {
    let deals = r#"
        CREATE TABLE "Shop".deal (tenant int, customer int REFERENCES "Shop".customer, id bigint,
            PRIMARY KEY (tenant, customer, id));
        CREATE TABLE "Shop".note (tenant int, customer int NOT NULL REFERENCES "Shop".customer,
            deal bigint NOT NULL,
            FOREIGN KEY (tenant, customer, deal) REFERENCES "Shop".deal (tenant, customer, id));
        CREATE TABLE "Shop".remark (tenant int NOT NULL,
            customer int NOT NULL REFERENCES "Shop".customer, deal bigint,
            FOREIGN KEY (tenant, customer, deal) REFERENCES "Shop".deal (tenant, customer, id));
        INSERT INTO "Shop".deal SELECT 1, g, g FROM generate_series(1, 90) g;
        INSERT INTO "Shop".note VALUES (NULL, 5, 7), (1, 8, 8);
        INSERT INTO "Shop".remark VALUES (1, 8, 8), (1, 9, NULL);"#;
    let path = "unit: {path: [customer -> Shop.customer.id]}, rows_per_unit: 5";
    let tables = format!(
        "{TABLES}  Shop.deal: {{{path}, unique: [id], columns: {{id: visible}}}}\n  \
            Shop.note: {{{path}, columns: {{deal: visible}}}}\n  \
            Shop.remark: {{{path}, columns: {{deal: visible}}}}\n"
    );
    let veil = shop(&format!("{SCHEMA}{deals}"), &tables).await;
    let of = |table: &str| {
        format!(
            r#"SELECT count(*) FROM "Shop".deal d WHERE NOT EXISTS
                (SELECT FROM "Shop".{table} n WHERE n.deal = d.id)"#
        )
    };
    let refused = refusal(&veil, &of("note")).await;
    assert!(refused.contains("must equate its woman"), "{refused}");
    let remarks = of("remark");
    veil.answers_as_postgresql(&Veil::requester(), &[&remarks])
        .await;
    // Keys to the partitions of orders, which PostgreSQL keeps inside, are none of a line's.
    let catalog = pgveil::catalog::load(&veil.client).await.unwrap();
    let keys = &catalog.table("Shop", "line").unwrap().foreign_keys;
    let to: Vec<&str> = keys.iter().map(|key| key.table.as_str()).collect();
    assert_eq!(to, ["customer", "Order"]);
}

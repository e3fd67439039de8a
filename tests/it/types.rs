//! Columns of enums, domains, jsonb, arrays and times of the day, from the socket's side: without noise PostgreSQL's own rows.

use crate::veil::Veil;

const SCHEMA: &str = "
    CREATE SCHEMA shop; CREATE TYPE shop.\"State of it\" AS ENUM ('paid', 'open', 'it''s \"odd\"'); CREATE DOMAIN shop.city AS text CHECK (value <> '');
    CREATE DOMAIN shop.price AS numeric(10,2) CHECK (value >= 0);
    CREATE TABLE shop.buyers (id int PRIMARY KEY);
    CREATE TABLE shop.orders (id int PRIMARY KEY, buyer int NOT NULL REFERENCES shop.buyers, state shop.\"State of it\", city shop.city, price shop.price, data jsonb,
        tags text[], at time NOT NULL);
    INSERT INTO shop.buyers SELECT generate_series(1, 400);
    INSERT INTO shop.orders SELECT g, g, (enum_range(NULL::shop.\"State of it\"))[1 + g % 2], (ARRAY['Lyon', 'Lima'])[1 + g % 2], g % 50,
        jsonb_build_object('shop', 's' || g % 3, 'lines', jsonb_build_array(g, g % 5)), ARRAY['t' || g % 4, 'all'], time '08:00' + g % 10 * interval '1 hour'
    FROM generate_series(1, 400) g";
const POLICY: &str = "\
version: 1
database:
  url: ${DATABASE_URL}
ledger:
  url: ${PGVEIL_LEDGER}
privacy: {unit: buyer, budget: {epsilon: 90000, delta: 1e-3}, per_query: {epsilon: 8, max_epsilon: 8}}
roles: [{name: analyst, password: \"SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=\", budget: {epsilon: 90000, delta: 1e-3}}]
tables:
  shop.buyers: {unit: id}
  shop.orders: {unit: {path: [buyer -> shop.buyers.id]}, rows_per_unit: 1, other_columns: visible, columns: {price: {bounds: [0, 100]}}}
";

#[tokio::test(flavor = "multi_thread")]
async fn columns_of_other_types_are_answered() {
    let fill = async |client: &tokio_postgres::Client| client.batch_execute(SCHEMA).await.unwrap();
    let veil = Veil::over(fill, POLICY, Veil::silent()).await;
    let questions = [
        "SELECT state, count(*), avg(price) FROM shop.orders GROUP BY state HAVING count(*) > 0 ORDER BY state",
        "SELECT state::text || '!', count(*) FROM shop.orders WHERE state IN ('open', 'it''s \"odd\"') GROUP BY 1 HAVING count(*) > 0",
        "SELECT city, sum(price), round(avg(price * 2), 4) FROM shop.orders WHERE city <> 'x' GROUP BY city ORDER BY city",
        "SELECT city, state, count(*) FROM shop.orders WHERE state = 'paid' GROUP BY GROUPING SETS ((city), (city, state)) HAVING count(*) > 0 ORDER BY 1, 2",
        "SELECT data ->> 'shop' AS s, count(*) FROM shop.orders GROUP BY 1 ORDER BY 1",
        "SELECT sum(greatest(least((data -> 'lines' ->> 1)::int, 10), 0)) FROM shop.orders WHERE data ->> 'shop' = 's1'",
        "SELECT count(*), count(*) FILTER (WHERE 't1' = ANY (tags)), avg(cardinality(tags)) FROM shop.orders",
        "SELECT tags[1], count(*) FROM shop.orders GROUP BY 1 ORDER BY 1",
        "SELECT at, count(*) FROM shop.orders WHERE at BETWEEN '09:00' AND '16:30' GROUP BY at ORDER BY at",
        "SELECT extract(hour FROM at) AS h, count(*) FROM shop.orders GROUP BY 1 HAVING count(*) > 0 ORDER BY 1",
        "SELECT state, n, count(*) FROM (SELECT buyer, state, count(*) AS n FROM shop.orders GROUP BY buyer, state) q GROUP BY 1, 2 HAVING count(*) > 0 ORDER BY 1, 2",
        "SELECT count(DISTINCT state), count(DISTINCT city), mode() WITHIN GROUP (ORDER BY state) FROM shop.orders WHERE state = 'paid'",
        "SELECT count(*) FROM shop.orders WHERE state IN (SELECT state FROM shop.orders GROUP BY state HAVING count(*) > 100)",
        "SELECT max(price), count(city) FROM shop.orders WHERE price BETWEEN SYMMETRIC 30 AND 30",
    ];
    veil.answers_as_postgresql(&Veil::asker(), &questions).await;
    for sql in ["SELECT count(*) FROM shop.orders WHERE state = 'lost'", "SELECT count(*) FROM shop.orders WHERE at > 'noon'"] {
        let error = veil.ask(sql).await.err().unwrap_or_else(|| panic!("{sql} was answered")).report();
        assert!(["22P02", "22007"].contains(&error.sqlstate.as_str()), "{sql}: {error:?}");
    }
}

-- Names and types of the statements that business tools send; the rows are made up.
CREATE SCHEMA sales;
CREATE TABLE sales.customers (id int PRIMARY KEY, name text NOT NULL, country text NOT NULL);
CREATE TABLE sales.orders (
    id int PRIMARY KEY, customer_id int NOT NULL REFERENCES sales.customers, region text NOT NULL, status text NOT NULL, total numeric(10, 2) NOT NULL,
    discount double precision NOT NULL, order_date timestamp NOT NULL
);
CREATE TABLE sales.order_items (id int PRIMARY KEY, order_id int NOT NULL REFERENCES sales.orders, product text NOT NULL, quantity int NOT NULL);
INSERT INTO sales.customers SELECT i, 'customer ' || i, (ARRAY['DE', 'FR', 'JP', 'US'])[1 + i % 4] FROM generate_series(1, 800) i;
INSERT INTO sales.orders
SELECT i, 1 + i * 7 % 800, (ARRAY['EU', 'US', 'APAC'])[1 + i % 3], (ARRAY['paid', 'open', 'returned'])[1 + i * 5 % 7 % 3], (i * 37 % 1000) + 0.25,
    (i % 10) / 16.0, timestamp '2023-01-01' + i * interval '7 hours'
FROM generate_series(1, 2400) i;
INSERT INTO sales.order_items SELECT i, 1 + i * 11 % 2400, 'product ' || i % 20, i % 11 FROM generate_series(1, 4800) i;
ANALYZE;

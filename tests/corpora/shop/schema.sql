-- Names and types of the probe statements; the rows are made up.
CREATE SCHEMA shop;
CREATE TABLE shop.cities (city text PRIMARY KEY, region text NOT NULL, population int NOT NULL);
CREATE TABLE shop.users (
    id int PRIMARY KEY, name text NOT NULL, city text NOT NULL, age int, income double precision NOT NULL, signup date NOT NULL
);
CREATE TABLE shop.orders (
    id int PRIMARY KEY, user_id int NOT NULL REFERENCES shop.users, amount double precision NOT NULL, status text NOT NULL, created_at timestamp NOT NULL
);
CREATE TABLE shop.items (
    id int PRIMARY KEY, order_id int NOT NULL REFERENCES shop.orders, product text NOT NULL, quantity int NOT NULL, price double precision NOT NULL
);
INSERT INTO shop.cities VALUES
    ('Paris', 'Europe', 2100000), ('Lyon', 'Europe', 520000), ('Berlin', 'Europe', 3600000), ('Lima', 'Americas', 10000000),
    ('Osaka', 'Asia', 2700000), ('Austin', 'Americas', 960000);
INSERT INTO shop.users
SELECT i, 'user ' || i, (ARRAY['Paris', 'Lyon', 'Berlin', 'Lima', 'Osaka'])[1 + i % 5], CASE WHEN i % 20 > 0 THEN 18 + i * 7 % 73 END,
    (i * 37 % 600) * 250, date '2018-01-01' + i * 13 % 2500
FROM generate_series(1, 1000) i;
INSERT INTO shop.orders
SELECT i, 1 + i * 11 % 940, (i * 29 % 1000) / 2.0, (ARRAY['paid', 'shipped', 'returned', 'cancelled'])[1 + i * 3 % 4],
    timestamp '2020-01-01' + i * interval '13 hours 7 minutes'
FROM generate_series(1, 3000) i;
INSERT INTO shop.items SELECT i, 1 + i * 7 % 3000, 'product ' || i % 30, i % 11, (i * 17 % 400) / 4.0 FROM generate_series(1, 6000) i;
ANALYZE;

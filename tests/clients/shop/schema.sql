-- Tables in a schema of their own: names of mixed case, char(n), an enum, no foreign keys, ten
-- orders a customer.
CREATE SCHEMA shop;
CREATE TYPE shop.status AS ENUM ('open', 'paid', 'sent');
CREATE TABLE shop."Customers" (
    "Id" integer PRIMARY KEY,
    "Country" character(2) NOT NULL,
    "Name" text
);
CREATE TABLE shop.countries (
    code character(2) PRIMARY KEY,
    title character varying(40) NOT NULL
);
CREATE TABLE shop.orders (
    id bigint PRIMARY KEY,
    customer integer NOT NULL,
    country character(2) NOT NULL,
    state shop.status NOT NULL,
    placed date NOT NULL,
    shipped timestamp with time zone,
    price numeric(10,2) NOT NULL
);
INSERT INTO shop.countries
    SELECT code, 'The country ' || code
    FROM unnest(string_to_array('AT BE CH DE DK ES FI FR IT NL', ' ')) code;
INSERT INTO shop."Customers"
    SELECT g, (ARRAY['DE', 'FR', 'IT'])[1 + g % 3], 'name ' || g FROM generate_series(1, 2000) g;
INSERT INTO shop.orders
    SELECT g, 1 + g % 2000, (ARRAY['DE', 'FR', 'IT'])[1 + (1 + g % 2000) % 3],
        (enum_range(NULL::shop.status))[1 + g / 2000 % 3], date '2024-01-01' + (g % 360)::int,
        CASE WHEN g % 4 > 0 THEN timestamptz '2024-01-02 10:00+00' + g % 360 * interval '1 day' END,
        g % 100
    FROM generate_series(0, 19999) g;
ANALYZE shop."Customers", shop.countries, shop.orders;
ALTER DATABASE nls SET search_path = shop;

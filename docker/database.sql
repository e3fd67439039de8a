-- Runs once, when the database's volume is new: the demo data, and a role for the proxy that can
-- read them and nothing else.
\set ON_ERROR_STOP on
\getenv password PGVEIL_DATABASE_PASSWORD
\cd /demo
\i schema.sql
CREATE ROLE pgveil LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE PASSWORD :'password';
REVOKE CREATE ON SCHEMA public FROM PUBLIC;
GRANT USAGE ON SCHEMA nls TO pgveil;
GRANT SELECT ON ALL TABLES IN SCHEMA nls TO pgveil;

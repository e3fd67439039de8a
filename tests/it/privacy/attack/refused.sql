-- rows of a private table
SELECT * FROM nls.women
SELECT birth_year FROM nls.women LIMIT 1
SELECT w FROM nls.women w GROUP BY w
SELECT count(w) FROM nls.women w
SELECT count(w.*) FROM nls.women w
SELECT count(ctid) FROM nls.women
SELECT max(xmin::text::int) FROM nls.women
SELECT array_agg(birth_year) FROM nls.women
SELECT string_agg(race, ',') FROM nls.women
SELECT max(race) FROM nls.women
SELECT mode() WITHIN GROUP (ORDER BY woman_id) FROM nls.women
SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY race) FROM nls.women
SELECT json_agg(w) FROM nls.women w
SELECT row_number() OVER () FROM nls.women
SELECT sum(birth_year) OVER (ORDER BY woman_id) FROM nls.women
SELECT count(*) OVER () FROM nls.women
SELECT DISTINCT race, count(*) OVER () FROM nls.women
SELECT DISTINCT ON (race) birth_year FROM nls.women
SELECT first_value(birth_year) OVER () FROM nls.women LIMIT 1
-- hidden behind a name
WITH w AS (SELECT * FROM nls.women), v AS (SELECT * FROM w) SELECT * FROM v
WITH women AS (SELECT * FROM nls.women) SELECT * FROM women
WITH RECURSIVE w AS (SELECT birth_year FROM nls.women) SELECT * FROM w
WITH w AS MATERIALIZED (SELECT birth_year FROM nls.women) SELECT birth_year FROM w
SELECT * FROM (nls.women CROSS JOIN nls.industries) LIMIT 5
SELECT * FROM (nls.women CROSS JOIN nls.industries) AS j
SELECT i.* FROM nls.industries i, nls.women w
SELECT i.industry_code FROM nls.industries i JOIN ((nls.women w CROSS JOIN nls.occupations o)) ON true
SELECT * FROM nls.industries NATURAL JOIN nls.interviews
SELECT * FROM (SELECT * FROM (SELECT * FROM nls.women) a) b
SELECT * FROM (VALUES ((SELECT birth_year FROM nls.women LIMIT 1))) v(x)
VALUES ((SELECT birth_year FROM nls.women LIMIT 1))
TABLE nls.women
SELECT * FROM "nls"."women"
SELECT * FROM ONLY nls.women
SELECT birth_year FROM nls.women TABLESAMPLE SYSTEM (10)
SELECT count(*) FROM nls.women TABLESAMPLE BERNOULLI (10) REPEATABLE (1)
-- in a subquery of any place
SELECT (SELECT birth_year FROM nls.women LIMIT 1)
SELECT EXISTS (SELECT 1 FROM nls.women WHERE woman_id = 1)
SELECT 1 WHERE 1945 IN (SELECT birth_year FROM nls.women)
SELECT 1 WHERE 1945 = ANY (SELECT birth_year FROM nls.women)
SELECT ARRAY(SELECT birth_year FROM nls.women)
SELECT race, count(*) FROM nls.women GROUP BY race LIMIT (SELECT birth_year FROM nls.women LIMIT 1)
SELECT race, count(*) FROM nls.women GROUP BY race OFFSET (SELECT birth_year - 1940 FROM nls.women LIMIT 1)
SELECT race, count(*) FROM nls.women GROUP BY race ORDER BY (SELECT birth_year FROM nls.women LIMIT 1)
SELECT race, count(*) FROM nls.women GROUP BY race HAVING EXISTS (SELECT 1 FROM nls.women WHERE woman_id = 1)
SELECT count(*) FILTER (WHERE birth_year IN (SELECT birth_year FROM nls.women WHERE woman_id = 1)) FROM nls.women
SELECT sum((SELECT max(birth_year) FROM nls.women)) FROM nls.women
SELECT count(*) FROM nls.women w JOIN nls.interviews i ON EXISTS (SELECT 1) AND w.woman_id = i.woman_id
SELECT * FROM generate_series(1, (SELECT birth_year FROM nls.women LIMIT 1)) g
SELECT * FROM unnest(ARRAY[(SELECT birth_year FROM nls.women LIMIT 1)]) g
SELECT g FROM nls.women w, generate_series(1, w.birth_year) g
SELECT count(*) FROM nls.women w, generate_series(1, w.birth_year) g
SELECT count(*) FROM nls.women w, LATERAL (SELECT w.birth_year) q
SELECT (SELECT max(t.birth_year) FROM nls.industries) FROM nls.women t
SELECT count(*), (SELECT max(t.birth_year) FROM nls.industries) FROM nls.women t
SELECT count(*), rank() OVER (ORDER BY (SELECT birth_year FROM nls.women LIMIT 1)) FROM nls.women
SELECT race, sum(count(*)) OVER (ORDER BY race ROWS (SELECT birth_year FROM nls.women LIMIT 1) PRECEDING) FROM nls.women GROUP BY race
-- set operations
SELECT count(*) FROM nls.women UNION ALL SELECT birth_year FROM nls.women
SELECT 1945::smallint INTERSECT SELECT birth_year FROM nls.women
SELECT 1945::smallint EXCEPT SELECT birth_year FROM nls.women
(SELECT birth_year FROM nls.women ORDER BY 1 LIMIT 1) UNION ALL (SELECT 1)
SELECT count(*) FROM (SELECT birth_year FROM nls.women LIMIT 5) q
SELECT count(*) FROM (SELECT birth_year FROM nls.women OFFSET 5) q
SELECT count(*) FROM (SELECT birth_year FROM nls.women FETCH FIRST 5 ROWS ONLY) q
-- units that meet in one row
SELECT count(*) FROM nls.women a, nls.women b
SELECT count(*) FROM nls.women a JOIN nls.women b ON a.woman_id = b.woman_id OR true
SELECT count(*) FROM nls.women a JOIN nls.women b ON NOT a.woman_id <> b.woman_id
SELECT count(*) FROM nls.women a JOIN nls.women b ON a.woman_id::text = b.woman_id::text
SELECT count(*) FROM nls.women a JOIN nls.women b ON a.woman_id = b.woman_id + 0
SELECT count(*) FROM nls.women a JOIN nls.women b ON (a.woman_id = b.woman_id) IS NOT FALSE
SELECT count(*) FROM nls.women a JOIN nls.women b ON a.woman_id = b.woman_id IS NOT NULL
SELECT count(*) FROM nls.women a JOIN nls.women b ON CASE WHEN true THEN a.woman_id = b.woman_id END
SELECT count(*) FROM nls.women a JOIN nls.women b ON a.birth_year = b.birth_year
SELECT count(*) FROM nls.women a LEFT JOIN nls.interviews i ON i.year = 1968 WHERE a.woman_id = i.woman_id
SELECT count(*) FROM nls.women a LEFT JOIN nls.women b ON a.woman_id = b.woman_id JOIN nls.women c ON c.woman_id = b.woman_id
SELECT count(*) FROM nls.women a FULL JOIN nls.women b ON a.woman_id = b.woman_id
SELECT count(*) FROM nls.industries n LEFT JOIN nls.interviews i USING (industry_code)
-- functions that read more than their arguments
SELECT count(*), query_to_xml('select * from nls.women', true, false, '') FROM nls.women
SELECT set_config('search_path', 'nls', false) FROM nls.women
SELECT set_config('role', 'postgres', false)
SELECT current_setting('data_directory')
SELECT current_setting('hba_file', false), version()
SELECT set_config('role', 'postgres', false), current_schema()
SELECT * FROM pg_authid
SELECT * FROM pg_catalog.pg_shadow
SELECT * FROM pg_class c JOIN nls.women w ON true
SELECT count(*), (SELECT reltuples FROM pg_class WHERE relname = 'women') FROM nls.women
SELECT query_to_xml('SELECT 1', true, true, '') FROM pg_class
SELECT pg_terminate_backend(1), current_schema()
SELECT nextval('x') FROM pg_class
SELECT lo_creat(1) FROM pg_namespace
SELECT pg_notify('a', 'b') FROM pg_type
SELECT pg_advisory_lock(1) FROM pg_type
SELECT txid_current(), current_schema()
SELECT format('%1000000000s', relname) FROM pg_class
SELECT pg_read_file('/etc/passwd')
SELECT * FROM pg_stat_statements
SELECT pg_current_wal_lsn(), current_schema()
SELECT pg_current_snapshot(), current_schema()
SELECT cursor_to_xml('c', 1, true, true, '') FROM pg_class
SELECT table_to_xml('nls.women', true, true, '')
SELECT schema_to_xml('nls', true, true, '')
SELECT database_to_xml(true, true, '')
SELECT * FROM ts_stat('SELECT to_tsvector(race) FROM nls.women')
SELECT * FROM crosstab('SELECT woman_id, race, race FROM nls.women') AS c(a int, b text)
SELECT * FROM pg_subscription
SELECT last_value FROM some_sequence
SELECT count(*) FROM nls.women WHERE pg_column_size(race) > 3
SELECT count(*) FROM nls.women WHERE tableoid > 0
SELECT count(*) FROM nls.women WHERE xmax = '0'
SELECT count(*) FROM nls.women WHERE pg_xact_commit_timestamp(xmin) > now()
SELECT count(*) FROM nls.women WHERE current_setting('x.y', true) IS NULL
SELECT count(*) FROM nls.women WHERE women::text LIKE '%white%'
SELECT pg_sleep(1)
SELECT pg_catalog.pg_sleep(1)
SELECT "pg_sleep"(1)
SELECT lo_import('/etc/passwd')
SELECT dblink('host=localhost', 'select 1')
SELECT nextval('x')
SELECT random()
SELECT * FROM pg_ls_dir('.')
SELECT regclass 'nls.women'
SELECT '{nls.women}'::regclass[]
SELECT count(*) FROM nls.women WHERE random() < 0.5
SELECT count(*) FROM nls.women WHERE pg_sleep(birth_year) IS NULL
SELECT count(*) FROM nls.women WHERE race LIKE 'a\'
SELECT count(*) FROM nls.women WHERE race LIKE race
SELECT count(*) FROM nls.women WHERE race ~ '(a*)*b'
SELECT count(*) FROM nls.women WHERE race::json IS NULL
SELECT count(*) FROM nls.women WHERE race::interval IS NULL
SELECT sum(power(birth_year, 100)) FROM nls.women
SELECT sum(woman_id) FROM nls.women
SELECT sum(nextval('s')) FROM nls.women
SELECT count(*) FROM nls.women WHERE pg_advisory_lock(woman_id) IS NULL
SELECT count(*) FROM nls.women WHERE pg_notify('a', race) IS NULL
SELECT count(*) FROM nls.women WHERE lo_create(woman_id) > 0
SELECT count(*) FROM nls.women WHERE set_config('my.flag', race, false) = 'x'
SELECT count(*) FROM nls.women WHERE dblink('host=localhost', race) IS NULL
SELECT count(*) FROM nls.women WHERE my_own_function(woman_id) > 0
SELECT sum(my_own_aggregate(woman_id)) FROM nls.women
SELECT count(*) FROM nls.women WHERE pg_stat_get_live_tuples(woman_id) > 0
SELECT count(*) FROM nls.women WHERE query_to_xml('SELECT ' || race, true, true, '') IS NULL
SELECT count(*) FROM nls.women WHERE txid_current() > 0
SELECT count(*) FROM nls.women WHERE current_setting('data_directory') = 'x'
SELECT count(*) FROM nls.women WHERE inet_server_port() > 0
-- one answer as many overlapping ones
SELECT i.industry_code, (SELECT count(*) FROM nls.women w WHERE w.birth_year < i.industry_code + 1940) FROM nls.industries i
SELECT i.industry_code, (SELECT avg(n.hourly_wage) FROM nls.interviews n WHERE n.industry_code <> i.industry_code) FROM nls.industries i
SELECT g, (SELECT count(*) FROM nls.women WHERE woman_id < g) FROM generate_series(1, 5000) g
SELECT count(*) FROM nls.interviews a WHERE a.hourly_wage > (SELECT avg(b.hourly_wage) FROM nls.interviews b WHERE b.industry_code = a.industry_code AND b.age < a.age)
SELECT q.n FROM nls.industries i, LATERAL (SELECT count(*) AS n FROM nls.women w WHERE w.birth_year < i.industry_code + 1940) q
-- units that a union or a key makes one
SELECT count(*) FROM (SELECT woman_id::float8 AS u FROM nls.women UNION ALL SELECT woman_id FROM nls.interviews) a JOIN nls.women b ON a.u = b.woman_id
SELECT woman_id / 100, race FROM nls.women
SELECT race FROM nls.women GROUP BY race, woman_id
-- what changes or locks
SELECT count(*) FROM nls.women FOR UPDATE
SELECT count(*) FROM nls.women FOR SHARE OF women
SELECT count(*) INTO x FROM nls.women
WITH d AS (DELETE FROM nls.women RETURNING *) SELECT count(*) FROM d
-- what does not exist
SELECT count(*) FROM nls."Women"
SELECT * FROM women
SELECT count(*) FROM pg_temp.women
SELECT count(*) FROM other.nls.women
SELECT pgveil_0.a0 FROM nls.women
SELECT count(*) FROM pgveil_0
SELECT race, (SELECT a0) FROM nls.women GROUP BY race
WITH pgveil_0 AS (SELECT 1) SELECT count(*) FROM nls.women
SELECT count(*) FROM nls.women pgveil_0

SELECT
SELECT FROM nls.women
SELECT ALL race FROM nls.women
SELECT DISTINCT ON (race, birth_year) race FROM nls.women
SELECT 1 AS "a", 2 b, 3 AS select
SELECT 1 UNION (SELECT 2 ORDER BY 1 LIMIT 1) ORDER BY 1
(SELECT 1) UNION ALL (SELECT 2)
SELECT 1 UNION DISTINCT SELECT 2 INTERSECT ALL SELECT 3 EXCEPT ALL SELECT 4
VALUES (1, 2), (3, 4) ORDER BY 1 LIMIT 1
TABLE nls.women
TABLE ONLY nls.women
SELECT * FROM nls.women *
SELECT * FROM ONLY (nls.women)
SELECT * FROM nls.women AS w (a, b, c, d, e)
SELECT * FROM nls.women TABLESAMPLE BERNOULLI (10) REPEATABLE (1)
SELECT * FROM (nls.women w JOIN nls.interviews i USING (woman_id)) AS j
SELECT * FROM nls.women JOIN nls.interviews USING (woman_id) AS j
SELECT * FROM nls.women NATURAL LEFT OUTER JOIN nls.interviews
SELECT * FROM nls.women a JOIN nls.women b JOIN nls.women c ON true ON true
SELECT * FROM nls.women CROSS JOIN LATERAL (SELECT 1) s
SELECT * FROM ROWS FROM (generate_series(1, 2), generate_series(1, 3)) WITH ORDINALITY AS r (a, b, n)
SELECT * FROM generate_series(1, 3) WITH ORDINALITY
SELECT * FROM json_to_recordset('[]') AS r (a int, b text)
SELECT * FROM json_to_record('{}') AS (a int)
SELECT * FROM unnest(ARRAY[1], ARRAY[2]) AS u (a, b)
SELECT * FROM current_date
SELECT * FROM XMLTABLE('/a' PASSING '<a/>' COLUMNS b text PATH 'b') x
SELECT x FROM generate_series(1, 2) x WHERE x IS NOT DISTINCT FROM 1
SELECT 1 IS DISTINCT FROM NULL
SELECT 1 ISNULL, 2 NOTNULL
SELECT true IS NOT UNKNOWN
SELECT 'a' IS NORMALIZED, 'a' IS NFC NORMALIZED, 'a' IS NOT NFKD NORMALIZED
SELECT '<a/>'::xml IS DOCUMENT
SELECT 1 BETWEEN SYMMETRIC 3 AND 0, 1 NOT BETWEEN ASYMMETRIC 0 AND 2
SELECT 'a' LIKE 'b' ESCAPE '!', 'a' NOT ILIKE 'b', 'a' SIMILAR TO 'b' ESCAPE '!'
SELECT 'a' LIKE ANY (ARRAY['a']), 'a' NOT LIKE ALL (ARRAY['b']), 'a' ~* ANY (ARRAY['a']), 1 = SOME (ARRAY[1])
SELECT 1 = ANY (SELECT 1), 1 <> ALL (VALUES (1))
SELECT (1, 2) IN ((1, 2), (3, 4)), ROW(1, 2) = ROW(1, 2), ROW(1, 2) < (2, 1)
SELECT (1, 2) = ANY (SELECT 1, 2)
SELECT (date '2000-01-01', date '2000-01-03') OVERLAPS (date '2000-01-02', interval '1 day')
SELECT row(1, 2)::text, ROW()
SELECT (ROW(1, 2)).f1
SELECT (nls.women).race FROM nls.women
SELECT (w).* FROM nls.women w
SELECT w.*::text FROM nls.women w
SELECT ARRAY[[1, 2], [3, 4]], ARRAY[]::int[], ARRAY(SELECT 1), '{1,2}'::int[2], '{}'::int ARRAY, '{}'::int ARRAY[3]
SELECT (ARRAY[1, 2, 3])[1], (ARRAY[1, 2, 3])[1:2], (ARRAY[1, 2, 3])[:2], (ARRAY[1, 2, 3])[1:], (ARRAY[1, 2, 3])[:]
SELECT CAST('1' AS int), '1'::int, int '1', int4 '1', pg_catalog.int4 '1', date '2000-01-01', "date" '2000-01-01'
SELECT CAST('a' AS varchar(3)), 'a'::character varying(3), 'a'::char, 'a'::"char", 'a'::bpchar, 'a'::national character(3), 'a'::nchar varying(3)
SELECT '1'::bit(3), '1'::bit varying, B'101', X'1F', '1'::dec(3, 1), '1'::float(3), '1'::double precision
SELECT '1 day'::interval, interval '1' day, interval '1-2' year to month, interval '1 2:3:4' day to second(3), '1'::interval hour, '1'::interval day to minute, interval(3) '1 s'
SELECT timestamp(3) with time zone '2000-01-01', time without time zone '10:00', '10:00'::time(0) with time zone, timestamptz '2000-01-01'
SELECT '1'::text COLLATE "C", ('a' || 'b')::text COLLATE pg_catalog."C" < 'c'
SELECT 'a' COLLATE "C" COLLATE "C"
SELECT now() AT TIME ZONE 'UTC' AT TIME ZONE INTERVAL '1 hour'
SELECT EXTRACT(year FROM now()), EXTRACT('month' FROM now()), EXTRACT(isodow FROM now())
SELECT POSITION('a' IN 'b'), SUBSTRING('abc' FROM 1 FOR 2), SUBSTRING('abc' FOR 2), SUBSTRING('abc' FROM 'b'), SUBSTRING('abc' SIMILAR '%b%' ESCAPE '#')
SELECT OVERLAY('abc' PLACING 'x' FROM 1 FOR 2), TRIM(BOTH 'x' FROM 'y'), TRIM('y'), TRIM(LEADING FROM 'y'), TRIM('y', 'x'), TRIM(TRAILING 'x' FROM 'y', 'z')
SELECT NORMALIZE('a'), NORMALIZE('a', NFC), COLLATION FOR ('a'), NULLIF(1, 2), COALESCE(1), GREATEST(1, 2), LEAST(1)
SELECT CURRENT_DATE, CURRENT_TIME, CURRENT_TIME(3), CURRENT_TIMESTAMP(0), LOCALTIME, LOCALTIMESTAMP(2), CURRENT_USER, SESSION_USER, USER, CURRENT_ROLE, CURRENT_CATALOG, CURRENT_SCHEMA
SELECT XMLELEMENT(NAME a, XMLATTRIBUTES('b' AS c), 'd'), XMLFOREST(1 AS a), XMLCONCAT('<a/>'), XMLPARSE(CONTENT '<a/>'), XMLSERIALIZE(CONTENT '<a/>' AS text), XMLPI(NAME a), XMLROOT('<a/>', VERSION '1.0'), XMLEXISTS('/a' PASSING '<a/>')
SELECT TREAT(1 AS int)
SELECT make_interval(days => 1), make_interval(days := 1, hours => 2)
SELECT concat_ws(',', VARIADIC ARRAY['a', 'b'])
SELECT count(ALL race), count(DISTINCT race), array_agg(race ORDER BY birth_year DESC NULLS LAST), array_agg(DISTINCT race ORDER BY race) FROM nls.women
SELECT count(*) FILTER (WHERE race = 'x') OVER (PARTITION BY race ORDER BY birth_year ROWS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING EXCLUDE TIES) FROM nls.women
SELECT sum(birth_year) OVER w, rank() OVER (w ORDER BY race), rank() OVER (ORDER BY birth_year GROUPS 1 PRECEDING) FROM nls.women WINDOW w AS (PARTITION BY race), x AS (w)
SELECT sum(birth_year) OVER (ORDER BY birth_year RANGE BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW) FROM nls.women
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY birth_year), mode() WITHIN GROUP (ORDER BY race) FILTER (WHERE true) FROM nls.women
SELECT rank(1) WITHIN GROUP (ORDER BY birth_year), grouping(race) FROM nls.women GROUP BY race
SELECT count(*) FROM nls.women GROUP BY ROLLUP (race, birth_year), CUBE (race), GROUPING SETS ((race), (birth_year), ())
SELECT count(*) FROM nls.women GROUP BY GROUPING SETS (GROUPING SETS (race), ())
SELECT count(*) FROM nls.women GROUP BY GROUPING SETS (ROLLUP (race, birth_year), CUBE (race), birth_year)
SELECT count(*) FROM nls.women GROUP BY DISTINCT ROLLUP (race), ROLLUP (race, birth_year)
SELECT count(*) FROM nls.women GROUP BY ALL race
SELECT count(*) FROM nls.women GROUP BY ROLLUP ((race, birth_year), race)
SELECT count(*) FROM nls.women GROUP BY ()
SELECT race FROM nls.women ORDER BY race USING <, birth_year USING OPERATOR(pg_catalog.>) NULLS FIRST
SELECT race FROM nls.women ORDER BY race ASC NULLS FIRST, 2 DESC FETCH FIRST 5 ROWS WITH TIES
SELECT race FROM nls.women OFFSET 5 ROWS FETCH NEXT ROW ONLY
SELECT race FROM nls.women LIMIT ALL OFFSET 1 + 2
SELECT race FROM nls.women OFFSET 1 LIMIT 2
SELECT race FROM nls.women LIMIT NULL
SELECT race FROM nls.women FETCH FIRST (1 + 2) ROWS ONLY
SELECT race FROM nls.women FOR UPDATE OF women NOWAIT
SELECT race FROM nls.women FOR KEY SHARE SKIP LOCKED LIMIT 3
SELECT race FROM nls.women FOR READ ONLY
SELECT race INTO TEMP TABLE x FROM nls.women
WITH a AS MATERIALIZED (SELECT 1), b (x) AS NOT MATERIALIZED (SELECT 2) SELECT * FROM a, b
WITH RECURSIVE t (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM t WHERE n < 3) SELECT * FROM t
WITH RECURSIVE t (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SEARCH DEPTH FIRST BY n SET s CYCLE n SET c USING p SELECT * FROM t
WITH RECURSIVE t (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) CYCLE n SET c TO 'y' DEFAULT 'n' USING p SELECT * FROM t
WITH d AS (DELETE FROM nls.women RETURNING *) SELECT * FROM d
WITH a AS (SELECT 1) TABLE a
WITH a AS (SELECT 1) VALUES (1)
WITH a AS (WITH b AS (SELECT 1) SELECT * FROM b) (SELECT * FROM a)
SELECT CASE WHEN true THEN 1 ELSE 2 END, CASE 1 WHEN 1 THEN 2 END
SELECT EXISTS (SELECT 1), NOT EXISTS (SELECT), (SELECT 1), (VALUES (1)), (TABLE nls.industries LIMIT 0)
SELECT 1 OPERATOR(pg_catalog.+) 2, OPERATOR(pg_catalog.-) 1, 'a' OPERATOR(pg_catalog.~) 'b'
SELECT 2 ^ 3, 5 % 2, 5 # 3, ~ 5, 1 << 2, |/ 4, ||/ 8, @ -1, 5 !~ 'a', 'a' ^@ 'b', 1 <-> 2
SELECT '{"a":1}'::jsonb -> 'a', '{}'::jsonb #>> '{a}', '{}'::jsonb @> '{}', '{}'::jsonb ? 'a', '{}'::jsonb ?| ARRAY['a'], '{}'::jsonb @? '$.a', '{}'::jsonb @@ '$.a', '{}'::jsonb - 'a', '{}'::jsonb #- '{a}'
SELECT 'a' @@ 'b'::tsquery, 'a'::tsvector || 'b', point '(1,2)' <@ box '((0,0),(3,3))', int4range(1, 2) && int4range(1, 3), range_merge(int4range(1, 2), int4range(3, 4)) -|- int4range(5, 6)
SELECT 'a'
SELECT U&"\0061" FROM (SELECT 1 AS a) s
SELECT year, month, day, hour, value, name, type, text, date, time FROM (SELECT 1 AS year, 2 AS month, 3 AS day, 4 AS hour, 5 AS value, 6 AS name, 7 AS type, 8 AS text, 9 AS date, 10 AS time) s
SELECT a.left, a.select FROM (SELECT 1 AS left, 2 AS select) a
SELECT NOT NOT true, - - 1, + + 1, NOT true = false
SELECT 1 = 1 IS TRUE, 1 + 1 IS NULL, NOT 1 IS NULL
SELECT 1 IN (1) IN (true), 1 IS NULL IS NULL
SELECT current_setting('a.b', true), pg_catalog.now(), nls.women.race FROM nls.women
SELECT DISTINCT race COLLATE "C" AS r FROM nls.women ORDER BY r COLLATE "C"
SELECT count(*) FROM nls.women, LATERAL (SELECT race AS r) s, LATERAL generate_series(1, 2) g
SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS v (n, t)
SELECT * FROM (SELECT 1) AS s, (TABLE nls.industries) AS t
SELECT sum(1) FILTER (WHERE true), every(true), string_agg('a', ',' ORDER BY 1), json_object_agg('a', 1), xmlagg('<a/>'::xml)
SELECT interval '1 day' * 2, date '2000-01-01' - 1, time '10:00' + date '2000-01-01'
SELECT extract(epoch from interval '1 day'), date_part('year', now()), date_trunc('day', now(), 'UTC')
SELECT 'x' = ALL ('{x}'), 1 > ANY ('{1,2}'::int[])
SELECT a FROM (SELECT 1) AS s (a) WHERE a IN (TABLE nls.industries) OR (a, a) IN (SELECT 1, 2)
SELECT 1 WHERE (SELECT true) AND EXISTS (TABLE nls.industries)
SELECT NULL::int, NULL IS NULL, DEFAULT
SELECT "a""b", "SELECT" FROM (SELECT 1 AS "a""b", 2 AS "SELECT") s
SELECT set, show, start, session, local, names, zone, at FROM (SELECT 1 AS set, 1 AS show, 1 AS start, 1 AS session, 1 AS local, 1 AS names, 1 AS zone, 1 AS at) s
SELECT row_number FROM (SELECT row_number() OVER ()) s
SELECT coalesce(value, 0) value FROM (SELECT 1 AS value) s
SELECT 1 AS top, 2 AS qualify, 3 AS pivot, 4 AS rlike, 5 AS div
SELECT top, qualify, pivot, rlike, regexp, settings, format, global, final, prewhere, connect, start FROM (SELECT 1 top, 2 qualify, 3 pivot, 4 rlike, 5 regexp, 6 settings, 7 format, 8 global, 9 final, 10 prewhere, 11 connect, 12 AS start) s
SELECT * FROM nls.women settings
SELECT * FROM nls.women format
SELECT * FROM nls.women final
SELECT * FROM nls.women qualify
SELECT * FROM nls.women sample
SELECT * FROM nls.women asof
SELECT * FROM nls.women anti
SELECT * FROM nls.women semi
SELECT * FROM nls.women global
SELECT * FROM nls.women pivot
SELECT * FROM nls.women prewhere
SELECT * FROM nls.women connect
SELECT * FROM nls.women start
SELECT * FROM nls.women apply
SELECT * FROM nls.women sort
SELECT * FROM nls.women cluster
SELECT * FROM nls.women distribute
SELECT * FROM nls.women minus
SELECT * FROM nls.women straight_join
SELECT map, struct, bigdecimal, try_cast, safe_cast, convert, match, prior, connect_by_root FROM (SELECT 1 map, 2 struct, 3 bigdecimal, 4 try_cast, 5 safe_cast, 6 convert, 7 AS match, 8 AS prior, 9 connect_by_root) s
SELECT interval, date, timestamp, extract FROM (SELECT 1 AS interval, 2 AS date, 3 AS timestamp, 4 AS extract) s
SELECT interval + 1 FROM (SELECT 1 AS interval) s
SELECT current_user AS u, current_date - 1
SELECT convert('a', 'UTF8', 'LATIN1')
SELECT f.a FROM f(1) AS f (a), g() g
SELECT lateral_view, "end", e.end FROM (SELECT 1 AS lateral_view, 2 AS "end") e

-- one row makes PostgreSQL fail: numbers
SELECT count(*) FROM t WHERE 1 / z > 0
SELECT count(*) FROM t WHERE 1 % z = 0
SELECT count(*) FROM t WHERE mod(7, z) = 0
SELECT count(*) FROM t WHERE div(7.0, z) > 0
SELECT count(*) FROM t WHERE - i > 0
SELECT count(*) FROM t WHERE abs(i) > 0
SELECT count(*) FROM t WHERE i - 1 < 0
SELECT count(*) FROM t WHERE i * 2 < 0
SELECT count(*) FROM t WHERE b + 1 > 0
SELECT count(*) FROM t WHERE b::int > 0
SELECT count(*) FROM t WHERE s / (-1)::smallint > 0
SELECT count(*) FROM t WHERE s * s > 0
SELECT count(*) FROM t WHERE n::float8 > 0
SELECT count(*) FROM t WHERE n > 1.5::float8
SELECT count(*) FROM t WHERE n::numeric(5,2) > 0
SELECT count(*) FROM t WHERE f * 10 > 0
SELECT count(*) FROM t WHERE f + f > 0
SELECT count(*) FROM t WHERE f::real > 0
SELECT count(*) FROM t WHERE f::int > 0
SELECT count(*) FROM t WHERE g * g > 0
SELECT count(*) FROM t WHERE g / 1e100::float8 > 0
SELECT count(*) FROM t WHERE exp(f) > 1
SELECT count(*) FROM t WHERE power(f, 2) > 0
SELECT count(*) FROM t WHERE power(z, -1) > 0
SELECT count(*) FROM t WHERE power(2, 10000.01 * (5 - z)) = 1
SELECT count(*) FROM t WHERE sqrt(i) > 1
SELECT count(*) FROM t WHERE ln(z) > 0
SELECT count(*) FROM t WHERE log(z) > 0
SELECT count(*) FROM t WHERE factorial(i) > 0
SELECT count(*) FROM t WHERE width_bucket(1, 0, z, 3) = 1
SELECT count(*) FROM t WHERE interval '1 day' * f > interval '0 days'
-- text
SELECT count(*) FROM t WHERE y::int > 0
SELECT count(*) FROM t WHERE y::numeric > 0
SELECT count(*) FROM t WHERE y::float8 > 0
SELECT count(*) FROM t WHERE y::json IS NOT NULL
SELECT count(*) FROM t WHERE w::date > date '2000-01-01'
SELECT count(*) FROM t WHERE w::timestamp > timestamp '2000-01-01 00:00:00'
SELECT count(*) FROM t WHERE x LIKE E'abc\\'
SELECT count(*) FROM t WHERE x ~ k
SELECT count(*) FROM t WHERE jsonb_path_exists('{}', k::jsonpath)
SELECT count(*) FROM t WHERE substring(x, 1, z - 1) = 'a'
SELECT count(*) FROM t WHERE substring(x FROM 1 FOR z - 1) = 'a'
SELECT count(*) FROM t WHERE split_part(x, 'y', z) = 'a'
SELECT count(*) FROM t WHERE chr(z) = 'a'
-- dates
SELECT count(*) FROM t WHERE d + 1 > date '2000-01-01'
SELECT count(*) FROM t WHERE d::timestamp > timestamp '2000-01-01 00:00:00'
SELECT count(*) FROM t WHERE ts - timestamp '2000-01-01 00:00:00' > interval '1 day'
SELECT count(*) FROM t WHERE make_date(2020, 1, z) > date '2000-01-01'
SELECT count(*) FROM t WHERE to_timestamp(f) > timestamptz '2000-01-01 00:00:00+00'
-- in every place of a statement
SELECT sum(b * 2) FROM t
SELECT avg(100 / z) FROM t
SELECT sum(i) FILTER (WHERE 1 / z > 0) FROM t
SELECT 10 / z, count(*) FROM t GROUP BY 1
SELECT count(DISTINCT 10 / z) FROM t
SELECT count(*) FROM t HAVING sum(1 / z) > -1000
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY 1.0 / z) FROM t
SELECT CASE WHEN min(z) > 0 THEN sum(100 / z) END FROM t
SELECT count(*) FROM t JOIN pub p ON p.k = 10 / t.z
SELECT count(*) FROM (SELECT t.* FROM t JOIN pub p ON p.k = t.z AND p.v <> 9) q WHERE 1 / q.z > 0
SELECT count(*) FROM t WHERE (SELECT p.v FROM pub p WHERE p.k = t.z) > 0
SELECT count(*) FROM t, generate_series(1, 10, z) g
SELECT sum(q.v) FROM (SELECT ntile(z) OVER (PARTITION BY unit ORDER BY i) AS v FROM t) q
SELECT sum(q.v) FROM (SELECT nth_value(i, z) OVER (PARTITION BY unit ORDER BY i) AS v FROM t) q
SELECT count(*) FROM t WHERE EXISTS (SELECT 1 FROM t u WHERE u.unit = t.unit AND 1 / u.z > 0)
WITH q AS (SELECT unit, 100 / z AS v FROM t) SELECT sum(v) FROM q
SELECT (SELECT sum(100 / z) FROM t), count(*) FROM pub

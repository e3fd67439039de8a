SELECT nothing FROM nls.industries
SELECT count(*) FROM nls.nothing
SELECT count(*) FROM nls.women WHERE rase = 'x'
SELECT count(*) FROM nls.women WHERE race = 1
SELECT count(*) FROM nls.women WHERE race + 1 > 2
SELECT count(*) FROM nls.women WHERE (race) || 'x' = 'y' AND birth_year = 1 AND race >= 2
SELECT foo(race), count(*) FROM nls.women GROUP BY 1
SELECT count(*) FROM nls.women w WHERE women.race = 'x'
SELECT count(*) FROM nls.women, nls.interviews WHERE woman_id = 3
SELECT industry + 1 FROM nls.industries
SELECT 'a' || 'b' + 1
SELECT lower(industry_code) FROM nls.industries
SELECT race, count(*) FROM nls.women
SELECT count(*) FROM nls.women WHERE birth_year LIKE 'x'
SELECT count(*) FROM nls.women WHERE birth_year IN (1, race)
SELECT count(*) FROM nls.women WHERE birth_year BETWEEN 1 AND race
SELECT count(*) FROM nls.women WHERE birth_year BETWEEN 'a' AND 3
SELECT sum(race) FROM nls.women
SELECT CAST('x' AS int)
SELECT 'x'::int + 1
SELECT count(*) FROM nls.women HAVING race = 'x'
SELECT count(*) FROM nls.women WHERE count(*) > 1
SELECT industry::nothing FROM nls.industries
SELECT NOT industry FROM nls.industries
SELECT industry AND true FROM nls.industries
SELECT CASE WHEN industry THEN 1 END FROM nls.industries
SELECT CASE industry WHEN 1 THEN 1 END FROM nls.industries
SELECT 1 UNION SELECT 'x'
SELECT 1, 2 UNION SELECT 1
SELECT * FROM nls.industries ORDER BY nothing
SELECT * FROM nls.industries LIMIT 'x'
SELECT x.* FROM nls.industries
SELECT count(*) FROM nls.women GROUP BY 3
SELECT (SELECT industry, industry_code FROM nls.industries)
SELECT coalesce(industry, 1) FROM nls.industries
SELECT - industry FROM nls.industries
SELECT industry ~ 1 FROM nls.industries
SELECT industry @> 1 FROM nls.industries
SELECT industry[1] FROM nls.industries
SELECT (industry).x FROM nls.industries
SELECT date '2000-01-32'
SELECT interval 'x'
SELECT true + true, 1 / 'x'
SELECT 1 = ANY ('x')
SELECT count(*) FROM nls.women JOIN nls.interviews USING (race)
SELECT count(*) FROM nls.women w JOIN nls.interviews i ON w.race
SELECT count(*) FROM nls.women WHERE race
SELECT sum(count(*)) FROM nls.women
SELECT row_number() FROM nls.industries
SELECT $1 + 'x'::text
SELECT a.industry FROM nls.industries a, nls.industries a
SELECT -- 'größe'\n 'größe', industry * 2 FROM nls.industries
SELECT count(*) FROM nls.women\nWHERE race = 'a'\n  AND birth_year = race
SELECT extract(nonsense FROM date '2000-01-01')
SELECT length(1, 2)
SELECT count(industry, 1) FROM nls.industries
SELECT industry COLLATE "nothing" FROM nls.industries
SELECT 99999999999::int
SELECT ARRAY[1, 'x']
SELECT greatest(1, 'x')
SELECT nullif(1, 'x')
SELECT (1, 2) = (1, 2, 3)
SELECT industry IS DISTINCT FROM 1 FROM nls.industries
SELECT industry IN (SELECT industry_code FROM nls.industries) FROM nls.industries
EXPLAIN (WRONG) SELECT 1
EXPLAIN (VERBOSE, WRONG 7) SELECT 1
COPY (SELECT 1) TO STDOUT (WRONG)
COPY (SELECT 1) TO STDOUT (FORMAT csv, FORMAT text)
COPY (SELECT 1) TO STDOUT (FORMAT csv, FORCE_QUOTE 1)
COPY (SELECT 'é') TO STDOUT (DELIMITER ',', FORMAT xml)
SELECT race, count(*) FROM nls.women GROUP BY 7
SELECT 'é',\n  count(*) FROM nls.women GROUP BY 1, 07
SELECT count(*) FROM nls.interviews WHERE hourly_wage > (SELECT avg(hourly_wage), count(*) FROM nls.interviews)
SELECT count(*) FROM nls.women w WHERE ( SELECT max(i.age), min(i.age) FROM nls.interviews i WHERE i.woman_id = w.woman_id) = 3

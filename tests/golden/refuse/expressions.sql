SELECT count(*) FROM nls.women WHERE race LIKE 'abc\';
SELECT count(*) FROM nls.women WHERE race ~ '(a)\1';
SELECT count(*) FROM nls.women WHERE race::json IS NOT NULL;
SELECT count(*) FROM nls.women WHERE (SELECT max(industry_code) FROM nls.industries) > 3;
SELECT count(*) FROM nls.women WHERE 'nls.secret'::regclass IS NOT NULL;
SELECT count(*) FROM nls.women WHERE random() < 0.5;
SELECT count(*), query_to_xml('select * from nls.women', true, false, '') FROM nls.women;
SELECT count(*) FROM nls.women WHERE ctid IS NOT NULL;
SELECT pg_sleep(10);
SELECT set_config('x.y', '1', false);
SELECT (SELECT max(w.birth_year) FROM nls.industries LIMIT 1) FROM nls.women AS w;
SELECT sum(birth_year) FILTER (WHERE count(*) > 1) FROM nls.women;
SELECT sum(sum(birth_year)) FROM nls.women;
SELECT CASE WHEN woman_id = 42 THEN interval '1 month' ELSE interval '30 days' END, occupation_code, count(*) FROM nls.interviews GROUP BY 1, 2
;
SELECT substring(race SIMILAR 'w%#"h#"%' ESCAPE '#'), count(*) FROM nls.women GROUP BY 1;
SELECT count(*) FROM nls.women WHERE birth_year BETWEEN SYMMETRIC (birth_year BETWEEN SYMMETRIC 3 AND 2)::int AND 1940;
SELECT width_bucket(hourly_wage, ARRAY[20, 10]), count(*) FROM nls.interviews GROUP BY 1;
SELECT date_bin('1 month', make_timestamp(year::int, 1, 1, 0, 0, 0), '2000-01-01'), count(*) FROM nls.interviews GROUP BY 1;
SELECT format('%I', race), count(*) FROM nls.women GROUP BY 1;
SELECT make_interval(decades => birth_year), count(*) FROM nls.women GROUP BY 1;
SELECT count(*) FROM nls.women WHERE race ~ race;
SELECT count(*) FROM nls.women WHERE race ->> 'a' = 'x';
SELECT count(*) FROM nls.women WHERE (regexp_match(race, 'w'))[2] = 'w';
SELECT count(*) FROM nls.women WHERE bit_count(race::bytea) > 3;
SELECT count(*) FROM nls.women WHERE to_number(race, '999') > 3;
SELECT regexp_split_to_array(race, 'h'), count(*) FROM nls.women GROUP BY 1;
SELECT sum(erf(hourly_wage)) FROM nls.interviews;
SELECT count(*) FROM nls.women WHERE make_date(birth_year::int, 1, 1) > '01/02/1950'

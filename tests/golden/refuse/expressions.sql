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

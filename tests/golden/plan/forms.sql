SELECT count(*) FROM nls.women WHERE (SELECT max(industry_code) FROM nls.industries) > 3;

SELECT count(*) FROM nls.women WHERE race SIMILAR TO 'a' ESCAPE 'x';

SELECT count(*) FROM nls.women WHERE width_bucket(birth_year, ARRAY[1, 1950]) = 1;

SELECT count(*) FROM nls.women WHERE DATE '2000-01-01' + make_interval(days => birth_year) < now();

SELECT count(*) FROM nls.women WHERE width_bucket(birth_year, '{1,1950}'::int[]) = 1;

SELECT count(*) FROM nls.women WHERE birth_year BETWEEN SYMMETRIC 1950 AND 1942;

SELECT count(*) FROM nls.women WHERE race ^@ 'w';

SELECT 1 isnull +when +when UNION ALL SELECT (((1, 1) < (2, 2), 1) < (true, 1)) BETWEEN false AND true

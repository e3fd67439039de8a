SELECT * FROM nls.women;
SELECT woman_id FROM nls.women LIMIT 5;
SELECT race FROM nls.women GROUP BY race, birth_year HAVING woman_id > 3;
SELECT race, birth_year, count(*) FROM nls.women GROUP BY race;
WITH w AS (SELECT * FROM nls.women) SELECT * FROM w;
SELECT count(*) FROM (SELECT race FROM nls.women LIMIT 10) AS t;
SELECT woman_id, rank() OVER (ORDER BY birth_year) FROM nls.women;
SELECT race FROM nls.women UNION SELECT 'x';
SELECT * FROM nls.women FOR UPDATE;

SELECT woman_id, avg(hourly_wage) FROM nls.interviews GROUP BY woman_id;

SELECT DISTINCT woman_id FROM nls.women;

SELECT count(n) FROM (SELECT year, woman_id, hourly_wage AS n FROM nls.interviews GROUP BY woman_id, year, union_member) AS t

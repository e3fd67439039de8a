SELECT avg(gap) FROM (SELECT woman_id, year - lag(year) OVER (PARTITION BY woman_id ORDER BY year) AS gap FROM nls.interviews) AS g WHERE gap < 5;

SELECT industry_code, count(*) FROM (SELECT DISTINCT ON (woman_id) woman_id, industry_code FROM nls.interviews ORDER BY woman_id, year DESC) AS latest GROUP BY industry_code;

SELECT count(*), sum(x) FROM (SELECT woman_id, birth_year AS x FROM nls.women UNION ALL SELECT woman_id, age FROM nls.interviews) AS both_tables

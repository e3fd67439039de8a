SELECT avg(total) FROM (SELECT woman_id, sum(hourly_wage) AS total FROM nls.interviews GROUP BY woman_id) AS per_woman;

SELECT n, count(*) FROM (SELECT woman_id, count(*) AS n FROM nls.interviews WHERE hourly_wage > 10 GROUP BY 1 HAVING count(*) >= 2) AS t GROUP BY n ORDER BY n;

SELECT year, avg(top) FROM (SELECT woman_id, year, max_wage AS top FROM (SELECT woman_id, year, sum(hourly_wage) AS max_wage FROM nls.interviews GROUP BY woman_id, year) AS a) AS b GROUP BY year;

WITH each AS (SELECT DISTINCT woman_id, industry_code FROM nls.interviews)
SELECT w.race, count(*) FROM each JOIN nls.women AS w USING (woman_id) GROUP BY w.race;

SELECT avg(per) FROM (SELECT woman_id, sum(hours) / count(*) AS per FROM (SELECT woman_id, year / 10 AS decade, sum(hours_per_week) AS hours FROM nls.interviews GROUP BY 1, 2) AS d GROUP BY woman_id) AS e;

SELECT count(*) FROM (SELECT woman_id, year, count(*) AS s FROM nls.interviews GROUP BY ROLLUP (woman_id, year)) q;

SELECT avg(n) FROM (SELECT woman_id, percentile_cont(0.5) WITHIN GROUP (ORDER BY age) AS n FROM nls.interviews GROUP BY woman_id) t;

SELECT avg(n) FROM (SELECT woman_id, corr(age, year) AS n FROM nls.interviews GROUP BY woman_id) t;

SELECT avg(n) FROM (SELECT woman_id, mode() WITHIN GROUP (ORDER BY year) AS n FROM nls.interviews GROUP BY woman_id) t;

SELECT avg(x) FROM (SELECT sum(age) OVER w AS x FROM nls.interviews WINDOW w AS (PARTITION BY woman_id)) AS t;

SELECT avg(x) FROM (SELECT percent_rank() OVER (PARTITION BY woman_id ORDER BY year) AS x FROM nls.interviews) AS t;

SELECT count(*) FROM (SELECT birth_year FROM nls.women WINDOW w AS (PARTITION BY woman_id)) t;

SELECT avg(x) FROM (SELECT sum(age) OVER (PARTITION BY woman_id ORDER BY year ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS x FROM nls.interviews) AS t;

SELECT avg(x) FROM (SELECT last_value(age) OVER (PARTITION BY woman_id ORDER BY year) AS x FROM nls.interviews) AS t

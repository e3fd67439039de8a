SELECT avg(gap) FROM (SELECT woman_id, year - lag(year) OVER (PARTITION BY woman_id ORDER BY year) AS gap FROM nls.interviews) AS g WHERE gap < 5;

SELECT industry_code, count(*) FROM (SELECT DISTINCT ON (woman_id) woman_id, industry_code FROM nls.interviews ORDER BY woman_id, year DESC) AS latest GROUP BY industry_code;

SELECT count(*), sum(x) FROM (SELECT woman_id, birth_year AS x FROM nls.women UNION ALL SELECT woman_id, age FROM nls.interviews) AS both_tables;

SELECT avg(recent) FROM (SELECT woman_id, avg(hourly_wage) OVER (PARTITION BY woman_id ORDER BY year ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS recent FROM nls.interviews) AS g;

SELECT avg(last - hourly_wage) FROM (SELECT hourly_wage, last_value(hourly_wage) OVER w AS last FROM nls.interviews WINDOW w AS (PARTITION BY woman_id ORDER BY year ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)) AS g;

SELECT avg(near), avg(place) FROM (SELECT count(*) FILTER (WHERE hourly_wage > 5) OVER (PARTITION BY woman_id ORDER BY year RANGE BETWEEN 3 PRECEDING AND 3 FOLLOWING) AS near, percent_rank() OVER (PARTITION BY woman_id ORDER BY hourly_wage) AS place FROM nls.interviews) AS g;

SELECT avg(latest) FROM (SELECT last_value(hours_per_week) OVER (PARTITION BY woman_id ORDER BY year) AS latest, nth_value(hours_per_week, 2) OVER (PARTITION BY woman_id ORDER BY year) AS second FROM nls.interviews) AS g WHERE second > 20;

SELECT avg(gap) FROM (SELECT year - lag(year) OVER (PARTITION BY year / 5 ORDER BY year) AS gap FROM nls.interviews) AS g WHERE gap < 20;

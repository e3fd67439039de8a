SELECT count(*) FROM nls.interviews;

SELECT year, avg(hourly_wage), count(DISTINCT woman_id) FROM nls.interviews GROUP BY year;

SELECT count(*) FILTER (WHERE union_member = 1), sum(hours_per_week) FROM nls.interviews;

SELECT race, avg(total) FROM (SELECT woman_id, sum(hourly_wage) AS total FROM nls.interviews GROUP BY woman_id) t JOIN nls.women USING (woman_id) GROUP BY race;

SELECT south, sum(hourly_wage) FROM nls.interviews GROUP BY ROLLUP (south);

SELECT stddev(hourly_wage) FROM nls.interviews;

SELECT count(*) FROM nls.women;

SELECT union_member, count(*), sum(hours_per_week) FROM nls.interviews GROUP BY union_member;

SELECT hourly_wage, count(*), sum(hours_per_week) FROM nls.interviews GROUP BY hourly_wage;

SELECT avg(greatest(hourly_wage, 10)), stddev(greatest(hourly_wage, 10)) FROM nls.interviews;

SELECT south, avg(hours_per_week + 100), count(*) FROM nls.interviews GROUP BY south

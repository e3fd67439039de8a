SELECT race, count(*) FROM nls.women GROUP BY race;
SELECT race AS r, count(*) FROM nls.women GROUP BY r ORDER BY 2 DESC;
SELECT year, avg(hourly_wage) FROM nls.interviews GROUP BY 1 ORDER BY 1;
SELECT year, count(*) FROM nls.interviews WHERE year > 1980 GROUP BY year;
SELECT union_member, count(*) FROM nls.interviews GROUP BY union_member;
SELECT birth_year / 5 * 5 AS five, count(*) FROM nls.women GROUP BY 1;
SELECT CASE WHEN hourly_wage < 5 THEN 'low' ELSE 'high' END AS band, count(*) FROM nls.interviews GROUP BY 1;
SELECT hourly_wage > 10 AS well_paid, count(*) FROM nls.interviews GROUP BY 1;
SELECT width_bucket(hourly_wage, 0, 30, 6) AS bucket, count(*) FROM nls.interviews GROUP BY 1;
SELECT DISTINCT race FROM nls.women;
SELECT hourly_wage, count(*) FROM nls.interviews GROUP BY hourly_wage;
SELECT race, woman_id, count(*) FROM nls.women GROUP BY 1, 2

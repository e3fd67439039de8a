SELECT count(*) FROM nls.interviews WHERE hourly_wage > (SELECT avg(hourly_wage) FROM nls.interviews);

SELECT i.year, count(*) FROM nls.interviews i JOIN (SELECT year, count(*) AS n FROM nls.interviews GROUP BY year ORDER BY n DESC LIMIT 3) top ON top.year = i.year GROUP BY i.year;

WITH big AS (SELECT birth_year FROM nls.women GROUP BY birth_year HAVING count(*) > 300) SELECT count(*) FROM nls.women WHERE birth_year IN (SELECT birth_year FROM big);

SELECT year, count(*) FILTER (WHERE hourly_wage > (SELECT avg(hourly_wage) FROM nls.interviews)), count(*) FROM nls.interviews GROUP BY year;

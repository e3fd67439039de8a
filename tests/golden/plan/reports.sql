SELECT count(*) FROM nls.women WHERE race = 'black';
SELECT race, count(*), pgveil.stderr(count(*)), pgveil.ci_low(count(*)) FROM nls.women GROUP BY race ORDER BY 2 DESC;
SELECT south, count(*) FILTER (WHERE union_member = 1) AS members, count(*) FROM nls.interviews WHERE age > 30 GROUP BY south;
SELECT year, avg(weeks_worked), sum(weeks_worked), count(weeks_worked) FROM nls.interviews GROUP BY year;
SELECT union_member, year, count(*) FROM nls.interviews JOIN nls.women USING (woman_id) WHERE birth_year < 1950 GROUP BY union_member, year;
SELECT count(*) FROM (SELECT woman_id, birth_year FROM nls.women WHERE race <> 'black') AS s WHERE birth_year < 1950

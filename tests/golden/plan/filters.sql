SELECT race, count(*) FROM nls.women GROUP BY race;
SELECT race, count(*) AS n, pgveil.stderr(count(*)), pgveil.ci_low(count(*)) FROM nls.women WHERE birth_year < 1950 GROUP BY race HAVING count(*) > 10 ORDER BY n DESC, race LIMIT 5

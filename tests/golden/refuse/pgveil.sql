SELECT pgveil.stderr(1);
SELECT pgveil.stderr(ln(count(*))) FROM nls.women;
SELECT pgveil.ci_high(count(*) + birth_year) FROM nls.women GROUP BY birth_year;
SELECT pgveil.stderr(round(count(*), birth_year)) FROM nls.women GROUP BY birth_year;
SELECT pgveil.ci_low(n) FROM (SELECT count(*) AS n FROM nls.women) AS s;
SELECT race, pgveil.stderr(sum(count(*)) OVER (ORDER BY race DESC)) FROM nls.women GROUP BY race;
SELECT count(*) FROM nls.women, pgveil.budget;
SELECT * FROM pgveil.owner;

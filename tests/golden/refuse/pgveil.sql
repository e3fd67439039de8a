SELECT pgveil.stderr(1);
SELECT pgveil.stderr(count(*) + 1) FROM nls.women;
SELECT pgveil.ci_low(n) FROM (SELECT count(*) AS n FROM nls.women) AS s;
SELECT count(*) FROM nls.women, pgveil.budget;
SELECT * FROM pgveil.owner;

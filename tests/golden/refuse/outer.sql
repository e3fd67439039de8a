SELECT race, (SELECT count(*) FROM nls.industries WHERE length(industry) > birth_year) FROM nls.women GROUP BY race;
SELECT race, (SELECT count(*) FROM nls.interviews i WHERE i.year > length(w.race)) FROM nls.women w GROUP BY race;
SELECT (SELECT max(w.race) FROM nls.industries) FROM nls.women w GROUP BY w.race;
WITH RECURSIVE r AS (SELECT woman_id FROM nls.women UNION SELECT woman_id FROM r) SELECT count(*) FROM r;
WITH RECURSIVE a AS (SELECT x FROM b), b AS (SELECT 1 AS x) SELECT count(*) FROM a;
WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT (SELECT count(*) FROM nls.women JOIN r ON r.n = birth_year)::int FROM r) SELECT n FROM r;
SELECT race, count(*) FROM nls.women GROUP BY race WINDOW w AS v;
TABLE nls.women;
SELECT race, pg_catalog.pg_relation_filepath(1), count(*) FROM nls.women GROUP BY race;
SELECT 'nls.women'::regclass, count(*) FROM nls.women;
SELECT race, count(*) FROM nls.women GROUP BY race, (birth_year).x;
SELECT * FROM pg_ls_dir('.');
SELECT * FROM nls.industries TABLESAMPLE SYSTEM (10);
SELECT race, repeat('x', count(*)::int) FROM nls.women GROUP BY race;
SELECT i.industry_code, l.n FROM nls.industries i, LATERAL (SELECT count(*) AS n FROM nls.interviews v WHERE v.industry_code = i.industry_code) l

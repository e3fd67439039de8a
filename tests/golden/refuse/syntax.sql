SELECT top 3 count(*) FROM nls.women;
SELECT count(*) FROM nls.women GLOBAL JOIN nls.interviews USING (woman_id);
SELECT n.industry FROM nls.industries n GLOBAL JOIN nls.occupations o ON true;
SELECT race, count(*) FROM nls.women GROUP BY race ORDER BY ALL;
SELECT race, count(*) FROM nls.women GROUP BY race LIMIT 3 BY race;
SELECT race, count(*) FROM nls.women GROUP BY race FETCH FIRST 5 PERCENT ROWS ONLY;
SELECT race, count(*) FROM nls.women GROUP BY race ORDER BY race WITH FILL;
SELECT race, count(*) FROM nls.women GROUP BY race ORDER BY race INTERPOLATE;
SELECT count(*) INTO copied FROM nls.women;
SELECT race INTO copied FROM nls.women GROUP BY race;
SELECT count(*) FROM nls.women QUALIFY true;
SELECT top (3) race FROM nls.women GROUP BY race;
SELECT industry FROM nls.industries QUALIFY true;
SELECT race FROM nls.women GROUP BY race MINUS SELECT 'x';
SELECT race FROM nls.women MINUS SELECT 'x';
SELECT race, rank() OVER (ORDER BY count(*) WITH FILL) FROM nls.women GROUP BY race;
WITH RECURSIVE r AS (SELECT 1 AS n) SEARCH DEPTH FIRST BY n SET s SELECT * FROM r;
INSERT INTO nls.women VALUES (1);
WITH d AS (DELETE FROM nls.women RETURNING *) SELECT count(*) FROM d;
SELECT count(*) FROM otherdb.nls.women;
SELECT count(*) FROM a.b.c.d;
SELECT nothing.race, count(*) FROM nls.women GROUP BY 1;
SELECT a.b.c.d.e, count(*) FROM nls.women GROUP BY 1;
SELECT count(*) FROM `nls`.women;
SELECT count(*) FROM nls.aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffgggggggggg;
SELECT count(*) FROM identifier('nls.women');
SELECT count(*) FROM nls.women JOIN nls.interviews USING (woman_id.x);
SELECT count(*) FROM nls.women JOIN nls.interviews USING (race);
SELECT count(*) FROM (SELECT race FROM nls.women);
SELECT count(*) FROM nls.women AS w (a, b, c, d, e, f, g);
SELECT count(*) FROM nls.women AS w (a int, b int);
SELECT count(*) FROM nls.women w SEMI JOIN nls.interviews i ON w.woman_id = i.woman_id;
SELECT count(*) FROM nls.women w ASOF JOIN nls.interviews i MATCH_CONDITION (w.birth_year > i.year) ON w.woman_id = i.woman_id;
SELECT race, count(*) FROM nls.women GROUP BY ALL;
SELECT race, count(*) FROM nls.women GROUP BY race WITH ROLLUP;
SELECT race, count(*) FROM nls.women GROUP BY 7;
SELECT race, count(*) FROM nls.women GROUP BY count(*);
SELECT count(*) FROM nls.women WHERE count(*) > 3;
SELECT count(*) FROM nls.women WHERE birth_year;
SELECT *, count(*) FROM nls.women GROUP BY race;
SELECT * FROM nls.women GROUP BY race;
SELECT 'a' 'b' FROM nls.women w GROUP BY x'1F';
SELECT 1 +;
SELECT count(*) FROM nls.women WHERE $1 = race;
SELECT $1;
SELECT $1$x$1$;
SELECT 2^-1;

SELECT count(*) FROM ONLY nls.women;

WITH "only" AS (SELECT 5 AS x) SELECT count(*) FROM only women;

SELECT 1.5a, count(*) FROM nls.women;

SELECT count(*) FROM nls.women WHERE birth_year > 0x1F;

SELECT U&"r\0061ce", count(*) FROM nls.women GROUP BY 1;

SELECT count(*) FROM nls.women WHERE race = U&'d!0061' UESCAPE '!';

SELECT count(*) FROM nls.women WHERE race = N'a';

SELECT b"x", count(*) FROM nls.women GROUP BY 1;

SELECT industry, date U&'2000-01-01' FROM nls.industries;

SELECT E'\303\251', count(*) FROM nls.women;

SELECT count(*) FROM nls.women WHERE race = E'\u+041';

SELECT count(*) FROM nls.women WHERE race NOT NULL;

SELECT count(*) FROM nls.women WHERE race = 'a' /*
*/ 'b';

SELECT interval(1) '1.55 s';

SELECT count(*) FROM nls.women WHERE interval second(1) '1.55' > now() - now();

SELECT industry, interval '1' week FROM nls.industries;

SELECT race COLLATE "C" COLLATE "C", count(*) FROM nls.women GROUP BY 1;

SELECT race, count(*) FROM nls.women GROUP BY GROUPING SETS (GROUPING SETS (race, CUBE (race)), ());

SELECT count(*) FROM nls.women WHERE CASE WHEN race = 'black' THEN 'x' END::text COLLATE "C" = 'x';

SELECT E'\xe9', count(*) FROM nls.women;

SELECT $1.race FROM nls.women;

SELECT 'über', count(*)
  FROM nls.women WHER race = 'black';

SELECT count(*) FROM nls.women WHERE race = 'black

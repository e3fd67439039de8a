SELECT count(*) FROM nls.women a, nls.women b;
SELECT count(*) FROM nls.women a JOIN nls.interviews b ON a.birth_year = b.year;
SELECT count(*) FROM nls.women a JOIN nls.interviews b ON a.woman_id = b.woman_id OR true;
SELECT count(*) FROM nls.women a JOIN nls.interviews b ON a.woman_id::text = b.woman_id::text;
SELECT count(*) FROM nls.women a FULL JOIN nls.interviews b ON a.woman_id = b.woman_id;
SELECT count(*) FROM nls.industries n LEFT JOIN nls.interviews i USING (industry_code);
SELECT count(*) FROM nls.women w, LATERAL (SELECT 1) AS t;
SELECT count(*) FROM nls.women TABLESAMPLE SYSTEM (10);

SELECT n.industry_code, count(i.year) FROM nls.industries AS n LEFT JOIN nls.interviews AS i USING (industry_code) WHERE n.industry < 'M' GROUP BY 1

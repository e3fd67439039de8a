SELECT count(*) FROM nls.women WHERE 1 = 0;
SELECT * FROM nls.women LIMIT 0;
SELECT industry FROM nls.industries ORDER BY 1;
SELECT 1 AS one

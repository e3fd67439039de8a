SELECT count(*) FROM (SELECT woman_id FROM nls.women WHERE 1 = 1 OFFSET 0) AS sub;
SELECT count(*) FROM (SELECT woman_id FROM nls.women OFFSET CAST('0' AS bigint) ROWS) AS sub;
SELECT race, count(*) FROM nls.women GROUP BY race ORDER BY 1 LIMIT NULL OFFSET 0 ROWS;
WITH w AS (SELECT woman_id FROM nls.women LIMIT ALL OFFSET 0) SELECT count(*) FROM w WHERE EXISTS (SELECT 1 FROM nls.interviews i WHERE i.woman_id = w.woman_id OFFSET 0);
SELECT count(*) FROM nls.women WHERE woman_id IN (SELECT woman_id FROM nls.interviews FETCH FIRST NULL ROWS ONLY)

SELECT count(*) FROM nls.women w WHERE EXISTS (SELECT 1 FROM nls.interviews i WHERE i.age > w.birth_year);

SELECT count(*) FROM nls.women w WHERE w.birth_year NOT IN (SELECT year FROM nls.interviews i WHERE i.woman_id = w.woman_id AND i.tenure_years NOT IN (SELECT weeks_worked FROM nls.interviews));

SELECT count(*) FROM nls.industries n WHERE EXISTS (SELECT 1 FROM nls.interviews i WHERE i.industry_code = n.industry_code);

SELECT count(*) FROM nls.women w WHERE (SELECT max(i.age) FROM nls.interviews i WHERE i.woman_id < w.woman_id) > 3;

SELECT count(*) FROM nls.women w WHERE (SELECT max(w.birth_year) FROM nls.interviews i WHERE i.woman_id = w.woman_id) > 3;

SELECT count(*) FROM nls.women w WHERE (SELECT i.age FROM nls.interviews i WHERE i.woman_id = w.woman_id) > 3;

SELECT count(*) FROM nls.women w LEFT JOIN nls.interviews i ON i.woman_id = w.woman_id AND i.year IN (SELECT j.year FROM nls.interviews j WHERE j.woman_id = w.woman_id)
;

SELECT avg(x) FROM (SELECT sum(age) OVER (PARTITION BY industry_code) AS x FROM nls.interviews) AS t;

SELECT count(*) FROM (SELECT birth_year FROM nls.women UNION SELECT year FROM nls.interviews) AS t;

SELECT count(*) FROM (SELECT woman_id FROM nls.women INTERSECT SELECT woman_id FROM nls.interviews) AS t;

SELECT n.industry, count(*) FROM nls.industries AS n LEFT JOIN nls.interviews AS i USING (industry_code) GROUP BY n.industry;

SELECT n.industry, count(i.year) FROM nls.industries AS n LEFT JOIN nls.interviews AS i USING (industry_code) WHERE i.year > 1970 GROUP BY n.industry;

SELECT avg(b) FROM (SELECT v.woman_id, (SELECT w.birth_year FROM nls.women w WHERE w.woman_id = v.woman_id AND EXISTS (SELECT 1 FROM nls.interviews j WHERE j.woman_id = v.woman_id AND j.south = 1)) AS b FROM nls.interviews v) AS d;

SELECT avg((SELECT w.birth_year FROM nls.women w WHERE w.woman_id = v.woman_id AND EXISTS (SELECT 1 FROM nls.interviews j WHERE j.year = v.year AND j.south = 1))) FROM nls.interviews v;

SELECT count(*) FROM nls.women w WHERE EXISTS (SELECT 1 FROM nls.interviews j WHERE j.woman_id = w.woman_id UNION ALL SELECT 1 FROM nls.interviews j WHERE j.year = 1970);

SELECT count(*) FROM nls.women w WHERE EXISTS (SELECT 1 FROM nls.interviews j WHERE j.woman = 1 UNION ALL SELECT 1 FROM nls.women);

SELECT count(*) FROM nls.interviews i WHERE i.year > (SELECT count(*) FROM nls.industries n HAVING max(n.industry_code) > i.industry_code);

SELECT count(*) FROM nls.interviews i WHERE i.industry_code IN (SELECT max(n.industry_code) FROM nls.industries n WHERE EXISTS (SELECT 1 FROM nls.industries m WHERE m.industry_code = i.industry_code) GROUP BY n.industry)

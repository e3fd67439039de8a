SELECT count(*) FROM (SELECT DISTINCT birth_year, race FROM nls.women) d;

SELECT count(*) FROM (SELECT race FROM nls.women GROUP BY race) d;

SELECT n.industry_code, n.industry, count(*) FROM nls.interviews i JOIN nls.industries n USING (industry_code) WHERE n.industry_code <= 3 GROUP BY n.industry_code, n.industry;

SELECT race, count(*), grouping(race) FROM nls.women GROUP BY GROUPING SETS ((race), (race), ());

SELECT count(*) FROM nls.women w WHERE EXISTS (SELECT 1 FROM nls.interviews i WHERE i.woman_id = w.woman_id GROUP BY i.married HAVING count(*) > 5);

SELECT count(*) FROM nls.interviews i WHERE (i.woman_id, i.year) NOT IN (SELECT j.woman_id, j.year FROM nls.interviews j WHERE j.married = 1);

SELECT n.industry, (SELECT count(*) FROM nls.interviews i WHERE i.industry_code = n.industry_code AND i.year = 1988) AS n FROM nls.industries n;

SELECT count(*) FROM nls.interviews i WHERE i.hourly_wage > (SELECT avg(j.hourly_wage) FROM nls.interviews j WHERE j.year = i.year);

SELECT count(*) FROM generate_series(1944, 1947) AS g(y) JOIN nls.women w ON w.birth_year = g.y;

SELECT coalesce(s.band, 'none'), count(*) FROM nls.women w LEFT JOIN (SELECT woman_id, CASE WHEN hourly_wage < 10 THEN 'low' ELSE 'high' END AS band FROM nls.interviews WHERE year = 1988) s ON s.woman_id = w.woman_id WHERE s.band IS NULL GROUP BY 1;
SELECT hours_per_week FROM (SELECT DISTINCT hours_per_week FROM nls.interviews) q;
SELECT race, count(*) FROM nls.women WHERE lpad(race, 1000, 'a') NOT LIKE '%a%a%a%ac' GROUP BY race;
SELECT i.industry_code, (SELECT coalesce(sum(v.year), 0) FROM nls.interviews v WHERE v.industry_code = i.industry_code) FROM nls.industries i;
SELECT i.industry_code, (SELECT sum(v.year) / 2 FROM nls.interviews v WHERE v.industry_code = i.industry_code) FROM nls.industries i

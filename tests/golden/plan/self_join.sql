SELECT count(*) FROM nls.interviews a JOIN nls.interviews b ON b.woman_id = a.woman_id WHERE a.year = 1968 AND b.hourly_wage > a.hourly_wage AND b.south = 1;

SELECT w.race, avg(b.hourly_wage - a.hourly_wage) FROM nls.women w, nls.interviews a, nls.interviews b WHERE w.woman_id = a.woman_id AND b.woman_id = w.woman_id AND a.year = 1970 AND b.year = 1980 GROUP BY w.race;

SELECT count(b.year), count(*) FROM nls.interviews a LEFT JOIN nls.interviews b ON a.woman_id = b.woman_id AND b.south = 1 AND b.year > a.year WHERE a.year < 1975;

SELECT count(*) FROM nls.interviews a WHERE a.south = 1 AND EXISTS (SELECT 1 FROM nls.interviews b WHERE b.woman_id = a.woman_id AND b.south = 0 AND b.year > a.year);

SELECT count(*) FROM (SELECT woman_id, year FROM nls.interviews UNION ALL SELECT woman_id, age FROM nls.interviews) a JOIN (SELECT woman_id, age AS year FROM nls.interviews UNION ALL SELECT woman_id, year FROM nls.interviews) b ON a.woman_id = b.woman_id AND a.year < b.year;

SELECT sum(least(n, 5)) FROM (SELECT woman_id, count(*) AS n FROM nls.interviews a JOIN nls.interviews b USING (woman_id) WHERE a.year < b.year GROUP BY woman_id) q;

SELECT sum(least(greatest(m, 0), 30)) FROM (SELECT max(hourly_wage) OVER (PARTITION BY woman_id ORDER BY year ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS m FROM nls.interviews) q;

SELECT count(*) FROM nls.interviews a JOIN (SELECT woman_id, year, avg(hourly_wage) AS w FROM nls.interviews GROUP BY woman_id, year) b ON b.woman_id = a.woman_id AND b.year = a.year;

SELECT sum(i.hours_per_week) FROM nls.interviews i, nls.industries n WHERE (n.industry_code = i.industry_code AND n.industry = 'Mining' AND i.age BETWEEN 20 AND 25) OR (i.industry_code = n.industry_code AND n.industry = 'Construction' AND i.age BETWEEN 26 AND 30);

SELECT count(*) FROM nls.interviews i WHERE EXISTS (SELECT 1 FROM nls.industries n WHERE (n.industry_code = i.industry_code AND n.industry LIKE 'M%' AND i.south = 1) OR (n.industry_code = i.industry_code AND i.south = 0))

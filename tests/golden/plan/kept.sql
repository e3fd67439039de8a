SELECT n.industry, count(i.year), avg(i.hourly_wage) FROM nls.industries AS n LEFT JOIN nls.interviews AS i ON i.industry_code = n.industry_code AND i.year = 1988 GROUP BY n.industry ORDER BY 1;

SELECT i.industry_code, count(v.woman_id) FROM nls.industries i LEFT JOIN nls.interviews v ON v.industry_code = i.industry_code WHERE i.industry LIKE 'M%' GROUP BY 1

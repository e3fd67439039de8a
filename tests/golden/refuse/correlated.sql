SELECT count(*) FROM nls.women w WHERE EXISTS (SELECT count(*) FROM nls.interviews i WHERE i.woman_id = w.woman_id HAVING count(*) > 5);

SELECT count(*) FROM nls.women w WHERE w.birth_year IN (SELECT max(i.year) FROM nls.interviews i WHERE i.woman_id = w.woman_id);

SELECT count(*) FROM nls.women w WHERE EXISTS (SELECT 1 FROM nls.interviews i WHERE i.year = w.birth_year GROUP BY i.married HAVING count(*) > 5);

SELECT count(*) FROM nls.women w WHERE EXISTS (SELECT 1 FROM nls.interviews i WHERE i.woman_id = w.woman_id GROUP BY i.married HAVING count(*) > w.birth_year);

SELECT count(*) FROM nls.interviews i WHERE (i.woman_id, i.industry_code) NOT IN (SELECT j.woman_id, j.year FROM nls.interviews j);

SELECT count(*) FROM nls.interviews i WHERE (i.woman_id, i.year) NOT IN (SELECT j.woman_id, j.industry_code FROM nls.interviews j);

SELECT count(*) FROM nls.women w JOIN generate_series(1.5, 2.5) AS g(x) ON g.x = w.birth_year;

SELECT count(*) FROM nls.women w JOIN regexp_split_to_table('a b', ' ') AS g(x) ON g.x = w.race;

SELECT n.industry, (SELECT count(*) FROM nls.interviews i WHERE i.industry_code < n.industry_code) AS n FROM nls.industries n;

SELECT n.industry, (SELECT count(*) + 1 FROM nls.interviews i WHERE i.industry_code = n.industry_code) AS n FROM nls.industries n;

SELECT corr(DISTINCT birth_year, years_of_school) FROM nls.women

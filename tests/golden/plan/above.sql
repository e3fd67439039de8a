SELECT race, round(avg(years_of_school), 1) AS school FROM nls.women GROUP BY race HAVING count(*) > 100 ORDER BY school DESC LIMIT 2;
SELECT sum(hours_per_week)::float / NULLIF(count(*), 0) FROM nls.interviews;
SELECT race, count(*) * 100.0 / sum(count(*)) OVER () AS share FROM nls.women GROUP BY race;
SELECT upper(race), count(*) + 1 FROM nls.women GROUP BY race ORDER BY count(*);
SELECT max(c) FROM (SELECT race, count(*) AS c FROM nls.women GROUP BY race) AS t;
SELECT (SELECT count(*) FROM nls.women) AS women, (SELECT count(*) FROM nls.interviews) AS interviews;
SELECT 'women' AS what, count(*) FROM nls.women UNION ALL SELECT 'interviews', count(*) FROM nls.interviews;
SELECT industry::text COLLATE "C" FROM nls.industries;
SELECT race, count(*), (SELECT max(c) FROM (SELECT industry_code AS c, industry AS name FROM nls.industries) AS n WHERE name > race) AS largest FROM nls.women GROUP BY race;

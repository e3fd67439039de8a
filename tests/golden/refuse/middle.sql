SELECT count(*) FROM nls.interviews WHERE hourly_wage > (SELECT avg(hourly_wage), count(*) FROM nls.interviews);

SELECT count(*) FROM nls.interviews WHERE hourly_wage > (SELECT count(*)::money::text || 'x' FROM nls.interviews);

SELECT count(*) FROM nls.interviews i JOIN (SELECT year, format('%I', 3) AS r, count(*) FROM nls.interviews GROUP BY year) m USING (year);

SELECT sum(hourly_wage * (SELECT count(*) FROM nls.women)) FROM nls.interviews;

SELECT race, (SELECT count(*) FROM nls.interviews i WHERE i.woman_id = w.woman_id) FROM nls.women w;


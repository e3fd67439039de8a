SELECT count(*) FROM (SELECT woman_id, race FROM nls.women WHERE birth_year > 1950) AS t WHERE race = 'white';
WITH w AS (SELECT woman_id AS id, race AS r FROM nls.women) SELECT r, count(*) FROM w GROUP BY r;
WITH pay AS (SELECT year AS y, hourly_wage * hours_per_week AS weekly FROM nls.interviews) SELECT y, avg(weekly) FROM pay GROUP BY y;
SELECT r, avg(hourly_wage) FROM nls.interviews i JOIN (SELECT woman_id, race AS r FROM nls.women WHERE birth_year < 1950) w ON w.woman_id = i.woman_id GROUP BY r

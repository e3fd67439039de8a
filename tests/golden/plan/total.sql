SELECT avg(hourly_wage / hours_per_week) FROM nls.interviews WHERE hourly_wage / hours_per_week BETWEEN 0 AND 1;
SELECT count(*) FROM nls.women WHERE 100 / (birth_year - 1945) > 3;
SELECT count(*) FROM nls.interviews WHERE ln(hourly_wage) > 1;
SELECT count(*) FROM nls.women WHERE woman_id + 2147483647 > 0;
SELECT count(*) FROM nls.interviews WHERE hourly_wage::int2 = 5;
SELECT count(*) FROM nls.women WHERE race LIKE 'w%' AND lower(race) IN ('white', 'black');
SELECT count(*) FROM nls.women WHERE race <> 'it''s \ "quoted"'

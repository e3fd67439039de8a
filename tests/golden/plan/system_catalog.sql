SELECT count(*) FROM nls.women WHERE race::int > 3;
SELECT count(*) FROM nls.women WHERE race ~ '^[a-z]+$' AND race || '-' || birth_year SIMILAR TO 'b%-19[0-9]+';
SELECT power(birth_year - 1940, 2) AS k, count(*) FROM nls.women GROUP BY 1;
SELECT sum(CASE WHEN hours_per_week > 60 THEN 60 WHEN hours_per_week < 0 THEN 0 ELSE hours_per_week END) FROM nls.interviews;
SELECT floor((hourly_wage - 0.0) / 10.0) * 10.0 AS bin, count(*) FROM nls.interviews WHERE hourly_wage BETWEEN 0 AND 60 GROUP BY 1;
SELECT race, count(*) FROM nls.women WHERE (race, birth_year) IN (('white', 1945), ('black', 1946)) GROUP BY 1;
SELECT year, count(*) FROM nls.interviews WHERE make_date(year::int, 1, 1) >= DATE_TRUNC('month', CAST(NOW() AS timestamp) + INTERVAL '-500 month') GROUP BY 1;
SELECT count(*) FROM nls.women WHERE make_date(birth_year::int, 1, 31) + interval '1 month' < timestamp '1945-03-01'
;
SELECT width_bucket(hourly_wage, ARRAY[5, 10, 20]) AS wage, count(*) FROM nls.interviews GROUP BY 1;
SELECT count(*) FROM nls.interviews WHERE hours_per_week BETWEEN SYMMETRIC 60 AND 20 AND hourly_wage ISNULL;
SELECT sum(gcd(hours_per_week::int, 12)), avg(length(w.race)) FROM nls.interviews i JOIN nls.women w USING (woman_id);
SELECT regexp_like(race, '^W', 'i') AS white, format('%s (%s)', race, college_graduate) AS who, count(*) FROM nls.women GROUP BY 1, 2;
SELECT count(*) FROM nls.interviews WHERE make_date(year::int, 6, 1) + make_interval(years => tenure_years::int) > '1980-01-01T00:00:00Z'

SELECT count(DISTINCT industry_code) FROM nls.interviews;
SELECT race, count(*), count(DISTINCT (industry_code, occupation_code)) FROM nls.interviews JOIN nls.women USING (woman_id) GROUP BY race;
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY hourly_wage), percentile_cont(ARRAY[0.25, 0.75]) WITHIN GROUP (ORDER BY hourly_wage) FROM nls.interviews;
SELECT min(birth_year), max(birth_year) FROM nls.women;
SELECT race, mode() WITHIN GROUP (ORDER BY years_of_school) FROM nls.women GROUP BY race
;
SELECT race, sum(DISTINCT birth_year), count(DISTINCT birth_year), stddev(DISTINCT birth_year) FROM nls.women GROUP BY race;
SELECT avg(DISTINCT hours_per_week) FILTER (WHERE union_member = 1) FROM nls.interviews;
SELECT max(hourly_wage), pgveil.ci_low(percentile_cont(0.5) WITHIN GROUP (ORDER BY hourly_wage)), pgveil.ci_high(max(hourly_wage)) FROM nls.interviews;
SELECT percentile_disc(ARRAY[0.1, 0.3, 0.5, 0.7, 0.9]) WITHIN GROUP (ORDER BY years_of_school) FROM nls.women

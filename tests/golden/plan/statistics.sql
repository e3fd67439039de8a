SELECT count(*), avg(years_of_school), stddev(years_of_school), var_pop(years_of_school) FROM nls.women;
SELECT race, stddev_samp(hourly_wage) FROM nls.interviews JOIN nls.women USING (woman_id) GROUP BY race;
SELECT corr(hourly_wage, tenure_years), regr_slope(hourly_wage, tenure_years), regr_count(hourly_wage, tenure_years) FROM nls.interviews;
SELECT bool_and(college_graduate = 1), bool_or(college_graduate = 1), every(years_of_school > 0) FROM nls.women;
SELECT race, pgveil.geomean(greatest(hourly_wage, 1)) FILTER (WHERE year = 1988), pgveil.stderr(pgveil.geomean(greatest(hourly_wage, 1)) FILTER (WHERE year = 1988)) FROM nls.interviews JOIN nls.women USING (woman_id) GROUP BY race
;
SELECT race, (pgveil.linregr(hourly_wage, ARRAY[1, years_of_school, tenure_years])).* FROM nls.interviews JOIN nls.women USING (woman_id) GROUP BY race;
SELECT (pgveil.linregr(hourly_wage, ARRAY[1, tenure_years])).coef[2], round((pgveil.linregr(hourly_wage, ARRAY[1, tenure_years])).r2::numeric, 2) AS r FROM nls.interviews WHERE year > 1980;
SELECT (pgveil.linregr(hourly_wage, ARRAY[1, tenure_years], 0.1)).coef, (pgveil.linregr(hourly_wage, ARRAY[1, tenure_years], 2)).std_err, (pgveil.linregr(hourly_wage, ARRAY[1, tenure_years])).coef FROM nls.interviews;
SELECT (pgveil.pca(ARRAY[hourly_wage, tenure_years], 1)).* FROM nls.interviews;
SELECT (pgveil.logregr(married = 1, ARRAY[1, tenure_years])).coef FROM nls.interviews

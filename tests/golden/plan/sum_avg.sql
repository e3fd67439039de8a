SELECT sum(hourly_wage) FROM nls.interviews;
SELECT avg(hourly_wage) FROM nls.interviews;
SELECT avg(years_of_school) FROM nls.women;
SELECT count(*), sum(hourly_wage), avg(hourly_wage) FROM nls.interviews;
SELECT count(*), avg(years_of_school), avg(birth_year) FROM nls.women;
SELECT sum(hourly_wage * hours_per_week) FROM nls.interviews;
SELECT avg(union_member) FROM nls.interviews WHERE year = 1988;
SELECT sum(hourly_wage) FROM nls.interviews WHERE hourly_wage BETWEEN 2 AND 20;
SELECT sum(LEAST(GREATEST(woman_id, 0), 10)) FROM nls.women

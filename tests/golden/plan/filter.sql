SELECT count(*) FILTER (WHERE race = 'white') FROM nls.women;
SELECT count(*), count(*) FILTER (WHERE south = 1), avg(hourly_wage) FILTER (WHERE south = 1) FROM nls.interviews;
SELECT sum(tenure_years) FILTER (WHERE tenure_years > 2) FROM nls.interviews

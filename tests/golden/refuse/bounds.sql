SELECT sum(woman_id) FROM nls.women;
SELECT avg(woman_id) FROM nls.women;
SELECT count(DISTINCT race) FROM nls.women;
SELECT sum(DISTINCT birth_year) FROM nls.women;
SELECT max(hourly_wage) FROM nls.interviews;
SELECT string_agg(race, ',') FROM nls.women;
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY hourly_wage) FROM nls.interviews;
SELECT race, count(*) FROM nls.women GROUP BY ROLLUP (race)

SELECT sum(woman_id) FROM nls.women;
SELECT avg(woman_id) FROM nls.women;
SELECT stddev(woman_id) FROM nls.women;
SELECT corr(woman_id, birth_year) FROM nls.women;
SELECT covar_pop(race, birth_year) FROM nls.women;
SELECT corr(DISTINCT birth_year, siblings) FROM nls.women;
SELECT sum(DISTINCT woman_id) FROM nls.women;
SELECT max(race) FROM nls.women;
SELECT min(woman_id) FROM nls.women;
SELECT string_agg(race, ',') FROM nls.women;
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY woman_id) FROM nls.women;
SELECT percentile_cont(1.5) WITHIN GROUP (ORDER BY birth_year) FROM nls.women;
SELECT percentile_cont(birth_year / 2000.0) WITHIN GROUP (ORDER BY birth_year) FROM nls.women;
SELECT mode() WITHIN GROUP (ORDER BY woman_id) FROM nls.women;
SELECT grouping(birth_year), count(*) FROM nls.women GROUP BY ROLLUP (race)

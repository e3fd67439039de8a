SELECT avg(middle) FROM (SELECT woman_id, percentile_cont(0.5) WITHIN GROUP (ORDER BY hourly_wage) AS middle FROM nls.interviews GROUP BY woman_id) AS g;

SELECT avg((r > 0)::int) FROM (SELECT woman_id, corr(hourly_wage, hours_per_week) AS r FROM nls.interviews GROUP BY woman_id) AS g;

SELECT usual, count(*) FROM (SELECT woman_id, mode() WITHIN GROUP (ORDER BY industry_code) AS usual FROM nls.interviews GROUP BY woman_id) AS g GROUP BY usual;

SELECT avg(least(greatest(slope, -1), 1)) FROM (SELECT woman_id, regr_slope(hourly_wage, year) AS slope FROM nls.interviews GROUP BY woman_id) AS g;

SELECT avg(total) FROM (SELECT woman_id, sum(DISTINCT hours_per_week) FILTER (WHERE year > 1970) AS total FROM nls.interviews GROUP BY woman_id) AS g

SELECT sum(hours_per_week) FROM nls.interviews;
SELECT year, count(*), sum(hours_per_week) FROM nls.interviews GROUP BY year;
SELECT sum(hours_per_week * 52), avg(hours_per_week) FROM nls.interviews WHERE south = 1;
SELECT sum(hours_per_week + 1) FROM nls.interviews

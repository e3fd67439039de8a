SELECT race, college_graduate, grouping(race, college_graduate), count(*) FROM nls.women GROUP BY CUBE (race, college_graduate);
SELECT year, union_member, avg(hourly_wage) FROM nls.interviews GROUP BY ROLLUP (year, union_member);
SELECT woman_id % 100, count(*), count(DISTINCT year), max(hourly_wage) FROM nls.interviews GROUP BY GROUPING SETS ((1), ());
SELECT race, count(*) FROM nls.women GROUP BY GROUPING SETS (GROUPING SETS (race), ())

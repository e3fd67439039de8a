SELECT race, college_graduate, count(*), avg(years_of_school) FROM nls.women GROUP BY CUBE (race, college_graduate);
SELECT race, birth_year, sum(years_of_school) FILTER (WHERE years_of_school > 12), max(birth_year) FROM nls.women GROUP BY GROUPING SETS ((race), (birth_year));
SELECT south, union_member, count(*) FROM nls.interviews WHERE year IN (1970, 1971) GROUP BY ROLLUP (south, union_member);
SELECT south, union_member, count(*) FROM nls.interviews GROUP BY ROLLUP (south, union_member);
SELECT race, count(*) FROM nls.women GROUP BY race

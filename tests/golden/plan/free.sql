SELECT count(*) FROM nls.women WHERE 1 = 0;
SELECT * FROM nls.women LIMIT 0;
SELECT industry FROM nls.industries ORDER BY 1;
SELECT 1 AS one;
SELECT industry AS table, E'x' ISNULL, $$x$$ NOTNULL FROM nls.industries;
SELECT interval '1.55' SECOND(1), interval '1.9' MONTH, '1.55 s'::interval(1), time(1) '10:00:00.55', timestamp(0) '2020-01-01 00:00:00.6', timestamptz(0) '2020-01-01 00:00:00.6+00' FROM nls.industries;
SELECT time(1) with time zone '10:00:00.55+00', numeric(3,1) '1.55', varchar(2) 'abc', char(1) 'ab' FROM nls.industries;
SELECT race, college_graduate, count(*), avg(years_of_school) FROM nls.women WHERE race = 'Whit' GROUP BY ROLLUP (1), 2;
SELECT count(*), max(year) FROM nls.interviews WHERE year = 1974

SELECT count(*) FILTER (WHERE race = 'white') FROM nls.women;
SELECT count(*), count(*) FILTER (WHERE south = 1), avg(hourly_wage) FILTER (WHERE south = 1) FROM nls.interviews;
SELECT sum(tenure_years) FILTER (WHERE tenure_years > 2) FROM nls.interviews;
SELECT count(*) FILTER (WHERE south>=-1) FROM nls.interviews WHERE tenure_years<>-1;
SELECT count(*) FROM nls.women WHERE race = 'wh' -- and so on
  'ite' AND 'tr'::bool;
SELECT count(*) FROM nls.women WHERE make_date(birth_year::int, 1, 31) + interval '1-2' YEAR TO MONTH < timestamp '1945-03-01';
SELECT count(*) FROM nls.women WHERE make_date(birth_year::int, 1, 31) < 'infinity' AND make_date(birth_year::int, 1, 31) > '0044-03-15 BC'::date;
SELECT count(*) FROM nls.women WHERE make_date(birth_year::int, 1, 31) >= ('1945-01-01 +00'::date);
SELECT count(*) FILTER (WHERE race = 'white'), count(*) FILTER (WHERE race = 'black'), count(*) FILTER (WHERE race = 'other') FROM nls.women;
SELECT count(*), sum(hourly_wage) FILTER (WHERE year = 1968), sum(hourly_wage) FILTER (WHERE year = 1970), sum(hourly_wage) FILTER (WHERE year = 1988) FROM nls.interviews;
SELECT sum(CASE WHEN year = 1968 THEN hourly_wage ELSE 0 END), sum(CASE WHEN year = 1970 THEN hourly_wage ELSE 0 END), sum(CASE WHEN year = 1988 THEN hourly_wage ELSE 0 END) FROM nls.interviews;
SELECT count(*), sum(CASE WHEN year = 1968 THEN hourly_wage ELSE 0 END), sum(CASE WHEN year = 1970 THEN hourly_wage ELSE 0 END) FROM nls.interviews

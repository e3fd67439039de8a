SELECT count(*) FROM nls.women WHERE race = 'black';
SELECT count(*) FILTER (WHERE race = 'black') FROM nls.women;
SELECT count(*) FROM nls.women WHERE race IS NOT NULL;
SELECT race, count(*) FROM nls.women WHERE race <> 'black' GROUP BY race;
SELECT race, count(*) FILTER (WHERE birth_year < 1950) FROM nls.women GROUP BY race;
SELECT race, avg(years_of_school) FROM nls.women GROUP BY race;
SELECT race, birth_year, count(*) FROM nls.women GROUP BY race, birth_year;
SELECT race, count(*) FROM nls.women GROUP BY ROLLUP (race);
SELECT race FROM nls.women GROUP BY race;
SELECT DISTINCT race FROM nls.women;
SELECT lower(race), count(*) FROM nls.women GROUP BY lower(race);
SELECT race, count(*) FROM (SELECT race FROM nls.women UNION ALL SELECT race FROM nls.women) AS u GROUP BY race;
SELECT race, count(*) FROM nls.women JOIN nls.interviews USING (woman_id) GROUP BY race;
SELECT min(race) FROM nls.women;
SELECT race, college_graduate, count(*) FROM nls.women GROUP BY race;
SELECT n.industry, (SELECT count(*) FROM nls.women w WHERE w.race = n.industry) FROM nls.industries n;
SELECT avg(3 * (SELECT count(w.race) FROM nls.women w WHERE w.race = CAST(i.year AS text))) FROM nls.interviews i

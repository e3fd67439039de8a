SELECT count(*) FROM nls.interviews i JOIN nls.women w ON i.woman_id = w.woman_id WHERE w.race = 'black';
SELECT w.race, avg(i.hourly_wage) FROM nls.women w JOIN nls.interviews i USING (woman_id) GROUP BY w.race;
SELECT count(*) FROM nls.women w, nls.interviews i WHERE w.woman_id = i.woman_id;
SELECT w.race, count(i.interview_id) FROM nls.women w LEFT JOIN nls.interviews i ON i.woman_id = w.woman_id AND i.year = 1988 GROUP BY w.race;
SELECT n.industry, count(*) FROM nls.interviews i JOIN nls.industries n ON n.industry_code = i.industry_code GROUP BY n.industry;
SELECT count(*) FROM nls.women CROSS JOIN nls.industries;
SELECT o.occupation, count(*) FROM nls.interviews i LEFT JOIN nls.occupations o USING (occupation_code) GROUP BY 1

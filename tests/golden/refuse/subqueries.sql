SELECT count(*) FROM nls.women w WHERE EXISTS (SELECT 1 FROM nls.interviews i WHERE i.age > w.birth_year);

SELECT count(*) FROM nls.women w WHERE w.birth_year NOT IN (SELECT year FROM nls.interviews i WHERE i.woman_id = w.woman_id AND i.tenure_years NOT IN (SELECT weeks_worked FROM nls.interviews));

SELECT count(*) FROM nls.industries n WHERE EXISTS (SELECT 1 FROM nls.interviews i WHERE i.industry_code = n.industry_code);

SELECT count(*) FROM nls.women w WHERE (SELECT max(i.age) FROM nls.interviews i WHERE i.woman_id < w.woman_id) > 3;

SELECT count(*) FROM nls.women w WHERE (SELECT max(w.birth_year) FROM nls.interviews i WHERE i.woman_id = w.woman_id) > 3;

SELECT count(*) FROM nls.women w WHERE (SELECT i.age FROM nls.interviews i WHERE i.woman_id = w.woman_id) > 3;

SELECT count(*) FROM nls.women w JOIN nls.interviews i ON i.woman_id = w.woman_id AND i.year IN (SELECT j.year FROM nls.interviews j WHERE j.woman_id = w.woman_id)

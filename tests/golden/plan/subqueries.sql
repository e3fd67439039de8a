SELECT count(*) FROM nls.women w WHERE w.woman_id IN (SELECT woman_id FROM nls.interviews WHERE hourly_wage > 20);

SELECT race, count(*) FROM nls.women AS w WHERE NOT EXISTS (SELECT 1 FROM nls.interviews AS i WHERE i.woman_id = w.woman_id AND i.union_member = 1) GROUP BY race;

SELECT avg(i.hourly_wage) FROM nls.interviews i WHERE i.hourly_wage > (SELECT avg(j.hourly_wage) FROM nls.interviews j WHERE j.woman_id = i.woman_id);

SELECT sum(CASE WHEN w.woman_id NOT IN (SELECT woman_id FROM nls.interviews) THEN 1 ELSE 0 END) FROM nls.women w;

SELECT count(*) FROM nls.interviews i WHERE (SELECT n.industry FROM nls.industries n WHERE n.industry_code = i.industry_code) LIKE 'M%'

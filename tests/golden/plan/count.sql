SELECT count(*) FROM nls.women;
SELECT count(years_of_school), count(*) FROM nls.women;
SELECT count(DISTINCT woman_id) FROM nls.women;
SELECT count(*) FROM nls.interviews;
SELECT count(DISTINCT woman_id), count(*) FROM nls.interviews;
SELECT count(DISTINCT CASE WHEN union_member = 1 THEN woman_id END) FROM nls.interviews;
SELECT count(*) FROM nls.women WHERE birth_year >= 1950 AND race <> 'other'

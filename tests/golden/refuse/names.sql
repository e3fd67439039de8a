SELECT count(*) FROM nls.nothing;
SELECT count(nothing) FROM nls.women;
SELECT count(interview_id) FROM nls.interviews;
SELECT count(*) FROM nls."Women";
SELECT count("Race") FROM nls.women;
SELECT count(*) FROM nls.women w JOIN nls.interviews i ON w.woman_id = i.woman_id WHERE woman_id = 3;
SELECT count(*) FROM pg_class;
SELECT count(*) FROM nls.women, nls.women;
WITH pgveil_0 AS (SELECT 1) SELECT * FROM pgveil_0

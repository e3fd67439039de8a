-- Names and ranges of the metadata of SmartNoise's tests, in the types that most of its texts ask for; the rows are made up.
CREATE SCHEMA pums;
CREATE TABLE pums.pums (
    pid int PRIMARY KEY, age int NOT NULL, sex int NOT NULL, educ int NOT NULL, race text NOT NULL, income int NOT NULL, married boolean NOT NULL
);
CREATE TABLE pums.pums_null (pid int PRIMARY KEY, age int, sex int, educ int, race text, income int, married boolean);
INSERT INTO pums.pums
SELECT i, i * 7 % 101, i % 2, 1 + i * 3 % 16, (1 + i % 6)::text, i * 997 % 200 * 2500, i % 3 = 0 FROM generate_series(1, 4000) i;
INSERT INTO pums.pums_null SELECT pid, CASE WHEN pid % 5 > 0 THEN age END, sex, CASE WHEN pid % 7 > 0 THEN educ END, race, income, married FROM pums.pums;
ANALYZE;

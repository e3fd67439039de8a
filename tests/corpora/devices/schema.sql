-- Names, types and ranges of the metadata of SmartNoise's tests; the rows are made up.
CREATE SCHEMA telemetry;
CREATE TABLE telemetry.crashes (
    deviceid int NOT NULL, refurbished boolean NOT NULL, temperature double precision NOT NULL, building text NOT NULL, region text NOT NULL,
    crashes int NOT NULL
);
CREATE TABLE telemetry.census (deviceid int NOT NULL, oem text NOT NULL, memory text NOT NULL, disk int NOT NULL);
CREATE TABLE telemetry.rollouts (deviceid int NOT NULL, rolloutid int NOT NULL, starttrial timestamp, endtrial timestamp, trialgroup int);
INSERT INTO telemetry.crashes
SELECT i % 1500, i % 3 = 0, 25 + i * 7 % 160 / 4.0, 'building ' || i % 4, (ARRAY['APAC', 'EMEA', 'LATAM', 'NA'])[1 + i % 4], i * 3 % 11
FROM generate_series(1, 3000) i;
INSERT INTO telemetry.census SELECT i, 'oem ' || i % 5, (ARRAY['8G', '16G'])[1 + i % 2], 100 + i * 7 % 9900 FROM generate_series(1, 1499) i;
INSERT INTO telemetry.rollouts SELECT i % 1500, i % 7, timestamp '2024-01-01', timestamp '2024-02-01', 1 + i % 3 FROM generate_series(1, 2000) i;
ANALYZE;

-- Names and types of UCI Adult; the rows are made up.
CREATE TABLE census (
    id int PRIMARY KEY, age int NOT NULL, workclass text, fnlwgt int NOT NULL, education text NOT NULL, education_num int NOT NULL,
    marital_status text NOT NULL, occupation text, relationship text NOT NULL, race text NOT NULL, sex text NOT NULL, capital_gain int NOT NULL,
    capital_loss int NOT NULL, hours_per_week int NOT NULL, native_country text, income text NOT NULL
);
INSERT INTO census
SELECT i, 17 + i * 7 % 74, (ARRAY['Private', 'State-gov', 'Self-emp', NULL])[1 + i % 4], 12285 + i * 997 % 1400000,
    (ARRAY['Bachelors', 'HS-grad', 'Masters', 'Doctorate'])[1 + i % 4], 1 + i % 16,
    (ARRAY['Divorced', 'Married', 'Never-married', 'Widowed'])[1 + i % 4], (ARRAY['Sales', 'Craft-repair', NULL])[1 + i % 3],
    (ARRAY['Husband', 'Wife', 'Own-child'])[1 + i % 3], (ARRAY['White', 'Black', 'Other'])[1 + i % 3], (ARRAY['Female', 'Male'])[1 + i % 2],
    CASE WHEN i % 9 = 0 THEN i * 31 % 99999 ELSE 0 END, CASE WHEN i % 11 = 0 THEN 1000 + i % 2 * 500 ELSE 0 END, 1 + i * 3 % 99,
    (ARRAY['Cuba', 'Italy', 'England', 'United-States', NULL])[1 + i % 5], (ARRAY['<=50K', '>50K'])[1 + i % 2]
FROM generate_series(1, 3000) i;
ANALYZE;

//! Middle queries: released rows as constants of a later release, in FROM and in expressions.

use super::end_to_end::wide;
use crate::fixture::Veil;

const ANSWERED: &[&str] = &[
    "SELECT count(*) FROM nls.interviews WHERE hourly_wage > (SELECT avg(hourly_wage) FROM \
        nls.interviews)",
    "SELECT count(*) FROM nls.interviews i JOIN (SELECT year, avg(hourly_wage) AS mean FROM \
        nls.interviews GROUP BY year) m ON m.year = i.year WHERE i.hourly_wage > m.mean",
    // The query that BI tools write for the largest groups.
    "SELECT i.year, count(*) FROM nls.interviews i JOIN (SELECT year, count(*) AS n FROM \
        nls.interviews GROUP BY year ORDER BY n DESC, year LIMIT 3) top ON top.year = i.year GROUP \
        BY i.year HAVING count(*) > 0 ORDER BY 1",
    "WITH top AS (SELECT birth_year, count(*) AS n FROM nls.women GROUP BY birth_year ORDER BY n \
        DESC, birth_year LIMIT 4)
     SELECT sum(w.years_of_school), (SELECT count(*) FROM top) FROM nls.women w JOIN top USING \
     (birth_year)",
    "SELECT count(*) FROM nls.women WHERE birth_year IN (SELECT birth_year FROM nls.women GROUP BY \
        birth_year HAVING count(*) > 300)",
    "SELECT count(*) FROM nls.women WHERE birth_year NOT IN (SELECT birth_year FROM nls.women \
        GROUP \
        BY birth_year HAVING count(*) > 300)",
    "SELECT hourly_wage > (SELECT avg(hourly_wage) FROM nls.interviews) AS above, count(*) FROM \
        nls.interviews GROUP BY 1 HAVING count(*) > 0 ORDER BY 1",
    "SELECT count(*) FILTER (WHERE hourly_wage < (SELECT avg(hourly_wage) FROM nls.interviews \
        WHERE \
        year = 1988)) FROM nls.interviews",
    "SELECT count(*) FROM nls.women WHERE EXISTS (SELECT 1 FROM nls.interviews HAVING count(*) > \
        10) AND race = 'white'",
    "SELECT count(*) FROM nls.interviews i JOIN (SELECT industry_code, row_number() OVER (ORDER BY \
        industry_code) AS place FROM nls.industries) n USING (industry_code) WHERE n.place <= 5",
    "SELECT count(*) FROM nls.interviews WHERE industry_code IN (SELECT industry_code FROM \
        nls.industries ORDER BY industry_code LIMIT 3)",
    // Two steps deep: the constants of a release that has constants.
    "SELECT count(*) FROM nls.interviews WHERE hourly_wage > (SELECT avg(hourly_wage) FROM \
        nls.interviews WHERE hourly_wage > (SELECT avg(hourly_wage) FROM nls.interviews))",
    "SELECT w.race, count(*) FROM nls.women w LEFT JOIN (SELECT race, count(*) AS n FROM nls.women \
        GROUP BY race HAVING count(*) > 1000) big ON big.race = w.race WHERE big.n IS NULL GROUP \
        BY \
        w.race HAVING count(*) > 0 ORDER BY 1",
    "SELECT round(avg(share), 3) FROM (SELECT i.hourly_wage / m.mean AS share FROM nls.interviews \
        i \
        CROSS JOIN (SELECT avg(hourly_wage) AS mean FROM nls.interviews) m) s WHERE share BETWEEN \
        0 \
        AND 100",
];

#[tokio::test(flavor = "multi_thread")]
async fn constants_are_what_postgresql_would_compute() {
    let generous = |y: String| wide(y).replace("rows_per_unit: 1000", "rows_per_unit: 20");
    let veil = Veil::demo(generous, Veil::silent()).await;
    let mut faults = Vec::new();
    for sql in ANSWERED {
        let mut requester = Veil::requester();
        requester.session_settings.epsilon = Some(0.2);
        let expected = veil.direct(sql).await;
        match veil.rows_as(&requester, sql).await {
            Ok(rows) if rows == expected => {}
            Ok(rows) => faults.push(format!("{sql}\n  wanted {expected:?}\n  found {rows:?}")),
            Err(error) => faults.push(format!("{sql}\n  {error} {:?}", error.report())),
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

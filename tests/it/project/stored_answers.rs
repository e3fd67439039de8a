//! Stored answers are found by digests of what was asked.

use pgveil::engine::plan;
use pgveil::parse::{Statement, parse};

use super::golden::{constants, terms};
use crate::fixture::Veil;

/// A question, the digest of its release, and that of the release's family.
type Pin = (&'static str, &'static str, Option<&'static str>);

const PINS: [Pin; 5] = [
    (
        "SELECT count(*) FROM nls.women",
        "7b7cf1bb93fd809fdc7c3cf9ac3a43993abb9049143c39763a5315761091dc92",
        Some("0aa997801170bce8ee6583ad20b1329ecd9aeb5f8f60efc86a7f3f13c54d0436"),
    ),
    (
        "SELECT race, count(*) FROM nls.women WHERE birth_year >= 1950 GROUP BY race",
        "8bdc205976773e5f0086556d4d9b1e19be24d552afde045814662c19ce7b6236",
        Some("0aa997801170bce8ee6583ad20b1329ecd9aeb5f8f60efc86a7f3f13c54d0436"),
    ),
    (
        "SELECT w.race, avg(i.hourly_wage) FROM nls.women w \
            JOIN nls.interviews i USING (woman_id) GROUP BY w.race",
        "e84644e3ba064d2a7cb9f9b5e17123632717c2cf79adcbd8d7afb25f3dd96ecf",
        Some("975ce15315bfce2230dcbd5cff2e5d8fe8b12b9dd94b639799dd1f03e51fa180"),
    ),
    (
        "SELECT avg(wage), count(*) FROM (SELECT woman_id, max(hourly_wage) AS wage \
            FROM nls.interviews GROUP BY woman_id) AS w",
        "05bc83633af79dd08fc8a42ab86c3b0949c98181565d84af7ef28ff36bb74039",
        Some("4c62804bc6a689894de45dd8815738f90eee1e5c6575535d626ec7790181f477"),
    ),
    (
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY hourly_wage) FROM nls.interviews",
        "aa60e23100b1d3abe1ba067e3a3ab026ccd5fba0e319765ee556a04e88485cf9",
        None,
    ),
];

/// Answers that ledgers hold are found by these digests. Whoever changes one loses those answers,
/// and says so in the changelog.
#[tokio::test(flavor = "multi_thread")]
async fn digests_of_questions_stay() {
    let veil = Veil::demo(|yaml| yaml, None).await;
    let mut policy = veil.engine.policy().clone();
    policy.version = "1".to_owned();
    let (search_path, terms, constants) = (["public".to_owned()], terms(&policy), constants());
    let hex = |bytes: &[u8; 32]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let found = PINS.map(|(sql, ..)| -> (&str, String, Option<String>) {
        let statements = parse(sql).unwrap();
        let [Statement::Query(query)] = &statements[..] else {
            panic!("{sql}");
        };
        let plan = plan(query, &policy, &search_path, &constants, &terms).unwrap();
        let [release] = plan.releases() else {
            panic!("{sql}");
        };
        let family = release.family().map(|family| hex(family.digest.as_bytes()));
        (sql, hex(release.question().as_bytes()), family)
    });
    let pinned = PINS.map(|(sql, release, family)| {
        let family = family.map(str::to_owned);
        (sql, release.to_owned(), family)
    });
    assert_eq!(found, pinned);
}

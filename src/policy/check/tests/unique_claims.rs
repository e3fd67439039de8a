//! Columns that are claimed to identify a row: each fault is reported where it stands.

use super::*;
use crate::policy::ColumnPosition;

async fn claimed(unique: &str, catalog: &Catalog) -> Checked {
    let text = format!("unique: {unique}, columns: {{price: visible}}");
    let rows = Rows(Ok(Vec::new()));
    check(&file(&text), catalog, &rows).await.unwrap()
}

#[tokio::test]
async fn claims_are_kept_and_change_no_answer() {
    let with = claimed("[price]", &catalog()).await;
    let people = with.policy.table("s", "people").unwrap();
    assert_eq!(people.claimed_unique, [ColumnPosition(1)]);
    let without = claimed("[]", &catalog()).await;
    assert_eq!(with.policy.version, without.policy.version);
    assert_eq!(with.warnings, without.warnings);
}

#[tokio::test]
async fn claims_that_say_nothing_are_warned_of() {
    let checked = claimed("[id, price, price]", &catalog()).await;
    let warnings: Vec<String> = checked.warnings.iter().map(ToString::to_string).collect();
    for words in [
        "unique names s.people.id, which a unique key of the database identifies anyway",
        "unique names s.people.price twice",
    ] {
        let found = warnings.iter().filter(|warning| warning.contains(words));
        assert_eq!(found.count(), 1, "{words}: {warnings:?}");
    }
}

#[tokio::test]
async fn what_cannot_identify_a_row_is_an_error() {
    let columns = "unique: [nobody], columns: {price: visible}";
    let wanted = "unique names s.people.nobody, which the policy does not show";
    let found = errors(&file(columns), &catalog(), Rows(Ok(Vec::new()))).await;
    assert!(
        matches!(found.as_slice(), [one] if one.contains(wanted)),
        "{found:?}"
    );
    let mut catalog = catalog();
    catalog.tables[1].columns[1].deterministic_collation = false;
    let columns = "unique: [price], columns: {price: visible}";
    let found = errors(&file(columns), &catalog, Rows(Ok(Vec::new()))).await;
    let wanted = "whose collation takes different texts for equal; such a column identifies no row";
    assert!(
        found.iter().any(|error| error.contains(wanted)),
        "{found:?}"
    );
    catalog.tables[1].columns[1].deterministic_collation = true;
    catalog.tables[1].columns[1].data_type = Type::Other {
        oid: 114,
        name: "json".to_owned(),
    };
    let found = errors(&file(columns), &catalog, Rows(Ok(Vec::new()))).await;
    let wanted = "unique names s.people.price, whose type pgveil does not compare";
    assert!(
        found.iter().any(|error| error.contains(wanted)),
        "{found:?}"
    );
}

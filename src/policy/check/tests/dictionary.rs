//! Columns of filters: what a good entry gives, and every fault where it stands.

use super::*;
use crate::mechanism::{Randomiser, Rappor};
use crate::policy::{ColumnPosition, Scalar};

const ENTRY: &str = "page: {values: [a, b, c], collected: {mechanism: rappor, bits: 16, hashes: 2, \
    cohorts: 4, f: 1/2, p: 1/2, q: 3/4, cohort: price}}";

/// A table with a column of bits and one of their cohorts.
async fn checked(columns: &str, bits: &str) -> Result<Checked, Vec<String>> {
    let mut catalog = catalog();
    let at = catalog.tables.iter().position(|t| t.name == "people");
    let people = &mut catalog.tables[at.unwrap()];
    people.columns[1].data_type = Type::Int4;
    people.columns.push(Column {
        number: 3,
        ..column(
            "page",
            Type::Other {
                oid: 1560,
                name: bits.to_owned(),
            },
        )
    });
    let file = file(&format!("columns: {{{columns}}}"));
    let checked = check(&file, &catalog, &Rows(Ok(Vec::new()))).await;
    checked.map_err(|errors| errors.iter().map(ToString::to_string).collect())
}

#[tokio::test]
async fn a_column_of_filters_is_a_text_of_its_list() {
    for bits in ["bit(16)", "bit varying(16)", "bit varying(1024)"] {
        let checked = checked(&format!("price: visible, {ENTRY}"), bits)
            .await
            .unwrap();
        let mut tables = checked.policy.tables.iter();
        let table = tables.find(|table| table.name == "people").unwrap();
        let [_, cohort, page] = table.columns.as_slice() else {
            panic!("three columns")
        };
        let collected = page.collected.as_ref().unwrap();
        let dictionary = collected.dictionary.as_ref().unwrap();
        let rappor = Rappor {
            bits: 16,
            hashes: 2,
            cohorts: 4,
            f: 0.5,
            p: 0.5,
            q: 0.75,
        };
        assert_eq!(page.data_type, Type::Text);
        assert_eq!(collected.randomiser, Randomiser::Rappor(rappor));
        assert_eq!(dictionary.values, ["a", "b", "c"]);
        assert_eq!(dictionary.cohort, ColumnPosition(1));
        let listed: Vec<Scalar> = (0..4).map(Scalar::Int).collect();
        assert_eq!(cohort.domain, Some(listed));
        // 15.75 and 3.15 at the same epsilon, 1.07.
        let wanted = "column \"page\" lists 3 values: a bit for each of them (unary) at the same \
            epsilon of a report, 1.07, has 5.0 times less variance than a bit of rappor";
        let warned: Vec<String> = checked.warnings.iter().map(ToString::to_string).collect();
        assert!(
            warned.iter().any(|warning| warning.contains(wanted)),
            "{warned:#?}"
        );
    }
}

/// Two columns of the same cohorts: the list has all of those that either has.
#[tokio::test]
async fn columns_may_share_their_cohorts() {
    let other = ENTRY.replace("page: {", "more: {");
    let other = other
        .replace("cohorts: 4", "cohorts: 8")
        .replace("bits: 16", "bits: 24");
    let both = format!("price: visible, {ENTRY}, {other}");
    let mut catalog = catalog();
    let at = catalog.tables.iter().position(|t| t.name == "people");
    let people = &mut catalog.tables[at.unwrap()];
    people.columns[1].data_type = Type::Int4;
    for (name, bits) in [("page", 16), ("more", 24)] {
        let data_type = Type::Other {
            oid: 1560,
            name: format!("bit({bits})"),
        };
        people.columns.push(column(name, data_type));
    }
    let file = file(&format!("columns: {{{both}}}"));
    let checked = check(&file, &catalog, &Rows(Ok(Vec::new()))).await;
    let policy = checked.unwrap().policy;
    let mut tables = policy.tables.iter();
    let table = tables.find(|table| table.name == "people").unwrap();
    let listed: Vec<Scalar> = (0..8).map(Scalar::Int).collect();
    assert_eq!(table.columns[1].domain, Some(listed));
    assert!(
        table.columns[2..]
            .iter()
            .all(|column| column.collected.is_some())
    );
}

#[tokio::test]
async fn faults_are_reported_where_they_stand() {
    let good = format!("price: visible, {ENTRY}");
    let with = |old: &str, new: &str| good.replace(old, new);
    for (columns, bits, wanted) in [
        (
            good.clone(),
            "bit(8)",
            "column \"page\" is collected by rappor and must be of type bit(16), or bit varying of \
                at most 1024 bits, not bit(8)",
        ),
        (good.clone(), "bit varying(15)", "bits, not bit varying(15)"),
        // The time that a long report takes would tell of its row.
        (good.clone(), "bit varying", "bits, not bit varying"),
        (good.clone(), "bit varying(1025)", "varying(1025)"),
        (good.clone(), "text", "must be of type bit(16)"),
        (
            with("values: [a, b, c]", "values: [a]"),
            "bit(16)",
            "needs 2 to 2000 values, not 1",
        ),
        (
            with("values: [a, b, c]", "values: [a, b, a]"),
            "bit(16)",
            "lists the value \"a\" twice",
        ),
        (
            with("values: [a, b, c]", "bounds: [1, 2]"),
            "bit(16)",
            "which needs the values that reports are decoded to, as values: [a, b, c]",
        ),
        (
            with("values: [a, b, c]", "domain: s.codes.price"),
            "bit(16)",
            "must be written here as it was",
        ),
        (
            with("price: visible", "price: {bounds: [0, 3]}"),
            "bit(16)",
            "cohort of column \"page\" must be an integer column that is visible, without values \
                or bounds, and not of a unit or path, not \"price\"",
        ),
        (
            with("cohort: price", "cohort: prize"),
            "bit(16)",
            "and not of a unit or path, not \"prize\"",
        ),
        (
            with("cohort: price", "cohort: id"),
            "bit(16)",
            "and not of a unit or path, not \"id\"",
        ),
        (
            with("cohort: price", "cohort: page"),
            "bit(16)",
            "and not of a unit or path, not \"page\"",
        ),
        (
            // One bit cannot tell three values apart in one cohort.
            good.replace(
                "bits: 16, hashes: 2, cohorts: 4",
                "bits: 2, hashes: 1, cohorts: 1",
            ),
            "bit(2)",
            "which set the same bits in each cohort",
        ),
    ] {
        let found = checked(&columns, bits).await.unwrap_err().join("\n");
        assert!(found.contains(wanted), "{columns} {bits}: {found}");
        assert!(found.starts_with("p.yaml:6:"), "{found}");
    }
}

/// The cohorts are values of their column.
#[tokio::test]
async fn cohorts_are_at_most_as_many_as_groups() {
    let mut catalog = catalog();
    let at = catalog.tables.iter().position(|t| t.name == "people");
    let people = &mut catalog.tables[at.unwrap()];
    people.columns[1].data_type = Type::Int4;
    let data_type = Type::Other {
        oid: 1560,
        name: "bit(16)".to_owned(),
    };
    people.columns.push(column("page", data_type));
    let mut file = file(&format!("columns: {{price: visible, {ENTRY}}}"));
    for (groups, wanted) in [
        (4, None),
        (
            3,
            Some("cohort of column \"page\" has more than 3 values (limits.groups)"),
        ),
    ] {
        file.limits.groups = groups;
        let errors = errors(&file, &catalog, Rows(Ok(Vec::new()))).await;
        match wanted {
            None => assert!(errors.is_empty(), "{errors:?}"),
            Some(wanted) => assert!(errors[0].contains(wanted), "{errors:?}"),
        }
    }
}

/// A list that passes can be asked for.
#[tokio::test]
async fn lists_that_take_too_long_to_decode_are_refused() {
    let listed: Vec<String> = (0..2_000).map(|number| format!("v{number}")).collect();
    let list = format!("values: [{}]", listed.join(", "));
    let with = |numbers: &str| {
        let entry = ENTRY.replace("values: [a, b, c]", &list);
        let entry = entry.replace("bits: 16, hashes: 2, cohorts: 4", numbers);
        format!("price: visible, {entry}")
    };
    let good = with("bits: 128, hashes: 2, cohorts: 64");
    assert!(checked(&good, "bit(128)").await.is_ok());
    let long = with("bits: 17, hashes: 16, cohorts: 481");
    let found = checked(&long, "bit(17)").await.unwrap_err().join("\n");
    let wanted = "column \"page\" lists 2000 values, which would take";
    assert!(found.starts_with("p.yaml:6:"), "{found}");
    assert!(
        found.contains(wanted) && found.contains("list fewer, or collect with fewer hashes"),
        "{found}"
    );
}

/// With fewer bits than values, estimates would be further off than they say.
#[tokio::test]
async fn lists_longer_than_all_bits_are_refused() {
    let listed: Vec<String> = (0..129).map(|number| format!("v{number}")).collect();
    for (values, is_taken) in [(128, true), (129, false)] {
        let list = format!("values: [{}]", listed[..values].join(", "));
        let entry = ENTRY.replace("values: [a, b, c]", &list);
        let entry = entry.replace("cohorts: 4", "cohorts: 8");
        let checked = checked(&format!("price: visible, {entry}"), "bit(16)").await;
        match checked {
            Ok(_) => assert!(is_taken),
            Err(found) => {
                let wanted = "column \"page\" lists 129 values, more than the 128 bits of all \
                    cohorts";
                let found = found.join("\n");
                assert!(!is_taken && found.contains(wanted), "{found}");
            }
        }
    }
}

#[tokio::test]
async fn reports_that_may_be_the_truth_are_warned_of() {
    for (numbers, wanted) in [
        ("f: 0, p: 0, q: 3/4", "one report may tell the true value"),
        ("f: 0, p: 1/2, q: 1", "one report may tell the true value"),
        (
            "f: 0, p: 1/2, q: 3/4",
            "many reports of a person together tell the true value",
        ),
    ] {
        let entry = ENTRY.replace("f: 1/2, p: 1/2, q: 3/4", numbers);
        let columns = format!("price: visible, {entry}");
        let checked = checked(&columns, "bit(16)").await.unwrap();
        let mut warned = checked.warnings.iter().map(ToString::to_string);
        assert!(warned.any(|warning| warning.contains(wanted)), "{numbers}");
    }
}

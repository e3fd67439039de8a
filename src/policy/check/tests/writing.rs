//! What roles may write, against the catalog.

use super::*;

fn written(columns: &str, top: &str, unit: &str) -> File {
    let text = format!(
        "version: 1
privacy: {{unit: p, budget: {{epsilon: 1, delta: 1e-6}}}}
database: {{url: 'postgres://h/d', write_url: 'postgres://w@h/d'}}
roles: [{{name: a, \
password: \"SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=\", \
budget: none, writes: [s.people]}}]
{top}
tables:
  s.codes: public
  s.people: {{unit: {unit}, columns: {{price: {columns}}}}}"
    );
    File::parse("p.yaml", &text, |_| None).unwrap()
}

const LOCAL: &str = "local: {secret: 0123456789abcdef0123456789abcdef}";
const KRR: &str = "{values: [1, 2, 3], local: {mechanism: krr, epsilon: 1}}";

#[tokio::test]
async fn a_table_that_is_written_is_known_with_all_its_columns() {
    let checked = check(
        &written(KRR, LOCAL, "id"),
        &catalog(),
        &Rows(Ok(Vec::new())),
    )
    .await;
    let checked = checked.unwrap();
    let writing = checked.policy.writing.unwrap();
    let table = writing.table("s", "people").unwrap();
    assert_eq!((table.unit.as_str(), table.columns.len()), ("id", 2));
    let local = table.column("price").unwrap().local.as_ref().unwrap();
    assert_eq!((local.values.len(), local.may_be_null), (3, false));
    assert!(table.column("id").unwrap().local.is_none());
    assert!(checked.warnings.is_empty(), "{:?}", checked.warnings);
    // Without a memo, each row has its own report, unless there is one row a unit.
    let file = written(KRR, "local: {memo: false}", "id");
    let checked = check(&file, &catalog(), &Rows(Ok(Vec::new())))
        .await
        .unwrap();
    assert!(checked.warnings.is_empty(), "{:?}", checked.warnings);
    let mut twice = catalog();
    let people = twice
        .tables
        .iter_mut()
        .find(|table| table.name == "people")
        .unwrap();
    people.unique_keys.clear();
    let checked = check(&file, &twice, &Rows(Ok(Vec::new()))).await.unwrap();
    let warned = checked
        .warnings
        .iter()
        .any(|w| w.message.contains("reports add up"));
    assert!(warned, "{:?}", checked.warnings);
    let file = written(KRR, LOCAL, "id");
    let checked = check(&file, &twice, &Rows(Ok(Vec::new()))).await.unwrap();
    let mut warnings = checked.warnings.iter();
    assert!(warnings.any(|w| w.message.contains("reports are copies")));
}

/// What is read does not depend on who writes, so stored answers stay.
#[tokio::test]
async fn writing_keeps_the_version_of_the_policy() {
    let rows = || Rows(Ok(Vec::new()));
    let with = check(&written(KRR, LOCAL, "id"), &catalog(), &rows())
        .await
        .unwrap();
    let collected = KRR.replace("local", "collected");
    let without = file(&format!("columns: {{price: {collected}}}"));
    let without = check(&without, &catalog(), &rows()).await.unwrap();
    assert_eq!(with.policy.version, without.policy.version);
}

#[tokio::test]
async fn mistakes_say_what_is_wanted() {
    for (columns, top, unit, wanted) in [
        (KRR, "", "id", "the policy needs `local: {secret"),
        (
            "{bounds: [0, 1]}",
            LOCAL,
            "id",
            "has no column with `local`",
        ),
        (
            "{values: [1], local: {mechanism: krr, epsilon: 1}}",
            LOCAL,
            "id",
            "needs a list of 2 to 1000",
        ),
        (
            "{values: [1, 2], local: {mechanism: krr, epsilon: 21}}",
            LOCAL,
            "id",
            "with an epsilon above 20",
        ),
        (
            "{values: [1, 2], local: {mechanism: coin, truth: 1, yes: 1/2}}",
            LOCAL,
            "id",
            "leave some value as it is",
        ),
        (
            KRR,
            LOCAL,
            "{path: [id -> s.people.id]}",
            "unit must be a column of the table",
        ),
    ] {
        let found = errors(
            &written(columns, top, unit),
            &catalog(),
            Rows(Ok(Vec::new())),
        )
        .await;
        let found = found.join("\n");
        assert!(found.contains(wanted), "{columns} {top}: {found}");
    }
    let mut keyed = catalog();
    let people = keyed
        .tables
        .iter_mut()
        .find(|table| table.name == "people")
        .unwrap();
    people
        .unique_keys
        .push(UniqueKey::plain(["id", "price"], false));
    let found = errors(&written(KRR, LOCAL, "id"), &keyed, Rows(Ok(Vec::new()))).await;
    assert!(
        found.join("\n").contains("part of a unique key"),
        "{found:?}"
    );
    let float = Type::Float8;
    let mut floating = catalog();
    let people = floating
        .tables
        .iter_mut()
        .find(|table| table.name == "people")
        .unwrap();
    people.columns[0].data_type = float;
    let found = errors(&written(KRR, LOCAL, "id"), &floating, Rows(Ok(Vec::new()))).await;
    assert!(!found.is_empty());
}

const FILTER: &str = "{values: [a, b, c], local: {mechanism: rappor, bits: 16, hashes: 2, cohorts: \
    4, f: 1/2, p: 1/2, q: 3/4, cohort: group}}";

/// The table with a column of bits, `price`, others and a column of cohorts.
fn with_bits() -> Catalog {
    let mut catalog = catalog();
    let at = catalog.tables.iter().position(|t| t.name == "people");
    let people = &mut catalog.tables[at.unwrap()];
    let bits = Type::Other {
        oid: 1560,
        name: "bit(16)".to_owned(),
    };
    people.columns[1].data_type = bits.clone();
    people.columns.push(column("more", bits));
    people.columns.push(column("group", Type::Int2));
    catalog
}

#[tokio::test]
async fn a_filter_is_written_with_its_cohorts() {
    let columns = format!("{FILTER}, more: {FILTER}, group: visible");
    let rows = || Rows(Ok(Vec::new()));
    let checked = check(&written(&columns, LOCAL, "id"), &with_bits(), &rows()).await;
    let checked = checked.unwrap();
    let writing = checked.policy.writing.unwrap();
    let table = writing.table("s", "people").unwrap();
    let cohorts: Vec<(&str, u32)> = table
        .cohorts
        .iter()
        .map(|of| (of.column.as_str(), of.cohorts))
        .collect();
    assert_eq!(cohorts, [("group", 4)]);
    let price = table.column("price").unwrap();
    // Clients write texts.
    assert_eq!((price.true_type(), price.parameter()), (&Type::Text, 25));
    let local = price.local.as_ref().unwrap();
    assert_eq!(local.filter.as_ref().unwrap().cohort, "group");
    assert_eq!(local.values.len(), 3);
    // Questions see what they see of reports that were made elsewhere.
    let collected = columns.replace("local", "collected");
    let without = check(
        &file(&format!("columns: {{price: {collected}}}")),
        &with_bits(),
        &rows(),
    )
    .await
    .unwrap();
    assert_eq!(checked.policy.tables, without.policy.tables);
}

#[tokio::test]
async fn mistakes_with_filters_say_what_is_wanted() {
    let shared = |entry: &str| format!("{FILTER}, more: {entry}, group: visible");
    let alone = |entry: &str| format!("{entry}, group: visible");
    for (columns, top, wanted) in [
        (
            alone(FILTER),
            "local: {memo: false}",
            "column \"price\" of s.people is randomised by rappor, whose permanent bits must be \
                the same for ever: memo: false cannot keep them",
        ),
        (
            alone(&FILTER.replace("f: 1/2", "f: 0")),
            LOCAL,
            "with odds that leave some value as it is",
        ),
        (
            alone(&FILTER.replace("f: 1/2", "f: 0.01")),
            LOCAL,
            "with an epsilon above 20",
        ),
        (
            shared(&FILTER.replace("local", "collected")),
            LOCAL,
            "column \"more\" is collected, and shares its cohorts with a column with local",
        ),
        (
            shared(&FILTER.replace("cohorts: 4", "cohorts: 8")),
            LOCAL,
            "column \"more\" is randomised on the way, and shares its cohorts with a column that \
                has another number of them",
        ),
        (
            FILTER.to_owned(),
            LOCAL,
            "cohort of column \"price\" must be an integer column that is visible",
        ),
        (
            alone(&FILTER.replace("bits: 16", "bits: 17")),
            LOCAL,
            "must be of type bit(17)",
        ),
    ] {
        let file = written(&columns, top, "id");
        let found = errors(&file, &with_bits(), Rows(Ok(Vec::new()))).await;
        let found = found.join("\n");
        assert!(found.contains(wanted), "{columns} {top}: {found}");
    }
}

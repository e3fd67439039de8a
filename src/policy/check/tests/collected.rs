//! Which mechanism `check` advises for reports.

use super::*;

/// The warnings about columns of reports, of a table with a text `word`, a number `price` and five
/// booleans.
async fn advice(columns: &str) -> Vec<String> {
    let mut catalog = catalog();
    let at = catalog.tables.iter().position(|t| t.name == "people");
    let people = &mut catalog.tables[at.unwrap()];
    let bits = ["a", "b", "c", "d", "e"].map(|bit| column(bit, Type::Bool));
    people.columns.push(column("word", Type::Text));
    people.columns.extend(bits);
    for (at, column) in (1..).zip(&mut people.columns) {
        column.number = at;
    }
    let file = file(&format!("columns: {{{columns}}}"));
    let checked = check(&file, &catalog, &Rows(Ok(Vec::new()))).await;
    let checked = checked.unwrap_or_else(|errors| panic!("{columns}: {errors:?}"));
    let warnings = checked.warnings.iter();
    warnings.map(|warning| warning.message.clone()).collect()
}

/// One report of a list is better while it has fewer than 3 e^epsilon + 2 values: 10.15 at epsilon
/// 1, and 5 at epsilon 0.
#[tokio::test]
async fn the_mechanism_with_the_smaller_error_is_advised() {
    let krr = async |values: usize, epsilon: f64| {
        let listed: Vec<String> = (0..values).map(|at| format!("v{at}")).collect();
        let mechanism = format!("{{mechanism: krr, epsilon: {epsilon}}}");
        advice(&format!(
            "word: {{values: [{}], collected: {mechanism}}}",
            listed.join(", ")
        ))
        .await
    };
    for (values, epsilon, is_advised) in [
        (10, 1.0, false),
        (11, 1.0, true),
        (24, 2.0, false),
        (25, 2.0, true),
        (5, 0.01, false),
        (6, 0.01, true),
    ] {
        let found = krr(values, epsilon).await;
        let wanted = format!("lists {values} values: a bit for each of them (unary)");
        let is_found = found.iter().any(|message| message.contains(&wanted));
        assert_eq!(is_found, is_advised, "{values} {epsilon}: {found:?}");
        assert_eq!(found.is_empty(), !is_advised, "{found:?}");
    }
    // 5.662 and 3.683.
    let found = krr(16, 1.0).await;
    let wanted = "column \"word\" lists 16 values: a bit for each of them (unary) at the same \
        epsilon, 1.00, has 1.54 times less variance than krr";
    assert_eq!(found, [wanted]);
    let bits = "a: {visible: true, also: [b, c, d, e], collected: {mechanism: unary, epsilon: 1}}";
    let wanted = "column \"a\" is one of the bits of 5 values: one report of their list (krr) at \
        the same epsilon, 1.00, has 1.90 times less variance than a bit of unary";
    assert_eq!(advice(bits).await, [wanted]);
    // One bit alone is no list.
    let alone = bits.replace("also: [b, c, d, e], ", "");
    assert_eq!(advice(&alone).await, [""; 0]);
}

#[tokio::test]
async fn one_bit_for_a_number_is_not_advised_beyond_its_range() {
    let mean = |epsilon: &str| {
        format!("price: {{bounds: [0, 100], collected: {{mechanism: mean, epsilon: {epsilon}}}}}")
    };
    assert_eq!(advice(&mean("1.29")).await, [""; 0]);
    let found = advice(&mean("1.3")).await;
    let wanted = "column \"price\" has one bit for a number (mean), which is good up to epsilon \
        1.29: beyond, let krr report classes of numbers, as a list of '0-9', '10-19'";
    assert_eq!(found, [wanted]);
    let coin = "word: {values: [no, yes], collected: {mechanism: coin, truth: 1/2, yes: 1/2}}";
    assert_eq!(advice(coin).await, [""; 0]);
}

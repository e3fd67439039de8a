//! Tables, their units and their columns.

use super::*;

#[test]
fn tables_have_one_unit() {
    refused(
        6,
        "  people: {unit: id}",
        &["6:3: \"people\" must name a table as schema.table"],
    );
    refused(
        6,
        "  s.people: private",
        &["6:13: table s.people must be the word public, or a map"],
    );
    refused(
        6,
        "  s.people: {columns: {a: hidden}}",
        &["6:13: table s.people has no \"unit\""],
    );
    refused(
        6,
        "  s.people: {unit: id, unit: other}",
        &["6:24: key \"unit\" is given twice"],
    );
    refused(
        6,
        "  s.people: {unit: [id, other]}",
        &["6:20: the unit of table s.people must be one column or one path; a table has one unit"],
    );
    refused(
        6,
        "  s.people: {unit: s.people.id}",
        &["6:20: the unit of table s.people must be a column of the table itself"],
    );
    refused(
        6,
        "  s.people: {unit: {path: []}}",
        &["6:27: the path of table s.people is empty"],
    );
    refused(
        6,
        "  s.people: {unit: {path: [a -> b]}}",
        &["6:28: a step of a path must be column -> schema.table.column, not \"a -> b\""],
    );
    refused(
        6,
        "  s.people: {unit: {path: [a -> s.b.c], trusted_path: yes}}",
        &["6:55: trusted_path must be true or false, not \"yes\""],
    );
}

#[test]
fn keys_of_tables_have_few_values() {
    refused(
        6,
        "  s.people: {unit: id, rows_per_unit: 0}",
        &["6:39: rows_per_unit of table s.people must be a whole number from 1"],
    );
    refused(
        6,
        "  s.people: {unit: id, rows_per_unit: 1.5}",
        &["6:39: rows_per_unit of table s.people must be a whole number from 1"],
    );
    refused(
        6,
        "  s.people: {unit: id, other_columns: all}",
        &["6:39: other_columns must be visible or hidden, not \"all\""],
    );
    refused(
        6,
        "  s.people: {unit: id, constraints: hidden}",
        &["6:37: constraints must be shown or refused, not \"hidden\""],
    );
    refused(
        6,
        "  s.people: {unit: id, trusted: true}",
        &["6:24: \"trusted\" is not offered yet"],
    );
    refused(
        6,
        "  s.people: public\n  '\"s\".people': public",
        &["7:3: table \"s\".people is given twice"],
    );
}

#[test]
fn what_is_auto_is_left_to_a_search() {
    let rule = |text: &str| {
        let file = parse(&lines().join("\n").replace("{bounds: [0, 120]}", text)).unwrap();
        let Some(TableRule::Private { columns, .. }) = file.tables.first().map(|t| t.rule.clone())
        else {
            panic!("private")
        };
        columns[0].rule.clone()
    };
    let literal = |end: &Option<crate::policy::error::At<Literal>>| {
        end.as_ref().map(|at| at.value.text.clone())
    };
    for (text, wanted) in [
        ("{bounds: auto}", (None, None)),
        ("{bounds: [0, auto]}", (Some("0"), None)),
        ("{bounds: [auto, 1.5]}", (None, Some("1.5"))),
        ("{bounds: [auto, auto]}", (None, None)),
    ] {
        let ColumnRule::Searched {
            place: _,
            lower,
            upper,
        } = rule(text)
        else {
            panic!("{text}")
        };
        assert_eq!(
            (literal(&lower).as_deref(), literal(&upper).as_deref()),
            wanted,
            "{text}"
        );
    }
    // A quoted word is a value.
    assert!(matches!(
        rule("{bounds: [\"auto\", 1]}"),
        ColumnRule::Bounds { .. }
    ));
    refused(
        6,
        "  s.people: {unit: id, rows_per_unit: \"auto\"}",
        &["6:39: rows_per_unit of table s.people must be a whole number from 1"],
    );
}

#[test]
fn columns_say_one_thing() {
    let column = |text: &str| format!("  s.t: {{unit: id, columns: {{age: {text}}}}}");
    let at = 35;
    for (text, offset, wanted) in [
        (
            "shown",
            0,
            "column \"age\" must be visible, hidden, {bounds: [0, 100]}",
        ),
        ("[0, 1]", 0, "column \"age\" must be visible, hidden"),
        (
            "{bounds: [auto]}",
            9,
            "bounds of column \"age\" must be two values, the lowest and the highest, not 1",
        ),
        (
            "{bounds: [1]}",
            9,
            "bounds of column \"age\" must be two values, the lowest and the highest, not 1",
        ),
        (
            "{bounds: [1, null]}",
            13,
            "the upper bound of column \"age\" cannot be NULL",
        ),
        (
            "{bounds: [1, [2]]}",
            13,
            "the upper bound of column \"age\" must be a constant of the column's type, not a list",
        ),
        ("{values: []}", 9, "values of column \"age\" is empty"),
        (
            "{domain: codes}",
            9,
            "domain of column \"age\" must be schema.table.column of a public table, not \"codes\"",
        ),
        (
            "{bounds: [0, 1], values: [0, 1]}",
            0,
            "column \"age\" must say exactly one of bounds, values, domain and visible",
        ),
        ("{}", 0, "column \"age\" must say exactly one of"),
        (
            "{bounds: [0, 1], missing: 0}",
            17,
            "\"missing\" is not offered yet",
        ),
        (
            "{bounds: [0, 1], clip: no}",
            17,
            "column \"age\" has no key \"clip\"; its keys are bounds, values, domain, visible, \
                nullable, complete, unit_total, collected, local, also, missing",
        ),
        (
            "{visible: maybe}",
            10,
            "visible of column \"age\" must be true or false",
        ),
    ] {
        refused(
            6,
            &column(text),
            &[&format!("6:{}: {wanted}", at - 1 + offset)],
        );
    }
}

#[test]
fn values_stay_as_written() {
    let file = parse(
        &lines()
            .join("\n")
            .replace("{bounds: [0, 120]}", "{values: [no, \"null\", 1e3]}"),
    )
    .unwrap();
    let Some(TableRule::Private { columns, .. }) = file.tables.first().map(|t| &t.rule) else {
        panic!("private")
    };
    let Some(ColumnRule::Values(values)) = columns.first().map(|c| &c.rule) else {
        panic!("values")
    };
    let texts: Vec<&str> = values.iter().map(|v| v.value.text.as_str()).collect();
    assert_eq!(texts, ["no", "null", "1e3"], "scalars stay as written");
}

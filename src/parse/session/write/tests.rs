//! Forms of INSERT and COPY FROM STDIN.

use crate::parse::{Statement, Write, WrittenRows, WrittenValue, parse, parse_with_writes};

fn read(sql: &str) -> Write {
    match parse_with_writes(sql)
        .unwrap_or_else(|e| panic!("{sql}: {e}"))
        .pop()
    {
        Some(Statement::Write(write)) => write,
        other => panic!("{sql}: {other:?}"),
    }
}

fn shown(value: &WrittenValue) -> String {
    match value {
        WrittenValue::Null => "null".to_owned(),
        WrittenValue::Default => "default".to_owned(),
        WrittenValue::Constant(text, oid) => format!("{:?} {oid}", text.expose()),
        WrittenValue::Number(text) => format!("{} number", text.expose()),
        WrittenValue::Parameter(number, oid) => format!("${number} {oid}"),
    }
}

#[test]
fn constants_and_parameters_are_read_with_their_casts() {
    let write = read(
        "insert into S.\"T\" (a, \"B\") values ('x', 1.5), (-2, + 3), (null, default), ($2, ($1)),
            ($3::varchar, cast('7' as int)), (date '2026-01-02', true), ($$a,b$$, E'\\n'),
            ('flu'::s.kind, ((false))), (timestamp with time zone '2026-01-02 03:04:05+00', \
            null::int)",
    );
    assert_eq!(write.target.table, ["s", "T"]);
    assert_eq!(write.target.columns, ["a", "B"]);
    let WrittenRows::Values(rows) = &write.rows else {
        panic!("rows of an INSERT")
    };
    let rows: Vec<String> = rows
        .iter()
        .map(|row| row.iter().map(shown).collect::<Vec<_>>().join(", "))
        .collect();
    assert_eq!(
        rows,
        [
            "\"x\" 0, 1.5 number",
            "-2 number, 3 number",
            "null, default",
            "$2 0, $1 0",
            "$3 1043, \"7\" 23",
            "\"2026-01-02\" 1082, \"true\" 0",
            "\"a,b\" 0, \"\\n\" 0",
            "\"flu\" 4294967295, \"false\" 0",
            "\"2026-01-02 03:04:05+00\" 1184, null",
        ]
    );
    assert_eq!(write.parameters(), [(0, 1), (0, 0), (1043, 0)]);
    // Nothing prints a value.
    assert!(!format!("{write:?}").contains("flu"));
    assert_eq!(
        write.name_for_record(),
        "INSERT INTO [\"s\", \"T\"] [\"a\", \"B\"]"
    );
}

/// A cast that would change a value is refused; a number has PostgreSQL's type.
#[test]
fn casts_that_change_values_are_refused() {
    for value in [
        "'abcdef'::varchar(3)",
        "varchar(3) 'abcdef'",
        "cast('1.25' as numeric(3, 1))",
        "'2026-01-02'::timestamp(0)",
        "1.5::int",
        "007::text",
        "$1::char(3)",
    ] {
        let refused = parse_with_writes(&format!("INSERT INTO t (a) VALUES ({value})"));
        assert_eq!(refused.unwrap_err().sqlstate, "0A000", "{value}");
    }
    let cast = read("INSERT INTO t (a, b) VALUES (7::bigint, cast(1.5 as float8))");
    let WrittenRows::Values(rows) = &cast.rows else {
        panic!("rows of an INSERT")
    };
    let shown: Vec<String> = rows[0].iter().map(shown).collect();
    assert_eq!(shown, ["\"7\" 20", "\"1.5\" 701"]);
    for (number, oid) in [("-7", 23), ("3000000000", 20), ("1e3", 1700), ("1.5", 1700)] {
        assert_eq!(crate::parse::type_of_number(number), oid, "{number}");
    }
}

/// What is no write stays what it is, and who does not write gets the refusal of before.
#[test]
fn other_statements_and_other_roles_are_as_before() {
    for sql in [
        "SELECT 1",
        "COPY (SELECT 1) TO STDOUT",
        "COPY t TO STDOUT",
        "UPDATE t SET a = 1",
    ] {
        let (with, without) = (parse_with_writes(sql), parse(sql));
        assert_eq!(with, without, "{sql}");
    }
    for sql in [
        "INSERT INTO t (a) VALUES (1)",
        "COPY t (a) FROM STDIN",
        "INSERT INTO",
    ] {
        assert_eq!(parse(sql).unwrap_err().sqlstate, "42501", "{sql}");
    }
}

/// A refusal shows no word that may be a value.
#[test]
fn refusals_of_writes_repeat_no_value() {
    for sql in [
        "INSERT INTO t (a) VALUES ('canary' 'x)",
        "INSERT INTO t (a) VALUES ('canary'",
        "INSERT INTO t (a) VALUES (canary)",
        "INSERT INTO t (a) VALUES ((SELECT 'canary'))",
        "INSERT INTO t (a) VALUES ('canary' + 1)",
        "INSERT INTO t (a) VALUES ('canary'::int::text)",
        "INSERT INTO t (a) VALUES ('canary') canary",
        "INSERT INTO t (a) VALUES (1canary)",
        "INSERT INTO t (a) VALUES ($canary$canary)",
        "INSERT INTO t (a) VALUES (E'canary\\u00')",
        "INSERT INTO t (a) VALUES ('canary', 2)",
        "INSERT INTO t (a) VALUES 'canary'",
        "INSERT t (a) VALUES ('canary')",
        "SELECT 1; INSERT INTO t (a) VALUES ('canary'); SELECT ('canary' canary",
        "/* canary */ INSERT INTO t (a) VALUES (U&'\\canary')",
    ] {
        let refusal = parse_with_writes(sql).unwrap_err();
        assert!(
            !format!("{refusal:?}").contains("canary"),
            "{sql}: {refusal:?}"
        );
    }
}

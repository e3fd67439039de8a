//! Why each repair of the parser's reading is there: a text that needs it, what sqlparser alone
//! makes of the text, and what we make of it. Where sqlparser learns to read a text, its row fails:
//! then the repair can go.

use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;

use super::{Statement, parse};

/// How a text is read: as it is printed, or refused with this SQLSTATE.
enum Read {
    As(&'static str),
    Refused(&'static str),
}

use Read::{As, Refused};

/// The repair, the text, and both readings. sqlparser has no SQLSTATE; an empty one stands for its
/// errors.
const REPAIRS: &[(&str, &str, Read, Read)] = &[
    // Constants.
    (
        "tokens::check, tags",
        "SELECT $1$x$1$",
        As("SELECT $1$x$1$"),
        Refused("42601"),
    ),
    (
        "tokens::check, junk after numbers",
        "SELECT 1a",
        As("SELECT 1 AS a"),
        Refused("42601"),
    ),
    (
        "tokens::check, junk after numbers",
        "SELECT 1L",
        As("SELECT 1L"),
        Refused("42601"),
    ),
    (
        "tokens::check, a name and a label",
        "SELECT b\"x\"",
        As("SELECT B\"x\""),
        Refused("42601"),
    ),
    (
        "tokens::check, hexadecimal",
        "SELECT 0x1F",
        As("SELECT X'1F'"),
        Refused("42601"),
    ),
    (
        "tokens::escapes_otherwise",
        r"SELECT E'\v'",
        As("SELECT E'v'"),
        Refused("42601"),
    ),
    (
        "tokens::escapes_otherwise",
        r"SELECT E'\u+041'",
        As("SELECT E'A'"),
        Refused("42601"),
    ),
    (
        "tokens::check, names with escapes",
        "SELECT U&\"x\"",
        As("SELECT U & \"x\""),
        Refused("0A000"),
    ),
    (
        "tokens::continued",
        "SELECT 'a'\n'b'",
        As("SELECT 'a' AS 'b'"),
        As("SELECT 'ab'"),
    ),
    (
        "normalize::Spelling, quotes",
        r"SELECT $$a'b$$",
        As("SELECT $$a'b$$"),
        As(r"SELECT E'a\'b'"),
    ),
    (
        "parameters::check",
        "SELECT $1.$1",
        As("SELECT $1.$1"),
        Refused("42601"),
    ),
    (
        "desugar::check_intervals",
        "SELECT interval(1) '1.66 s'",
        As("SELECT INTERVAL '1.66 s'"),
        Refused("0A000"),
    ),
    // Operators.
    (
        "tokens::split",
        "SELECT a>=-1",
        As("SELECT a >=- 1"),
        As("SELECT a >= -1"),
    ),
    (
        "tokens::check_operators",
        "SELECT 1!=-1",
        As("SELECT 1 <> -1"),
        Refused("42883"),
    ),
    (
        "tokens::check_operator, comments",
        "SELECT 1 >--\n'\n0, 1 --'",
        As("SELECT 1 >-- '\n0, 1 --'"),
        Refused("0A000"),
    ),
    (
        "tokens::check_operator, unknown ones",
        "SELECT a &&& b",
        As("SELECT a &&& b"),
        Refused("0A000"),
    ),
    (
        "tokens::check_operator, ==",
        "SELECT 1 == 1",
        As("SELECT 1 = 1"),
        Refused("42883"),
    ),
    (
        "tokens::check_operator, <|",
        "SELECT 1 <| 1",
        As("SELECT 1 <<| 1"),
        Refused("42883"),
    ),
    (
        "operator_precedence::hide",
        "SELECT a ~ b || c",
        As("SELECT a ~ b || c"),
        As("SELECT (a ~ b) || c"),
    ),
    (
        "normalize::Spelling, signs",
        "SELECT - -1",
        As("SELECT --1"),
        As("SELECT -(-1)"),
    ),
    // Phrases.
    (
        "dialects::has_fetch",
        "SELECT 1 FETCH FIRST ROW",
        As("SELECT 1 FETCH FIRST ROWS ONLY"),
        Refused("42601"),
    ),
    (
        "dialects::has_fetch",
        "SELECT 1 FETCH FIRST 5 ONLY",
        As("SELECT 1 FETCH FIRST 5 ROWS ONLY"),
        Refused("42601"),
    ),
    (
        "desugar::write_out, ASYMMETRIC",
        "SELECT a BETWEEN ASYMMETRIC 1 AND 2",
        Refused(""),
        As("SELECT a BETWEEN 1 AND 2"),
    ),
    (
        "desugar::write_out, SYMMETRIC",
        "SELECT a BETWEEN SYMMETRIC 1 AND 2",
        Refused(""),
        As("SELECT (((a) BETWEEN (1) AND (2)) OR ((a) BETWEEN (2) AND (1)))"),
    ),
    (
        "desugar::write_out, ISNULL",
        "SELECT a ISNULL",
        As("SELECT a AS ISNULL"),
        As("SELECT a IS NULL"),
    ),
    (
        "desugar::write_out, NOT NULL",
        "SELECT a NOT NULL",
        As("SELECT a IS NOT NULL"),
        Refused("42601"),
    ),
    (
        "desugar::write_out, labels",
        "SELECT a year FROM x",
        As("SELECT a AS year FROM x"),
        Refused("42601"),
    ),
    (
        "desugar::write_out, functions",
        "SELECT current_catalog",
        As("SELECT current_catalog"),
        As("SELECT current_database()"),
    ),
    (
        "desugar::write_out, ONLY",
        "SELECT * FROM ONLY x",
        As("SELECT * FROM ONLY x"),
        Refused("0A000"),
    ),
    (
        "desugar::write_out, TRIM",
        "SELECT trim(FROM a)",
        Refused(""),
        As("SELECT TRIM(' ' FROM a)"),
    ),
    (
        "collation::write_out",
        "SELECT a::text COLLATE \"C\"",
        Refused(""),
        As("SELECT (a::TEXT) COLLATE \"C\""),
    ),
    (
        "sets::write_out",
        "SELECT 1 FROM x GROUP BY GROUPING SETS (GROUPING SETS (a), b)",
        Refused(""),
        As("SELECT 1 FROM x GROUP BY GROUPING SETS ((a), (b))"),
    ),
    (
        "table::write_out",
        "TABLE x ORDER BY 1",
        Refused(""),
        As("SELECT * FROM x ORDER BY 1"),
    ),
    ("table::check", "TABLE x y", Refused(""), Refused("42601")),
    (
        "dialects::check",
        "SELECT a FROM x QUALIFY a",
        As("SELECT a FROM x QUALIFY a"),
        Refused("42601"),
    ),
];

#[test]
fn every_repair_is_needed() {
    for (repair, text, alone, ours) in REPAIRS {
        let found = Parser::parse_sql(&PostgreSqlDialect {}, text);
        match (alone, found) {
            (As(printed), Ok(read)) => {
                let read: Vec<String> = read.iter().map(ToString::to_string).collect();
                assert_eq!(read, [*printed], "{repair}: sqlparser reads {text:?}");
            }
            (Refused(_), Err(_)) => {}
            (As(_) | Refused(_), found) => panic!("{repair}: sqlparser reads {text:?}: {found:?}"),
        }
        match (ours, parse(text)) {
            (As(printed), Ok(read)) => {
                let [Statement::Query(query)] = read.as_slice() else {
                    panic!("{repair}: {text:?}: {read:?}");
                };
                assert_eq!(query.to_sql(), *printed, "{repair}: {text:?}");
            }
            (Refused(sqlstate), Err(refusal)) => {
                assert_eq!(refusal.sqlstate.as_str(), *sqlstate, "{repair}: {text:?}");
            }
            (As(_) | Refused(_), read) => panic!("{repair}: {text:?}: {read:?}"),
        }
    }
}

#[test]
fn fetch_may_leave_out_its_count_alone() {
    for text in [
        "SELECT 1 FETCH FIRST ROW ONLY",
        "SELECT 1 FETCH NEXT ROWS ONLY",
        "SELECT 1 ORDER BY 1 FETCH FIRST 5 ROWS WITH TIES",
        "SELECT (SELECT 1 FETCH FIRST 1 ROW ONLY)",
    ] {
        assert!(parse(text).is_ok(), "{text}");
    }
    let refusal = parse("SELECT 1 FETCH FIRST ROW").unwrap_err();
    assert_eq!(refusal.message, "syntax error at end of input");
    let refusal = parse("SELECT (SELECT 1 FETCH 1 ROW ONLY)").unwrap_err();
    assert_eq!(refusal.message, "syntax error at or near \"1\"");
}

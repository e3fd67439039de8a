use crate::catalog::Type;
use crate::rewrite::emit::sql::{bare, call, cast, number_literal, select, text_literal};
use crate::rewrite::limits::row_cost::*;

fn check(nanoseconds: u64) -> Result<(), Refusal> {
    super::check(
        RowCost {
            row: nanoseconds,
            ..RowCost::default()
        },
        "person",
    )
}

fn of(statement: &ast::Query) -> u64 {
    super::of(statement, &HashMap::new()).row
}

fn matching(count: usize, function: &str) -> ast::Query {
    let once = call(function, vec![bare("x"), text_literal("a")]);
    select(
        vec![ast::SelectItem::UnnamedExpr(bare("x"))],
        Vec::new(),
        Some(ast::Expr::Tuple(vec![once; count])),
        Vec::new(),
    )
}

#[test]
fn what_is_expensive_is_counted_wherever_it_stands() {
    let none = of(&matching(0, "regexp_replace"));
    assert_eq!(
        of(&matching(3, "regexp_replace")) - none,
        3 * (1_500_000 + 300_000)
    );
    assert!(of(&matching(1, "lower")) > none);
    let inside = call("lower", vec![call("translate", vec![bare("x")])]);
    let derived = select(
        vec![ast::SelectItem::UnnamedExpr(inside)],
        Vec::new(),
        None,
        Vec::new(),
    );
    let outer = select(
        vec![ast::SelectItem::UnnamedExpr(ast::Expr::Subquery(Box::new(
            derived,
        )))],
        Vec::new(),
        None,
        Vec::new(),
    );
    assert!(of(&outer) >= 475_000);
}

#[test]
fn what_is_tried_at_each_character_is_counted_by_its_length() {
    let asked = |condition: ast::Expr| {
        of(&select(
            vec![ast::SelectItem::UnnamedExpr(bare("x"))],
            Vec::new(),
            Some(condition),
            Vec::new(),
        ))
    };
    let like = |pattern: &str| {
        let (expr, pattern) = (
            Box::new(bare("x")),
            Box::new(cast(text_literal(pattern), &Type::Text)),
        );
        asked(ast::Expr::Like {
            negated: false,
            any: false,
            expr,
            pattern,
            escape_char: None,
        })
    };
    assert_eq!(
        like(&format!("{}%%", "a_".repeat(200))),
        like("a"),
        "held against the start alone"
    );
    assert_eq!(
        like(&format!("%a{}z%", "_".repeat(96))) - like("a"),
        100 * 8_000
    );
    assert!(check(like(&"%a".repeat(1000))).is_ok() && check(like(&"%a".repeat(1500))).is_err());
    let second = |name: &str, of: ast::Expr| asked(call(name, vec![bare("x"), of]));
    let constant = |length: usize| cast(text_literal(&"é".repeat(length)), &Type::Text);
    for (name, each) in [
        ("btrim", 15_000),
        ("rtrim", 15_000),
        ("translate", 15_000),
        ("strpos", 2_500),
        ("split_part", 2_500),
    ] {
        assert_eq!(
            second(name, constant(11)) - second(name, constant(1)),
            10 * each,
            "{name}"
        );
        // A column's text may be as long as a text gets.
        let cut = call("left", vec![bare("y"), number_literal("4096")]);
        assert!(
            second(name, cut) - second(name, constant(0)) >= 4096 * each,
            "{name}"
        );
    }
}

#[test]
fn numerics_are_as_expensive_as_they_are_long() {
    let asked = |value: ast::Expr| {
        of(&select(
            vec![ast::SelectItem::UnnamedExpr(value)],
            Vec::new(),
            None,
            Vec::new(),
        ))
    };
    let product = |factors: usize, factor: ast::Expr| {
        let times = |a: ast::Expr, b: ast::Expr| ast::Expr::BinaryOp {
            left: Box::new(a),
            op: B::Multiply,
            right: Box::new(b),
        };
        (1..factors).fold(factor.clone(), |all, _| times(all, factor.clone()))
    };
    let ln = |of: ast::Expr| asked(call("ln", vec![of]));
    assert_eq!(
        ln(product(5, number_literal("1.25"))),
        30_000 + (1..5).map(|n| of_product(4 * n, 4)).sum::<u64>(),
        "as usual"
    );
    assert!(
        ln(bare("x")) <= 30_000 && ln(product(3, bare("x"))) < 300_000,
        "three columns"
    );
    // 64 factors of a quotient, as a derived table may hold them.
    let over = |divisor: ast::Expr| ast::Expr::BinaryOp {
        left: Box::new(bare("x")),
        op: B::Divide,
        right: Box::new(divisor),
    };
    assert!(ln(product(64, over(number_literal("7000")))) > 20_000_000);
    assert!(
        asked(product(150, bare("x"))) < NANOSECONDS_MAX
            && asked(product(300, bare("x"))) > NANOSECONDS_MAX
    );
    let float = cast(bare("x"), &Type::Float8);
    assert!(
        ln(product(13, cast(float.clone(), &Type::Numeric(None)))) > 20_000_000,
        "of floats that became numerics"
    );
    assert!(asked(product(1000, float)) < 1_000_000, "of floats");
    let long = format!("1.{}", "1".repeat(60));
    for constant in [
        number_literal(&long),
        cast(text_literal(&long), &Type::Numeric(None)),
        number_literal(&format!("0.{}1", "0".repeat(59))),
        number_literal("1e-60"),
        call("round", vec![bare("x"), number_literal("60")]),
        over(number_literal(&"9".repeat(60))),
        cast(bare("x"), &Type::Numeric(Some((60, 60)))),
    ] {
        assert!(ln(product(45, constant.clone())) > 20_000_000, "{constant}");
    }
    assert!(
        ln(call(
            "round",
            vec![product(45, bare("x")), number_literal("2")]
        )) < 1_500_000,
        "a rounded product is short"
    );
    assert!(ln(call("power", vec![bare("x"), number_literal("2")])) > 500_000);
}

/// The time of the rest of a division, of the root, of a cast.
#[test]
fn other_arithmetic_is_as_expensive_as_its_numbers_are_long() {
    let asked = |value: ast::Expr| {
        of(&select(
            vec![ast::SelectItem::UnnamedExpr(value)],
            Vec::new(),
            None,
            Vec::new(),
        ))
    };
    let binary = |left: ast::Expr, op: B, right: ast::Expr| ast::Expr::BinaryOp {
        left: Box::new(left),
        op,
        right: Box::new(right),
    };
    let product = || (1..20).fold(bare("x"), |all, _| binary(all, B::Multiply, bare("x")));
    let own = |of: &dyn Fn(ast::Expr) -> ast::Expr, value: ast::Expr| {
        asked(of(value.clone())) - asked(value)
    };
    // A divisor of many zeros and digits has a quotient of as many, whatever the dividend is.
    for name in ["mod", "div"] {
        let by = |divisor: ast::Expr| call(name, vec![bare("x"), divisor]);
        assert!(own(&by, product()) > 1_000_000, "{name}");
        let of = |dividend: ast::Expr| call(name, vec![dividend, number_literal("7")]);
        assert!(own(&of, product()) < 25_000, "{name}");
        let of = |dividend: ast::Expr| call(name, vec![dividend, cast(bare("x"), &Type::Int8)]);
        assert!(own(&of, product()) < 30_000, "{name}");
    }
    for op in [B::Divide, B::Modulo] {
        let by = |divisor: ast::Expr| binary(bare("x"), op.clone(), divisor);
        assert!(own(&by, product()) > 1_000_000, "{op}");
    }
    // Whole numbers become numerics of up to 20 digits.
    let numeric = cast(cast(bare("x"), &Type::Int8), &Type::Numeric(None));
    let squares = |value: ast::Expr| binary(value.clone(), B::Multiply, value);
    assert_eq!(
        asked(squares(numeric.clone())) - 2 * asked(numeric),
        of_product(20, 20)
    );
    // Each of the values is compared.
    let least = |values: usize| {
        let mut values = vec![product(); values];
        values.push(number_literal("0"));
        asked(call("least", values))
    };
    let each = least(2) - least(1) - asked(product());
    assert_eq!(each, 200 + 19 * 98 / 2);
    // Casts read all digits.
    let float = |value: ast::Expr| cast(value, &Type::Float8);
    assert_eq!(own(&float, product()), 400 + 8 * 19 * 98);
    let text = |value: ast::Expr| cast(value, &Type::Text);
    assert_eq!(own(&text, product()), 200 + 4 * 19 * 98);
    assert_eq!(own(&text, cast(bare("x"), &Type::Int8)), 200);
}

#[test]
fn the_limit_is_where_it_says() {
    assert!(check(NANOSECONDS_MAX).is_ok());
    assert_eq!(check(NANOSECONDS_MAX + 1).unwrap_err().sqlstate, "54001");
    let of_unit = |unit: u64| {
        super::check(
            RowCost {
                unit,
                ..RowCost::default()
            },
            "person",
        )
    };
    assert!(of_unit(UNIT_NANOSECONDS_MAX).is_ok());
    assert_eq!(
        of_unit(UNIT_NANOSECONDS_MAX + 1).unwrap_err().sqlstate,
        "54001"
    );
}

#[test]
fn a_pattern_is_as_expensive_as_it_unfolds_to() {
    let matched = |pattern: &str| {
        let (left, right) = (
            Box::new(bare("x")),
            Box::new(cast(text_literal(pattern), &Type::Text)),
        );
        let condition = ast::Expr::BinaryOp {
            left,
            op: B::PGRegexMatch,
            right,
        };
        of(&select(
            vec![ast::SelectItem::UnnamedExpr(bare("x"))],
            Vec::new(),
            Some(condition),
            Vec::new(),
        ))
    };
    assert!(matched("a{100}") > matched("a{10}") + 1_500_000);
    assert!(check(matched("[a-z]{99}")).is_ok());
    assert!(check(matched(&"[a-z]{99}".repeat(2))).is_err());
    assert!(check(matched("[a-z]{0,99}")).is_err());
}

#[test]
fn patterns_are_as_expensive_as_what_they_stand_for_and_what_their_groups_cost() {
    let asked = |condition: ast::Expr| {
        of(&select(
            vec![ast::SelectItem::UnnamedExpr(bare("x"))],
            Vec::new(),
            Some(condition),
            Vec::new(),
        ))
    };
    let typed = |pattern: &str| cast(text_literal(pattern), &Type::Text);
    let similar = |pattern: &str| {
        let (expr, pattern) = (Box::new(bare("x")), Box::new(typed(pattern)));
        asked(ast::Expr::SimilarTo {
            negated: false,
            expr,
            pattern,
            escape_char: None,
        })
    };
    let regex = |pattern: &str| {
        asked(ast::Expr::BinaryOp {
            left: Box::new(bare("x")),
            op: B::PGRegexMatch,
            right: Box::new(typed(pattern)),
        })
    };
    assert_eq!(
        [similar("%%%"), similar("a_%")],
        [regex(".*.*.*"), regex("a..*")]
    );
    assert!(check(similar(&"%".repeat(247))).is_err());
    let replaced = |pattern: &str, with: &str| {
        asked(call(
            "regexp_replace",
            vec![bare("x"), typed(pattern), typed(with)],
        ))
    };
    let dissected = |pattern: &str| check(replaced(pattern, "\\1")).is_err();
    // Each length of the one is tried, before the other is read to its end.
    assert!(
        [
            "^(.+)<(b.+)<(b.+)",
            "^(.*)@(.*)$",
            "^(a{0,100}b{0,100}).*x.*y.*z",
            "^((a*?)a)$"
        ]
        .into_iter()
        .all(dissected)
    );
    assert!(
        ![
            "^(a+)$",
            "^(\\d{4})-(\\d{2})$",
            "^.*(ab)$",
            "^(?:.+)<(?:b.+)$"
        ]
        .into_iter()
        .any(dissected)
    );
    assert!(
        check(replaced("^(.+)<(b.+)<(b.+)", "nothing")).is_ok(),
        "no group is asked for"
    );
    assert!(
        check(asked(call(
            "substring",
            vec![bare("x"), typed("^(.*)@(.*)$")]
        )))
        .is_err()
    );
}

/// The number of rows that joins make of one unit's rows, of which `a` and `b` hold ten each and
/// `c` thirty.
#[test]
fn rows_of_one_unit_multiply_where_bounded_tables_meet() {
    let asked = |sql: &str| {
        let statements =
            sqlparser::parser::Parser::parse_sql(&sqlparser::dialect::PostgreSqlDialect {}, sql)
                .unwrap();
        let Some(ast::Statement::Query(query)) = statements.into_iter().next() else {
            panic!("{sql}")
        };
        let bounded = [("a", 10), ("b", 10), ("c", 30)].map(|(name, rows)| (name.to_owned(), rows));
        super::of(&query, &bounded.into()).unit
    };
    let side = |name: &str| format!("(SELECT u, x FROM t) AS {name}");
    let (a, b, c) = (side("a"), side("b"), side("c"));
    assert_eq!(
        asked("SELECT lower(t.x) FROM t"),
        0,
        "one scan is as long as it is"
    );
    assert_eq!(asked(&format!("SELECT 1 FROM {a}, {b}")), 100 * 2 * 500);
    assert_eq!(
        asked(&format!("SELECT 1 FROM {a} JOIN {c} ON a.u = c.u, t")),
        300 * (3 * 500 + 200)
    );
    // An expression of each pair; one of the group that all of them are in.
    let of_pairs = asked(&format!(
        "SELECT a.u, count(lower(a.x)) FROM {a}, {b} GROUP BY 1"
    ));
    let of_group = asked(&format!(
        "SELECT a.u, lower(count(a.x)) FROM {a}, {b} GROUP BY 1"
    ));
    assert_eq!(of_pairs - of_group, 99 * 25_000);
    // Subqueries are asked of each row; derived tables are computed once, and give one row for the
    // unit alone.
    let once = asked(&format!("SELECT 1 FROM {a}"));
    assert_eq!(
        asked(&format!(
            "SELECT 1 FROM {a} WHERE EXISTS (SELECT 1 FROM {c})"
        )),
        once + 300 * 500 + 10 * 200
    );
    assert_eq!(
        asked(&format!(
            "SELECT 1 FROM (SELECT u FROM {a}, {b} GROUP BY u) AS d, t"
        )),
        100 * (2 * 500 + 1_000)
    );
    assert!(
        asked(&format!(
            "SELECT 1 FROM (SELECT u FROM {a}, {b} GROUP BY u, x) AS d, t"
        )) > 100 * 3 * 500
    );
    // Rows of a frame whose start moves come into it again and again.
    let framed = |frame: &str| {
        asked(&format!(
            "SELECT max(c.x) OVER (PARTITION BY c.u ORDER BY c.x ROWS {frame}) FROM {c}"
        ))
    };
    let plain = framed("BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW");
    assert_eq!(
        framed("BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING") - plain,
        30 * 30 * 5_200
    );
    assert_eq!(framed("2 PRECEDING") - plain, 30 * 3 * 5_200);
}

/// A whole number of a derived table stays one wherever it is read, unless some list gives its name
/// to another value; the statement's own list gives names that nobody reads.
#[test]
fn whole_numbers_of_derived_tables_have_few_digits() {
    let item = |expr: ast::Expr, name: &str| ast::SelectItem::ExprWithAlias {
        expr,
        alias: ast::Ident::new(name),
    };
    let over = |within: Vec<ast::SelectItem>| {
        let numeric = cast(bare("v"), &Type::Numeric(None));
        let root = call("sqrt", vec![numeric]);
        let from = ast::TableWithJoins {
            relation: ast::TableFactor::Derived {
                lateral: false,
                subquery: Box::new(select(within, Vec::new(), None, Vec::new())),
                alias: None,
                sample: None,
            },
            joins: Vec::new(),
        };
        of(&select(
            vec![item(cast(root, &Type::Text), "v")],
            vec![from],
            None,
            Vec::new(),
        ))
    };
    let whole = || cast(bare("x"), &Type::Int8);
    let least = call("least", vec![bare("v"), number_literal("7")]);
    let short = over(vec![item(whole(), "v"), item(least, "w")]);
    assert!(short < 4_000, "{short}");
    for other in [
        vec![item(bare("x"), "v")],
        vec![item(whole(), "v"), item(bare("x"), "v")],
        vec![item(cast(whole(), &Type::Numeric(None)), "v")],
        vec![item(number_literal("1.5"), "v")],
        vec![
            item(whole(), "v"),
            ast::SelectItem::Wildcard(Default::default()),
        ],
    ] {
        let long = over(other);
        assert!(long > 10_000, "{long}");
    }
}

/// PostgreSQL makes the array for each row, and copies texts into it.
#[test]
fn lists_of_columns_count_by_their_length() {
    let among = |items: Vec<ast::Expr>| {
        let array = ast::Expr::Array(ast::Array {
            elem: items,
            named: true,
        });
        of(&select(
            vec![ast::SelectItem::UnnamedExpr(array)],
            Vec::new(),
            None,
            Vec::new(),
        ))
    };
    let columns = among(vec![bare("x"); 10_000]);
    assert!(check(columns).is_ok() && check(3 * columns).is_err());
    assert_eq!(among(vec![number_literal("1"); 10_000]), 0);
    let many = call("coalesce", vec![bare("x"); 1_000]);
    let many = select(
        vec![ast::SelectItem::UnnamedExpr(many)],
        Vec::new(),
        None,
        Vec::new(),
    );
    assert!(of(&many) >= 10_000);
}

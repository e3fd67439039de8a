//! Random expressions, conditions, keys, aggregates and shapes of FROM, weighted so that most of
//! them plan.

use super::per_unit::step;
use super::random::Random;

/// A middle query with a column of every name and type that private tables have.
const MIDDLE: &str = "SELECT count(*)::smallint AS s2, count(*)::int AS i4, count(*)::int AS j4, \
    count(*) AS i8, count(*) AS j8, avg(q.n2) AS n2, avg(q.nb) AS nn, \
     sum(q.n2) AS nb, avg(q.f8) AS f8, sum(q.f8) AS g8, avg(q.f8)::real AS f4, count(*) > 2 AS b, \
     q.kd AS tx, q.kd::varchar AS vc, q.kd AS kd, \
     date '2000-01-01' + count(*)::int AS d, (date '2000-01-01' - count(*)::int)::date AS dd, \
     (date \
     '2000-01-01' + count(*)::int)::timestamp AS ts, \
     (date '2000-01-01' + count(*)::int)::timestamp AS tt, count(*)::int AS ni FROM visits q GROUP \
     BY q.kd";

/// Grouping sets of keys. The parser takes an element of ROLLUP or CUBE that begins with a
/// parenthesis for a list.
pub fn sets(random: &mut Random, keys: &[String]) -> String {
    let all = keys.join(", ");
    let is_read = !keys.iter().any(|key| key.starts_with('('));
    match random.below(4) {
        0 if is_read => format!("ROLLUP ({all})"),
        1 if is_read => format!("CUBE ({all})"),
        2 => format!("GROUPING SETS (({all}), (){})", random.pick(&["", ", ()"])),
        _ => format!(
            "GROUPING SETS (({all}), ({}))",
            if keys.len() > 1 { &keys[0] } else { "" }
        ),
    }
}

/// WITH, FROM, and the aliases that show all data columns (public ones show none).
pub fn source(random: &mut Random) -> (String, String, Vec<&'static str>) {
    let none = String::new;
    let depth = random.below(3);
    match random.below(31) {
        0 | 1 => (none(), "people p".to_owned(), vec!["p"]),
        2 | 3 => (none(), "visits v".to_owned(), vec!["v"]),
        4 => (none(), "items i".to_owned(), vec!["i"]),
        5 => (
            none(),
            "people p JOIN visits v ON p.id = v.person".to_owned(),
            vec!["p", "v"],
        ),
        6 => (
            none(),
            "people p LEFT JOIN visits v ON p.id = v.person AND v.ni < 3".to_owned(),
            vec!["p", "v"],
        ),
        7 => (
            none(),
            "visits v JOIN items i ON i.visit = v.id".to_owned(),
            vec!["v", "i"],
        ),
        8 => (
            none(),
            "visits v LEFT JOIN items i ON i.visit = v.id".to_owned(),
            vec!["v", "i"],
        ),
        9 => (
            none(),
            "visits v JOIN towns t ON v.town = t.code".to_owned(),
            vec!["v"],
        ),
        10 => (
            none(),
            "visits v LEFT JOIN notes n ON v.town = n.code".to_owned(),
            vec!["v"],
        ),
        11 => (
            none(),
            "(SELECT * FROM visits WHERE ni > -3) AS v".to_owned(),
            vec!["v"],
        ),
        12 => (
            "WITH v AS (SELECT * FROM visits WHERE i4 IS NOT NULL) ".to_owned(),
            "v".to_owned(),
            vec!["v"],
        ),
        14..=16 => (none(), format!("({}) v", step(random, depth)), vec!["v"]),
        17 => (
            none(),
            format!(
                "people p LEFT JOIN ({}) v ON v.person = p.id",
                step(random, depth)
            ),
            vec!["p", "v"],
        ),
        18 => (
            format!("WITH w AS ({}) ", step(random, depth)),
            "w v JOIN w p ON v.person = \
            p.person AND v.ni = p.ni"
                .to_owned(),
            vec!["v", "p"],
        ),
        13 => (
            none(),
            "people p JOIN visits v ON v.person = p.id JOIN items i ON i.visit = v.id".to_owned(),
            vec!["p", "v", "i"],
        ),
        19 => (
            none(),
            format!("visits v JOIN ({MIDDLE}) m ON m.kd = v.kd"),
            vec!["v", "m"],
        ),
        20 => (
            none(),
            format!(
                "people p LEFT JOIN ({MIDDLE} ORDER BY count(*) DESC LIMIT 3) m ON \
            m.i4 < p.i4"
            ),
            vec!["p", "m"],
        ),
        21 => (
            none(),
            "visits v JOIN (VALUES ('x', 1), ('y', 2)) AS t(code, w) ON v.town = \
            t.code"
                .to_owned(),
            vec!["v"],
        ),
        22 => (
            none(),
            "people p JOIN generate_series(0, 7, 2) AS g(n) ON g.n = p.i4".to_owned(),
            vec!["p"],
        ),
        23 => (
            none(),
            "people p JOIN visits v ON p.id = v.person AND EXISTS (SELECT 1 FROM visits x WHERE \
                x.person = v.person AND x.ni > v.ni)"
                .to_owned(),
            vec!["p", "v"],
        ),
        24 => (
            none(),
            "visits v JOIN towns t ON v.town = t.code AND t.weight IN (SELECT n.remark \
            FROM notes n)"
                .to_owned(),
            vec!["v"],
        ),
        25 | 26 => (none(), "rounds v".to_owned(), vec!["v"]),
        28 => (
            none(),
            "visits v JOIN visits p ON v.person = p.person AND v.ni <= p.ni".to_owned(),
            vec!["v", "p"],
        ),
        29 => (
            none(),
            format!(
                "visits v LEFT JOIN ({}) p ON v.person = p.person AND p.ni > -3",
                step(random, depth)
            ),
            vec!["v", "p"],
        ),
        30 => (
            none(),
            "rounds v JOIN visits p ON v.person = p.person JOIN items i ON i.visit = \
            p.id"
                .to_owned(),
            vec!["v", "p", "i"],
        ),
        _ => {
            let inner = "SELECT x.*, coalesce(x.i4, 3) AS made, x.f8 * 2 AS doubled FROM visits x \
                WHERE x.ni <> 2";
            (
                none(),
                format!("people p LEFT JOIN ({inner}) v ON v.person = p.id"),
                vec!["p", "v"],
            )
        }
    }
}

pub struct Grammar<'r> {
    pub random: &'r mut Random,
    pub aliases: Vec<&'static str>,
}

impl Grammar<'_> {
    /// The column that is the unit of the first alias.
    pub fn unit(&self) -> Option<&'static str> {
        match self.aliases[0] {
            "p" => Some("p.id"),
            "v" => Some("v.person"),
            _ => None,
        }
    }

    fn column(&mut self, names: &[&str]) -> String {
        let alias = self.random.pick(&self.aliases.clone());
        format!("{alias}.{}", self.random.pick(names))
    }

    pub fn integer(&mut self, depth: usize) -> String {
        if depth == 0 || self.random.once_in(3) {
            return match self.random.below(6) {
                0 => self
                    .random
                    .pick(&[
                        "0",
                        "1",
                        "-1",
                        "2",
                        "7",
                        "2147483647",
                        "(-2147483648)",
                        "9223372036854775807",
                    ])
                    .to_owned(),
                _ => self.column(&["s2", "i4", "j4", "i8", "j8", "ni"]),
            };
        }
        let a = self.integer(depth - 1);
        match self.random.below(13) {
            0..=4 => {
                let op = self.random.pick(&["+", "-", "*", "/", "%"]);
                format!("({a} {op} {})", self.integer(depth - 1))
            }
            5 => format!("(- ({a}))"),
            6 => format!("abs({a})"),
            7 => format!("mod({a}, {})", self.integer(depth - 1)),
            8 => format!("coalesce({a}, {})", self.integer(depth - 1)),
            9 => format!(
                "CASE WHEN {} THEN {a} ELSE {} END",
                self.condition(depth - 1),
                self.integer(depth - 1)
            ),
            10 => format!(
                "({})::{}",
                self.any_number(depth - 1),
                self.random.pick(&["smallint", "int", "bigint"])
            ),
            11 => format!("length({})", self.text(depth - 1)),
            _ => format!("nullif({a}, {})", self.integer(depth - 1)),
        }
    }

    pub fn numeric(&mut self, depth: usize) -> String {
        if depth == 0 || self.random.once_in(3) {
            return match self.random.below(6) {
                0 => self
                    .random
                    .pick(&["0.5", "1.25", "(-3.75)", "1e20", "0.000001", "100.0"])
                    .to_owned(),
                _ => self.column(&["n2", "nn", "nb"]),
            };
        }
        let a = self.numeric(depth - 1);
        match self.random.below(17) {
            0..=3 => {
                let op = self.random.pick(&["+", "-", "*", "/", "%"]);
                format!("({a} {op} {})", self.numeric(depth - 1))
            }
            4 => format!("(- ({a}))"),
            5 => format!(
                "{}({a})",
                self.random
                    .pick(&["abs", "sign", "floor", "ceil", "ceiling", "round", "trunc"])
            ),
            6 => format!(
                "{}({a}, {})",
                self.random.pick(&["round", "trunc"]),
                self.random.pick(&["0", "1", "2", "-1", "-2", "-3"])
            ),
            7 => format!("{}({a})", self.random.pick(&["sqrt", "ln", "log", "log10"])),
            8 => format!(
                "({})::{}",
                self.any_number(depth - 1),
                self.random
                    .pick(&["numeric", "numeric(5,2)", "numeric(3,3)", "numeric(40,0)"])
            ),
            9 => format!("greatest({a}, {})", self.numeric(depth - 1)),
            10 => format!(
                "extract({} FROM {})",
                self.random
                    .pick(&["year", "month", "dow", "doy", "day", "quarter", "week"]),
                self.date(depth - 1)
            ),
            11 => format!("CASE WHEN {} THEN {a} END", self.condition(depth - 1)),
            12 => format!("power({a}, {})", self.random.pick(&["2", "0.5", "-1", "3"])),
            13 => format!("exp({a})"),
            14 => format!("div({a}, {})", self.numeric(depth - 1)),
            15 => format!("({})::numeric", self.text(depth - 1)),
            _ => format!("coalesce({a}, 0)"),
        }
    }

    pub fn float(&mut self, depth: usize) -> String {
        if depth == 0 || self.random.once_in(3) {
            return match self.random.below(6) {
                0 => self
                    .random
                    .pick(&[
                        "0.5::float8",
                        "'1e50'::float8",
                        "'-2.5'::float8",
                        "'1e-40'::float8",
                    ])
                    .to_owned(),
                _ => self.column(&["f8", "g8", "f4"]),
            };
        }
        let a = self.float(depth - 1);
        match self.random.below(14) {
            0..=3 => {
                let op = self.random.pick(&["+", "-", "*", "/"]);
                format!("({a} {op} {})", self.float(depth - 1))
            }
            4 => format!("(- ({a}))"),
            5 => format!(
                "{}({a})",
                self.random
                    .pick(&["abs", "sign", "floor", "ceil", "round", "trunc"])
            ),
            6 => format!("{}({a})", self.random.pick(&["sqrt", "ln", "log", "log10"])),
            7 => format!("({})::float8", self.any_number(depth - 1)),
            8 => format!("least({a}, {})", self.float(depth - 1)),
            9 => format!(
                "date_part('{}', {})",
                self.random.pick(&["year", "month", "dow", "doy"]),
                self.date(depth - 1)
            ),
            10 => format!(
                "{}({a})",
                self.random
                    .pick(&["exp", "sin", "atan", "radians", "degrees", "cbrt"])
            ),
            11 => format!("({a} ^ {})", self.random.pick(&["2", "0.5", "(-2)"])),
            12 => format!(
                "extract(epoch FROM ({} - {}))::float8",
                self.timestamp(depth - 1),
                self.timestamp(depth - 1)
            ),
            _ => format!(
                "CASE WHEN {} THEN {a} ELSE 1.5 END",
                self.condition(depth - 1)
            ),
        }
    }

    pub fn any_number(&mut self, depth: usize) -> String {
        match self.random.below(3) {
            0 => self.integer(depth),
            1 => self.numeric(depth),
            _ => self.float(depth),
        }
    }

    pub fn text(&mut self, depth: usize) -> String {
        if depth == 0 || self.random.once_in(2) {
            return match self.random.below(6) {
                0 => self.random.pick(&["'a'", "''", "'x%'"]).to_owned(),
                _ => self.column(&["tx", "vc", "kd"]),
            };
        }
        let a = self.text(depth - 1);
        match self.random.below(13) {
            0 => format!(
                "{}({a})",
                self.random
                    .pick(&["lower", "upper", "btrim", "ltrim", "rtrim"])
            ),
            1 => format!(
                "{}({a}, {})",
                self.random.pick(&["left", "right"]),
                self.random.pick(&["0", "1", "3", "-2", "5000"])
            ),
            2 => format!("substring({a}, {})", self.random.pick(&["0", "2", "-5"])),
            3 => format!(
                "substr({a}, {}, {})",
                self.random.pick(&["0", "2", "-5", "100000"]),
                self.random.pick(&["0", "1", "100000"])
            ),
            4 => format!("coalesce({a}, 'none')"),
            5 => format!(
                "({})::text",
                self.random.pick(&["5"]).to_owned() + " + " + &self.integer(depth - 1)
            ),
            6 => format!(
                "CASE WHEN {} THEN {a} ELSE 'else' END",
                self.condition(depth - 1)
            ),
            7 => format!("({a} || {})", self.text(depth - 1)),
            8 => format!("concat_ws('-', {a}, {})", self.any_number(depth - 1)),
            9 => format!(
                "{}({a}, {})",
                self.random.pick(&["lpad", "rpad", "repeat"]),
                self.random.pick(&["0", "2", "9"])
            ),
            10 => format!("replace({a}, 'a', 'bb')"),
            11 => format!("substring({a} FROM '[a-z]+')"),
            _ => format!("nullif({a}, 'a')"),
        }
    }

    pub fn date(&mut self, depth: usize) -> String {
        if depth == 0 || self.random.once_in(2) {
            return self.column(&["d", "dd"]);
        }
        match self.random.below(4) {
            0 => format!("({} + {})", self.date(depth - 1), self.integer(0)),
            1 => format!("({} - {})", self.date(depth - 1), self.integer(0)),
            2 => format!("({})::date", self.timestamp(depth - 1)),
            _ => format!("coalesce({}, date '2000-05-05')", self.date(depth - 1)),
        }
    }

    pub fn timestamp(&mut self, depth: usize) -> String {
        if depth == 0 || self.random.once_in(2) {
            return self.column(&["ts", "tt"]);
        }
        match self.random.below(5) {
            0 => format!(
                "date_trunc('{}', {})",
                self.random
                    .pick(&["year", "quarter", "month", "week", "day", "hour"]),
                self.timestamp(depth - 1)
            ),
            1 => format!("({})::timestamp", self.date(depth - 1)),
            2 => format!("({} + interval '1 month')", self.timestamp(depth - 1)),
            3 => format!(
                "({} - {} * interval '1 day')",
                self.timestamp(depth - 1),
                self.integer(0)
            ),
            _ => format!(
                "greatest({}, timestamp '2000-01-01 00:00:00')",
                self.timestamp(depth - 1)
            ),
        }
    }

    pub fn condition(&mut self, depth: usize) -> String {
        if depth > 0 && self.random.once_in(4) {
            let a = self.condition(depth - 1);
            return match self.random.below(4) {
                0 => format!("({a} AND {})", self.condition(depth - 1)),
                1 => format!("({a} OR {})", self.condition(depth - 1)),
                2 => format!("(NOT {a})"),
                _ => format!(
                    "({a} {})",
                    self.random
                        .pick(&["IS TRUE", "IS NOT TRUE", "IS FALSE", "IS UNKNOWN"])
                ),
            };
        }
        let op = self.random.pick(&["=", "<>", "<", "<=", ">", ">="]);
        match self.random.below(17) {
            11 => format!(
                "({} {op} (SELECT count(*) FROM people q WHERE q.ni > 0))",
                self.any_number(depth)
            ),
            12 => {
                let not = self.random.pick(&["", "NOT "]);
                format!(
                    "({} {not}IN (SELECT q.kd FROM visits q GROUP BY q.kd HAVING count(*) > 2))",
                    self.text(depth)
                )
            }
            0 | 1 => format!(
                "({} {op} {})",
                self.any_number(depth),
                self.any_number(depth)
            ),
            2 => format!(
                "({} BETWEEN {} AND {})",
                self.integer(depth),
                self.random.below(20),
                20 + self.random.below(40)
            ),
            3 => format!("({} IN (1, 2, NULL, 30))", self.integer(depth)),
            4 => format!("({} {op} {})", self.text(depth), self.text(depth)),
            5 => format!(
                "({} {} '{}')",
                self.text(depth),
                self.random.pick(&["LIKE", "ILIKE", "NOT LIKE"]),
                self.random.pick(&["a%", "%b\\%%", "_", ""])
            ),
            6 => format!("({} {op} {})", self.date(depth), self.date(depth)),
            7 => format!("({} {op} {})", self.timestamp(depth), self.timestamp(depth)),
            8 => self.column(&["b"]),
            15 => format!("({} ~ '^[a-z]+$')", self.text(depth)),
            16 => format!("({} SIMILAR TO '%(a|b)_')", self.text(depth)),
            13 => format!(
                "(({}, {}) {op} ({}, 'a'))",
                self.integer(0),
                self.text(0),
                self.integer(0)
            ),
            14 => format!("({} = ANY (ARRAY[1, 7, NULL]))", self.integer(depth)),
            9 => format!(
                "({} IS DISTINCT FROM {})",
                self.numeric(depth),
                self.numeric(depth)
            ),
            _ => format!(
                "({} IS {}NULL)",
                self.any_number(depth),
                self.random.pick(&["", "NOT "])
            ),
        }
    }

    pub fn key(&mut self) -> String {
        match self.random.below(16) {
            0 => self.column(&["kd"]),
            1 => self.column(&["b"]),
            2 => self.column(&["i4", "ni"]),
            3 => self.column(&["tx", "vc", "j4", "j8", "nn", "g8", "dd", "tt", "s2"]),
            4 => self.column(&["d"]),
            5 => format!(
                "CASE WHEN {} THEN 'low' WHEN {} THEN 'high' END",
                self.condition(1),
                self.condition(1)
            ),
            6 => format!("date_trunc('month', {})", self.column(&["ts", "tt"])),
            7 => format!("extract(month FROM {})", self.column(&["d", "dd"])),
            8 => format!(
                "width_bucket({}, 0, 50, 5)",
                self.column(&["f8", "g8", "n2", "nn"])
            ),
            9 => format!("floor({} / 10)", self.column(&["i4"])),
            10 => self.integer(2),
            11 => self.numeric(2),
            12 => self.float(2),
            13 => self.text(2),
            14 => self.date(1),
            _ => format!("({} / 10)", self.column(&["i4"])),
        }
    }

    fn bounded(&mut self) -> String {
        match self.random.below(9) {
            0..=2 => self.column(&["i4", "i8", "n2", "nb", "f8", "f4", "ni"]),
            3 => format!("LEAST(GREATEST({}, 0), 100)", self.any_number(2)),
            4 => format!("LEAST(GREATEST({}, -0.5), 12.345)", self.numeric(2)),
            5 => format!("CASE WHEN {} THEN 1 ELSE 0 END", self.condition(2)),
            6 => format!(
                "CASE WHEN {} THEN {} END",
                self.condition(1),
                self.column(&["i4", "ni"])
            ),
            7 => {
                let op = self.random.pick(&["+", "-", "*"]);
                format!(
                    "({} {op} {})",
                    self.column(&["i4", "n2", "nb", "ni"]),
                    self.column(&["i4", "n2", "f8", "ni"])
                )
            }
            _ => format!("round({}, 1)", self.column(&["n2", "nb"])),
        }
    }

    fn distinct(&mut self) -> String {
        match self.random.below(6) {
            0 => self.column(&["s2", "i4", "j4", "j8", "n2", "nn", "g8", "f8"]),
            1 => self.column(&["tx", "vc", "kd"]),
            2 => self.column(&["d", "dd", "ts", "tt", "b"]),
            3 => self.numeric(1),
            4 => self.text(1),
            _ => self.integer(1),
        }
    }

    /// An aggregate that is a number.
    pub fn measure(&mut self) -> String {
        match self.random.below(6) {
            0 | 1 => "count(*)".to_owned(),
            2 => format!("count({})", self.any_number(1)),
            3 => format!("avg({})", self.bounded()),
            4 => format!(
                "sum({}) FILTER (WHERE {})",
                self.bounded(),
                self.condition(1)
            ),
            _ => format!("sum({})", self.bounded()),
        }
    }

    /// A value whose range is known.
    fn ordered(&mut self) -> String {
        if self.random.once_in(3) {
            self.column(&["d", "ts", "dd"])
        } else {
            self.bounded()
        }
    }

    /// A field of a regression of one to four values by each other, or of their components.
    fn regression(&mut self) -> String {
        let features: Vec<String> = (0..1 + self.random.below(3))
            .map(|_| self.bounded())
            .collect();
        let constant = self.random.pick(&["1, ", "", "-2.5, "]);
        let filter = if self.random.once_in(4) {
            format!(" FILTER (WHERE {})", self.condition(1))
        } else {
            String::new()
        };
        let field = self
            .random
            .pick(&["coef[1]", "std_err", "r2", "num_rows", "penalty"]);
        let (y, features) = (self.bounded(), features.join(", "));
        match constant {
            "" if field != "std_err" => {
                let field = if field == "num_rows" {
                    field
                } else {
                    "variance[1]"
                };
                format!("(pgveil.pca(ARRAY[{features}]){filter}).{field}")
            }
            "1, " => format!("(pgveil.linregr({y}, ARRAY[1, {features}]){filter}).{field}"),
            _ => {
                let call = format!("pgveil.linregr({y}, ARRAY[{constant}{features}], 0.5)");
                format!("({call}{filter}).{field}")
            }
        }
    }

    pub fn aggregate(&mut self) -> String {
        if self.random.once_in(20) {
            return self.regression();
        }
        let unit = self.unit();
        let call = match self.random.below(20) {
            0 | 1 => "count(*)".to_owned(),
            2 => format!("count({})", self.any_number(1)),
            3 => format!("count({})", self.column(&["i4", "tx", "d", "ni", "f8"])),
            4 if unit.is_some() => format!("count(DISTINCT {})", unit.unwrap_or_default()),
            5 if unit.is_some() => format!(
                "count(DISTINCT CASE WHEN {} THEN {} END)",
                self.condition(1),
                unit.unwrap_or_default()
            ),
            4..=7 => format!("sum({})", self.bounded()),
            8 | 9 => format!("avg({})", self.bounded()),
            10 | 11 => {
                let name = self.random.pick(&[
                    "var_pop",
                    "var_samp",
                    "variance",
                    "stddev",
                    "stddev_pop",
                    "stddev_samp",
                ]);
                format!("{name}({})", self.bounded())
            }
            12 => {
                let name = self.random.pick(&[
                    "covar_pop",
                    "covar_samp",
                    "corr",
                    "regr_count",
                    "regr_avgx",
                    "regr_avgy",
                    "regr_sxx",
                    "regr_syy",
                    "regr_sxy",
                    "regr_slope",
                    "regr_intercept",
                    "regr_r2",
                ]);
                format!("{name}({}, {})", self.bounded(), self.bounded())
            }
            13 => format!(
                "{}({})",
                self.random.pick(&["bool_and", "bool_or", "every"]),
                self.condition(1)
            ),
            14 => format!("count(DISTINCT {})", self.distinct()),
            15 => format!("count(DISTINCT ({}, {}))", self.distinct(), self.distinct()),
            16 => format!("{}({})", self.random.pick(&["min", "max"]), self.ordered()),
            17 => {
                let fraction = self.random.pick(&[
                    "0.5",
                    "0.25",
                    "0.9",
                    "0.123456",
                    "ARRAY[0.1, 0.5, 0.75]",
                    "ARRAY[0, 0.2, 0.45, 0.7, 1]",
                ]);
                let name = self.random.pick(&["percentile_cont", "percentile_disc"]);
                let value = if name == "percentile_cont" {
                    self.bounded()
                } else {
                    self.ordered()
                };
                format!(
                    "{name}({fraction}) WITHIN GROUP (ORDER BY {value}{})",
                    self.random.pick(&["", "", " DESC"])
                )
            }
            18 => format!(
                "{}(DISTINCT {})",
                self.random.pick(&["sum", "avg", "variance", "stddev_pop"]),
                self.bounded()
            ),
            _ => format!(
                "mode() WITHIN GROUP (ORDER BY {})",
                self.column(&["kd", "b", "ni", "i4"])
            ),
        };
        if self.random.once_in(4) {
            format!("{call} FILTER (WHERE {})", self.condition(1))
        } else {
            call
        }
    }
}

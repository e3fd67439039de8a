//! Totality: every entry of the table of functions, every grammar function, cast and comparison, on
//! hostile rows; and where PostgreSQL does not fail, the same value and type.

use pgveil::catalog::Type;
use pgveil::ir::functions::{Function, Overload, ParameterType, entries};
use pgveil::mechanism::Accounting;

use super::forms::FORMS;
use super::grammar::Grammar;
use super::random::{Random, seeds};
use super::world::{HOSTILE, World};

/// Columns and constants of a kind, as the world names them.
fn operands(kind: ParameterType, function: Function) -> &'static [&'static str] {
    use Function as F;
    match (kind, function) {
        (ParameterType::Int2, _) => &["s2"],
        (ParameterType::Int4, F::MakeTime) => &["j4", "ni", "i4"],
        (ParameterType::Float8, F::MakeTime) => &["g8", "60", "59.5", "f8"],
        (ParameterType::Int4, F::MakeTimestamp) => {
            &["2024", "(j4 % 14)", "(ni + 27)", "ni", "j4", "12"]
        }
        (ParameterType::Float8, F::MakeTimestamp) => &["g8", "59.999999", "60", "f8"],
        (
            ParameterType::Interval,
            F::TimeLater
            | F::TimeEarlier
            | F::AddIntervals
            | F::SubtractIntervals
            | F::NegateInterval
            | F::JustifyDays
            | F::JustifyHours
            | F::JustifyInterval,
        ) => &[
            "(tt - ts)",
            "interval '100 days 30:00'",
            "age(tt, ts)",
            "(ni * interval '40 days')",
            "iv",
            "(i4 * interval '-26 hours')",
        ],
        (ParameterType::Timestamp | ParameterType::Timestamptz, F::DateBin) => {
            &["tt", "ts", "timestamp '2000-01-03 04:05'", "tz"]
        }
        (ParameterType::ConstantInterval, F::DateBin) => &[
            "interval '7 days'",
            "interval '15 minutes'",
            "interval '1 microsecond'",
            "interval '3999 days 2 hours'",
        ],
        (ParameterType::ConstantInt, F::Overlay | F::OverlayFor) => &["1", "2", "0", "3000", "5"],
        (ParameterType::Int4, F::MakeDate) => &["ni", "j4", "2024", "(j4 % 40)"],
        (ParameterType::Int4, _) => &["j4", "i4", "ni"],
        (ParameterType::Int8, F::Factorial) => &["ni", "(ni::int8 + 20)", "least(j8, 28)"],
        (ParameterType::Int8, _) => &["j8", "i8"],
        (ParameterType::Time, _) => &["time '23:59:59.5'", "tt::time", "make_time(i4, 5, g8)"],
        (ParameterType::Numeric, _) => &["nn", "nb", "n2"],
        (ParameterType::Float8, _) => &["g8", "f8", "j8"],
        (ParameterType::Text, _) => &["tx", "vc", "kd", "rt"],
        (ParameterType::Date, _) => &["dd", "d"],
        (ParameterType::Timestamp, _) => &["tt", "ts", "tt"],
        (ParameterType::Timestamptz, _) => &["tz"],
        (ParameterType::Interval, F::Later | F::Earlier) => &[
            "interval '1 month'",
            "interval '-400 days 02:00'",
            "interval '3999 years'",
            "i4 * interval '1 week'",
            "(interval '90 minutes' * g8)",
        ],
        (ParameterType::Interval, _) => &["iv", "(tt - ts)", "age(tz, ts)", "(tz - dd)"],
        (ParameterType::Bool, _) => &["b"],
        (ParameterType::ConstantInt, F::SplitPart) => &["1", "2", "7"],
        (ParameterType::ConstantInt, F::PadLeft | F::PadRight) => &["5", "0", "-2", "3000"],
        (ParameterType::ConstantInt, F::Repeat) => &["3", "0", "-1", "16"],
        (ParameterType::ConstantInt, _) => &["0", "1", "-3", "2", "1000"],
        (ParameterType::ConstantText, F::AtZone) => {
            &["'UTC'", "'America/New_York'", "'Asia/Kabul'"]
        }
        (
            ParameterType::ConstantText,
            F::SubstringMatching | F::SubstringWhole | F::CountMatching,
        ) => &["'[a-z]+'", "'(e|x)(.)'", "'^\\s*$'", "''"],
        (ParameterType::ConstantText, F::ReplaceMatching) => {
            &["'x'", "'g'", "'[[:alpha:]]'", "'gi'", "'\\1-\\&'"]
        }
        (ParameterType::ConstantText, F::DateTrunc) => &[
            "'month'",
            "'week'",
            "'millennium'",
            "'hour'",
            "'quarter'",
            "'decade'",
            "'microseconds'",
            "'century'",
        ],
        (ParameterType::ConstantText, F::Extract | F::DatePart) => &[
            "'month'",
            "'year'",
            "'week'",
            "'day'",
            "'hour'",
            "'epoch'",
            "'century'",
            "'isoyear'",
            "'dow'",
            "'millisecond'",
            "'second'",
            "'decade'",
            "'quarter'",
            "'minute'",
        ],
        (ParameterType::ConstantText, _) => &["'a'", "'x'", "''", "' é'", "'1'"],
        (ParameterType::ConstantInterval, _) => &[
            "interval '1 day'",
            "interval '-1 year 3 mons'",
            "interval '0.001 seconds'",
        ],
    }
}

fn format(kind: ParameterType) -> &'static [&'static str] {
    match kind {
        ParameterType::Timestamp | ParameterType::Timestamptz => {
            &["'YYYY-MM'", "'Dy DD Mon HH24:MI'", "'IYYY-IW'", "'Q'"]
        }
        _ => &["'FM999,990.00'", "'0000'", "'99'", "'FM9'"],
    }
}

/// An overload with one of each argument, the n-th.
fn written(entry: &Overload, at: usize) -> String {
    let argument = |i: usize, kind: ParameterType| {
        let of = if entry.name == "to_char" && i == 1 {
            format(entry.arguments[0])
        } else {
            operands(kind, entry.function)
        };
        of[(at + i * (at / 3)) % of.len()].to_owned()
    };
    let arguments: Vec<String> = entry
        .arguments
        .iter()
        .enumerate()
        .map(|(i, kind)| argument(i, *kind))
        .collect();
    let is_symbol = !entry.name.starts_with(|c: char| c.is_ascii_alphabetic());
    let float = if entry.result == ParameterType::Float8 {
        "::float8"
    } else {
        ""
    };
    match (entry.name, arguments.as_slice()) {
        ("power" | "pow" | "^", [a, _]) => {
            let by = ["2", "0.5", "-1", "(-2.5)", "7", "0"][at % 6];
            let (a, b) = if at % 4 == 3 {
                (["2", "10", "0.5"][at % 3], a.as_str())
            } else {
                (a.as_str(), by)
            };
            if is_symbol {
                format!("({a}{float} ^ {b}{float})")
            } else {
                format!("{}({a}{float}, {b}{float})", entry.name)
            }
        }
        ("log", [_, b]) => format!("log({}, {b})", ["2", "10", "0.5"][at % 3]),
        ("date_bin", [step, a, origin]) => {
            let zoned = entry.result == ParameterType::Timestamptz;
            let a = if zoned { "tz" } else { a };
            let origin = if zoned {
                "timestamptz '2001-02-16 20:05:00+00'"
            } else if at % 5 == 4 {
                origin
            } else {
                "timestamp '2001-02-16 20:05:00'"
            };
            format!("date_bin({step}, {a}, {origin})")
        }
        ("overlay", [a, b, from]) => format!("overlay({a} PLACING {b} FROM {from})"),
        ("overlay", [a, b, from, length]) => {
            format!("overlay({a} PLACING {b} FROM {from} FOR {length})")
        }
        ("width_bucket", [a, ..]) => format!("width_bucket({a}, -1, 10, 4)"),
        ("timezone", [zone, a]) => format!("({a} AT TIME ZONE {zone})"),
        ("extract", [field, a]) => format!("extract({} FROM {a})", field.trim_matches('\'')),
        ("overlaps", [a, b, c, d]) => format!("(({a}, {b}) OVERLAPS ({c}, {d}))"),
        (name, [a]) if is_symbol => format!("({name} {a})"),
        (name, [a, b]) if is_symbol => format!("({a} {name} {b})"),
        (name, arguments) => format!("{name}({})", arguments.join(", ")),
    }
}

/// Shifts that bring each operand of each overload up.
const SHIFTS: usize = 13;

/// Each overload with this many shifts of its operands.
pub fn overloads(shifts: usize) -> Vec<(&'static Overload, String)> {
    let mut all: Vec<(&'static Overload, String)> = Vec::new();
    for entry in entries() {
        for at in 0..shifts {
            let expression = written(entry, at);
            if !all.iter().any(|(_, known)| *known == expression) {
                all.push((entry, expression));
            }
        }
    }
    all
}

/// Casts, comparisons and forms with special grammar.
pub fn forms() -> Vec<String> {
    const CASTS: &[(&str, &[&str])] = &[
        (
            "smallint",
            &["j4", "j8", "nn", "g8", "f4", "s2", "n2", "rt"],
        ),
        ("int", &["j8", "nn", "g8", "f4", "b", "nb", "rt", "tx"]),
        ("bigint", &["j4", "nn", "g8", "f4", "rt"]),
        ("numeric", &["j8", "g8", "f4", "n2", "rt", "vc"]),
        ("numeric(5,2)", &["j8", "nn", "g8", "f4", "s2", "rt"]),
        ("numeric(2,2)", &["nn", "g8", "ni"]),
        ("numeric(20,0)", &["nn", "g8"]),
        ("float8", &["nn", "j8", "f4", "n2", "nb", "rt", "tx"]),
        ("real", &["nn", "j8", "g8", "f4", "rt"]),
        (
            "text",
            &[
                "nn", "j8", "b", "dd", "tt", "vc", "tz", "iv", "g8", "f4", "uu",
            ],
        ),
        ("varchar(3)", &["j8", "tx", "vc"]),
        ("boolean", &["j4", "rt", "tx"]),
        ("date", &["tt", "ts", "tz", "rt", "(dd + interval '1 day')"]),
        ("timestamp", &["dd", "d", "tz", "rt"]),
        ("time", &["tt", "ts", "tz"]),
        ("timestamptz", &["dd", "tt", "rt"]),
        ("uuid", &["rt", "tx"]),
    ];
    let mut all: Vec<String> = CASTS
        .iter()
        .flat_map(|(to, from)| from.iter().map(move |column| format!("{column}::{to}")))
        .collect();
    for op in ["=", "<", ">=", "<>", "IS DISTINCT FROM"] {
        for (a, b) in [
            ("nn", "g8"),
            ("nn", "j8"),
            ("g8", "j4"),
            ("f4", "g8"),
            ("f4", "nn"),
            ("dd", "tt"),
            ("tx", "vc"),
            ("s2", "j8"),
            ("nn", "0.5::float8"),
            ("g8", "nn"),
            ("tz", "dd"),
            ("tt", "now()"),
            ("iv", "interval '3 days'"),
            ("(tt - ts)", "iv"),
            ("uu", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'"),
        ] {
            all.push(format!("({a} {op} {b})"));
        }
    }
    all.extend(FORMS.iter().map(|form| (*form).to_owned()));
    all
}

/// Shapes in which PostgreSQL may move an expression past its guards.
fn shapes(expression: &str) -> Vec<String> {
    let test = format!("({expression}) IS NOT NULL");
    vec![
        format!("SELECT count(*) FROM people WHERE {test}"),
        format!("SELECT count({expression}) FROM people WHERE id = 3 AND b"),
        format!(
            "SELECT count(*) FILTER (WHERE {test}) FROM (SELECT * FROM people WHERE j4 <> 0) people"
        ),
        format!(
            "SELECT count(*) FROM (SELECT v.* FROM visits v JOIN towns t ON t.code = v.town AND \
                t.region <> 'bad') q WHERE {test}"
        ),
        format!("SELECT CASE WHEN count(*) > 0 THEN count({expression}) END FROM visits"),
        format!(
            "SELECT p.b, count(q.made) FROM people p LEFT JOIN (SELECT visits.person, {expression} \
                AS made FROM visits WHERE ni < 2) q ON q.person = p.id GROUP BY 1"
        ),
    ]
}

async fn runs(world: &World, sql: &str) -> bool {
    let plan = match world.plan_under(sql, Accounting::Gdp, 1.0) {
        Ok(plan) => plan,
        Err(refusal) => {
            assert!(!refusal.contains("XX000"), "{sql}\n{refusal}");
            return false;
        }
    };
    for release in plan.releases() {
        if let Some(text) = release.sql()
            && let Err(fault) = world.run(text, release.keys().len()).await
        {
            panic!("{sql}\n{fault}");
        }
    }
    true
}

/// One row for every hostile value of every column, so that each value meets each function.
async fn one_of_each(world: &World) {
    let most = HOSTILE.iter().map(|c| c.len()).max().unwrap_or(0);
    let mut sql = String::from(
        "BEGIN; SET LOCAL session_replication_role = replica; TRUNCATE w.people, w.visits, \
            w.items, \
            w.rounds;",
    );
    for shift in 0..4 {
        for row in 0..most {
            let values: Vec<&str> = HOSTILE
                .iter()
                .enumerate()
                .map(|(at, column)| column[(row + shift * at) % column.len()])
                .collect();
            let (id, values) = (1 + row + shift * most, values.join(", "));
            sql += &format!(
                "INSERT INTO w.people VALUES ({id}, {values}); INSERT INTO w.visits VALUES ({id}, \
                    {id}, 'x', {values});"
            );
        }
    }
    world
        .client
        .batch_execute(&(sql + "COMMIT;"))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn emitted_expressions_never_raise() {
    let world = World::new().await;
    one_of_each(&world).await;
    let mut idle: Vec<&str> = entries().map(|e| e.name).collect();
    let (mut ran, mut refused) = (0, Vec::new());
    let all = overloads(SHIFTS)
        .into_iter()
        .map(|(entry, expression)| (Some(entry), expression))
        .chain(forms().into_iter().map(|f| (None, f)));
    for (at, (entry, expression)) in all.enumerate() {
        let shapes = shapes(&expression);
        // Two shapes of each expression, others of the next.
        let mut planned = false;
        for shape in [
            &shapes[at % shapes.len()],
            &shapes[(at / 2 + 1) % shapes.len()],
        ] {
            planned |= runs(&world, shape).await;
        }
        match (planned, entry) {
            (true, Some(entry)) => idle.retain(|name| *name != entry.name),
            (true, None) => {}
            (false, _) => refused.push(expression),
        }
        ran += usize::from(planned);
    }
    eprintln!("{ran} expressions ran; refused: {refused:?}");
    assert!(idle.is_empty(), "never run: {idle:?}");
    assert!(ran > 1000, "{ran}");
}

/// Entries of the table of functions, forms and random expressions over rows inside every bound:
/// PostgreSQL's own value of each row where it gives one, with its own type.
#[tokio::test(flavor = "multi_thread")]
async fn total_expressions_equal_postgresql_where_it_does_not_fail() {
    let world = World::new().await;
    tame(&world).await;
    let mut random = Random::new(seeds()[0]);
    let mut all: Vec<String> = overloads(SHIFTS)
        .into_iter()
        .map(|(_, e)| e)
        .chain(forms())
        .map(|e| format!("({e})"))
        .collect();
    for at in 0..250 {
        let mut grammar = Grammar {
            random: &mut random,
            aliases: vec!["people"],
        };
        all.push(match at % 5 {
            0 => grammar.integer(2),
            1 => grammar.numeric(2),
            2 => grammar.float(2),
            3 => grammar.text(2),
            _ => grammar.condition(2),
        });
    }
    let (mut compared, mut failed) = (0, Vec::new());
    for expression in all {
        // Past 1e100 every float8 is clamped, as documented; four-byte floats are followed in eight
        // bytes (the engine refuses where the column's type differs).
        let expression = expression
            .replace("1e50", "1e5")
            .replace("1e20", "1e2")
            .replace("1e-40", "1e-4")
            .replace("f4", "f8")
            .replace("3999 years", "39 years");
        match equals_postgresql(&world, &expression).await {
            Some(Ok(())) => compared += 1,
            Some(Err(fault)) => failed.push(fault),
            None => {}
        }
    }
    eprintln!("{compared} expressions compared");
    assert!(
        failed.is_empty(),
        "{} differ:\n{}",
        failed.len(),
        failed.join("\n\n")
    );
    assert!(compared > 900, "{compared}");
}

/// pg_type.typname.
pub fn short_name(data_type: &Type) -> String {
    match data_type {
        Type::Bool => "bool".to_owned(),
        Type::Int2 => "int2".to_owned(),
        Type::Int4 => "int4".to_owned(),
        Type::Int8 => "int8".to_owned(),
        Type::Numeric(_) => "numeric".to_owned(),
        Type::Float8 => "float8".to_owned(),
        Type::Varchar(_) => "varchar".to_owned(),
        Type::Char(_) => "bpchar".to_owned(),
        Type::Time => "time".to_owned(),
        Type::Timestamp => "timestamp".to_owned(),
        Type::Timestamptz => "timestamptz".to_owned(),
        other => other.to_string(),
    }
}

/// `None` where PostgreSQL fails on a row, or the expression is refused here.
async fn equals_postgresql(world: &World, expression: &str) -> Option<Result<(), String>> {
    let now = "SET search_path = pg_catalog, w";
    world.client.batch_execute(now).await.unwrap();
    // The clock that plans are made with.
    let plain = expression
        .replace("now()", "timestamptz '2026-11-03 07:06:40+00'")
        .replace("localtimestamp", "timestamp '2026-11-03 07:06:40'")
        .replace("current_date", "date '2026-11-03'")
        .replace("age(tt)", "age(timestamp '2026-11-03', tt)");
    let asked = format!("SELECT {expression} AS k, count(DISTINCT id) FROM people GROUP BY 1");
    let Ok(plan) = world.plan_under(&asked, Accounting::Gdp, 1.0) else {
        return None;
    };
    // Constants alone need no release; other tests cover constants from other releases.
    let [release] = plan.releases() else {
        return None;
    };
    let data_type = &release.keys()[0].0;
    // Keys of these types have one spelling for all equal values.
    let spelled = match data_type {
        Type::Numeric(_) => format!("trim_scale({plain})"),
        Type::Float8 => format!("({plain}) + 0::float8"),
        _ => plain.clone(),
    };
    let wanted = world
        .run(
            &format!("SELECT ({spelled})::text AS k, count(*) FROM w.people GROUP BY ({spelled})"),
            1,
        )
        .await;
    let declared = world
        .client
        .prepare(&format!("SELECT {plain} AS k FROM w.people"))
        .await;
    world
        .client
        .batch_execute("SET search_path = pg_catalog")
        .await
        .unwrap();
    let (Ok(wanted), Ok(declared)) = (wanted, declared) else {
        return None;
    };
    let emitted = world.run(release.sql().unwrap(), 1).await.unwrap();
    let wanted_type = declared.columns()[0].type_().name().to_owned();
    let same_type = wanted_type == short_name(data_type);
    if wanted == emitted && same_type {
        return Some(Ok(()));
    }
    Some(Err(format!(
        "{expression}: type {wanted_type} and {data_type}\nwanted {wanted:?}\nfound  \
            {emitted:?}\n{}",
        release.sql().unwrap()
    )))
}

/// Rows inside every bound: twenty units with three visits each and an item a visit.
pub async fn tame(world: &World) {
    let rows = "TRUNCATE w.people, w.visits, w.items, w.rounds; INSERT INTO w.people
         SELECT g, g * 3 - 9, g % 51, g - 10, g * 100, g * 7 - 30, g * 1.25, g / 4.0 - 2, g / 3.0 \
         - \
         3, g / 2.0, g * 1.5 - 7, g / 250.0::float4,
             g % 3 = 0, 'Text ' || g, 'v' || g % 4, (ARRAY['a', 'b', 'it''s'])[1 + g % 3], date \
             '2000-01-01' + g * 20, date '1999-12-20' + g,
             timestamp '2000-01-01 10:00' + g * interval '1 day', timestamp '1999-11-30 23:59:59' \
             + \
             g * interval '30 hours', g % 7 - 3,
             timestamptz '2000-01-02 03:04:05.25+00' + g * interval '7 hours', g * interval '50 \
             hours' - interval '1 mon',
             (ARRAY['12', ' -3.50 ', '2000-01-15', '2000-02-29 10:20:30', 'true', '1e3', \
             'b0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'])[1 + g % 7],
             ('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a' || (10 + g))::uuid
         FROM generate_series(1, 20) g";
    world.client.batch_execute(rows).await.unwrap();
    world
        .client
        .batch_execute(
            "INSERT INTO w.visits SELECT 100 * n + p.id, p.id, (ARRAY['x', 'y', 'q', NULL])[1 + (n \
                + p.id) % 4], p.s2, (p.i4 + n * 7) % 51, p.j4, p.i8, p.j8,
                 p.n2, p.nn, p.nb, p.f8, p.g8, p.f4, p.b, p.tx, p.vc, p.kd, p.d, p.dd, p.ts, p.tt, \
                 p.ni, p.tz, p.iv, p.rt, p.uu FROM w.people p, generate_series(1, 3) n;
             INSERT INTO w.items SELECT id, s2, i4, j4, i8, j8, n2, nn, nb, f8, g8, f4, b, tx, vc, \
             kd, d, dd, ts, tt, ni, tz, iv, rt, uu FROM w.visits WHERE id % 3 > 0;
             INSERT INTO w.rounds SELECT id, s2, i4, j4, i8, j8, n2, nn, nb, f8, g8, f4, b, tx, \
             vc, \
             k, d, dd, ts, tt, ni, tz, iv, rt, uu FROM w.people, unnest(ARRAY['a', 'b']) k WHERE \
             id \
             % 5 > 0 OR k = 'a';",
        )
        .await
        .unwrap();
    // Bounds of the unit's own column do not matter here; every fourth row is NULL where it may be.
    world
        .client
        .batch_execute(
            "UPDATE w.people SET i4 = NULL, nn = NULL, f8 = NULL, tx = NULL, d = NULL, \
            tt = NULL, b = NULL WHERE id % 4 = 0",
        )
        .await
        .unwrap();
}

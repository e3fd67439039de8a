//! `pgveil.linregr` and `pgveil.pca`: without noise the fits of PostgreSQL, NumPy and scikit-learn,
//! with noise what their errors and notices say.

use pgveil::engine::{MakeSampler, Requester};
use pgveil::finish::Fitting;
use pgveil::ir::ReleaseId;
use pgveil::parse::{Statement, parse};
use pgveil::policy::ClipChoice;
use pgveil::release::Released;

use crate::fixture::Veil;

pub(super) const POLICY: &str = "
version: 1
database: {url: '${DATABASE_URL}'}
ledger: {url: '${PGVEIL_LEDGER}'}
privacy:
  unit: person
  budget: {epsilon: 10000000, delta: 1e-3}
  per_query: {epsilon: 5000, max_epsilon: 5000}
  data_version: '1'
roles:
  - name: analyst
    password: SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=
    budget: {epsilon: 9000000, delta: 1e-4}
tables:
  lab.people:
    unit: id
    columns:
      y: {bounds: [-20, 25]}
      a: {bounds: [0, 10]}
      b: {bounds: [-5, 20]}
      c: {bounds: [0, 4]}
      d: {bounds: [0, 12]}
      e: {bounds: [-8, 8]}
      side: {values: [left, right]}
limits: {groups: 1000, failures: 10, statement_timeout: 60s, connections: 4}
";

/// The 40 rows of the unit tests of the fit, a hundred times; then people of whom one value is
/// missing, with the others far off.
const PEOPLE: &str = "
CREATE SCHEMA lab;
CREATE TABLE lab.people (id int PRIMARY KEY, y numeric(6,1), a int NOT NULL, b int, c int NOT NULL,
d int NOT NULL, e float8, side text NOT NULL);
INSERT INTO lab.people
SELECT n, 2 * a - b + c / 2.0 + 5 * i % 9, a, b, c, d, e, CASE WHEN i < 20 THEN 'left' ELSE
'right' END
FROM generate_series(1, 4000) n, LATERAL (SELECT n % 40 AS i) f, LATERAL (SELECT i % 7 AS a,
i * i % 11 AS b, (3 * i + 1) % 5 AS c, i * i * i % 13 AS d, 7 * i % 17 - 8 AS e) g;
INSERT INTO lab.people SELECT 5000 + n, CASE n % 3 WHEN 0 THEN NULL ELSE 25 END, 10, CASE n % 3
WHEN 1 THEN NULL ELSE 20 END, 0, 12, CASE n % 3 WHEN 2 THEN NULL ELSE -8 END, 'left'
FROM generate_series(1, 99) n;
";

pub(super) async fn people(sampler: Option<MakeSampler>) -> Veil {
    let fill = async |client: &tokio_postgres::Client| client.batch_execute(PEOPLE).await.unwrap();
    Veil::over(fill, POLICY, sampler).await
}

pub(super) fn requester(epsilon: f64) -> Requester {
    Requester {
        session_settings: Veil::session_settings(epsilon),
        ..Veil::requester()
    }
}

/// The columns of one row; an array is a list of numbers.
pub(super) fn fields(row: &str) -> Vec<Vec<f64>> {
    let numbers = |field: &str| {
        let list = field.trim_matches(['{', '}']).split(',');
        list.map(|text| text.parse().unwrap_or(f64::NAN)).collect()
    };
    row.split('|').map(numbers).collect()
}

fn assert_near(found: &[f64], wanted: &[f64], what: &str) {
    assert_eq!(found.len(), wanted.len(), "{what}: {found:?}");
    for (found, wanted) in found.iter().zip(wanted) {
        let off = (found - wanted).abs() / wanted.abs().max(1.0);
        assert!(off < 1e-9, "{what}: {found}, {wanted}");
    }
}

/// NumPy's of the unit tests: a hundred times the rows have the same coefficients. The error of
/// sampling falls with the degrees of freedom, from 34 to 3,994.
#[tokio::test(flavor = "multi_thread")]
async fn five_features_are_fitted_as_numpy_fits_them() {
    let veil = people(Veil::silent()).await;
    let analyst = requester(5000.0);
    let sql = "SELECT (pgveil.linregr(y, ARRAY[1, a, b, c, d, e])).* FROM lab.people";
    let row = veil.rows_as(&analyst, sql).await.unwrap().remove(0);
    let found = fields(&row);
    let coef = [
        2.8603127336344465,
        1.8657783963079044,
        -0.8915673377971881,
        0.7175690466763799,
        0.09105387245667994,
        -0.11699247494524934,
    ];
    assert_near(&found[0], &coef, "coef");
    let of_forty = [
        1.4231075499580352,
        0.2280816350783103,
        0.16112346507037922,
        0.34401531004609326,
        0.10601288989712787,
        0.10045911929808522,
    ];
    let of_all = of_forty.map(|error| error * (34.0f64 / 3994.0).sqrt());
    let of_rows = found[1].iter().zip(&found[2]);
    let of_rows: Vec<f64> = of_rows
        .map(|(all, noise)| (all * all - noise * noise).sqrt())
        .collect();
    assert_near(&of_rows, &of_all, "std_err");
    assert!(
        found[2].iter().all(|error| *error > 0.0 && *error < 0.01),
        "{row}"
    );
    assert_near(&found[3], &[0.7961429116628167], "r2");
    assert_near(
        &found[4..7].concat(),
        &[4000.0, 31.51269748582332, 0.0],
        "the rest",
    );
    // Without a constant, and another field of what was paid for.
    let spent = veil.spent().await;
    let again = "SELECT (pgveil.linregr(y, ARRAY[1, a, b, c, d, e])).coef[2] * 2, \
        (pgveil.linregr(y, ARRAY[1, a, b, c, d, e])).num_rows FROM lab.people";
    let again = fields(&veil.rows_as(&analyst, again).await.unwrap()[0]);
    assert_near(&again.concat(), &[2.0 * coef[1], 4000.0], "again");
    assert_eq!(veil.spent().await, spent);
    let bare = "SELECT (pgveil.linregr(y, ARRAY[a, b])).coef, (pgveil.linregr(y, ARRAY[a, b])).r2 \
        FROM lab.people WHERE e IS NOT NULL";
    let bare = fields(&veil.rows_as(&analyst, bare).await.unwrap()[0]);
    let wanted = [2.6617018537590114, -0.45629505664263664, 0.6337041074015586];
    assert_near(&bare.concat(), &wanted, "bare");
}

/// scikit-learn's `Lasso` of the unit tests: the means over a hundred times the rows are the same.
/// Another penalty, and none, come from what was paid for.
#[tokio::test(flavor = "multi_thread")]
async fn a_penalty_shrinks_as_in_scikit_learn() {
    let veil = people(Veil::silent()).await;
    let analyst = requester(5000.0);
    let fit = |l1: &str| {
        format!("SELECT (pgveil.linregr(y, ARRAY[1, a, b, c, d, e]{l1})).* FROM lab.people")
    };
    let row = veil
        .rows_as(&analyst, &fit(", 2.0"))
        .await
        .unwrap()
        .remove(0);
    let found = fields(&row);
    let coef = [
        5.418314729216324,
        1.450765761310753,
        -0.7301528359049492,
        0.0,
        0.0,
        -0.0057585016079497444,
    ];
    assert_near(&found[0], &coef, "coef");
    // No error of sampling is known of coefficients that a penalty chooses.
    assert_eq!(row.split('|').nth(1), Some("∅"), "{row}");
    assert!(row.contains(",0,0,") && !row.contains("-0,"), "{row}");
    assert_near(&found[3], &[0.7244083990194918], "r2");
    let spent = veil.spent().await;
    let half = fields(&veil.rows_as(&analyst, &fit(", 0.5")).await.unwrap()[0]);
    let wanted = [3.9762092435486847, 1.7779896517942535, -0.8594676860427621];
    assert_near(&half[0][..3], &wanted, "half");
    let with_none = fields(&veil.rows_as(&analyst, &fit(", 0")).await.unwrap()[0]);
    let without = fields(&veil.rows_as(&analyst, &fit("")).await.unwrap()[0]);
    assert_eq!(with_none, without);
    assert_eq!(veil.spent().await, spent);
}

/// NumPy's of the unit tests, with the sample's covariances of a hundred times the rows. A row of
/// components is a column's values, and an element a number.
#[tokio::test(flavor = "multi_thread")]
async fn components_are_those_of_numpy() {
    let veil = people(Veil::silent()).await;
    let analyst = requester(5000.0);
    let call = "(pgveil.pca(ARRAY[a, b, c, d, e], 2))";
    let sql = format!("SELECT {call}.* FROM lab.people WHERE y IS NOT NULL AND y < 25");
    let answer = veil.ask_as(&analyst, &sql).await.unwrap();
    let columns = answer.columns.iter();
    let columns: Vec<(&str, u32)> = columns.map(|c| (c.name.as_str(), c.type_oid)).collect();
    assert_eq!(
        columns,
        [
            ("variance", 1022),
            ("noise_err", 1022),
            ("loadings", 1022),
            ("loadings_err", 1022),
            ("proportion", 1022),
            ("mean", 1022),
            ("num_rows", 20),
        ]
    );
    let row = veil.rows_as(&analyst, &sql).await.unwrap().remove(0);
    let found: Vec<Vec<f64>> = row
        .split('|')
        .map(|field| {
            let numbers = field.split(['{', '}', ',']).filter(|text| !text.is_empty());
            numbers.map(|text| text.parse().unwrap()).collect()
        })
        .collect();
    let of_all = 39.0 / 40.0 * 4000.0 / 3999.0;
    let variance = [26.94911745949282, 18.66103483354397].map(|of_forty| of_forty * of_all);
    assert_near(&found[0], &variance, "variance");
    let loadings = [
        -0.0675559112542768,
        0.19022514221750864,
        0.0844978747578361,
        0.2542316370336012,
        0.9420599651909412,
        0.09926634031840442,
        0.03819010393394984,
        -0.1092378547128372,
        0.9564509750047958,
        -0.2489102913730514,
    ];
    assert_near(&found[2], &loadings, "loadings");
    let proportion = [0.46173624352611015, 0.3197312912863249];
    assert_near(&found[4], &proportion, "proportion");
    assert_near(&found[5], &[2.875, 3.925, 2.0, 5.85, -0.275], "mean");
    assert_near(&found[6], &[4000.0], "num_rows");
    let spent = veil.spent().await;
    let sql = format!(
        "SELECT ({call}.loadings)[1][5] > 0.9, array_dims({call}.loadings_err), \
            {call}.loadings[2][4] > 0.9, {call}.noise_err[1] BETWEEN 0 AND 1 FROM lab.people WHERE \
            y IS NOT NULL AND y < 25"
    );
    let found = veil.rows_as(&analyst, &sql).await.unwrap();
    assert_eq!(found, ["t|[1:2][1:5]|t|t"]);
    assert_eq!(veil.spent().await, spent);
    // One value is its variance, in groups too.
    let sql = "SELECT side, (pgveil.pca(ARRAY[e])).variance[1] FROM lab.people GROUP BY side \
        ORDER BY side";
    let exact = "SELECT side, var_samp(e) FROM lab.people GROUP BY side ORDER BY side";
    let found = veil.rows_as(&analyst, sql).await.unwrap();
    let wanted = veil.direct(exact).await;
    for (found, wanted) in found.iter().zip(&wanted) {
        assert_near(&fields(found)[1], &fields(wanted)[1], sql);
    }
}

/// One feature, in groups, by FILTER, over joins and as a subquery: PostgreSQL's own.
#[tokio::test(flavor = "multi_thread")]
async fn one_feature_is_fitted_as_postgresql_fits_it() {
    let veil = people(Veil::silent()).await;
    let analyst = requester(5000.0);
    let fit = |y: &str, x: &str, filter: &str| {
        let call = format!("(pgveil.linregr({y}, ARRAY[1, {x}]){filter})");
        let fields = format!("{call}.coef[1], {call}.coef[2], {call}.r2, {call}.num_rows");
        let exact = ["intercept", "slope", "r2", "count"]
            .map(|name| format!("regr_{name}({y}, {x}){filter}"))
            .join(", ");
        (fields, exact)
    };
    for (y, x, filter, from) in [
        ("y", "a", "", "lab.people"),
        ("y", "e", " FILTER (WHERE c > 1)", "lab.people WHERE d < 10"),
        ("b", "least(greatest(a * c, 0), 30)", "", "lab.people"),
        (
            "e",
            "CASE WHEN side = 'left' THEN 1 ELSE 0 END",
            "",
            "lab.people",
        ),
        ("y * 100", "a - 3", "", "lab.people"),
    ] {
        for key in ["", "side, "] {
            let (fields_of, exact) = fit(y, x, filter);
            let grouped = if key.is_empty() {
                ""
            } else {
                " GROUP BY side ORDER BY side"
            };
            let sql = format!("SELECT {key}{fields_of} FROM {from}{grouped}");
            if key == "side, " && x.contains("side") {
                continue;
            }
            let found = veil
                .rows_as(&analyst, &sql)
                .await
                .unwrap_or_else(|e| panic!("{sql}: {:?}", e.report()));
            let wanted = veil
                .direct(&format!("SELECT {key}{exact} FROM {from}{grouped}"))
                .await;
            assert_eq!(found.len(), wanted.len());
            for (found, wanted) in found.iter().zip(&wanted) {
                let numbers = |row: &str| -> Vec<f64> {
                    fields(row)
                        .concat()
                        .into_iter()
                        .filter(|x| !x.is_nan())
                        .collect()
                };
                assert_near(&numbers(found), &numbers(wanted), &sql);
            }
        }
    }
    let sql = "SELECT count(*) FROM lab.people WHERE a > (SELECT (pgveil.linregr(y, ARRAY[1, \
        a])).r2 * 10 FROM lab.people)";
    let exact = "SELECT count(*) FROM lab.people WHERE a > (SELECT regr_r2(y, a) * 10 FROM \
        lab.people)";
    assert_eq!(
        veil.rows_as(&analyst, sql).await.unwrap(),
        veil.direct(exact).await
    );
}

/// PostgreSQL names the columns, types them, sorts by them, and reads elements of arrays.
#[tokio::test(flavor = "multi_thread")]
async fn fields_are_columns() {
    let veil = people(Veil::silent()).await;
    let analyst = requester(5000.0);
    let sql = "SELECT side, (\"pgveil\".LinRegr(y, ARRAY[a, 1.0])).*, 1 AS one FROM lab.people \
        GROUP BY side ORDER BY num_rows, 2";
    let answer = veil.ask_as(&analyst, sql).await.unwrap();
    let columns: Vec<(&str, u32)> = answer
        .columns
        .iter()
        .map(|column| (column.name.as_str(), column.type_oid))
        .collect();
    assert_eq!(
        columns,
        [
            ("side", 25),
            ("coef", 1022),
            ("std_err", 1022),
            ("noise_err", 1022),
            ("r2", 701),
            ("num_rows", 20),
            ("condition_no", 701),
            ("penalty", 701),
            ("one", 23),
        ]
    );
    let sql = "SELECT array_length(coef, 1), coef[1:2] = coef, r > 0.1 FROM (SELECT \
        (pgveil.linregr(y, ARRAY[a, 1.0])).coef, (pgveil.linregr(y, ARRAY[a, 1.0])).r2 AS r FROM \
        lab.people) f";
    assert_eq!(veil.rows_as(&analyst, sql).await.unwrap(), ["2|t|t"]);
    let sql = "SELECT (pgveil.linregr(y, ARRAY[a, 1])).coef IS NULL, (pgveil.linregr(y, ARRAY[a, \
        1])).num_rows FROM lab.people WHERE c > 4 AND c < 0";
    assert_eq!(veil.rows_as(&analyst, sql).await.unwrap(), ["t|0"]);
}

/// Features that depend on each other have no coefficients without noise, and a penalty with it;
/// too few rows have none. A notice says so.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_determined_is_said() {
    let veil = people(Veil::silent()).await;
    let notices = async |epsilon: f64, features: &str, condition: &str| {
        let sql = format!(
            "SELECT (pgveil.linregr(y, ARRAY[{features}])).* FROM lab.people WHERE {condition}"
        );
        let answer = veil.ask_as(&requester(epsilon), &sql).await.unwrap();
        let lines = answer
            .notices
            .iter()
            .filter(|line| line.starts_with("noise of aggregate"));
        lines.cloned().collect::<Vec<_>>()
    };
    let regular = notices(5000.0, "1, a, b", "a < 20").await;
    assert!(
        !regular.iter().any(|line| line.contains("penalty")),
        "{regular:?}"
    );
    let doubled = notices(5000.0, "1, a, a * 2", "a < 20").await;
    assert_eq!(
        doubled
            .iter()
            .filter(|line| line.contains("shrinks"))
            .count(),
        1
    );
    let few = notices(50.0, "1, a, b", "id = 7").await;
    let few = few
        .iter()
        .filter(|line| line.contains("NULL: too few rows"));
    assert_eq!(few.count(), 1);
}

/// No target is set for an error that follows from all of the answer: refused unpaid. The number of
/// rows has one, and so have the sums behind every field, as shares of a row.
#[tokio::test(flavor = "multi_thread")]
async fn targets_are_of_counts_and_sums() {
    let veil = people(Veil::silent()).await;
    let ask = async |target: &str, field: &str| {
        let mut analyst = requester(50.0);
        let settings = &mut analyst.session_settings;
        settings.set("pgveil.target_error", target).unwrap();
        let sql = format!("SELECT (pgveil.linregr(y, ARRAY[1, a])).{field} FROM lab.people");
        veil.rows_as(&analyst, &sql).await
    };
    for (target, field) in [
        ("2", "coef"),
        ("5%", "std_err"),
        ("5%", "r2"),
        ("2", "noise_err"),
        ("2", "*"),
    ] {
        let spent = veil.spent().await;
        let refused = ask(target, field).await.unwrap_err();
        let report = refused.report();
        assert_eq!(report.sqlstate, "0A000", "{target}, {field}: {report}");
        assert!(
            report.message.contains("whose error is not known"),
            "{report}"
        );
        let hint = report.hint.clone().unwrap_or_default();
        assert!(hint.contains("share of one row"), "{hint}");
        assert_eq!(veil.spent().await, spent, "{target}, {field}");
    }
    for target in ["2", "5%", "300% of a row"] {
        let rows = ask(target, "num_rows").await.unwrap();
        assert_eq!(rows, ["4066"], "{target}");
    }
    let coef = fields(&ask("300% of a row", "coef").await.unwrap()[0]).concat();
    assert_eq!(coef.len(), 2);
    assert!((1.0..3.0).contains(&coef[1]), "{coef:?}");
}

/// The number of rows has an interval as a count has; other fields have errors in the record.
#[tokio::test(flavor = "multi_thread")]
async fn the_number_of_rows_has_an_interval() {
    let veil = people(Veil::silent()).await;
    let call = "(pgveil.linregr(y, ARRAY[1, a]))";
    let ask = async |of: &str| {
        let sql = format!("SELECT {of} FROM lab.people");
        veil.rows_as(&requester(50.0), &sql).await
    };
    let both = format!(
        "pgveil.ci_low({call}.num_rows) < 4066, pgveil.ci_high({call}.num_rows) > 4066, \
            pgveil.stderr(2 * {call}.num_rows) > pgveil.stderr({call}.num_rows)"
    );
    assert_eq!(ask(&both).await.unwrap(), ["t|t|t"]);
    for field in ["coef", "r2", "coef[1]"] {
        let refused = ask(&format!("pgveil.stderr({call}.{field})")).await;
        let refused = refused.unwrap_err().report();
        assert_eq!(refused.sqlstate, "0A000", "{field}: {refused}");
    }
}

/// A clip that a look chooses starts sums at zero where they are those of SUM; here their middle is
/// that of the bounds.
#[tokio::test(flavor = "multi_thread")]
async fn a_value_alone_is_fitted_under_a_look() {
    let veil = super::look::veil(true).await;
    let mut analyst = requester(20.0);
    analyst.session_settings.clip = ClipChoice::Auto;
    let look = "EXPLAIN SELECT (pgveil.linregr(amount, ARRAY[1])).coef FROM retail.line";
    let plan = veil.explained(analyst.session_settings, look).await;
    assert!(plan.join(" ").contains("Look: noisy"), "{plan:?}");
    for (y, feature, exact) in [
        ("amount", "1", "avg(amount)"),
        ("amount", "2", "avg(amount) / 2"),
        ("week", "1", "avg(week)"),
        ("week", "week", "1.0"),
    ] {
        let sql =
            format!("SELECT (pgveil.linregr({y}, ARRAY[{feature}])).coef[1] FROM retail.line");
        let found = veil.rows_as(&analyst, &sql).await.unwrap();
        let exact = format!("SELECT ({exact})::float8 FROM retail.line LIMIT 1");
        let wanted = veil.direct(&exact).await;
        let number = |rows: &[String]| rows[0].parse::<f64>().unwrap();
        let (found, wanted) = (number(&found), number(&wanted));
        assert!(
            (found / wanted - 1.0).abs() < 0.01,
            "{sql}: {found}, {wanted}"
        );
    }
}

/// The rows where no value is NULL are the same, and so are their sums.
#[tokio::test(flavor = "multi_thread")]
async fn values_in_another_order_are_the_same_question() {
    let veil = people(Veil::silent()).await;
    let analyst = requester(5000.0);
    let ask = async |call: &str| {
        let sql = format!("SELECT {call} FROM lab.people WHERE y < 25");
        fields(&veil.rows_as(&analyst, &sql).await.unwrap()[0]).concat()
    };
    let first = ask("(pgveil.linregr(y, ARRAY[1, a, b, e])).coef").await;
    let spent = veil.spent().await;
    let second = ask("(pgveil.linregr(y, ARRAY[e, 1, b, a])).coef").await;
    let other = [first[3], first[0], first[2], first[1]];
    for (found, wanted) in second.iter().zip(other) {
        assert!((found - wanted).abs() < 1e-9, "{second:?} {first:?}");
    }
    ask("(pgveil.linregr(e, ARRAY[y, b, a], 0.1)).coef").await;
    ask("(pgveil.pca(ARRAY[b, e, y, a])).variance").await;
    assert_eq!(veil.spent().await, spent);

    let slope = ask("regr_slope(y, b)").await;
    let spent = veil.spent().await;
    let pairs = ask("corr(b, y)").await;
    let both = ask("corr(y, b), corr(b, y), regr_slope(b, y)").await;
    assert_eq!(both[..2], [pairs[0], pairs[0]]);
    assert!(
        (both[2] * slope[0] - pairs[0] * pairs[0]).abs() < 1e-6,
        "{both:?}"
    );
    assert_eq!(veil.spent().await, spent);
}

/// Fits take turns: each is over after a few milliseconds. No group is left out or fitted twice.
#[tokio::test(flavor = "multi_thread")]
async fn fits_of_many_groups_take_turns() {
    let veil = people(Veil::silent()).await;
    let plan = async |sql: &str| {
        let Statement::Query(query) = parse(sql).unwrap().remove(0) else {
            panic!("{sql}")
        };
        veil.engine
            .plan(&requester(5000.0), &query)
            .await
            .unwrap()
            .0
    };
    let plan = plan("SELECT (pgveil.pca(ARRAY[a, b, c, d, e])).* FROM lab.people").await;
    let release = &plan.releases()[0];
    let (model, _) = release.models().next().unwrap();
    assert_eq!(release.models().count(), 1);
    for groups in [0, 1, 300] {
        let width = release.measures().len();
        let table = serde_json::json!({
            "keys": vec![Vec::<String>::new(); groups],
            "measures": vec![vec!["100"; width]; groups],
        });
        let mut released = Released::before(&plan);
        released
            .recall(&plan, ReleaseId(0), table.to_string().as_bytes())
            .unwrap();
        let mut fitting = Fitting::new(&plan, [ReleaseId(0)], &released);
        assert_eq!(fitting.is_short(), groups < 300);
        let mut turns = 0;
        while !fitting.is_done() {
            fitting.advance();
            turns += 1;
        }
        assert!(if groups < 300 { turns == 1 } else { turns > 1 }, "{turns}");
        assert_eq!(fitting.finish().of(ReleaseId(0), model).len(), groups);
    }
}

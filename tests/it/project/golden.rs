//! Golden files: a query's whole story (labelled tree, SQL, sensitivity, charge), or its refusal as
//! a client sees it. Review with `cargo insta review`.

use std::sync::Arc;

use pgveil::engine::{QuestionPlan, Sql, describe_plan, refuse_useless};
use pgveil::error::Error;
use pgveil::mechanism::{AccountState, Cap, Fixed, Loss, OneBit, Randomiser, Rappor};
use pgveil::parse::{Statement, parse};
use pgveil::policy::{
    Budget, ClipChoice, Collected, ColumnPosition, Dictionary, Policy, Scalar, SessionSettings,
};
use pgveil::resolve::Constants;
use pgveil::rewrite::{Terms, UnitCount};

use crate::fixture::Veil;

/// Fresh accounts of the demo's analyst and owner.
pub fn terms(policy: &Policy) -> Terms {
    let privacy = &policy.privacy;
    let cap = |b: Budget| {
        Cap::new(
            Fixed::round_down(b.epsilon),
            Fixed::round_down(b.delta),
            Fixed::round_down(privacy.threshold_share),
            privacy.accounting,
        )
        .unwrap()
    };
    let role = policy.role("analyst").unwrap().budget;
    let accounts = [role, privacy.budget]
        .map(|b| AccountState {
            cap: cap(b),
            spent: Loss::ZERO,
        })
        .to_vec();
    Terms {
        epsilon: privacy.epsilon_default,
        delta: role.delta,
        accounts,
        session_settings: SessionSettings::with_fixed_clips(),
        ranges: Vec::new(),
    }
}

/// A session of the analyst, at one moment.
pub fn constants() -> Constants {
    Constants {
        now: 848_880_000_000_000,
        role: "analyst".to_owned(),
        is_utc: true,
        signs_each: true,
        prints_plainly: true,
        session: Default::default(),
    }
}

const OF_THE_SESSION: &str = "a statement of the session";

fn story(sql: &str, policy: &Policy, clip: ClipChoice) -> String {
    let terms = |policy: &Policy| {
        let mut terms = terms(policy);
        terms.session_settings.clip = clip;
        terms
    };
    let constants = constants();
    let (search_path, terms) = (["public".to_owned()], terms(policy));
    let planned = match parse(sql).as_deref() {
        Ok([Statement::Query(query)]) => {
            let asked = QuestionPlan {
                query,
                policy,
                search_path: &search_path,
                constants: &constants,
                terms: &terms,
                units: UnitCount::of_policy(policy),
            };
            let planned = pgveil::engine::plan(query, policy, &search_path, &constants, &terms);
            planned.and_then(|plan| match refuse_useless(&asked, &plan, |_| true) {
                Some(refusal) => Err(Error::Rewrite(refusal)),
                None => Ok(plan),
            })
        }
        Ok(_) => return OF_THE_SESSION.to_owned(),
        Err(refusal) => Err(Error::Parse(refusal.clone())),
    };
    match planned {
        Ok(plan) => describe_plan(&plan, terms.delta, Sql::Shown).join("\n"),
        Err(error) => {
            let report = error.report();
            let line = |label: &str, text: &Option<String>| {
                text.as_ref()
                    .map(|t| format!("\n{label}: {t}"))
                    .unwrap_or_default()
            };
            let position = report
                .position
                .map(|p| format!("\nPOSITION: {p}"))
                .unwrap_or_default();
            let id = report.reason.id();
            format!(
                "ERROR {}: {}{}{}{position}\nID: {id}",
                report.sqlstate,
                report.message,
                line("DETAIL", &report.detail),
                line("HINT", &report.hint)
            )
        }
    }
}

/// The policy with a total of one unit's values of a column.
fn with_total(policy: &Policy, column: &str, total: f64) -> Policy {
    let mut policy = policy.clone();
    let columns = policy
        .tables
        .iter_mut()
        .flat_map(|table| &mut table.columns);
    let column = columns.into_iter().find(|found| found.name == column);
    column.unwrap().unit_total = Some(total);
    policy
}

/// The policy with columns whose values were randomised before they were stored.
fn with_reports(policy: &Policy) -> Policy {
    let mut policy = policy.clone();
    let texts = |values: [&str; 3]| values.map(|text| Scalar::Text(text.to_owned())).to_vec();
    let bits = vec![Scalar::Int(0), Scalar::Int(1)];
    let coin = Randomiser::Coin {
        truth: 0.5,
        yes: 0.5,
    };
    let krr = Randomiser::KRr { epsilon: 1.0 };
    let mean = Randomiser::Mean { epsilon: 2.0 };
    let of = [
        ("race", krr, texts(["white", "black", "other"]), None),
        ("college_graduate", coin, bits.clone(), None),
        ("union_member", coin, bits.clone(), None),
        (
            "weeks_worked",
            mean,
            bits,
            Some(OneBit::new(2.0, (0.0, 104.0))),
        ),
    ];
    for (name, randomiser, reports, one_bit) in of {
        let mut columns = policy
            .tables
            .iter_mut()
            .flat_map(|table| &mut table.columns);
        let column = columns.find(|column| column.name == name).unwrap();
        (column.domain, column.bounds, column.is_complete) = (None, None, false);
        column.collected = Some(Collected {
            randomiser,
            reports,
            one_bit,
            dictionary: None,
        });
    }
    policy
}

/// The policy with a column of filters, and one of their cohorts.
fn with_filters(policy: &Policy) -> Policy {
    let mut policy = policy.clone();
    let table = policy.tables.iter_mut().find(|table| table.name == "women");
    let columns = &mut table.unwrap().columns;
    let at = |name: &str| columns.iter().position(|column| column.name == name);
    let (report, cohort) = (at("race").unwrap(), at("college_graduate").unwrap());
    let rappor = Rappor {
        bits: 4,
        hashes: 2,
        cohorts: 2,
        f: 0.5,
        p: 0.5,
        q: 0.75,
    };
    let column = &mut columns[report];
    (column.domain, column.is_complete) = (None, false);
    column.collected = Some(Collected {
        randomiser: Randomiser::Rappor(rappor),
        reports: Vec::new(),
        one_bit: None,
        dictionary: Some(Arc::new(Dictionary {
            rappor,
            values: ["white", "black", "other"].map(str::to_owned).to_vec(),
            cohort: ColumnPosition(cohort),
        })),
    });
    columns[cohort].domain = Some(vec![Scalar::Int(0), Scalar::Int(1)]);
    policy
}

#[tokio::test(flavor = "multi_thread")]
async fn every_story_is_as_written() {
    let veil = Veil::demo(|yaml| yaml, None).await;
    let demo = veil.engine.policy();
    let mut of_few = demo.clone();
    of_few.privacy.units = Some(60);
    let of_totals = with_total(demo, "hours_per_week", 300.0);
    let of_reports = with_reports(demo);
    let of_filters = with_filters(demo);
    insta::glob!("../../golden", "**/*.sql", |path| {
        let text = std::fs::read_to_string(path).unwrap();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let clip = if name == "look" || name == "effects" {
            ClipChoice::Auto
        } else {
            ClipChoice::Fixed
        };
        let policy = match name.as_str() {
            "useless" => &of_few,
            "unit_total" => &of_totals,
            "reports" => &of_reports,
            "filters" => &of_filters,
            _ => demo,
        };
        let refuses = path.parent().unwrap().ends_with("refuse");
        let stories: Vec<String> = text
            .split(";\n")
            .map(str::trim)
            .filter(|sql| !sql.is_empty())
            .map(|sql| {
                let story = story(sql, policy, clip);
                let is_refused = story.starts_with("ERROR ") || story == OF_THE_SESSION;
                assert!(is_refused || !refuses, "{sql} is answered: move it to plan");
                format!("{sql}\n\n{story}\n")
            })
            .collect();
        insta::with_settings!({
            snapshot_path => path.parent().unwrap(),
            prepend_module_to_snapshot => false,
            omit_expression => true,
            snapshot_suffix => "",
        }, {
            insta::assert_snapshot!(name, stories.join("\n────────\n\n"));
        });
    });
}

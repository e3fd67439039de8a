//! Two databases, one woman apart, through the same questions: a client's view is the same to the
//! byte, apart from released values.

use pgveil::engine::{Format, Service};
use pgveil::parse::{Statement, parse};
use tokio_util::sync::CancellationToken;

use crate::fixture::{Veil, load, without_units};
use crate::sql::outer_query::{STATEMENTS, rich};

/// Over declared keys alone: the keys and their order come from the policy.
pub const BY_DOMAIN: [&str; 7] = [
    "SELECT * FROM pgveil.worth",
    "SELECT race FROM nls.women GROUP BY race",
    "SELECT year, south FROM nls.interviews GROUP BY year, south",
    "SELECT DISTINCT industry_code FROM nls.interviews",
    "SELECT birth_year FROM nls.women WHERE birth_year BETWEEN 1944 AND 1949 GROUP BY 1",
    "SELECT width_bucket(hourly_wage, 0, 30, 6) FROM nls.interviews GROUP BY 1",
    "SELECT w.race, i.year FROM nls.women w JOIN nls.interviews i USING (woman_id) GROUP BY \
        w.race, \
        i.year",
];

async fn database(without: Option<&str>) -> Veil {
    let yaml = std::fs::read_to_string("policies/demo.yaml").unwrap();
    let yaml = rich(without_units(&yaml));
    let fill = async |client: &tokio_postgres::Client| {
        load(client).await;
        if let Some(woman) = without {
            let gone = format!(
                "DELETE FROM nls.interviews WHERE woman_id = {woman}; DELETE FROM nls.women WHERE \
                    woman_id = {woman}; ANALYZE"
            );
            client.batch_execute(&gone).await.unwrap();
        }
    };
    Veil::over(fill, &yaml, Veil::silent()).await
}

/// A client's view apart from released values: columns or the whole error, the plan's story with
/// its charge, and, for declared keys, every row.
async fn seen(veil: &Veil, sql: &str, with_rows: bool) -> String {
    let statements = match parse(sql) {
        Ok(statements) => statements,
        Err(refusal) => return format!("{refusal:?}"),
    };
    let [Statement::Query(query)] = statements.as_slice() else {
        return format!("{statements:?}");
    };
    let requester = Veil::requester();
    let story = match veil.engine.plan(&requester, query).await {
        // The emitted statement holds the clock.
        Ok((plan, _))
            if ["now", "current", "local"]
                .iter()
                .any(|word| sql.to_lowercase().contains(word)) =>
        {
            format!("{:?}", plan.loss())
        }
        Ok((plan, _)) => format!(
            "{:?} {:?}",
            plan.loss(),
            pgveil::engine::describe_plan(&plan, 1e-7, pgveil::engine::Sql::Shown)
        ),
        Err(error) => format!("{:?}", error.report()),
    };
    let answer = match veil
        .engine
        .answer(
            &requester,
            query,
            &[],
            &[],
            &[Format::Text],
            CancellationToken::new(),
        )
        .await
    {
        Ok(answer) if with_rows => format!("{:?} {:?}", answer.columns, answer.rows),
        Ok(answer) => format!("{:?}", answer.columns),
        Err(error) => format!("{:?}", error.report()),
    };
    format!("{story}\n{answer}")
}

/// Everything the tests ask elsewhere, answered or refused.
pub fn questions() -> Vec<String> {
    let mut texts = vec![STATEMENTS.replace('\n', ";\n")];
    for folder in ["tests/golden/plan", "tests/golden/refuse"] {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|e| e == "sql") {
                texts.push(std::fs::read_to_string(path).unwrap());
            }
        }
    }
    texts
        .iter()
        .flat_map(|text| text.split(";\n"))
        .map(|sql| sql.trim().to_owned())
        .filter(|sql| !sql.is_empty())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn neighbours_look_alike() {
    let all = database(None).await;
    let most = "SELECT woman_id FROM nls.interviews GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT 1";
    let woman: i32 = all.client.query_one(most, &[]).await.unwrap().get(0);
    let fewer = database(Some(&woman.to_string())).await;
    for sql in questions() {
        assert_eq!(
            seen(&all, &sql, false).await,
            seen(&fewer, &sql, false).await,
            "{sql}"
        );
    }
    for sql in BY_DOMAIN {
        assert_eq!(
            seen(&all, sql, true).await,
            seen(&fewer, sql, true).await,
            "{sql}"
        );
    }
    let spent = async |veil: &Veil| veil.engine.ledger().balance("analyst").await.unwrap().spent;
    assert_eq!(spent(&all).await, spent(&fewer).await);
}

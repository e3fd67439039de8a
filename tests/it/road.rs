//! The whole road of a query, over the demo data.

use crate::veil::Veil;

#[tokio::test(flavor = "multi_thread")]
async fn smoke() {
    let veil = Veil::demo(|y| y, None).await;
    for sql in include_str!("smoke.sql").split(";\n").map(str::trim).filter(|s| !s.is_empty()) {
        println!("> {sql}");
        match veil.ask(sql).await {
            Ok(answer) => {
                println!("  {:?}", answer.columns.iter().map(|c| format!("{}:{}", c.name, c.type_oid)).collect::<Vec<_>>());
                for row in answer.rows.iter().take(6) {
                    println!(
                        "  {}",
                        row.iter()
                            .map(|v| v.as_ref().map_or("NULL".into(), |b| String::from_utf8_lossy(b).into_owned()))
                            .collect::<Vec<_>>()
                            .join(" | ")
                    );
                }
                println!("  ({} rows)", answer.rows.len());
                for n in answer.notices {
                    println!("  NOTICE {n}");
                }
            }
            Err(error) => {
                let r = error.report();
                println!("  ERROR {} {} | {:?} | {:?} [{error}]", r.sqlstate, r.message, r.detail, r.hint)
            }
        }
    }
}

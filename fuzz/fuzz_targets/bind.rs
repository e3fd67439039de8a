//! Any text as SQL and any texts as its parameters (`sql`, then for each NUL a byte for its type
//! and its text): a value only ever becomes one constant, so the statement has, token by token, the
//! form that any other value gives it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pgveil::parse::{ParameterValue, Query, Statement, parameter_type, parse};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::tokenizer::{Token, Tokenizer};

const OIDS: [u32; 20] = [
    25, 23, 16, 20, 1700, 701, 1043, 1082, 1114, 1184, 1186, 2950, 17, 3802, 1009, 1007, 18, 2205,
    3904, 20_000,
];

fn bound(part: &str) -> Option<ParameterValue> {
    let mut chars = part.chars();
    let choice = chars.next()? as usize;
    let data_type = parameter_type(OIDS[choice % OIDS.len()]).ok()?;
    Some(ParameterValue {
        data_type,
        text: (choice / OIDS.len() % 8 != 7).then(|| chars.as_str().to_owned()),
    })
}

/// The tokens of the printed statement, each constant of text blank.
fn tokens(query: &Query, values: &[ParameterValue]) -> Option<Vec<Token>> {
    let sql = query.bind(values).ok()?.to_sql();
    let parsed = parse(&sql);
    // A cast of each constant may be more than a client could write.
    if parsed
        .as_ref()
        .is_err_and(|refusal| refusal.sqlstate.starts_with("54"))
    {
        return None;
    }
    assert!(
        matches!(parsed.as_deref(), Ok([Statement::Query(_)])),
        "{sql}: {parsed:?}"
    );
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, &sql)
        .tokenize()
        .unwrap_or_else(|e| panic!("{sql}: {e}"));
    let blank = |token| match token {
        Token::EscapedStringLiteral(_) => Token::EscapedStringLiteral(String::new()),
        other => other,
    };
    Some(tokens.into_iter().map(blank).collect())
}

fuzz_target!(|text: &str| {
    // A value may hold this character, a client's text may not: so the print cannot be parsed here.
    if text.contains('\u{FFFD}') {
        return;
    }
    let mut parts = text.split('\0');
    let Ok(statements) = parse(parts.next().unwrap_or_default()) else {
        return;
    };
    let values: Vec<ParameterValue> = parts.filter_map(bound).collect();
    let plain = |value: &ParameterValue| ParameterValue {
        data_type: value.data_type.clone(),
        text: value.text.as_ref().map(|_| "1".to_owned()),
    };
    let plain: Vec<ParameterValue> = values.iter().map(plain).collect();
    for statement in &statements {
        let Statement::Query(query) = statement else {
            continue;
        };
        let Some(found) = tokens(query, &values) else {
            continue;
        };
        assert_eq!(Some(found), tokens(query, &plain));
    }
});

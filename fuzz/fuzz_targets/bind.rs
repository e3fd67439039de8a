//! Any text as SQL and any texts as its parameters: a value never becomes anything but one constant.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pgveil::parse::{Bound, Statement, parameter_type, parse};

fuzz_target!(|input: (&str, Vec<(u16, Option<&str>)>)| {
    let (text, values) = input;
    let Ok(statements) = parse(text) else { return };
    let read = |(oid, text): &(u16, Option<&str>)| Some(Bound { data_type: parameter_type(u32::from(*oid)).ok()?, text: text.map(str::to_owned) });
    let Some(values) = values.iter().map(read).collect::<Option<Vec<_>>>() else { return };
    for statement in &statements {
        let Statement::Query(query) = statement else { continue };
        let Ok(bound) = query.bind(&values) else { continue };
        assert!(!bound.has_parameters() || !query.has_parameters());
        let sql = bound.to_sql();
        let Ok(again) = parse(&sql) else { continue };
        assert!(matches!(again.as_slice(), [Statement::Query(_)]), "{sql}");
    }
});

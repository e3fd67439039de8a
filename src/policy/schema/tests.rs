//! The schema takes every policy that the reader takes, and little else.

use serde_json::{Map, Value, json};

use super::{explain, schema};
use crate::policy::error::Findings;
use crate::policy::yaml::tree;

/// YAML as an editor's reader understands it.
fn value(node: &tree::YamlNode) -> Value {
    match &node.value {
        tree::YamlValue::Scalar { text, quoted: true } => json!(text),
        tree::YamlValue::Scalar { text, .. } => match text.as_str() {
            "true" => json!(true),
            "false" => json!(false),
            text => text
                .parse::<i64>()
                .map(|n| json!(n))
                .or_else(|_| text.parse::<f64>().map(|n| json!(n)))
                .unwrap_or_else(|_| json!(text)),
        },
        tree::YamlValue::List(items) => items.iter().map(value).collect(),
        tree::YamlValue::Map(entries) => {
            let entries = entries.iter().map(|e| (e.key.clone(), value(&e.value)));
            Value::Object(entries.collect::<Map<_, _>>())
        }
    }
}

/// Checks a value against a schema, with as much of draft-07 as the policy's schema uses.
fn holds(schema: &Value, value: &Value) -> bool {
    let is_type = |name: &str| match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        "boolean" => value.is_boolean(),
        other => panic!("{other}"),
    };
    let names = |value: &Value| -> Vec<String> {
        match value {
            Value::String(name) => vec![name.clone()],
            Value::Array(names) => names
                .iter()
                .map(|name| name.as_str().unwrap_or_default().to_owned())
                .collect(),
            other => panic!("{other}"),
        }
    };
    let Value::Object(schema) = schema else {
        return *schema == json!(true);
    };
    schema.iter().all(|(word, wanted)| match word.as_str() {
        "type" => names(wanted).iter().any(|name| is_type(name)),
        "enum" => wanted.as_array().is_some_and(|all| all.contains(value)),
        "const" => wanted == value,
        "anyOf" => wanted
            .as_array()
            .is_some_and(|all| all.iter().any(|s| holds(s, value))),
        "required" => names(wanted).iter().all(|name| value.get(name).is_some()),
        "properties" => value.as_object().is_none_or(|map| {
            map.iter()
                .all(|(name, value)| wanted.get(name).is_none_or(|s| holds(s, value)))
        }),
        "additionalProperties" => value.as_object().is_none_or(|map| {
            let known = schema.get("properties");
            map.iter().all(|(name, value)| {
                known.is_some_and(|known| known.get(name).is_some())
                    || wanted != &json!(false) && holds(wanted, value)
            })
        }),
        "items" => value
            .as_array()
            .is_none_or(|all| all.iter().all(|v| holds(wanted, v))),
        "minItems" => value
            .as_array()
            .is_none_or(|all| all.len() as u64 >= wanted.as_u64().unwrap_or(0)),
        "maxItems" => value
            .as_array()
            .is_none_or(|all| all.len() as u64 <= wanted.as_u64().unwrap_or(0)),
        "minimum" => value.as_f64() >= wanted.as_f64(),
        "maximum" => value.as_f64() <= wanted.as_f64(),
        "exclusiveMinimum" => value.as_f64() > wanted.as_f64(),
        "exclusiveMaximum" => value.as_f64() < wanted.as_f64(),
        "pattern" => value
            .as_str()
            .is_none_or(|text| matches(wanted.as_str().unwrap_or_default(), text)),
        "description" | "title" | "$schema" => true,
        other => panic!("{other} is not read"),
    })
}

/// Whether a text is one of a pattern `^(words|of|letters)$` or `^[0-9]+(words)$`, in which a word
/// may end with a number.
fn matches(pattern: &str, text: &str) -> bool {
    let inner = pattern.strip_prefix('^').and_then(|p| p.strip_suffix(")$"));
    let (first, words) = inner.and_then(|p| p.split_once('(')).expect(pattern);
    let number = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    words
        .split('|')
        .any(|word| match (first, word.strip_suffix("[0-9]+")) {
            ("", Some(word)) => text.strip_prefix(word).is_some_and(number),
            ("", None) => text == word,
            ("[0-9]+", None) => text.strip_suffix(word).is_some_and(number),
            _ => panic!("{pattern} is not read"),
        })
}

fn read(text: &str) -> Value {
    value(&tree::parse(text, &mut Findings::new("p")).unwrap())
}

#[test]
fn every_policy_of_ours_fits_the_schema() {
    let schema = schema();
    let mut seen = 0;
    for folder in ["policies", "tests/corpora", "tests/clients"] {
        let mut open = vec![std::path::PathBuf::from(folder)];
        while let Some(path) = open.pop() {
            if path.is_dir() {
                open.extend(
                    std::fs::read_dir(path)
                        .unwrap()
                        .map(|entry| entry.unwrap().path()),
                );
            } else if path.extension().is_some_and(|end| end == "yaml") {
                seen += 1;
                let value = read(&std::fs::read_to_string(&path).unwrap());
                assert!(holds(&schema, &value), "{}", path.display());
            }
        }
    }
    assert!(seen > 6, "{seen}");
}

#[test]
fn what_the_reader_refuses_the_schema_refuses() {
    let schema = schema();
    let demo = std::fs::read_to_string("policies/demo.yaml").unwrap();
    assert!(holds(&schema, &read(&demo)));
    for (from, to) in [
        ("version: 1", "version: 2"),
        ("accounting: gdp", "accounting: other"),
        ("budget: {epsilon: 8,", "budget: {epsilon: decide,"),
        ("rows_per_unit: 15", "rows_per_unit: many"),
        ("complete: true}", "completed: true}"),
        ("failures: 10", "failures: -1"),
        ("statement_timeout: 60s", "statement_timeout: 60"),
        ("nls.industries: public", "nls.industries: private"),
        ("{bounds: [1941, 1954]}", "{bounds: [1941]}"),
        ("  - name: analyst", "  - names: analyst"),
    ] {
        assert!(demo.contains(from), "{from}");
        assert!(!holds(&schema, &read(&demo.replacen(from, to, 1))), "{to}");
    }
}

#[test]
fn keys_are_explained_by_the_ends_of_their_paths() {
    let lines = explain("limits.failures");
    assert_eq!(lines[0], "limits.failures");
    assert!(lines.contains(&"  default  10".to_owned()), "{lines:?}");
    let all: Vec<String> = explain("rows_per_unit")
        .into_iter()
        .filter(|line| line.ends_with("rows_per_unit"))
        .filter(|line| !line.starts_with(' '))
        .collect();
    assert_eq!(all, ["tables.rows_per_unit", "limits.rows_per_unit"]);
    assert!(explain("failure").is_empty() && explain("*").is_empty());
}

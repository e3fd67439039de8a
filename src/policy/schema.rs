//! The policy file's keys as JSON Schema draft-07, for editors, and in words.

use serde_json::{Map, Value, json};

use super::file_keys::{KEYS, KeyShape, PolicyKey};
use super::session_settings::SESSION_SETTINGS;

/// The schema of a policy file.
pub fn schema() -> Value {
    let mut schema = map_of("");
    schema.insert(
        "$schema".to_owned(),
        json!("http://json-schema.org/draft-07/schema#"),
    );
    schema.insert("title".to_owned(), json!("pgveil policy"));
    Value::Object(schema)
}

/// The keys directly below a path; the top is empty.
fn below(path: &str) -> impl Iterator<Item = &'static PolicyKey> {
    KEYS.iter()
        .filter(move |key| key.path.rsplit_once('.').map_or("", |(parent, _)| parent) == path)
}

/// A map of the keys below a path, and of no others.
fn map_of(path: &str) -> Map<String, Value> {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for key in below(path) {
        properties.insert(key.name().to_owned(), of(key));
        if key.is_required {
            required.push(json!(key.name()));
        }
    }
    if path == "roles.-.settings" {
        for (name, says) in settings() {
            let scalar = json!({"type": ["string", "number", "boolean"], "description": says});
            properties.insert(name.to_owned(), scalar);
        }
    }
    let mut map = Map::new();
    map.insert("type".to_owned(), json!("object"));
    map.insert("properties".to_owned(), Value::Object(properties));
    map.insert("additionalProperties".to_owned(), json!(false));
    if !required.is_empty() {
        map.insert("required".to_owned(), Value::Array(required));
    }
    map
}

fn of(key: &PolicyKey) -> Value {
    let mut schema = match key.shape {
        KeyShape::Map => map_of(key.path),
        KeyShape::Named => {
            let entries = below(key.path).next().map_or(json!(true), of);
            object(json!({"type": "object", "additionalProperties": entries}))
        }
        KeyShape::List => {
            let item = below(key.path).next().map_or(json!(true), of);
            object(json!({"type": "array", "items": item, "minItems": 1}))
        }
        KeyShape::WordsOrMap(words) => {
            object(json!({"anyOf": [{"enum": words}, map_of(key.path)]}))
        }
        KeyShape::TextOrMap => object(json!({"anyOf": [{"type": "string"}, map_of(key.path)]})),
        KeyShape::Text => object(json!({"type": ["string", "number"]})),
        KeyShape::TextOrTexts => object(json!({"anyOf": [
            {"type": "string"},
            {"type": "array", "items": {"type": "string"}, "minItems": 1}
        ]})),
        KeyShape::Words(words) => object(json!({"enum": words})),
        KeyShape::Number => object(json!({"type": "number", "exclusiveMinimum": 0})),
        KeyShape::Share => object(json!({"type": "number", "minimum": 0, "exclusiveMaximum": 1})),
        KeyShape::Count(least, most) => {
            object(json!({"type": "integer", "minimum": least, "maximum": most}))
        }
        KeyShape::CountOrAuto(least, most) => object(json!({"anyOf": [
            {"type": "integer", "minimum": least, "maximum": most},
            {"const": "auto"}
        ]})),
        KeyShape::Truth => object(json!({"type": "boolean"})),
        KeyShape::Time => object(json!({"type": "string", "pattern": "^[0-9]+(ms|s|min|h)$"})),
        KeyShape::Bounds => object(json!({"anyOf": [
            {"const": "auto"},
            {"type": "array", "items": {"type": ["string", "number"]}, "minItems": 2, "maxItems": 2}
        ]})),
        KeyShape::Values => object(json!({
            "type": "array",
            "items": {"type": ["string", "number", "boolean"]},
            "minItems": 1
        })),
        KeyShape::Names => object(json!({
            "type": "array",
            "items": {"type": ["string", "number", "boolean"]}
        })),
        KeyShape::NamesOrNamed => {
            let entries = below(key.path).next().map_or(json!(true), of);
            object(json!({"anyOf": [
                {"type": "array", "items": {"type": ["string", "number", "boolean"]}},
                {"type": "object", "additionalProperties": entries}
            ]}))
        }
        KeyShape::Marginals => object(json!({"anyOf": [
            {"type": "string", "pattern": "^(all [0-9]+|auto)$"},
            {"type": "array", "minItems": 1, "items": {
                "type": "array",
                "items": {"type": ["string", "number", "boolean"]},
                "minItems": 1
            }}
        ]})),
    };
    let mut says = key.says.to_owned();
    if !key.default.is_empty() {
        says += &format!(" Default: {}.", key.default);
    }
    schema.insert("description".to_owned(), json!(says));
    Value::Object(schema)
}

/// The settings that a role's `settings` may hold, apart from `search_path`, with what they mean.
fn settings() -> impl Iterator<Item = (&'static str, &'static str)> {
    SESSION_SETTINGS
        .iter()
        .filter_map(|setting| Some((setting.name.strip_prefix("pgveil.")?, setting.description)))
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Map::new()
        }
    }
}

/// The paths of all keys, as people write them.
pub fn key_names() -> Vec<String> {
    let named = KEYS.iter().filter(|key| !["*", "-"].contains(&key.name()));
    named.map(PolicyKey::display_path).collect()
}

/// The keys that somebody means by a name or the end of a path, in words.
pub fn explain(name: &str) -> Vec<String> {
    let wanted = format!(".{name}");
    let meant: Vec<&PolicyKey> = KEYS
        .iter()
        .filter(|key| {
            let is_end = |path: &str| path == name || path.ends_with(&wanted);
            is_end(key.path) || is_end(&key.display_path())
        })
        .filter(|key| !["*", "-"].contains(&key.name()))
        .collect();
    let mut lines = Vec::new();
    for key in meant {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        lines.push(key.display_path());
        lines.push(format!("  {}", key.says));
        lines.push(format!("  takes    {}", takes(key)));
        if !key.default.is_empty() {
            lines.push(format!("  default  {}", key.default));
        } else if key.is_required {
            lines.push("  required".to_owned());
        }
        lines.push(format!("  example  {}", key.example));
    }
    lines
}

fn takes(key: &PolicyKey) -> String {
    let names = || {
        let names = below(key.path)
            .map(PolicyKey::name)
            .filter(|name| *name != "*");
        names.collect::<Vec<_>>().join(", ")
    };
    match key.shape {
        KeyShape::Map => format!("a map of {}", names()),
        KeyShape::Named => "a map from names".to_owned(),
        KeyShape::List => "a list".to_owned(),
        KeyShape::Text => "text".to_owned(),
        KeyShape::TextOrTexts => "text, or a list of texts".to_owned(),
        KeyShape::Words(words) => words.join(", "),
        KeyShape::WordsOrMap(words) => format!("{}, or a map of {}", words.join(", "), names()),
        KeyShape::TextOrMap => format!("text, or a map of {}", names()),
        KeyShape::Number => "a number above 0".to_owned(),
        KeyShape::Share => "a number above 0 and below 1".to_owned(),
        KeyShape::Count(least, most) => format!("a whole number from {least} to {most}"),
        KeyShape::CountOrAuto(least, most) => {
            format!("a whole number from {least} to {most}, or auto")
        }
        KeyShape::Truth => "true or false".to_owned(),
        KeyShape::Time => "a time such as 500ms, 60s, 5min or 1h".to_owned(),
        KeyShape::Bounds => "[lowest, highest], or auto for either or both".to_owned(),
        KeyShape::Values => "a list of constants".to_owned(),
        KeyShape::Names => "a list of names".to_owned(),
        KeyShape::NamesOrNamed => "a list of names, or a map from names".to_owned(),
        KeyShape::Marginals => "all and a number, auto, or a list of lists of keys".to_owned(),
    }
}

#[cfg(test)]
mod tests;

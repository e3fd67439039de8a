//! The compose files and the image: what they name exists, in the binary, the policies and the
//! repository. No container is started.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::process::Command;

use granit_parser::{Event, Parser};
use serde_json::{Map, Value};

const PGVEIL: &str = env!("CARGO_BIN_EXE_pgveil");
const FILES: [&str; 2] = ["docker-compose.yml", "ops/compose.ha.yaml"];

/// A list or a map that is not at its end, and its anchor.
struct Open(Value, Option<String>, usize);

/// Reads YAML with anchors and `<<`.
fn read(path: &str) -> Value {
    let text = std::fs::read_to_string(path).unwrap();
    let (mut open, mut named, mut root) = (Vec::<Open>::new(), HashMap::new(), Value::Null);
    for event in Parser::new_from_str(&text) {
        let (done, anchor) = match event.unwrap().0 {
            Event::SequenceStart(_, anchor, _) => {
                open.push(Open(Value::Array(Vec::new()), None, anchor));
                continue;
            }
            Event::MappingStart(_, anchor, _) => {
                open.push(Open(Value::Object(Map::new()), None, anchor));
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Open(value, _, anchor) = open.pop().unwrap();
                (value, anchor)
            }
            Event::Scalar(text, _, anchor, _) => (Value::String(text.into_owned()), anchor),
            Event::Alias(name) => (Value::clone(&named[&name]), 0),
            _ => continue,
        };
        named.insert(anchor, done.clone());
        match open.last_mut() {
            None => root = done,
            Some(Open(Value::Array(items), ..)) => items.push(done),
            Some(Open(Value::Object(entries), key, _)) => match key.take() {
                None => *key = Some(done.as_str().unwrap().to_owned()),
                Some(name) if name == "<<" => {
                    for (name, value) in done.as_object().unwrap() {
                        entries.entry(name.clone()).or_insert(value.clone());
                    }
                }
                Some(name) => drop(entries.insert(name, done)),
            },
            Some(Open(other, ..)) => panic!("{other}"),
        }
    }
    root
}

fn words(list: &Value) -> Vec<String> {
    let words = list.as_array().unwrap().iter();
    words
        .map(|word| word.as_str().unwrap().to_owned())
        .collect()
}

/// The word after an option.
fn after<'a>(words: &'a [String], option: &str) -> &'a str {
    let at = words.iter().position(|word| word == option);
    &words[at.unwrap_or_else(|| panic!("{option} in {words:?}")) + 1]
}

/// Whether the binary knows the command with these options and values.
fn is_known(words: &[String]) {
    let mut asked = Command::new(PGVEIL);
    // Whatever comes before is read first, and refused where it is not known.
    let done = asked.args(words).arg("--help").output().unwrap();
    assert!(done.status.success(), "{words:?}: {done:?}");
}

/// The names that a text takes from the environment: `${NAME}`, and whether each has a default.
fn variables(text: &str) -> impl Iterator<Item = (&str, bool)> {
    text.split("${").skip(1).map(|rest| {
        let inside = rest.split('}').next().unwrap();
        let name = inside.split(":-").next().unwrap();
        (name, inside != name)
    })
}

/// The list of words after an instruction of the Dockerfile.
fn instruction(image: &str, name: &str) -> Vec<String> {
    let begins = |line: &&str| line.starts_with(name);
    let image = image.replace("\\\n", "");
    let line = image.lines().find(begins).unwrap();
    words(&serde_json::from_str(&line[line.find('[').unwrap()..]).unwrap())
}

/// A proxy's service: its command, its health, its secrets and its port.
fn is_served(file: &str, service: &Value) {
    let command = words(&service["command"]);
    is_known(&command);
    let policy = after(&command, "--policy");
    let policy = std::fs::read_to_string(format!(".{policy}"))
        .unwrap_or_else(|error| panic!("{file}: {policy}: {error}"));
    let given: BTreeSet<&str> = service["environment"]
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    let wanted: BTreeSet<&str> = variables(&policy).map(|(name, _)| name).collect();
    assert_eq!(given, wanted, "{file}");
    let image = std::fs::read_to_string("Dockerfile").unwrap();
    let health = match &service["healthcheck"] {
        Value::Null => instruction(&image, "HEALTHCHECK"),
        check => words(&check["test"])[1..].to_vec(),
    };
    assert!(
        Path::new(&health[0]).ends_with("pgveil"),
        "{file}: {health:?}"
    );
    is_known(&health[1..]);
    assert_eq!(after(&health, "health"), after(&command, "--admin"));
    let port = after(&command, "--listen").rsplit(':').next().unwrap();
    for published in words(&service["ports"]) {
        // On this machine alone.
        assert!(published.starts_with("127.0.0.1:"), "{file}: {published}");
        assert_eq!(published.rsplit(':').next(), Some(port), "{file}");
    }
    let user = service["user"].as_str().unwrap();
    assert!(image.contains(&format!("USER {user}")));
    assert_eq!(service["cap_drop"], serde_json::json!(["ALL"]), "{file}");
}

#[test]
fn the_compose_files_name_what_is_there() {
    for file in FILES {
        let compose = read(file);
        let text = std::fs::read_to_string(file).unwrap();
        for (name, has_default) in variables(&text) {
            assert!(has_default, "{file}: {name} has no default");
        }
        let directory = Path::new(file).parent().unwrap();
        let services = compose["services"].as_object().unwrap();
        let mut proxies = 0;
        for (name, service) in services {
            if service["build"].is_string() {
                let built = directory.join(service["build"].as_str().unwrap());
                assert!(built.join("Dockerfile").is_file(), "{file}: {name}");
                is_served(file, service);
                proxies += 1;
            } else {
                assert_eq!(service["ports"], Value::Null, "{file}: {name}");
                assert!(service["healthcheck"].is_object(), "{file}: {name}");
            }
            let volumes = service["volumes"].as_array().map_or(&[][..], Vec::as_slice);
            for volume in volumes.iter().filter_map(Value::as_str) {
                let source = volume.split(':').next().unwrap();
                match source.starts_with('.') {
                    true => assert!(directory.join(source).exists(), "{file}: {volume}"),
                    false => assert!(compose["volumes"][source].is_object(), "{file}: {volume}"),
                }
            }
            for network in words(&service["networks"]) {
                assert!(compose["networks"][&network].is_object(), "{file}: {name}");
            }
            let before = service["depends_on"].as_object();
            for other in before.into_iter().flat_map(Map::keys) {
                assert!(services.contains_key(other), "{file}: {name} after {other}");
            }
        }
        assert_eq!(proxies, if file == FILES[0] { 1 } else { 2 }, "{file}");
    }
}

/// The image starts what the binary knows, and everything that it is built from is there.
#[test]
fn the_image_names_what_is_there() {
    let image = std::fs::read_to_string("Dockerfile").unwrap();
    let command = instruction(&image, "CMD");
    is_known(&command);
    let health = instruction(&image, "HEALTHCHECK");
    is_known(&health[1..]);
    assert_eq!(after(&health, "health"), after(&command, "--admin"));
    let copied = image.lines().filter_map(|line| line.strip_prefix("COPY "));
    for line in copied.filter(|line| !line.starts_with("--from")) {
        let mut sources: Vec<&str> = line.split(' ').collect();
        sources.pop();
        for source in sources {
            assert!(Path::new(source).exists(), "{source}");
        }
    }
    let policy = after(&command, "--policy");
    assert!(Path::new(&format!(".{policy}")).is_file(), "{policy}");
}

/// By Docker's own reader, where it is installed (`apt-get install docker-compose`).
#[test]
fn the_compose_files_are_read_by_compose() {
    for file in FILES {
        let asked = ["docker-compose", "docker"]
            .into_iter()
            .find_map(|program| {
                let mut compose = Command::new(program);
                if program == "docker" {
                    compose.arg("compose");
                }
                let version = compose.arg("version").output().ok()?;
                version.status.success().then_some(program)
            });
        let Some(program) = asked else {
            println!("skipped: compose is not installed");
            return;
        };
        let mut compose = Command::new(program);
        if program == "docker" {
            compose.arg("compose");
        }
        let done = compose.args(["-f", file, "config", "--quiet"]).output();
        let done = done.unwrap();
        assert!(done.status.success(), "{file}: {done:?}");
    }
}

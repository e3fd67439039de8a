//! The values of `${NAME}` in a policy: the environment, or a file of secrets.

use std::path::{Path, PathBuf};

/// Where a variable comes from.
#[derive(Debug, PartialEq, Eq)]
pub enum SecretSource {
    Environment,
    File(PathBuf),
}

/// The value of a variable: from the environment; from the file that `NAME_FILE` names, as Docker
/// and Kubernetes mount secrets; from the file `NAME` in systemd's `CREDENTIALS_DIRECTORY`.
pub fn variable(name: &str) -> Option<String> {
    find(name, |name| std::env::var(name).ok()).map(|(value, _)| value)
}

/// Where the value comes from; `None` where there is none.
pub fn source(name: &str) -> Option<SecretSource> {
    find(name, |name| std::env::var(name).ok()).map(|(_, source)| source)
}

fn find(
    name: &str,
    environment: impl Fn(&str) -> Option<String>,
) -> Option<(String, SecretSource)> {
    let named = || environment(&format!("{name}_FILE")).map(PathBuf::from);
    let handed =
        || environment("CREDENTIALS_DIRECTORY").map(|folder| Path::new(&folder).join(name));
    let file = |path: PathBuf| read(&path).map(|value| (value, SecretSource::File(path)));
    environment(name)
        .map(|value| (value, SecretSource::Environment))
        .or_else(|| named().and_then(file))
        .or_else(|| handed().and_then(file))
}

/// The file's text without the line end that editors leave.
fn read(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.trim_end_matches(['\r', '\n']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_goes_before_files() {
        let folder = Path::new("/tmp").join(format!("pgveil-secrets-{:x}", rand::random::<u64>()));
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("HANDED"), "from systemd\n").unwrap();
        std::fs::write(folder.join("mounted"), "from a mount\n").unwrap();
        let value = |name: &str| {
            let found = find(name, |asked| match asked {
                "SAID" => Some("said".to_owned()),
                "SAID_FILE" | "MOUNTED_FILE" => Some(folder.join("mounted").display().to_string()),
                "CREDENTIALS_DIRECTORY" => Some(folder.display().to_string()),
                _ => None,
            });
            found.map(|(value, _)| value)
        };
        assert_eq!(value("SAID").as_deref(), Some("said"));
        assert_eq!(value("MOUNTED").as_deref(), Some("from a mount"));
        assert_eq!(value("HANDED").as_deref(), Some("from systemd"));
        assert_eq!(value("ABSENT"), None);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

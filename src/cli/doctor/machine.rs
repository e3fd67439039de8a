//! The process, its limits, and where secrets come from.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::process::{Resource, getrlimit};

use super::CheckResult;
use crate::cli::{process, secrets};
use crate::postgres;

/// Descriptors in addition to those of clients: databases, shadow, ledger, logs.
const DESCRIPTORS: u64 = 200;
/// The permission of everybody to write, and to read.
const OTHERS_WRITE: u32 = 0o002;
const OTHERS_READ: u32 = 0o004;

pub fn user() -> CheckResult {
    match process::is_root() {
        false => CheckResult::ok("user", "not root"),
        true => CheckResult::warn(
            "user",
            "this runs as root; what follows may differ for the user that serves",
            "sudo -u pgveil pgveil doctor …",
        ),
    }
}

pub fn cores() -> CheckResult {
    // Every command turns them off as it starts.
    match getrlimit(Resource::Core).maximum {
        Some(0) => CheckResult::ok("cores", "no core dump is written"),
        Some(_) | None => CheckResult::fail(
            "cores",
            "core dumps could not be turned off: they would hold rows",
            "LimitCORE=0 in the unit, or `ulimit -c 0`",
        ),
    }
}

/// Whether as many clients may connect as the policy allows.
pub fn files(connections: Option<u32>) -> CheckResult {
    let wanted = u64::from(connections.unwrap_or(0)) + DESCRIPTORS;
    match getrlimit(Resource::Nofile).current {
        Some(limit) if limit < wanted => CheckResult::fail(
            "files",
            format!("{limit} open files are allowed, {wanted} may be needed"),
            format!("LimitNOFILE={wanted} in the unit, or `ulimit -n {wanted}`"),
        ),
        Some(limit) => CheckResult::ok("files", format!("{limit} open files are allowed")),
        None => CheckResult::ok("files", "any number of open files is allowed"),
    }
}

/// The server that a local shadow would run on.
pub fn binaries(database: Option<u32>) -> CheckResult {
    let install = |major: Option<u32>| match major {
        Some(major) => format!("apt-get install postgresql-{major}, or name shadow.url"),
        None => "apt-get install postgresql, or name shadow.url".to_owned(),
    };
    match (postgres::major_version(), database) {
        (None, _) if cfg!(feature = "embedded") => {
            CheckResult::ok("shadow", "the embedded engine is the shadow")
        }
        (None, wanted) => CheckResult::fail(
            "shadow",
            "no PostgreSQL server binaries are found to start a shadow from",
            install(wanted),
        ),
        (Some(here), Some(wanted)) if here != wanted => CheckResult::warn(
            "shadow",
            format!("the shadow would run PostgreSQL {here}, the database is {wanted}"),
            install(database),
        ),
        (Some(here), _) => {
            CheckResult::ok("shadow", format!("PostgreSQL {here} is found to start"))
        }
    }
}

/// Where each `${NAME}` of the policy comes from. Values are not looked at.
pub fn variables(policy: &Path) -> Vec<CheckResult> {
    let Ok(text) = std::fs::read_to_string(policy) else {
        return Vec::new();
    };
    let mut names: Vec<&str> = text
        .lines()
        .map(|line| line.split_once(" #").map_or(line, |(before, _)| before))
        .filter(|line| !line.trim_start().starts_with('#'))
        .flat_map(|line| line.split("${").skip(1))
        .filter_map(|rest| rest.split_once('}').map(|(name, _)| name))
        .collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().map(variable).collect()
}

fn variable(name: &str) -> CheckResult {
    let check = "secrets";
    match secrets::source(name) {
        None => CheckResult::fail(
            check,
            format!("{name} is not set"),
            format!("set {name}, or {name}_FILE, or LoadCredential={name}:… in the unit"),
        ),
        Some(secrets::SecretSource::Environment) => {
            CheckResult::ok(check, format!("{name} is in the environment"))
        }
        Some(secrets::SecretSource::File(path)) => match mode(&path) {
            Some(mode) if mode & OTHERS_READ != 0 => CheckResult::warn(
                check,
                format!("{name} is in {}, which everybody may read", path.display()),
                format!("chmod o= {}", path.display()),
            ),
            Some(_) | None => CheckResult::ok(check, format!("{name} is in {}", path.display())),
        },
    }
}

/// A writer of the policy decides what is shown.
pub fn writers(policy: &Path) -> Option<CheckResult> {
    let path = policy.display();
    let is_open = mode(policy)? & OTHERS_WRITE != 0;
    is_open.then(|| {
        CheckResult::fail(
            "policy",
            format!("everybody may write {path}"),
            format!("chmod o-w {path}"),
        )
    })
}

fn mode(path: &Path) -> Option<u32> {
    Some(std::fs::metadata(path).ok()?.mode())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::cli::doctor::State;

    #[test]
    fn variables_are_named_and_never_shown() {
        let path = Path::new("/tmp").join(format!("pgveil-doctor-{:x}", rand::random::<u64>()));
        let text = "# ${NOT_READ}\na: ${PATH}\nb: ${PGVEIL_NO_SUCH} # ${NEITHER}\nc: ${PATH}\n";
        std::fs::write(&path, text).unwrap();
        let found = variables(&path);
        let states: Vec<State> = found.iter().map(|finding| finding.state).collect();
        assert_eq!(states, [State::Ok, State::Fail]);
        assert_eq!(found[0].finding, "PATH is in the environment");
        assert_eq!(found[1].finding, "PGVEIL_NO_SUCH is not set");
        assert_eq!(writers(&path), None);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(writers(&path).unwrap().state, State::Fail);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn too_few_files_are_found() {
        assert_eq!(files(Some(u32::MAX)).state, State::Fail);
    }
}

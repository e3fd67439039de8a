//! Roles of programs that ask by themselves, and the service that runs pgveil.

use std::process::Command;

use super::CheckResult;
use crate::policy::{File, KeyChoice, Previews, RoleReuse};

/// Roles that always reuse answers, as docs/tools.md has it for dashboards.
pub fn roles(file: &File) -> Vec<CheckResult> {
    let check = "tools";
    let tools = file
        .roles
        .iter()
        .filter(|role| role.reuse == RoleReuse::Always);
    let mut all = Vec::new();
    for role in tools {
        let name = &role.name;
        all.push(match role.session_settings.keys {
            KeyChoice::Domain => CheckResult::ok(
                check,
                format!("{name} takes lists of values from the policy, free"),
            ),
            KeyChoice::Auto | KeyChoice::Threshold => CheckResult::warn(
                check,
                format!(
                    "a dashboard that scans for values of a filter spends the budget of {name}"
                ),
                format!("settings: {{keys: domain, notices: off}} of the role {name}"),
            ),
        });
    }
    if !all.is_empty() && file.previews == Previews::Refused {
        all.push(CheckResult::warn(
            check,
            "dashboards that preview a private table get an error",
            "previews: empty",
        ));
    }
    all
}

/// The unit of systemd, where it is installed.
pub fn unit() -> Option<CheckResult> {
    let shown = Command::new("systemctl")
        .args(["show", "pgveil.service"])
        .arg("--property=LoadState,ActiveState,NeedDaemonReload,LimitCORE")
        // It reports its own end there.
        .env_remove("NOTIFY_SOCKET")
        .output()
        .ok()?;
    of_unit(&String::from_utf8_lossy(&shown.stdout))
}

fn of_unit(properties: &str) -> Option<CheckResult> {
    let check = "unit";
    let is = |line: &str| properties.lines().any(|known| known == line);
    if !is("LoadState=loaded") {
        return None;
    }
    Some(if !is("LimitCORE=0") {
        CheckResult::fail(
            check,
            "pgveil.service may write core dumps, which would hold rows",
            "LimitCORE=0 in the unit",
        )
    } else if is("NeedDaemonReload=yes") {
        CheckResult::warn(
            check,
            "the file of pgveil.service has changed since systemd read it",
            "systemctl daemon-reload, then systemctl restart pgveil",
        )
    } else if is("ActiveState=failed") {
        CheckResult::warn(check, "pgveil.service has failed", "journalctl -u pgveil")
    } else if is("ActiveState=active") {
        CheckResult::ok(check, "pgveil.service is in force and active")
    } else {
        CheckResult::ok(check, "pgveil.service is installed and not active")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::State;

    #[test]
    fn roles_of_dashboards_take_their_lists_from_the_policy() {
        let demo = std::fs::read_to_string("policies/demo.yaml").unwrap();
        let states = |role: &str, rest: &str| {
            let yaml = demo.replacen("- name: analyst", &format!("- name: analyst{role}"), 1);
            let named = |_: &str| Some("postgres://localhost/nls".to_owned());
            let file = File::parse("demo.yaml", &format!("{yaml}{rest}"), named).unwrap();
            roles(&file).iter().map(|f| f.state).collect::<Vec<_>>()
        };
        let always = "\n    reuse: always";
        let keys = "\n    settings: {keys: domain}";
        let previews = "\npreviews: empty\n";
        assert_eq!(states("", ""), []);
        assert_eq!(states(always, ""), [State::Warn, State::Warn]);
        assert_eq!(states(always, previews), [State::Warn]);
        assert_eq!(states(&format!("{always}{keys}"), previews), [State::Ok]);
    }

    #[test]
    fn a_unit_is_read_as_systemctl_shows_it() {
        let shown = "LimitCORE=0\nLoadState=loaded\nActiveState=active\nNeedDaemonReload=no\n";
        assert_eq!(of_unit(shown).unwrap().state, State::Ok);
        for (from, to, wanted) in [
            ("LimitCORE=0", "LimitCORE=infinity", State::Fail),
            ("NeedDaemonReload=no", "NeedDaemonReload=yes", State::Warn),
            ("ActiveState=active", "ActiveState=failed", State::Warn),
            ("ActiveState=active", "ActiveState=inactive", State::Ok),
        ] {
            let shown = shown.replace(from, to);
            assert_eq!(of_unit(&shown).unwrap().state, wanted, "{to}");
        }
        assert_eq!(of_unit("LoadState=not-found\nActiveState=inactive\n"), None);
        assert_eq!(of_unit(""), None);
    }
}

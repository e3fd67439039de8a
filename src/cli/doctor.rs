//! `pgveil doctor`: checks an installation, one line a check, each with its remedy. It changes
//! nothing, and prints no secret.

mod data;
mod ledger;
mod machine;
mod network;
mod tools;

use serde::Serialize;

use super::arguments::DoctorOptions;
use super::{Failure, start};
use crate::policy::File;

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    Warn,
    Fail,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct CheckResult {
    check: &'static str,
    state: State,
    finding: String,
    /// The command or the line that mends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    mend: Option<String>,
}

impl CheckResult {
    fn ok(check: &'static str, finding: impl Into<String>) -> Self {
        Self {
            check,
            state: State::Ok,
            finding: finding.into(),
            mend: None,
        }
    }

    fn warn(check: &'static str, finding: impl Into<String>, mend: impl Into<String>) -> Self {
        Self {
            state: State::Warn,
            mend: Some(mend.into()),
            ..Self::ok(check, finding)
        }
    }

    fn fail(check: &'static str, finding: impl Into<String>, mend: impl Into<String>) -> Self {
        Self {
            state: State::Fail,
            ..Self::warn(check, finding, mend)
        }
    }

    fn line(&self) -> String {
        let state = match self.state {
            State::Ok => "ok",
            State::Warn => "warn",
            State::Fail => "fail",
        };
        let mend = self.mend.as_ref();
        let mend = mend.map_or(String::new(), |mend| format!("\n{:17}-> {mend}", ""));
        format!("{state:5} {:10} {}{mend}", self.check, self.finding)
    }
}

/// The findings of a command's failure, which names its remedy itself.
fn findings_of_failure(check: &'static str, failure: Failure, otherwise: &str) -> Vec<CheckResult> {
    match failure {
        Failure::Policy(errors) => {
            let errors = errors.iter().map(ToString::to_string);
            errors
                .map(|error| CheckResult::fail(check, error, otherwise))
                .collect()
        }
        Failure::Runtime { message, remedy } => {
            let mend = remedy.unwrap_or_else(|| otherwise.to_owned());
            vec![CheckResult::fail(check, message, mend)]
        }
        other => vec![CheckResult::fail(check, other.in_a_line(), otherwise)],
    }
}

pub async fn run(options: DoctorOptions) -> Result<(), Failure> {
    let findings = findings(&options).await;
    match options.json {
        true => println!(
            "{}",
            serde_json::to_string_pretty(&findings).map_err(Failure::new)?
        ),
        false => findings
            .iter()
            .for_each(|finding| println!("{}", finding.line())),
    }
    let is_bad = findings.iter().any(|finding| finding.state == State::Fail);
    match is_bad {
        true => Err(Failure::Shown),
        false => Ok(()),
    }
}

async fn findings(options: &DoctorOptions) -> Vec<CheckResult> {
    let mut all = vec![machine::user(), machine::cores()];
    all.extend(tools::unit());
    let Some(path) = &options.policy else {
        all.push(machine::binaries(None));
        all.push(machine::files(None));
        all.extend(network::all(options, None));
        return all;
    };
    all.extend(machine::variables(path));
    all.extend(machine::writers(path));
    let file = match start::read(path) {
        Ok(file) => file,
        Err(failure) => {
            all.extend(findings_of_failure(
                "policy",
                failure,
                "mend the policy, then ask again",
            ));
            all.extend(network::all(options, None));
            return all;
        }
    };
    all.push(machine::files(Some(file.limits.connections)));
    all.extend(tools::roles(&file));
    all.extend(network::all(options, Some(&file)));
    all.extend(ledger::all(&file, options.backups.as_deref()).await);
    all.extend(data::all(&file, path).await);
    all
}

/// Roles that a password alone lets in.
fn without_certificate(file: &File) -> Vec<&str> {
    let roles = file.roles.iter();
    roles
        .filter(|role| role.certificate == crate::policy::Certificate::Optional)
        .map(|role| role.name.as_str())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_what_mends_it() {
        let fine = CheckResult::ok("ledger", "whole");
        assert_eq!(fine.line(), "ok    ledger     whole");
        let bad = CheckResult::fail("ledger", "damaged", "pgveil ledger restore");
        assert_eq!(
            bad.line(),
            "fail  ledger     damaged\n                 -> pgveil ledger restore"
        );
        let json = serde_json::to_value(&bad).unwrap();
        assert_eq!(json["state"], "fail");
        assert_eq!(json["mend"], "pgveil ledger restore");
        assert!(serde_json::to_value(&fine).unwrap().get("mend").is_none());
    }
}

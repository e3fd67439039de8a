//! From the startup packet to the first ReadyForQuery. Every failure here is FATAL and ends the
//! connection: there is no way around it.

use std::net::IpAddr;
use std::sync::Arc;

use pgwire::messages::startup::{
    Authentication, BackendKeyData, NegotiateProtocolVersion, SecretKey,
};

use super::Server;
use super::cancel::CancelKey;
use super::connection_limit::{ConnectionSlot, Registry};
use super::outcome::Outcome;
use super::scram;
use super::settings::Settings;
use super::startup::Startup;
use super::stream::FramedStream;
use crate::engine::Service;
use crate::ledger::{Origin, Via, short_name};
use crate::policy::{Certificate, SESSION_SETTINGS};
use crate::refusal::{Refusal, reason};

/// A session that has proved who it is.
pub(super) struct LoggedIn {
    pub(super) role: String,
    pub(super) settings: Settings,
    pub(super) key: CancelKey,
    pub(super) place: Arc<ConnectionSlot>,
}

/// Logs in to a service, with its places: the engine's or the operators'. The replies up to
/// AuthenticationOk and the key are written to the channel; the session's own greeting follows.
pub(super) async fn log_in<S: Service, L: Service>(
    server: &Server<S>,
    (service, places): (&L, &Registry),
    channel: &mut FramedStream,
    startup: StartupRequest,
    address: IpAddr,
) -> Result<LoggedIn, Outcome> {
    match log_in_or_refuse(server, (service, places), channel, startup, address).await {
        // The one place where a session could be left open half-way: nothing that fails here may be
        // less than fatal.
        Err(Outcome::Refused(refusal)) => Err(Outcome::Fatal(refusal)),
        other => other,
    }
}

/// A startup packet without its channel.
pub(super) struct StartupRequest {
    certificate_pem: Option<String>,
    client_names: Vec<String>,
    minor: u16,
    negotiate: Option<Vec<String>>,
    parameters: Vec<(String, String)>,
}

impl StartupRequest {
    pub(super) fn new(startup: Startup) -> (FramedStream, Self) {
        let Startup {
            channel,
            certificate_pem,
            client_names,
            minor,
            negotiate,
            parameters,
        } = startup;
        (
            channel,
            Self {
                certificate_pem,
                client_names,
                minor,
                negotiate,
                parameters,
            },
        )
    }

    /// The name that is asked for.
    pub(super) fn user(&self) -> &str {
        self.parameter("user").unwrap_or_default()
    }

    pub(super) fn is_encrypted(&self) -> bool {
        self.certificate_pem.is_some()
    }

    /// The role that is asked for, fit for a log: short, and on one line.
    pub(super) fn shown_role(&self) -> String {
        short_name(self.user())
    }

    /// The client's address, and the name that it gives itself.
    pub(super) fn origin(&self, address: IpAddr) -> Origin {
        Origin {
            via: Via::Wire,
            address: Some(address),
            application: short_name(self.parameter("application_name").unwrap_or_default()),
            actor: None,
        }
    }

    /// The last value of a parameter counts.
    fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters
            .iter()
            .rev()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }
}

async fn log_in_or_refuse<S: Service, L: Service>(
    server: &Server<S>,
    (service, places): (&L, &Registry),
    channel: &mut FramedStream,
    opening: StartupRequest,
    address: IpAddr,
) -> Result<LoggedIn, Outcome> {
    if let Some(options) = &opening.negotiate {
        let version = (3 << 16) | i32::from(opening.minor);
        channel.send(&NegotiateProtocolVersion::new(version, options.clone()));
    }
    let role = match opening.parameter("user") {
        Some(user) if !user.is_empty() => user.to_owned(),
        _ => {
            return Err(Refusal::new(
                reason::LOGIN_REFUSED,
                "no PostgreSQL user name specified in startup packet",
            )
            .into());
        }
    };
    if let Some(value) = opening.parameter("replication")
        && !matches!(value, "false" | "off" | "no" | "0")
    {
        return Err(Refusal::new(
            reason::UNSUPPORTED_PROTOCOL,
            "replication connections are not supported by pgveil",
        )
        .into());
    }
    let stored = service.verifier(&role);
    let verifiers = service.verifiers();
    scram::authenticate(
        channel,
        &role,
        stored,
        (&server.decoy, &verifiers),
        opening.certificate_pem.as_deref(),
    )
    .await?;
    require_certificate(service.certificate(&role), &role, &opening.client_names)?;

    let database = opening
        .parameter("database")
        .filter(|name| !name.is_empty())
        .unwrap_or(&role);
    if database != service.database() {
        return Err(Refusal::new(
            reason::UNKNOWN_DATABASE,
            format!("database \"{database}\" does not exist"),
        )
        .into());
    }
    let place = places.take(service, &role, address)?;
    let settings = settings(service, &role, &opening.parameters)?;
    let secret_bytes = if opening.minor >= 2 { 32 } else { 4 };
    let Some(key) = server.commons.sessions.enter(secret_bytes) else {
        return Err(Refusal::new(reason::INTERNAL_ERROR, "could not generate a cancel key").into());
    };
    channel.send(&Authentication::Ok);
    channel.send(&BackendKeyData::new(
        key.process,
        SecretKey::Bytes(key.secret.clone().into()),
    ));
    Ok(LoggedIn {
        role,
        settings,
        key,
        place,
    })
}

/// 28000 where the role needs a certificate made out to its name and none was shown.
fn require_certificate(wanted: Certificate, role: &str, names: &[String]) -> Result<(), Refusal> {
    match wanted {
        Certificate::Optional => Ok(()),
        Certificate::Required if names.is_empty() => Err(Refusal::new(
            reason::LOGIN_REFUSED,
            "connection requires a valid client certificate",
        )),
        Certificate::Required if names.iter().any(|name| name == role) => Ok(()),
        Certificate::Required => Err(Refusal::new(
            reason::LOGIN_REFUSED,
            format!("certificate authentication failed for user \"{role}\""),
        )
        .detail("The certificate is made out to another name.")),
    }
}

pub(super) fn settings<S: Service>(
    service: &S,
    role: &str,
    parameters: &[(String, String)],
) -> Result<Settings, Refusal> {
    let server_version = service.server_version();
    let mut settings = Settings::new(&[
        ("server_version", server_version.clone()),
        ("server_version_num", version_number(&server_version)),
        ("session_authorization", role.to_owned()),
        ("search_path", service.search_path(role)),
    ]);
    let session_settings = service.session_settings(role);
    for setting in SESSION_SETTINGS {
        settings.set_default(setting.name, &session_settings.show(setting.name))?;
    }
    for (name, value) in parameters {
        if name == "options" {
            for (name, value) in options(value)? {
                settings.set_default(&name, &value)?;
            }
        }
    }
    for (name, value) in parameters {
        if !matches!(
            name.as_str(),
            "user" | "database" | "options" | "replication"
        ) {
            settings.set_default(name, value)?;
        }
    }
    service.admits(&settings.session_settings())?;
    Ok(settings)
}

/// `15.18` → `150018`.
fn version_number(version: &str) -> String {
    let mut parts = version.split('.').map(|part| {
        part.chars()
            .take_while(char::is_ascii_digit)
            .collect::<String>()
    });
    let mut part = || {
        parts
            .next()
            .and_then(|part| part.parse::<u32>().ok())
            .unwrap_or(0)
    };
    (u64::from(part()) * 10_000 + u64::from(part())).to_string()
}

/// The command line in `options`: `-c name=value`, `-cname=value`, `--name=value`; a backslash
/// keeps the character after it.
fn options(line: &str) -> Result<Vec<(String, String)>, Refusal> {
    let mut words: Vec<String> = Vec::new();
    let (mut open, mut letters) = (false, line.chars());
    while let Some(letter) = letters.next() {
        if letter.is_whitespace() {
            open = false;
            continue;
        }
        if !open {
            words.push(String::new());
            open = true;
        }
        let letter = if letter == '\\' {
            letters.next()
        } else {
            Some(letter)
        };
        if let (Some(word), Some(letter)) = (words.last_mut(), letter) {
            word.push(letter);
        }
    }
    let mut found = Vec::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let bad = || {
            Refusal::new(
                reason::SYNTAX_ERROR,
                format!("invalid command-line argument for server process: {word}"),
            )
        };
        let assignment = match (word.strip_prefix("--"), word.strip_prefix("-c")) {
            (Some(assignment), _) => assignment.to_owned(),
            (None, Some("")) => words.next().ok_or_else(bad)?,
            (None, Some(assignment)) => assignment.to_owned(),
            (None, None) => return Err(bad()),
        };
        let (name, value) = assignment.split_once('=').ok_or_else(bad)?;
        found.push((name.replace('-', "_"), value.to_owned()));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::{options, version_number};

    #[test]
    fn options_are_split_as_a_command_line() {
        let found =
            options(r"-c search_path=a,b  -cDateStyle=ISO,\ DMY --statement-timeout=5s").unwrap();
        let found: Vec<(&str, &str)> = found
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        assert_eq!(
            found,
            [
                ("search_path", "a,b"),
                ("DateStyle", "ISO, DMY"),
                ("statement_timeout", "5s")
            ]
        );
        assert!(options("-x").is_err());
        assert!(options("-c").is_err());
        assert!(options("-c novalue").is_err());
        assert_eq!(version_number("15.18 (Debian 15.18-1)"), "150018");
    }
}

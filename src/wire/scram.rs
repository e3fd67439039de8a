//! SCRAM-SHA-256 against stored verifiers. An unknown role runs the whole exchange on a made-up
//! verifier and fails like a wrong password.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use pgwire::api::auth::sasl::scram::{ScramSecret, ScramServerAuth, gen_salted_password};
use pgwire::error::PgWireError;
use pgwire::messages::startup::Authentication;
use rand::TryRng;
use rand::rngs::SysRng;
use sha2::Sha256;
use zeroize::Zeroizing;

use super::message::Body;
use super::outcome::Outcome;
use super::stream::FramedStream;
use crate::policy::Secret;
use crate::refusal::{Refusal, reason};

const ITERATIONS: usize = 4096;
const PLAIN: &str = "SCRAM-SHA-256";
const PLUS: &str = "SCRAM-SHA-256-PLUS";
/// Longest message while a client authenticates.
const FRAME_BYTES_MAX: usize = 64 << 10;

/// The verifier of a password, as the policy stores it:
/// `SCRAM-SHA-256$4096:salt$StoredKey:ServerKey`.
///
/// # Panics
/// Where the operating system has no randomness to give.
pub fn make_verifier(password: &str) -> String {
    let mut salt = [0; 16];
    let filled = SysRng.try_fill_bytes(&mut salt);
    assert!(filled.is_ok(), "the operating system gave no randomness");
    verifier(password, &salt)
}

fn verifier(password: &str, salt: &[u8]) -> String {
    // gen_salted_password normalises the password by SASLprep, as PostgreSQL's clients do.
    let salted = gen_salted_password(password, salt, ITERATIONS);
    let stored_key = <sha2::Sha256 as sha2::Digest>::digest(hmac(&salted, b"Client Key"));
    let server_key = hmac(&salted, b"Server Key");
    format!(
        "{PLAIN}${ITERATIONS}:{}${}:{}",
        STANDARD.encode(salt),
        STANDARD.encode(stored_key),
        STANDARD.encode(server_key)
    )
}

/// A stored verifier in parts; `None` where it is not one.
fn parse_verifier(text: &str) -> Option<ScramSecret> {
    let (iterations, rest) = text.strip_prefix("SCRAM-SHA-256$")?.split_once(':')?;
    let (salt, keys) = rest.split_once('$')?;
    let (stored_key, server_key) = keys.split_once(':')?;
    let key = |text: &str| STANDARD.decode(text).ok().filter(|key| key.len() == 32);
    let iterations = iterations
        .parse()
        .ok()
        .filter(|count| (ITERATIONS..=10_000_000).contains(count))?;
    let salt = STANDARD.decode(salt).ok().filter(|salt| !salt.is_empty())?;
    Some(ScramSecret::Verifier {
        salt,
        iterations,
        stored_key: key(stored_key)?,
        server_key: key(server_key)?,
    })
}

fn hmac(key: &[u8], text: &[u8]) -> Vec<u8> {
    // HMAC takes keys of any length, so there is no error to meet.
    Hmac::<Sha256>::new_from_slice(key)
        .map(|mac| mac.chain_update(text).finalize().into_bytes().to_vec())
        .unwrap_or_default()
}

/// A random key of this process; unknown names get a verifier from it, the same each time.
pub struct Decoy([u8; 32]);

impl Decoy {
    /// # Errors
    /// Where the operating system has no randomness to give.
    pub fn new() -> std::io::Result<Self> {
        let mut key = [0; 32];
        SysRng
            .try_fill_bytes(&mut key)
            .map_err(std::io::Error::other)?;
        Ok(Self(key))
    }

    /// The client sees the number of iterations, and they take time. So an unknown name gets the
    /// number of one of the existing verifiers, always the same one.
    fn secret(&self, role: &str, verifiers: &[Secret]) -> ScramSecret {
        let part = |label: &str| hmac(&self.0, format!("{label}\0{role}").as_bytes());
        let mut salt = part("salt");
        salt.truncate(16);
        let counts: Vec<usize> = verifiers
            .iter()
            .filter_map(|verifier| match parse_verifier(verifier.expose())? {
                ScramSecret::Verifier { iterations, .. } => Some(iterations),
                _ => None,
            })
            .collect();
        let chosen = part("iterations")
            .first()
            .map_or(0, |byte| usize::from(*byte));
        let iterations = counts.get(chosen % counts.len().max(1));
        ScramSecret::Verifier {
            salt,
            iterations: iterations.copied().unwrap_or(ITERATIONS),
            stored_key: part("stored"),
            server_key: part("server"),
        }
    }
}

/// Whether this is the password of a verifier, as PostgreSQL compares one that was typed: by the
/// server's key. Takes as long for a name without a verifier as for one of `verifiers`, and however
/// much of the key is right.
pub fn is_password(
    stored: Option<&Secret>,
    (name, password): (&str, &str),
    (decoy, verifiers): (&Decoy, &[Secret]),
) -> bool {
    let known = stored.and_then(|verifier| parse_verifier(verifier.expose()));
    let is_known = known.is_some();
    let ScramSecret::Verifier {
        salt,
        iterations,
        server_key,
        ..
    } = known.unwrap_or_else(|| decoy.secret(name, verifiers))
    else {
        return false;
    };
    let salted = Zeroizing::new(gen_salted_password(password, &salt, iterations));
    let same = Hmac::<Sha256>::new_from_slice(&salted).is_ok_and(|mac| {
        let made = mac.chain_update(b"Server Key");
        made.verify_slice(&server_key).is_ok()
    });
    same && is_known
}

/// Proves that the client knows the role's password. Every failure ends the connection.
///
/// `certificate_pem` is the certificate this connection's TLS showed; without one, channel binding
/// is not offered.
pub(super) async fn authenticate(
    channel: &mut FramedStream,
    role: &str,
    stored: Option<Secret>,
    (decoy, verifiers): (&Decoy, &[Secret]),
    certificate_pem: Option<&str>,
) -> Result<(), Outcome> {
    let mut server = ScramServerAuth::new();
    let plus =
        certificate_pem.is_some_and(|pem| server.configure_certificate(pem.as_bytes()).is_ok());
    let offered = if plus {
        vec![PLUS.to_owned(), PLAIN.to_owned()]
    } else {
        vec![PLAIN.to_owned()]
    };
    channel.send(&Authentication::SASL(offered.clone()));
    channel.flush().await?;

    let mut first = password_message(channel).await?;
    let mechanism = first.text().map_err(|_| malformed_message())?;
    if !offered.contains(&mechanism) {
        return Err(Outcome::protocol(
            "client selected an invalid SASL authentication mechanism",
        ));
    }
    let first = first.value()?.ok_or_else(malformed_message)?;
    if first.starts_with(b"p=") != (mechanism == PLUS) {
        return Err(malformed_message());
    }
    let known = stored
        .as_ref()
        .map(|verifier| parse_verifier(verifier.expose()));
    if matches!(known, Some(None)) {
        tracing::error!(role, "the role's verifier is malformed");
    }
    let secret = known
        .flatten()
        .unwrap_or_else(|| decoy.secret(role, verifiers));
    let (reply, waiting) = server
        .on_client_first_message_with_secret(&first, secret)
        .map_err(|_| malformed_message())?;
    channel.send(&Authentication::SASLContinue(reply.into_bytes().into()));
    channel.flush().await?;

    let Body(last) = password_message(channel).await?;
    match waiting.on_client_final_message(&last) {
        Ok(reply) => {
            channel.send(&Authentication::SASLFinal(reply.into_bytes().into()));
            Ok(())
        }
        Err(PgWireError::InvalidPassword(_)) => Err(wrong_password(role)),
        Err(_) => Err(malformed_message()),
    }
}

async fn password_message(channel: &mut FramedStream) -> Result<Body, Outcome> {
    let frame = channel.frame(FRAME_BYTES_MAX).await?;
    if frame.kind != b'p' {
        return Err(Outcome::protocol(format!(
            "expected SASL response, got message type {}",
            frame.kind
        )));
    }
    Ok(Body(frame.body))
}

fn malformed_message() -> Outcome {
    Outcome::protocol("malformed SCRAM message")
}

fn wrong_password(role: &str) -> Outcome {
    Outcome::Fatal(Refusal::new(
        reason::WRONG_PASSWORD,
        format!("password authentication failed for user \"{role}\""),
    ))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Decoy, ScramSecret, is_password, make_verifier, parse_verifier, verifier};
    use crate::policy::Secret;

    #[test]
    fn verifiers_have_the_keys_of_the_rfc() {
        // Password and salt of RFC 7677's example.
        let salt = base64::Engine::decode(
            &base64::engine::general_purpose::STANDARD,
            "W22ZaJ0SNY7soEsUEjb6gQ==",
        )
        .unwrap();
        assert_eq!(
            verifier("pencil", &salt),
            "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
        );
    }

    #[test]
    fn only_whole_verifiers_are_taken() {
        let made = make_verifier("secret");
        assert!(matches!(
            parse_verifier(&made),
            Some(ScramSecret::Verifier {
                iterations: 4096,
                ..
            })
        ));
        assert_ne!(made, make_verifier("secret"));
        for text in [
            "",
            "md5abc",
            "SCRAM-SHA-256$1:YQ==$YQ==:YQ==",
            &made[..made.len() - 4],
        ] {
            assert!(parse_verifier(text).is_none(), "{text}");
        }
    }

    #[test]
    fn typed_passwords_are_compared_with_verifiers() {
        let decoy = Decoy::new().unwrap();
        let stored = Secret::from(make_verifier("correct horse"));
        let all = [stored.clone()];
        let is_right = |stored, password| is_password(stored, ("olga", password), (&decoy, &all));
        assert!(is_right(Some(&stored), "correct horse"));
        for wrong in ["", "correct hors", "correct horse ", "Correct horse"] {
            assert!(!is_right(Some(&stored), wrong), "{wrong}");
        }
        let broken = Secret::from("SCRAM-SHA-256$1:YQ==$YQ==:YQ==".to_owned());
        assert!(!is_right(None, "correct horse") && !is_right(Some(&broken), ""));
    }

    #[test]
    fn a_made_up_verifier_takes_as_long_as_a_stored_one() {
        let decoy = Decoy::new().unwrap();
        let slower = Secret::from(make_verifier("x").replace("$4096:", "$15000:"));
        let counts = |verifiers: &[Secret]| -> BTreeSet<usize> {
            let names = (0..64).map(|name| decoy.secret(&format!("nobody{name}"), verifiers));
            let count = |secret| match secret {
                ScramSecret::Verifier { iterations, .. } => iterations,
                _ => 0,
            };
            names.map(count).collect()
        };
        assert_eq!(counts(&[]), BTreeSet::from([4096]));
        assert_eq!(
            counts(std::slice::from_ref(&slower)),
            BTreeSet::from([15_000])
        );
        let usual = Secret::from(make_verifier("y"));
        let both = [slower, usual];
        assert_eq!(counts(&both), BTreeSet::from([4096, 15_000]));
        let iterations = |secret| match secret {
            ScramSecret::Verifier { iterations, .. } => iterations,
            _ => 0,
        };
        let again = || iterations(decoy.secret("eve", &both));
        assert_eq!(again(), again());
    }
}

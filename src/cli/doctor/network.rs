//! The address of clients, and the certificate that they are shown.

use std::time::{Duration, SystemTime};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use x509_cert::Certificate;
use x509_cert::der::Decode;

use super::{CheckResult, without_certificate};
use crate::cli::arguments::DoctorOptions;
use crate::cli::tls;
use crate::policy::File;

const DAY: Duration = Duration::from_secs(86_400);
/// A certificate that ends within this time is worth a warning.
const SOON: Duration = Duration::from_secs(14 * 86_400);

pub fn all(options: &DoctorOptions, file: Option<&File>) -> Vec<CheckResult> {
    let mut all = vec![port(options), certificate(options)];
    all.extend(file.and_then(|file| passwords(options, file)));
    all
}

/// Whether `pgveil serve` could listen.
fn port(options: &DoctorOptions) -> CheckResult {
    let address = options.listen;
    match std::net::TcpListener::bind(address) {
        Ok(_) => CheckResult::ok("port", format!("{address} is free")),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => CheckResult::warn(
            "port",
            format!("{address} is in use"),
            "fine where pgveil is running; else choose another by --listen",
        ),
        Err(error) => CheckResult::fail(
            "port",
            format!("cannot listen on {address}: {error}"),
            "choose another address by --listen",
        ),
    }
}

/// Whether clients are given TLS, and for how long.
fn certificate(options: &DoctorOptions) -> CheckResult {
    let check = "tls";
    let files = (&options.tls_cert, &options.tls_key);
    let (Some(chain), Some(key)) = files else {
        return match options.listen.ip().is_loopback() {
            true => CheckResult::ok(check, "without TLS, on this machine alone"),
            false => CheckResult::warn(
                check,
                "clients would connect without TLS: answers can be read on the way",
                "give --tls-cert and --tls-key, here and to `pgveil serve`",
            ),
        };
    };
    if let Err(failure) = tls::from_files(chain, key, None) {
        let mend = "give a chain and its key in PEM, which this user may read";
        return CheckResult::fail(check, failure.in_a_line(), mend);
    }
    let Some(ends) = end_of(chain) else {
        let found = format!("{} has no date that can be read", chain.display());
        return CheckResult::warn(check, found, "look at it by `openssl x509 -noout -enddate`");
    };
    let renew = "renew it, then `systemctl reload pgveil`";
    match ends.duration_since(SystemTime::now()) {
        Err(_) => CheckResult::fail(check, "the certificate has expired", renew),
        Ok(left) if left < SOON => CheckResult::warn(
            check,
            format!("the certificate ends in {}", days(left)),
            renew,
        ),
        Ok(left) => CheckResult::ok(check, format!("the certificate is good for {}", days(left))),
    }
}

fn days(left: Duration) -> String {
    format!("{} days", left.as_secs() / DAY.as_secs())
}

fn end_of(chain: &std::path::Path) -> Option<SystemTime> {
    let first = CertificateDer::pem_file_iter(chain).ok()?.next()?.ok()?;
    let certificate = Certificate::from_der(&first).ok()?;
    Some(
        certificate
            .tbs_certificate
            .validity
            .not_after
            .to_system_time(),
    )
}

/// Roles that a guessed password lets in from other machines.
fn passwords(options: &DoctorOptions, file: &File) -> Option<CheckResult> {
    let roles = without_certificate(file);
    if options.listen.ip().is_loopback() || roles.is_empty() {
        return None;
    }
    Some(CheckResult::warn(
        "roles",
        format!(
            "from other machines, a password alone lets in {}",
            roles.join(", ")
        ),
        "`certificate: required` in the policy, and --tls-client-ca",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::State;

    #[test]
    fn a_certificate_is_good_until_it_ends() {
        let folder = std::path::Path::new("/tmp")
            .join(format!("pgveil-doctor-tls-{:x}", rand::random::<u64>()));
        std::fs::create_dir(&folder).unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        let options = |listen: &str| DoctorOptions {
            policy: None,
            listen: listen.parse().unwrap(),
            tls_cert: Some(folder.join("cert.pem")),
            tls_key: Some(folder.join("key.pem")),
            backups: None,
            json: false,
        };
        std::fs::write(folder.join("key.pem"), key.serialize_pem()).unwrap();
        let now = SystemTime::now();
        for (ends, state) in [
            (now + 100 * DAY, State::Ok),
            (now + 3 * DAY, State::Warn),
            (now - 2 * DAY, State::Fail),
        ] {
            let mut made = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
            made.not_before = (now - 10 * DAY).into();
            made.not_after = ends.into();
            let pem = made.self_signed(&key).unwrap().pem();
            std::fs::write(folder.join("cert.pem"), pem).unwrap();
            assert_eq!(certificate(&options("127.0.0.1:0")).state, state);
        }
        std::fs::write(folder.join("key.pem"), "no key").unwrap();
        assert_eq!(certificate(&options("127.0.0.1:0")).state, State::Fail);
        let plain = |listen| DoctorOptions {
            tls_cert: None,
            ..options(listen)
        };
        assert_eq!(certificate(&plain("0.0.0.0:0")).state, State::Warn);
        assert_eq!(certificate(&plain("127.0.0.1:0")).state, State::Ok);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_port_in_use_is_found() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let options = DoctorOptions {
            policy: None,
            listen: taken.local_addr().unwrap(),
            tls_cert: None,
            tls_key: None,
            backups: None,
            json: false,
        };
        assert_eq!(port(&options).state, State::Warn);
        drop(taken);
        assert_eq!(port(&options).state, State::Ok);
    }
}

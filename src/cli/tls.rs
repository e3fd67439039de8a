//! TLS for clients, with the operator's files or with a certificate made for one run of the demo.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};

use super::Failure;
use super::arguments::ServeOptions;
use crate::policy::{Certified, File, PolicyError};

/// Reads the chain and the key, and the authorities whose certificates clients may show.
pub fn from_files(
    certificate: &Path,
    key: &Path,
    client_authorities: Option<&Path>,
) -> Result<Arc<ServerConfig>, Failure> {
    let bad = |path: &Path, error: &dyn std::fmt::Display| {
        Failure::with_remedy(
            format_args!("{}: {error}", path.display()),
            "Give a certificate chain and its private key in PEM by --tls-cert and --tls-key.",
        )
    };
    let chain =
        CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let chain = chain.map_err(|e| bad(certificate, &e))?;
    if chain.is_empty() {
        return Err(bad(certificate, &"no certificate in this file"));
    }
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|e| bad(key, &e))?;
    let verifier = client_authorities.map(verifier).transpose()?;
    configure(chain, secret, verifier).map_err(|e| bad(certificate, &e))
}

/// Accepts clients without a certificate. The policy says which roles need one.
fn verifier(authorities: &Path) -> Result<Arc<dyn ClientCertVerifier>, Failure> {
    let bad = |error: &dyn std::fmt::Display| {
        Failure::with_remedy(
            format_args!("{}: {error}", authorities.display()),
            "Give the authorities' certificates in PEM by --tls-client-ca.",
        )
    };
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(authorities)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|e| bad(&e))?;
    for certificate in certificates {
        roots.add(certificate).map_err(|e| bad(&e))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .allow_unauthenticated()
        .build()
        .map_err(|e| bad(&e))
}

/// Refuses roles and operators that need a certificate where they can show none: no authority is
/// named, or their pages have no TLS.
pub fn check_certified(options: &ServeOptions, file: &File) -> Result<(), Failure> {
    let errors: Vec<PolicyError> = file
        .certified
        .iter()
        .flat_map(|who| why_refused(options, who).map(move |why| (who, why)))
        .map(|(who, why)| PolicyError {
            file: file.name.clone(),
            place: who.place,
            message: why,
        })
        .collect();
    match errors.is_empty() {
        true => Ok(()),
        false => Err(Failure::Policy(errors)),
    }
}

/// Why this one can show no certificate.
fn why_refused(options: &ServeOptions, who: &Certified) -> impl Iterator<Item = String> {
    let (kind, page, flag, address) = match who.is_operator {
        true => ("operator", "console", "--console", options.console),
        false => ("role", "desk", "--desk", options.desk),
    };
    let needs = format!("{kind} \"{}\" needs a certificate", who.name);
    let unnamed = options.tls_client_ca.is_none().then(|| {
        format!(
            "{needs}, and no authority is named: give those that sign clients' certificates by \
                --tls-client-ca"
        )
    });
    let plain = address.filter(|address| address.ip().is_loopback());
    let plain = plain.map(|address| {
        format!(
            "{needs}, and the {page} at {address} has no TLS, as it is for this machine alone: \
                open it by {flag} at another address, or leave it out"
        )
    });
    unnamed.into_iter().chain(plain)
}

/// A self-signed certificate for this machine: `sslmode=require` works, `verify-full` does not.
pub fn self_signed() -> Result<Arc<ServerConfig>, Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::new(format_args!(
            "the demo's certificate could not be made: {error}"
        ))
    };
    let made =
        rcgen::generate_simple_self_signed(vec!["localhost".to_owned(), "127.0.0.1".to_owned()])
            .map_err(|e| failed(&e))?;
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    configure(vec![made.cert.der().clone()], key, None).map_err(|e| failed(&e))
}

fn configure(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    verifier: Option<Arc<dyn ClientCertVerifier>>,
) -> Result<Arc<ServerConfig>, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let builder = match verifier {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    Ok(Arc::new(builder.with_single_cert(chain, key)?))
}

//! How long the server's certificate holds.

use std::path::Path;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use x509_cert::der::Decode;

/// When the first certificate of a PEM file ends, in seconds since 1970; `None` where it cannot be
/// read. The file may be newer than the certificate in force, until a reload.
pub fn certificate_end(path: &Path) -> Option<i64> {
    let der = CertificateDer::from_pem_file(path).ok()?;
    let read = x509_cert::Certificate::from_der(&der).ok()?;
    let end = read.tbs_certificate.validity.not_after.to_unix_duration();
    i64::try_from(end.as_secs()).ok()
}

//! The names that a client's certificate is made out to. The TLS handshake has proved that an
//! authority of the operator's signed it.

use x509_cert::Certificate;
use x509_cert::der::asn1::{PrintableStringRef, Utf8StringRef};
use x509_cert::der::oid::db::rfc4519::CN;
use x509_cert::der::{Decode, Encode};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

/// The subject's common names, and the DNS names and mail addresses of subjectAltName; none where
/// the certificate cannot be read.
pub fn names(der: &[u8]) -> Vec<String> {
    let Ok(certificate) = Certificate::from_der(der) else {
        return Vec::new();
    };
    let subject = certificate
        .tbs_certificate
        .subject
        .0
        .iter()
        .flat_map(|part| part.0.iter());
    let mut names: Vec<String> = subject
        .filter(|attribute| attribute.oid == CN)
        .filter_map(|attribute| {
            let value = attribute.value.to_der().ok()?;
            let utf8 = Utf8StringRef::from_der(&value).map(|text| text.as_str().to_owned());
            utf8.or_else(|_| {
                PrintableStringRef::from_der(&value).map(|text| text.as_str().to_owned())
            })
            .ok()
        })
        .collect();
    if let Ok(Some((_, SubjectAltName(alternatives)))) =
        certificate.tbs_certificate.get::<SubjectAltName>()
    {
        names.extend(alternatives.iter().filter_map(|name| match name {
            GeneralName::DnsName(name) | GeneralName::Rfc822Name(name) => {
                Some(name.as_str().to_owned())
            }
            _ => None,
        }));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn common_and_alternative_names_are_read() {
        let mut parameters = rcgen::CertificateParams::new(vec!["ann.example".to_owned()]).unwrap();
        parameters
            .distinguished_name
            .push(rcgen::DnType::CommonName, "ann");
        let key = rcgen::KeyPair::generate().unwrap();
        let made = parameters.self_signed(&key).unwrap();
        let found = names(made.der());
        assert!(
            found.contains(&"ann".to_owned()) && found.contains(&"ann.example".to_owned()),
            "{found:?}"
        );
        assert!(names(&made.der()[..40]).is_empty());
        assert!(names(b"").is_empty());
    }
}

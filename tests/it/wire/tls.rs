//! TLS: real handshakes, channel binding, and bytes put before the handshake.

use std::sync::Arc;

use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::double::{PASSWORD, start, start_with};
use super::socket::{CANCEL_REQUEST, SSL_REQUEST, Socket, kinds, packet, query, startup};

const ANN: [(&str, &str); 2] = [("user", "ann"), ("database", "survey")];

/// A server's configuration and its self-signed certificate.
pub fn configuration() -> (Arc<ServerConfig>, CertificateDer<'static>) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let certificate = made.cert.der().clone();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let configuration = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap();
    (
        Arc::new(
            configuration
                .with_no_client_auth()
                .with_single_cert(vec![certificate.clone()], key)
                .unwrap(),
        ),
        certificate,
    )
}

/// A certificate and its key.
pub type Issued = (CertificateDer<'static>, PrivateKeyDer<'static>);

fn connector(certificate: &CertificateDer<'static>) -> TlsConnector {
    connector_of(certificate, None)
}

fn connector_of(certificate: &CertificateDer<'static>, own: Option<Issued>) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let configuration = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap();
    let configuration = configuration.with_root_certificates(roots);
    TlsConnector::from(Arc::new(match own {
        Some((certificate, key)) => configuration
            .with_client_auth_cert(vec![certificate], key)
            .unwrap(),
        None => configuration.with_no_client_auth(),
    }))
}

pub async fn connect(
    address: std::net::SocketAddr,
    certificate: &CertificateDer<'static>,
) -> Socket {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(&packet(SSL_REQUEST, b"")).await.unwrap();
    assert_eq!(stream.read_u8().await.unwrap(), b'S');
    let secure = connector(certificate)
        .connect(ServerName::try_from("localhost").unwrap(), stream)
        .await
        .unwrap();
    Socket::over(Box::new(secure))
}

/// The reply of a server that speaks TLS from the first byte.
pub async fn exchanged(
    address: std::net::SocketAddr,
    certificate: &CertificateDer<'static>,
    request: &[u8],
) -> Vec<u8> {
    exchanged_by(address, (certificate, None), request).await
}

/// The exchange of a client that shows this certificate.
pub async fn exchanged_by(
    address: std::net::SocketAddr,
    (certificate, own): (&CertificateDer<'static>, Option<Issued>),
    request: &[u8],
) -> Vec<u8> {
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let connector = connector_of(certificate, own);
    let mut secure = connector.connect(name, stream).await.unwrap();
    secure.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    secure.read_to_end(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn channel_binding_holds_to_the_certificate() {
    let (tls, certificate) = configuration();
    let running = start_with(Some(tls)).await;
    let bound = Sha256::digest(&certificate);
    let mut socket = connect(running.address, &certificate).await;
    socket.send(&startup(&ANN)).await;
    socket.authenticate(PASSWORD, Some(&bound)).await;
    socket.until_ready().await;
    assert_eq!(kinds(&socket.ask("SELECT 1").await), "TDCZ");
    // Without binding, and with another certificate's binding.
    let mut socket = connect(running.address, &certificate).await;
    socket.send(&startup(&ANN)).await;
    socket.authenticate(PASSWORD, None).await;
    socket.until_ready().await;
    let mut socket = connect(running.address, &certificate).await;
    socket.send(&startup(&ANN)).await;
    socket.authenticate(PASSWORD, Some(&[0; 32])).await;
    assert_eq!(socket.receive().await.unwrap().field(b'S'), "FATAL");
}

#[tokio::test]
async fn defect_02_plaintext_before_the_handshake_is_never_served() {
    let (tls, certificate) = configuration();
    let running = start_with(Some(tls)).await;
    for injected in [
        startup(&ANN),
        query("SELECT 1"),
        packet(CANCEL_REQUEST, &[0; 8]),
        vec![0x16],
    ] {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        stream
            .write_all(&[packet(SSL_REQUEST, b""), injected].concat())
            .await
            .unwrap();
        assert_eq!(stream.read_u8().await.unwrap(), b'S');
        let handshake =
            connector(&certificate).connect(ServerName::try_from("localhost").unwrap(), stream);
        let ended = tokio::time::timeout(std::time::Duration::from_secs(30), handshake)
            .await
            .unwrap();
        assert!(ended.is_err());
    }
    assert_eq!(running.service.answers(), 0);
}

#[tokio::test]
async fn encryption_is_asked_for_once_and_refused_politely() {
    let running = start().await;
    let mut socket = Socket::open(running.address).await;
    for request in [80_877_104, SSL_REQUEST] {
        socket.send(&packet(request, b"")).await;
        assert_eq!(socket.stream.read_u8().await.unwrap(), b'N');
    }
    socket.send(&startup(&ANN)).await;
    socket.authenticate(PASSWORD, None).await;
    socket.until_ready().await;

    let mut socket = Socket::open(running.address).await;
    socket.send(&packet(SSL_REQUEST, b"")).await;
    assert_eq!(socket.stream.read_u8().await.unwrap(), b'N');
    socket.send(&packet(SSL_REQUEST, b"")).await;
    assert_eq!(socket.fatal().await.field(b'C'), "0A000");
}

#[tokio::test]
async fn a_request_for_encryption_inside_tls_is_refused() {
    let (tls, certificate) = configuration();
    let running = start_with(Some(tls)).await;
    let mut socket = connect(running.address, &certificate).await;
    socket.send(&packet(SSL_REQUEST, b"")).await;
    assert_eq!(socket.receive().await.unwrap().field(b'C'), "0A000");
}

#[tokio::test]
async fn tls_may_start_at_once_under_the_protocols_name() {
    let (tls, certificate) = configuration();
    let running = start_with(Some(tls)).await;
    for (names, welcome) in [
        (vec![b"postgresql".to_vec()], true),
        (vec![], false),
        (vec![b"http/1.1".to_vec()], false),
    ] {
        let mut client = (**connector(&certificate).config()).clone();
        client.alpn_protocols = names;
        let stream = TcpStream::connect(running.address).await.unwrap();
        let secure = TlsConnector::from(Arc::new(client))
            .connect(ServerName::try_from("localhost").unwrap(), stream)
            .await;
        let Ok(secure) = secure else {
            assert!(!welcome);
            continue;
        };
        let mut socket = Socket::over(Box::new(secure));
        if welcome {
            socket.send(&startup(&ANN)).await;
            socket.authenticate(PASSWORD, None).await;
            socket.until_ready().await;
            assert_eq!(socket.value("SELECT 1").await, "1");
        } else {
            assert_eq!(socket.receive().await, None);
        }
    }
    // Nor is it served where there is no TLS.
    let running = start().await;
    let mut socket = Socket::open(running.address).await;
    socket.send(&[0x16, 3, 1, 0, 1, 1]).await;
    assert_eq!(socket.receive().await, None);
}

/// A server that knows an authority for clients, and a maker of certificates that this authority
/// signs.
pub fn with_authority() -> (
    Arc<ServerConfig>,
    CertificateDer<'static>,
    impl Fn(&str) -> Issued,
) {
    let authority_key = rcgen::KeyPair::generate().unwrap();
    let mut parameters = rcgen::CertificateParams::new(Vec::new()).unwrap();
    parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = parameters.self_signed(&authority_key).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(authority.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = rustls::server::WebPkiClientVerifier::builder_with_provider(
        Arc::new(roots),
        provider.clone(),
    )
    .allow_unauthenticated();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let shown = made.cert.der().clone();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let server = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap();
    let server = server
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_single_cert(vec![shown.clone()], key)
        .unwrap();
    let issuer = rcgen::Issuer::new(parameters, authority_key);
    let issue = move |name: &str| {
        let mut parameters = rcgen::CertificateParams::new(Vec::new()).unwrap();
        parameters.distinguished_name = rcgen::DistinguishedName::new();
        parameters
            .distinguished_name
            .push(rcgen::DnType::CommonName, name);
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = parameters.signed_by(&key, &issuer).unwrap();
        (
            certificate.der().clone(),
            PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der())),
        )
    };
    (Arc::new(server), shown, issue)
}

/// The end of the login: `None` for a session, else SQLSTATE.
async fn login_by(
    address: std::net::SocketAddr,
    connector: TlsConnector,
    password: &str,
) -> Option<String> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(&packet(SSL_REQUEST, b"")).await.unwrap();
    assert_eq!(stream.read_u8().await.unwrap(), b'S');
    let Ok(secure) = connector
        .connect(ServerName::try_from("localhost").unwrap(), stream)
        .await
    else {
        return Some("handshake".to_owned());
    };
    let mut socket = Socket::over(Box::new(secure));
    if socket.stream.write_all(&startup(&ANN)).await.is_err() {
        return Some("handshake".to_owned());
    }
    // In TLS 1.3 the client learns only now that its certificate was not taken.
    let offer = tokio::time::timeout(std::time::Duration::from_secs(30), socket.stream.read_u8())
        .await
        .unwrap();
    let Ok(b'R') = offer else {
        return Some("handshake".to_owned());
    };
    socket.authenticate_after_offer(password).await;
    let mut verdict = socket.receive().await.unwrap();
    // SASLFinal comes before the certificate is looked at.
    if (verdict.kind, verdict.body.get(..4)) == (b'R', Some(12_i32.to_be_bytes().as_slice())) {
        verdict = socket.receive().await.unwrap();
    }
    match verdict.kind {
        b'R' => None,
        _ => Some(verdict.field(b'C')),
    }
}

#[tokio::test]
async fn roles_may_need_a_certificate_of_their_name() {
    use std::sync::atomic::Ordering;
    let (tls, shown, issue) = with_authority();
    let running = start_with(Some(tls)).await;
    let by = |certificate: Option<Issued>| connector_of(&shown, certificate);
    let stranger = {
        let made = rcgen::generate_simple_self_signed(vec!["ann".to_owned()]).unwrap();
        (
            made.cert.der().clone(),
            PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der())),
        )
    };
    // Where no certificate is needed, any or none is accepted, but not one that no authority
    // signed.
    assert_eq!(login_by(running.address, by(None), PASSWORD).await, None);
    assert_eq!(
        login_by(running.address, by(Some(issue("bob"))), PASSWORD).await,
        None
    );
    running.service.certificates.store(true, Ordering::SeqCst);
    assert_eq!(
        login_by(running.address, by(Some(issue("ann"))), PASSWORD).await,
        None
    );
    assert_eq!(
        login_by(running.address, by(None), PASSWORD)
            .await
            .as_deref(),
        Some("28000")
    );
    assert_eq!(
        login_by(running.address, by(Some(issue("bob"))), PASSWORD)
            .await
            .as_deref(),
        Some("28000")
    );
    assert_eq!(
        login_by(running.address, by(Some(stranger)), PASSWORD)
            .await
            .as_deref(),
        Some("handshake")
    );
    // The password is needed all the same, and is asked for first.
    assert_eq!(
        login_by(running.address, by(Some(issue("ann"))), "wrong")
            .await
            .as_deref(),
        Some("28P01")
    );
    assert_eq!(
        login_by(running.address, by(None), "wrong")
            .await
            .as_deref(),
        Some("28P01")
    );
    // Nor is there a way around it without TLS.
    let mut socket = Socket::open(running.address).await;
    socket.send(&startup(&ANN)).await;
    socket.authenticate(PASSWORD, None).await;
    socket.receive().await;
    assert_eq!(socket.fatal().await.field(b'C'), "28000");
}

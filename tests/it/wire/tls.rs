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
    let configuration = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    (Arc::new(configuration.with_no_client_auth().with_single_cert(vec![certificate.clone()], key).unwrap()), certificate)
}

fn connector(certificate: &CertificateDer<'static>) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let configuration = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    TlsConnector::from(Arc::new(configuration.with_root_certificates(roots).with_no_client_auth()))
}

async fn connect(address: std::net::SocketAddr, certificate: &CertificateDer<'static>) -> Socket {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(&packet(SSL_REQUEST, b"")).await.unwrap();
    assert_eq!(stream.read_u8().await.unwrap(), b'S');
    let secure = connector(certificate).connect(ServerName::try_from("localhost").unwrap(), stream).await.unwrap();
    Socket::over(Box::new(secure))
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
    // Without binding, and with that of another certificate.
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
    for injected in [startup(&ANN), query("SELECT 1"), packet(CANCEL_REQUEST, &[0; 8]), vec![0x16]] {
        let mut stream = TcpStream::connect(running.address).await.unwrap();
        stream.write_all(&[packet(SSL_REQUEST, b""), injected].concat()).await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap(), b'S');
        let handshake = connector(&certificate).connect(ServerName::try_from("localhost").unwrap(), stream);
        let ended = tokio::time::timeout(std::time::Duration::from_secs(5), handshake).await.unwrap();
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
    for (names, welcome) in [(vec![b"postgresql".to_vec()], true), (vec![], false), (vec![b"http/1.1".to_vec()], false)] {
        let mut client = (**connector(&certificate).config()).clone();
        client.alpn_protocols = names;
        let stream = TcpStream::connect(running.address).await.unwrap();
        let secure = TlsConnector::from(Arc::new(client)).connect(ServerName::try_from("localhost").unwrap(), stream).await;
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

//! From the first byte to the startup packet: encryption requests, cancel requests, protocol
//! version.
//!
//! Exactly the bytes of each request are read. So nothing that a stranger put before the TLS
//! handshake can pass for what the client says after it: such bytes reach the handshake, which
//! fails.

use std::sync::Arc;

use bytes::Bytes;
use rustls::ServerConfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::LazyConfigAcceptor;

use super::cancel::CancelKeys;
use super::certificate;
use super::message::Body;
use super::outcome::Outcome;
use super::stream::{FramedStream, Stream};
use crate::refusal::{Refusal, reason};

/// The protocol's registered name.
pub(super) const PROTOCOL: &[u8] = b"postgresql";
/// First byte of a TLS record that opens a handshake.
const TLS_HANDSHAKE: u8 = 0x16;
const SSL_REQUEST: u32 = 80_877_103;
const GSS_REQUEST: u32 = 80_877_104;
const CANCEL_REQUEST: u32 = 80_877_102;
/// Longest startup packet, as in PostgreSQL.
const PACKET_BYTES_MAX: usize = 10_000;
/// Process id and the longest key of protocol 3.2.
const CANCEL_BYTES_MAX: usize = 4 + 256;

/// The kind of a new connection.
pub(super) enum StartupOutcome {
    Client(Box<Startup>),
    /// A cancel request, a failed handshake, or nothing at all: no reply is due.
    Done,
    /// Answered and closed.
    Refused(Box<FramedStream>, Refusal),
}

/// A client that logs in.
pub(super) struct Startup {
    pub(super) channel: FramedStream,
    /// The certificate shown to this client, for channel binding.
    pub(super) certificate_pem: Option<String>,
    /// The names of the certificate that the client showed; none where it showed none.
    pub(super) client_names: Vec<String>,
    /// 0 or 2: protocol 3.0 or 3.2.
    pub(super) minor: u16,
    /// The client asked for more than there is: say what there is, and which `_pq_.` options are
    /// unknown.
    pub(super) negotiate: Option<Vec<String>>,
    pub(super) parameters: Vec<(String, String)>,
}

/// A client asks for encryption, or starts TLS at once (`sslnegotiation=direct`): a TLS record's
/// first byte begins no startup packet of a size that is taken.
pub(super) async fn open(
    socket: TcpStream,
    tls: Option<Arc<ServerConfig>>,
    sessions: &CancelKeys,
) -> StartupOutcome {
    let mut first = [0];
    if !matches!(socket.peek(&mut first).await, Ok(1)) {
        return StartupOutcome::Done;
    }
    if first != [TLS_HANDSHAKE] {
        return negotiate(Box::new(socket), None, tls, sessions).await;
    }
    let Some(config) = tls else {
        return StartupOutcome::Done;
    };
    match handshake(Box::new(socket), config).await {
        // Without the name, another protocol's client could be led here.
        Some(Secure {
            stream,
            certificates,
            speaks_postgresql: true,
        }) => negotiate(stream, Some(certificates), None, sessions).await,
        Some(Secure {
            speaks_postgresql: false,
            ..
        })
        | None => StartupOutcome::Done,
    }
}

async fn negotiate(
    mut stream: Box<dyn Stream>,
    mut secured: Option<Certificates>,
    tls: Option<Arc<ServerConfig>>,
    sessions: &CancelKeys,
) -> StartupOutcome {
    let (mut ssl_asked, mut gss_asked) = (false, false);
    loop {
        let mut head = [0; 8];
        if stream.read_exact(&mut head).await.is_err() {
            return StartupOutcome::Done;
        }
        let [l0, l1, l2, l3, c0, c1, c2, c3] = head;
        let length = usize::try_from(i32::from_be_bytes([l0, l1, l2, l3])).unwrap_or(0);
        let code = u32::from_be_bytes([c0, c1, c2, c3]);
        if !(8..=PACKET_BYTES_MAX).contains(&length) {
            return StartupOutcome::Refused(
                Box::new(FramedStream::new(stream)),
                Refusal::new(
                    reason::PROTOCOL_VIOLATION,
                    "invalid length of startup packet",
                ),
            );
        }
        let encrypted = secured.is_some();
        match code {
            SSL_REQUEST if length == 8 && !ssl_asked && !encrypted => {
                ssl_asked = true;
                let accepted = tls.clone();
                if stream
                    .write_all(if accepted.is_some() { b"S" } else { b"N" })
                    .await
                    .is_err()
                {
                    return StartupOutcome::Done;
                }
                if let Some(config) = accepted {
                    let Some(secure) = handshake(stream, config).await else {
                        return StartupOutcome::Done;
                    };
                    stream = secure.stream;
                    secured = Some(secure.certificates);
                }
            }
            GSS_REQUEST if length == 8 && !gss_asked && !encrypted => {
                gss_asked = true;
                if stream.write_all(b"N").await.is_err() {
                    return StartupOutcome::Done;
                }
            }
            _ => {
                return packet(
                    stream,
                    length - 8,
                    code,
                    secured.unwrap_or_default(),
                    sessions,
                )
                .await;
            }
        }
    }
}

/// The certificate that each side of a handshake showed.
#[derive(Default)]
struct Certificates {
    /// The server's, where the resolver gives it.
    shown_pem: Option<String>,
    /// The names of the client's.
    client_names: Vec<String>,
}

struct Secure {
    stream: Box<dyn Stream>,
    certificates: Certificates,
    /// The client named the protocol.
    speaks_postgresql: bool,
}

async fn handshake(stream: Box<dyn Stream>, config: Arc<ServerConfig>) -> Option<Secure> {
    let start = LazyConfigAcceptor::new(rustls::server::Acceptor::default(), stream)
        .await
        .ok()?;
    let certified = config.cert_resolver.resolve(start.client_hello());
    let shown_pem = certified
        .as_ref()
        .and_then(|certified| certified.cert.first())
        .map(|der| to_pem(der));
    let secure = start.into_stream(config).await.ok()?;
    let session = secure.get_ref().1;
    let speaks_postgresql = session.alpn_protocol() == Some(PROTOCOL);
    let client_names = session
        .peer_certificates()
        .and_then(<[_]>::first)
        .map(|der| certificate::names(der))
        .unwrap_or_default();
    Some(Secure {
        stream: Box::new(secure),
        certificates: Certificates {
            shown_pem,
            client_names,
        },
        speaks_postgresql,
    })
}

fn to_pem(der: &[u8]) -> String {
    use base64::Engine as _;
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let lines: Vec<&str> = text
        .as_bytes()
        .chunks(64)
        .filter_map(|line| std::str::from_utf8(line).ok())
        .collect();
    format!(
        "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n",
        lines.join("\n")
    )
}

async fn packet(
    mut stream: Box<dyn Stream>,
    length: usize,
    code: u32,
    certificates: Certificates,
    sessions: &CancelKeys,
) -> StartupOutcome {
    let cancel = code == CANCEL_REQUEST;
    if cancel && !(8..=CANCEL_BYTES_MAX).contains(&length) {
        return StartupOutcome::Done;
    }
    let mut body = vec![0; length];
    if stream.read_exact(&mut body).await.is_err() {
        return StartupOutcome::Done;
    }
    let mut body = Body(Bytes::from(body));
    if cancel {
        if let Ok(process) = body.i32() {
            sessions.cancel(process, &body.0);
        }
        return StartupOutcome::Done;
    }
    let channel = FramedStream::new(stream);
    let (major, minor) = (code >> 16, code & 0xffff);
    if major != 3 {
        let message =
            format!("unsupported frontend protocol {major}.{minor}: server supports 3.0 to 3.2");
        return StartupOutcome::Refused(
            Box::new(channel),
            Refusal::new(reason::UNSUPPORTED_PROTOCOL, message),
        );
    }
    match parameters(&mut body) {
        Err(refusal) => StartupOutcome::Refused(Box::new(channel), refusal),
        Ok(parameters) => {
            // 3.1 was never used; more than 3.2 is offered 3.2.
            let agreed = if minor < 2 { 0 } else { 2 };
            let (options, parameters): (Vec<_>, Vec<_>) = parameters
                .into_iter()
                .partition(|(name, _)| name.starts_with("_pq_."));
            let options: Vec<String> = options.into_iter().map(|(name, _)| name).collect();
            let negotiate = (u32::from(agreed) != minor || !options.is_empty()).then_some(options);
            let Certificates {
                shown_pem: certificate_pem,
                client_names,
            } = certificates;
            StartupOutcome::Client(Box::new(Startup {
                channel,
                certificate_pem,
                client_names,
                minor: agreed,
                negotiate,
                parameters,
            }))
        }
    }
}

fn parameters(body: &mut Body) -> Result<Vec<(String, String)>, Refusal> {
    let layout = || {
        Refusal::new(
            reason::PROTOCOL_VIOLATION,
            "invalid startup packet layout: expected terminator as last byte",
        )
    };
    let mut text = || match body.text() {
        Ok(text) => Ok(text),
        Err(Outcome::Refused(refusal)) => Err(refusal),
        Err(Outcome::Fatal(_) | Outcome::Closed) => Err(layout()),
    };
    let mut found = Vec::new();
    loop {
        let name = text()?;
        if name.is_empty() {
            break;
        }
        found.push((name, text()?));
    }
    if body.0.is_empty() {
        Ok(found)
    } else {
        Err(layout())
    }
}

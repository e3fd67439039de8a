//! A client of hand-made bytes.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// For a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

pub struct Socket {
    pub stream: Box<dyn Stream>,
    /// From BackendKeyData.
    pub key: Vec<u8>,
    pub parameters: Vec<(String, String)>,
}

/// One message of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    pub kind: u8,
    pub body: Vec<u8>,
}

impl Reply {
    /// A field of an ErrorResponse or NoticeResponse.
    pub fn field(&self, code: u8) -> String {
        let fields = self
            .body
            .split(|&b| b == 0)
            .find(|field| field.first() == Some(&code));
        fields
            .map(|field| String::from_utf8_lossy(&field[1..]).into_owned())
            .unwrap_or_default()
    }

    /// The values of a DataRow as text.
    pub fn values(&self) -> Vec<Option<String>> {
        let (mut values, mut rest) = (Vec::new(), &self.body[2..]);
        while let Some((length, tail)) = rest.split_first_chunk::<4>() {
            let length = i32::from_be_bytes(*length);
            let (value, tail) = if length < 0 {
                (None, tail)
            } else {
                (Some(&tail[..length as usize]), &tail[length as usize..])
            };
            values.push(value.map(|value| String::from_utf8_lossy(value).into_owned()));
            rest = tail;
        }
        values
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(self.body.strip_suffix(&[0]).unwrap_or(&self.body)).into_owned()
    }
}

pub fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend(i32::try_from(body.len() + 4).unwrap().to_be_bytes());
    bytes.extend(body);
    bytes
}

/// A packet without a type byte.
pub fn packet(code: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = i32::try_from(body.len() + 8)
        .unwrap()
        .to_be_bytes()
        .to_vec();
    bytes.extend(code.to_be_bytes());
    bytes.extend(body);
    bytes
}

pub const SSL_REQUEST: u32 = 80_877_103;
pub const CANCEL_REQUEST: u32 = 80_877_102;
pub const VERSION_3_0: u32 = 3 << 16;

pub fn startup(parameters: &[(&str, &str)]) -> Vec<u8> {
    startup_version(VERSION_3_0, parameters)
}

pub fn startup_version(version: u32, parameters: &[(&str, &str)]) -> Vec<u8> {
    let mut body: Vec<u8> = parameters
        .iter()
        .flat_map(|(name, value)| format!("{name}\0{value}\0").into_bytes())
        .collect();
    body.push(0);
    packet(version, &body)
}

pub fn query(sql: &str) -> Vec<u8> {
    message(b'Q', format!("{sql}\0").as_bytes())
}

pub fn parse(name: &str, sql: &str) -> Vec<u8> {
    message(b'P', format!("{name}\0{sql}\0\0\0").as_bytes())
}

/// Text values, and the given result formats.
pub fn bind(portal: &str, statement: &str, values: &[&str], formats: &[i16]) -> Vec<u8> {
    let mut body = format!("{portal}\0{statement}\0\0\0").into_bytes();
    body.extend(u16::try_from(values.len()).unwrap().to_be_bytes());
    for value in values {
        body.extend(i32::try_from(value.len()).unwrap().to_be_bytes());
        body.extend(value.as_bytes());
    }
    body.extend(u16::try_from(formats.len()).unwrap().to_be_bytes());
    body.extend(formats.iter().flat_map(|format| format.to_be_bytes()));
    message(b'B', &body)
}

pub fn describe(target: char, name: &str) -> Vec<u8> {
    message(b'D', format!("{target}{name}\0").as_bytes())
}

pub fn execute(portal: &str, rows_max: i32) -> Vec<u8> {
    let mut body = format!("{portal}\0").into_bytes();
    body.extend(rows_max.to_be_bytes());
    message(b'E', &body)
}

pub fn sync() -> Vec<u8> {
    message(b'S', b"")
}

pub fn hmac(key: &[u8], text: &[u8]) -> Vec<u8> {
    Hmac::<Sha256>::new_from_slice(key)
        .unwrap()
        .chain_update(text)
        .finalize()
        .into_bytes()
        .to_vec()
}

/// Password and salt to the salted password.
type Salted = HashMap<(String, Vec<u8>), [u8; 32]>;

/// Each computed once.
static SALTED: LazyLock<Mutex<Salted>> = LazyLock::new(Mutex::default);

fn salt_password(password: &str, salt: &[u8], iterations: u32) -> [u8; 32] {
    *SALTED
        .lock()
        .unwrap()
        .entry((password.to_owned(), salt.to_vec()))
        .or_insert_with(|| {
            let mut salted = [0; 32];
            pbkdf2::pbkdf2_hmac::<Sha256>(password.as_bytes(), salt, iterations, &mut salted);
            salted
        })
}

impl Socket {
    pub async fn open(address: SocketAddr) -> Self {
        Self::over(Box::new(TcpStream::connect(address).await.unwrap()))
    }

    pub fn over(stream: Box<dyn Stream>) -> Self {
        Self {
            stream,
            key: Vec::new(),
            parameters: Vec::new(),
        }
    }

    /// A session of ann.
    pub async fn log_in(address: SocketAddr) -> Self {
        let mut socket = Self::open(address).await;
        socket
            .send(&startup(&[("user", "ann"), ("database", "survey")]))
            .await;
        socket.authenticate(super::double::PASSWORD, None).await;
        let replies = socket.until_ready().await;
        assert_eq!(replies.last().unwrap().body, b"I", "{replies:?}");
        socket
    }

    pub async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// The next message; `None` once the server has closed.
    pub async fn receive(&mut self) -> Option<Reply> {
        timeout(PATIENCE, async {
            let kind = self.stream.read_u8().await.ok()?;
            let length = self.stream.read_i32().await.ok()?;
            let mut body = vec![0; usize::try_from(length).unwrap() - 4];
            self.stream.read_exact(&mut body).await.ok()?;
            Some(Reply { kind, body })
        })
        .await
        .expect("no reply")
    }

    /// All messages up to ReadyForQuery.
    pub async fn until_ready(&mut self) -> Vec<Reply> {
        let mut replies = Vec::new();
        loop {
            let reply = self
                .receive()
                .await
                .unwrap_or_else(|| panic!("closed after {replies:?}"));
            match reply.kind {
                b'S' => {
                    let text = reply.text();
                    let (name, value) = text.split_once('\0').unwrap();
                    self.parameters.push((name.to_owned(), value.to_owned()));
                }
                b'K' => self.key.clone_from(&reply.body),
                _ => {}
            }
            let last = reply.kind == b'Z';
            replies.push(reply);
            if last {
                return replies;
            }
        }
    }

    /// Sends a simple query and takes its replies.
    pub async fn ask(&mut self, sql: &str) -> Vec<Reply> {
        self.send(&query(sql)).await;
        self.until_ready().await
    }

    /// The one value of a query's one row.
    pub async fn value(&mut self, sql: &str) -> String {
        let replies = self.ask(sql).await;
        let row = replies
            .iter()
            .find(|reply| reply.kind == b'D')
            .unwrap_or_else(|| panic!("{sql}: {replies:?}"));
        row.values().remove(0).unwrap()
    }

    /// SQLSTATE of the query's error.
    pub async fn refused(&mut self, sql: &str) -> String {
        let replies = self.ask(sql).await;
        replies
            .iter()
            .find(|reply| reply.kind == b'E')
            .unwrap_or_else(|| panic!("{sql}: {replies:?}"))
            .field(b'C')
    }

    /// Expects FATAL and the end of the connection; gives the SQLSTATE.
    pub async fn fatal(&mut self) -> Reply {
        let reply = self.receive().await.expect("an ErrorResponse");
        assert_eq!(
            (
                reply.kind,
                reply.field(b'S').as_str(),
                reply.field(b'V').as_str()
            ),
            (b'E', "FATAL", "FATAL"),
            "{reply:?}"
        );
        assert_eq!(self.receive().await, None);
        reply
    }

    /// The client's side of SCRAM, up to the server's verdict, which stays unread. Gives the
    /// server's first message.
    pub async fn authenticate(&mut self, password: &str, binding: Option<&[u8]>) -> String {
        let offer = self.receive().await.unwrap();
        assert_eq!(&offer.body[..4], 10_i32.to_be_bytes());
        self.prove(password, binding).await
    }

    /// Authenticates after the type byte of the server's offer was read.
    pub async fn authenticate_after_offer(&mut self, password: &str) {
        let length = self.stream.read_i32().await.unwrap();
        self.stream
            .read_exact(&mut vec![0; usize::try_from(length).unwrap() - 4])
            .await
            .unwrap();
        self.prove(password, None).await;
    }

    /// Whether the session opens; `false` where it ends by an error instead.
    pub async fn greeted(&mut self) -> bool {
        while let Some(reply) = self.receive().await {
            match reply.kind {
                b'Z' => return true,
                b'E' => return false,
                _ => {}
            }
        }
        false
    }

    /// The client's side, once the server's offer is read.
    pub async fn prove(&mut self, password: &str, binding: Option<&[u8]>) -> String {
        let (mechanism, header) = if binding.is_some() {
            ("SCRAM-SHA-256-PLUS", "p=tls-server-end-point,,")
        } else {
            ("SCRAM-SHA-256", "n,,")
        };
        let bare = "n=,r=clientnonce";
        let first = format!("{header}{bare}");
        let mut body = format!("{mechanism}\0").into_bytes();
        body.extend(i32::try_from(first.len()).unwrap().to_be_bytes());
        body.extend(first.as_bytes());
        self.send(&message(b'p', &body)).await;
        let challenge = self.receive().await.unwrap();
        assert_eq!(
            (challenge.kind, &challenge.body[..4]),
            (b'R', 11_i32.to_be_bytes().as_slice()),
            "{challenge:?}"
        );
        let challenge = String::from_utf8(challenge.body[4..].to_vec()).unwrap();
        let part = |code: &str| {
            challenge
                .split(',')
                .find_map(|part| part.strip_prefix(code))
                .unwrap()
        };
        let salt = STANDARD.decode(part("s=")).unwrap();
        let salted = salt_password(password, &salt, part("i=").parse().unwrap());
        let client_key = hmac(&salted, b"Client Key");
        let bound = [header.as_bytes(), binding.unwrap_or_default()].concat();
        let without_proof = format!("c={},r={}", STANDARD.encode(bound), part("r="));
        let signature = hmac(
            &Sha256::digest(&client_key),
            format!("{bare},{challenge},{without_proof}").as_bytes(),
        );
        let proof: Vec<u8> = client_key
            .iter()
            .zip(signature)
            .map(|(a, b)| a ^ b)
            .collect();
        self.send(&message(
            b'p',
            format!("{without_proof},p={}", STANDARD.encode(proof)).as_bytes(),
        ))
        .await;
        challenge
    }
}

/// The type bytes in order.
pub fn kinds(replies: &[Reply]) -> String {
    replies.iter().map(|reply| char::from(reply.kind)).collect()
}

/// A session that is about to open, or to be refused.
pub async fn proven(address: SocketAddr) -> Socket {
    let mut socket = Socket::open(address).await;
    socket
        .send(&startup(&[("user", "ann"), ("database", "survey")]))
        .await;
    socket.authenticate(super::double::PASSWORD, None).await;
    socket
}

/// A session, once a place is free: one is given back a moment after its session ends.
pub async fn admitted(address: SocketAddr) -> Socket {
    let asked = async {
        loop {
            let mut socket = proven(address).await;
            if socket.greeted().await {
                return socket;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), asked)
        .await
        .expect("a place")
}

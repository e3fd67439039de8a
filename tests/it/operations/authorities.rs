//! TLS towards the database: the certificate is verified, by authorities that the operator names in
//! SSL_CERT_FILE.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use pgveil::postgres::LocalPostgres;
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio_rustls::TlsAcceptor;

use crate::fixture::{TemporaryDirectory, load};
use crate::wire::tls::configuration;

/// A relay with TLS in front of a server without it. Returns its port.
async fn secured(server: &LocalPostgres, tls: Arc<ServerConfig>) -> u16 {
    let socket = server.directory().join(".s.PGSQL.5432");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(pass(client, socket.clone(), TlsAcceptor::from(tls.clone())));
        }
    });
    port
}

async fn pass(
    mut client: TcpStream,
    socket: std::path::PathBuf,
    acceptor: TlsAcceptor,
) -> std::io::Result<()> {
    // SSLRequest.
    client.read_exact(&mut [0; 8]).await?;
    client.write_all(b"S").await?;
    let mut secure = acceptor.accept(client).await?;
    let mut server = UnixStream::connect(socket).await?;
    copy_bidirectional(&mut secure, &mut server).await.map(drop)
}

fn pem(certificate: &CertificateDer<'_>, path: &Path) {
    use base64::Engine as _;
    let text = base64::engine::general_purpose::STANDARD.encode(certificate);
    std::fs::write(
        path,
        format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n"),
    )
    .unwrap();
}

/// The result of `pgveil check` for the demo's policy over this database.
async fn checked(url: String, authorities: Option<std::path::PathBuf>) -> Result<String, String> {
    let run = move || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pgveil"));
        command
            .args(["check", "policies/demo.yaml"])
            .env("DATABASE_URL", url)
            .env("PGVEIL_LEDGER", "sqlite:///nowhere.db");
        command
            .env_remove("SSL_CERT_FILE")
            .envs(authorities.map(|file| ("SSL_CERT_FILE", file)))
            .stdin(Stdio::null());
        let ended = command.output().unwrap();
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if ended.status.success() {
            Ok(said(&ended.stdout))
        } else {
            Err(said(&ended.stderr))
        }
    };
    tokio::task::spawn_blocking(run).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_databases_certificate_is_verified_by_the_operators_authorities() {
    let (server, client) = crate::fixture::started("nls", Vec::new()).await;
    load(&client).await;
    let ((tls, certificate), (_, stranger)) = (configuration(), configuration());
    let port = secured(&server, tls).await;
    let directory = TemporaryDirectory::new("authorities");
    let file = |name: &str| directory.0.join(name);
    pem(&certificate, &file("own.pem"));
    pem(&stranger, &file("other.pem"));
    std::fs::write(
        file("garbage.pem"),
        "-----BEGIN CERTIFICATE-----\nnothing\n-----END CERTIFICATE-----\n",
    )
    .unwrap();
    let url =
        |host: &str, mode: &str| format!("postgresql://postgres@{host}:{port}/nls?sslmode={mode}");
    for mode in ["require", "prefer"] {
        let held = checked(url("localhost", mode), Some(file("own.pem")))
            .await
            .unwrap();
        assert!(held.contains("the policy holds for database nls"), "{held}");
        assert!(
            held.contains(
                "charged questions: which of them fail, 10 at most, may reveal 152 more bits"
            ),
            "{held}"
        );
        for (authorities, words) in [
            (None, "UnknownIssuer"),
            (Some("other.pem"), "certificate"),
            (Some("garbage.pem"), "SSL_CERT_FILE"),
            (Some("none.pem"), "SSL_CERT_FILE"),
        ] {
            let refused = checked(url("localhost", mode), authorities.map(file))
                .await
                .unwrap_err();
            assert!(refused.contains(words), "{mode} {authorities:?}: {refused}");
        }
    }
    // Nor is it the certificate of another host.
    let refused = checked(url("127.0.0.1", "require"), Some(file("own.pem")))
        .await
        .unwrap_err();
    assert!(refused.contains("certificate"), "{refused}");
}

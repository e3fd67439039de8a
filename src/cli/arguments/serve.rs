//! Arguments of `pgveil serve`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

#[derive(Debug, Args)]
pub struct ServeOptions {
    /// The policy file
    #[arg(long, value_name = "FILE")]
    pub policy: PathBuf,
    /// Where clients connect
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:6432")]
    pub listen: SocketAddr,
    /// Certificate chain in PEM, for TLS
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Private key of the certificate in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Authorities in PEM whose certificates clients may show; roles with `certificate: required`
    /// must
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_client_ca: Option<PathBuf>,
    /// Where /healthz, /readyz and /metrics are served by HTTP, to the operator alone
    #[arg(long, value_name = "ADDR")]
    pub admin: Option<SocketAddr>,
    /// A name by which the admin address may be asked, in addition to addresses and localhost; may
    /// be repeated
    #[arg(long, value_name = "NAME", requires = "admin")]
    pub admin_host: Vec<String>,
    /// Also append the record of statements to this file, as lines of JSON (jsonl:PATH); SIGHUP
    /// opens it anew
    #[arg(long, value_name = "jsonl:PATH", value_parser = crate::cli::record::target)]
    pub record_to: Option<PathBuf>,
    /// Where operators watch and freeze in a browser (docs/console.md). The policy lists them under
    /// `operators:`. Beyond this machine it needs --tls-cert and --tls-key
    #[arg(long, value_name = "ADDR")]
    pub console: Option<SocketAddr>,
    /// A name by which the console may be asked, in addition to addresses and localhost; may be
    /// repeated
    #[arg(long, value_name = "NAME", requires = "console")]
    pub console_host: Vec<String>,
    /// Where analysts see prices and ask in a browser, as roles of the policy (docs/desk.md).
    /// Beyond this machine it needs --tls-cert and --tls-key
    #[arg(long, value_name = "ADDR")]
    pub desk: Option<SocketAddr>,
    /// A name by which the desk may be asked, in addition to addresses and localhost; may be
    /// repeated
    #[arg(long, value_name = "NAME", requires = "desk")]
    pub desk_host: Vec<String>,
    /// Listen where another pgveil with this flag listens too: for an upgrade without a gap
    #[arg(long)]
    pub reuse_port: bool,
    /// Raise an older ledger to this format even while another pgveil is making answers with it; a
    /// pgveil of an older version keeps running, but cannot restart or reload afterwards
    #[arg(long)]
    pub migrate: bool,
    /// Take another `local.secret` than before: each value that is written again gets a second
    /// report, which costs its person the epsilon once more
    #[arg(long)]
    pub new_secret: bool,
    /// How long running statements may take once SIGTERM came
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = super::ledger::time)]
    pub drain: Duration,
}

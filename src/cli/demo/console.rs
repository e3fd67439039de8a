//! The demo's console: an operator that is made at the start, with a password that is printed once.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use zeroize::Zeroizing;

use crate::cli::Failure;
use crate::cli::listen::listen;
use crate::console;
use crate::console::{ConsoleOptions, InForce};
use crate::engine::{Engine, Reloadable};
use crate::init::make_password;
use crate::policy::File;
use crate::web::login::FIRST_WAIT;
use crate::web::rate_limit::RequestLimit;
use crate::web::session::Lifetimes;
use crate::wire::scram::make_verifier;

/// Who may log in.
pub const OPERATOR: &str = "operator";

/// The console's address, and what the operator logs in with.
pub struct DemoConsole {
    listener: TcpListener,
    pub address: SocketAddr,
    pub password: Zeroizing<String>,
    verifier: String,
}

impl DemoConsole {
    /// Binds the address, which must be of this machine alone: the demo has no certificate that a
    /// browser trusts.
    pub async fn bind(address: SocketAddr) -> Result<Self, Failure> {
        if !address.ip().is_loopback() {
            return Err(Failure::with_remedy(
                format_args!("the console at {address} would be reached without TLS"),
                "The demo serves it on this machine alone: give --console 127.0.0.1:6434.",
            ));
        }
        let listener = listen(address).await?;
        let address = listener.local_addr().map_err(Failure::new)?;
        let password = make_password().map_err(Failure::new)?;
        let verifier = make_verifier(&password);
        Ok(Self {
            listener,
            address,
            password,
            verifier,
        })
    }

    /// The demo's policy with the operator.
    pub fn with_operator(&self, policy: &str) -> String {
        let verifier = &self.verifier;
        format!(
            "{policy}\noperators:\n  - {{name: {OPERATOR}, password: '{verifier}', \
                may: [watch, own]}}\n"
        )
    }

    /// Serves until `token` is cancelled. `policy` is the text in force.
    pub async fn serve(self, engine: Arc<Engine>, policy: &str, token: CancellationToken) {
        let bare = File::parse_without_secrets("policies/demo.yaml", policy, |_| None);
        let options = ConsoleOptions {
            tls: None,
            hosts: Vec::new(),
            lifetimes: Lifetimes::default(),
            first_wait: FIRST_WAIT,
            pace: RequestLimit::default(),
        };
        let engine = Arc::new(Reloadable::new(engine));
        let shown = Arc::new(InForce::new(bare.ok()));
        let served = console::serve(self.listener, engine, shown, options, token);
        if served.await.is_err() {
            tracing::warn!("the console ended");
        }
    }
}

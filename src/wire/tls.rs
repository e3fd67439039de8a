//! The certificate that clients are shown. It may be replaced while connections are open: each new
//! connection takes the newest.

use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;

use super::startup;

/// Shared by the listener and the code that reloads the files.
#[derive(Debug, Clone)]
pub struct Tls(Arc<RwLock<Option<Arc<ServerConfig>>>>);

impl From<Option<Arc<ServerConfig>>> for Tls {
    fn from(config: Option<Arc<ServerConfig>>) -> Self {
        Self(Arc::new(RwLock::new(config.map(speaking_postgresql))))
    }
}

impl Tls {
    /// From now on new connections get this one.
    pub fn replace(&self, config: Arc<ServerConfig>) {
        let mut current = self.0.write().unwrap_or_else(PoisonError::into_inner);
        *current = Some(speaking_postgresql(config));
    }

    pub(super) fn current(&self) -> Option<Arc<ServerConfig>> {
        let current = self.0.read().unwrap_or_else(PoisonError::into_inner);
        current.clone()
    }
}

impl Tls {
    /// The newest for another protocol of this name.
    pub fn speaking(&self, protocol: &[u8]) -> Option<Arc<ServerConfig>> {
        let mut tls = (*self.current()?).clone();
        tls.alpn_protocols = vec![protocol.to_vec()];
        Some(Arc::new(tls))
    }
}

/// The protocol's name in TLS (ALPN): clients that start TLS at once must offer it, others may.
fn speaking_postgresql(tls: Arc<ServerConfig>) -> Arc<ServerConfig> {
    let mut tls = (*tls).clone();
    tls.alpn_protocols = vec![startup::PROTOCOL.to_vec()];
    Arc::new(tls)
}

//! Tells systemd how far the service is, where it asks: one datagram each to the socket that
//! NOTIFY_SOCKET names (sd_notify(3)).

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

pub fn ready() {
    say("READY=1");
}

pub fn reloading() {
    say("RELOADING=1");
}

pub fn stopping() {
    say("STOPPING=1");
}

/// Nobody depends on it being heard.
fn say(state: &str) {
    let Ok(path) = std::env::var("NOTIFY_SOCKET") else {
        return;
    };
    let address = match path.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&path),
    };
    if let (Ok(address), Ok(socket)) = (address, UnixDatagram::unbound()) {
        let _ = socket.send_to_addr(state.as_bytes(), &address);
    }
}

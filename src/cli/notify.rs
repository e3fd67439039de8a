//! Reports the state of the service to systemd: one datagram for each state to the socket that
//! NOTIFY_SOCKET names (sd_notify(3)).

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

pub fn ready() {
    say("READY=1");
}

/// Sends the time too, by which systemd distinguishes reloads.
pub fn reloading() {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let microseconds = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
    say(&format!("RELOADING=1\nMONOTONIC_USEC={microseconds}"));
}

pub fn stopping() {
    say("STOPPING=1");
}

/// Errors are ignored: the service works without systemd.
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

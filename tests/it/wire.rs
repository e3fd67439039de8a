//! The wire edge by raw sockets: every message is made by hand, so that messages that no client
//! library sends are tested too.

mod cancel;
mod copy;
mod cursor;
mod defects;
mod denial_of_service;
mod double;
mod limits;
mod login;
mod prepared;
mod protocol;
mod session;
mod session_start;
mod siege_of_writes;
pub mod socket;
mod states;
mod storm;
pub mod tls;

//! A password for a role: shown once, never kept.

use rand::TryRng;
use rand::rngs::SysRng;
use zeroize::Zeroizing;

/// Without letters and digits that look alike: 32 of them, 5 bits each.
const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";

/// Four groups of five: 100 bits.
const GROUPS: usize = 4;
const GROUP: usize = 5;

/// A password from the operating system's randomness.
///
/// # Errors
/// Where the operating system gives no randomness.
pub fn make_password() -> Result<Zeroizing<String>, String> {
    let mut bytes = Zeroizing::new([0; GROUPS * GROUP]);
    SysRng
        .try_fill_bytes(&mut *bytes)
        .map_err(|error| format!("the operating system gave no randomness: {error}"))?;
    let mut password = Zeroizing::new(String::with_capacity(GROUPS * (GROUP + 1)));
    for (at, byte) in bytes.iter().enumerate() {
        if at > 0 && at % GROUP == 0 {
            password.push('-');
        }
        password.push(char::from(ALPHABET[usize::from(byte % 32)]));
    }
    Ok(password)
}

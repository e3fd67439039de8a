//! `pgveil password` prints the verifier that a policy stores instead of a password.

use std::io::{IsTerminal, Read};

use zeroize::Zeroizing;

use super::Failure;
use crate::wire::scram::make_verifier;

/// Longest password that is read, in bytes.
const BYTES_MAX: u64 = 1024;

/// The least characters of an operator's password: a page of the console is all that it takes to
/// guess it.
const OPERATOR_CHARACTERS_MIN: usize = 12;

/// Reads a password and prints its verifier. That of an operator has at least
/// [`OPERATOR_CHARACTERS_MIN`] characters.
pub fn run(is_operators: bool) -> Result<(), Failure> {
    let password = if std::io::stdin().is_terminal() {
        ask()?
    } else {
        read_line()?
    };
    if password.is_empty() {
        return Err(Failure::Usage("the password is empty; give one".to_owned()));
    }
    if is_operators && password.chars().count() < OPERATOR_CHARACTERS_MIN {
        return Err(Failure::Usage(format!(
            "an operator's password has at least {OPERATOR_CHARACTERS_MIN} characters; give a \
                longer one"
        )));
    }
    println!("{}", make_verifier(&password));
    Ok(())
}

fn ask() -> Result<Zeroizing<String>, Failure> {
    let ask = |prompt| {
        rpassword::prompt_password(prompt)
            .map(Zeroizing::new)
            .map_err(|e| Failure::new(format_args!("the password could not be read: {e}")))
    };
    let password = ask("Password: ")?;
    if password != ask("Again: ")? {
        return Err(Failure::Usage(
            "the two passwords differ; nothing was made, try again".to_owned(),
        ));
    }
    Ok(password)
}

/// Reads one line, without its end.
fn read_line() -> Result<Zeroizing<String>, Failure> {
    // Reserves the full length, since a text that grows leaves copies in memory.
    let mut text = Zeroizing::new(String::with_capacity(
        usize::try_from(BYTES_MAX).unwrap_or_default() + 1,
    ));
    let read = std::io::stdin()
        .lock()
        .take(BYTES_MAX + 1)
        .read_to_string(&mut text);
    read.map_err(|e| {
        Failure::new(format_args!(
            "the password could not be read from standard input: {e}"
        ))
    })?;
    if text.len() as u64 > BYTES_MAX {
        return Err(Failure::Usage(format!(
            "the password is longer than {BYTES_MAX} bytes"
        )));
    }
    Ok(Zeroizing::new(
        text.lines().next().unwrap_or_default().to_owned(),
    ))
}

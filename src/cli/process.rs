//! Closes side channels of this process: core dumps, access to its memory and environment, and the
//! texts of panics.

use rustix::process::{
    DumpableBehavior, Resource, Rlimit, geteuid, set_dumpable_behavior, setrlimit,
};

use super::Failure;

/// Disables core dumps of this process and of the servers that it starts. Prevents other processes
/// of the same user from reading its memory and environment (prctl(2), PR_SET_DUMPABLE). Both may
/// hold private rows and the database's password.
///
/// # Errors
/// If the operating system does not allow it. Nothing private has been read by then.
pub fn close() -> Result<(), Failure> {
    let failed = |error: rustix::io::Errno| {
        Failure::new(format_args!("core dumps could not be turned off: {error}"))
    };
    setrlimit(
        Resource::Core,
        Rlimit {
            current: Some(0),
            maximum: Some(0),
        },
    )
    .map_err(failed)?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(failed)
}

/// Logs the place of a panic without its text, which may quote a statement or a row. Where the
/// reader of standard output has closed the pipe, as `head` does, the command ends quietly.
pub fn log_panics_by_place() {
    std::panic::set_hook(Box::new(|panic| {
        if panic.payload_as_str().is_some_and(is_closed_pipe) {
            std::process::exit(PIPE_CLOSED);
        }
        let place = panic
            .location()
            .map_or_else(String::new, ToString::to_string);
        tracing::error!(place, "a panic, whose text is withheld");
    }));
}

/// What a shell reports of a program that SIGPIPE ended.
const PIPE_CLOSED: i32 = 141;

/// The panic of the standard library's `print!`.
fn is_closed_pipe(text: &str) -> bool {
    text.starts_with("failed printing to stdout") && text.contains("Broken pipe")
}

/// Whether the process runs as root.
pub fn is_root() -> bool {
    geteuid().is_root()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use rustix::process::{dumpable_behavior, getrlimit};

    use super::*;

    /// Set in the child process, since these settings apply to a whole process.
    const CHILD: &str = "PGVEIL_TEST_CHILD";
    const CANARY: &str = "canary-of-a-panic";

    /// Runs one test of this binary in a child process.
    fn child(name: &str) -> std::process::Output {
        let this = std::env::current_exe().unwrap();
        let mut command = Command::new(this);
        command
            .args([
                "--exact",
                &format!("cli::process::tests::{name}"),
                "--nocapture",
            ])
            .env(CHILD, "1")
            .env("PGVEIL_LOG", "trace");
        command.env("RUST_BACKTRACE", "full").output().unwrap()
    }

    fn is_child() -> bool {
        std::env::var_os(CHILD).is_some()
    }

    #[test]
    fn a_panic_tells_its_place_alone() {
        if is_child() {
            super::super::log::start("info");
            log_panics_by_place();
            let cut = format!("é{CANARY}");
            let caught = std::panic::catch_unwind(|| cut[1..].len());
            assert!(caught.is_err());
            panic!("{CANARY}");
        }
        let output = child("a_panic_tells_its_place_alone");
        let said = [output.stdout, output.stderr]
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .concat();
        assert!(!output.status.success());
        assert_eq!(
            said.matches("a panic, whose text is withheld").count(),
            2,
            "{said}"
        );
        assert_eq!(said.matches("src/cli/process.rs:").count(), 2, "{said}");
        assert!(!said.contains(CANARY), "{said}");
    }

    #[test]
    fn a_closed_process_is_not_dumped() {
        if is_child() {
            close().unwrap();
            assert_eq!(
                getrlimit(Resource::Core),
                Rlimit {
                    current: Some(0),
                    maximum: Some(0)
                }
            );
            assert_eq!(dumpable_behavior(), Ok(DumpableBehavior::NotDumpable));
            return;
        }
        let output = child("a_closed_process_is_not_dumped");
        assert!(output.status.success(), "{output:?}");
        assert!(
            String::from_utf8_lossy(&output.stdout).contains("1 passed"),
            "{output:?}"
        );
    }
}

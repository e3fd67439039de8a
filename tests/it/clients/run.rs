//! Runs a client's script to its end.

use std::ffi::OsStr;
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::process::Command;

use super::stage::Stage;

const PATIENCE: Duration = Duration::from_secs(120);

/// # Panics
/// Where the script fails; its output says why.
pub async fn run(stage: &Stage, program: impl AsRef<OsStr>, arguments: &[&OsStr], environment: &[(&str, &OsStr)]) {
    let started = Instant::now();
    let mut command = Command::new(program);
    // Nothing of the caller's own PG* settings reaches the client.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PG")) {
        command.env_remove(name);
    }
    command.args(arguments).envs(environment.iter().copied()).env("LC_ALL", "C.UTF-8").env("TZ", "UTC").env("HOME", env!("CARGO_TARGET_TMPDIR"));
    command.env("VEILED_PORT", stage.veiled.port().to_string()).env("DIRECT_PORT", stage.direct.port().to_string());
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(PATIENCE, command.output()).await.expect("the client came to no end").unwrap();
    print!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("client ran {:.1} s", started.elapsed().as_secs_f64());
    assert!(output.status.success(), "the client's script failed");
}

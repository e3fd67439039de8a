use std::process::ExitCode;

fn main() -> ExitCode {
    pgveil::cli::main()
}

//! Gets a client that this machine lacks, from its ordinary package manager. Where that fails, the
//! test is skipped with a line that says so.

use std::path::{Path, PathBuf};

use tokio::process::Command;
use tokio::sync::Mutex;

/// The interpreter of a virtual environment.
pub struct Python(pub PathBuf);

/// apt takes one at a time.
static APT: Mutex<()> = Mutex::const_new(());

pub async fn psql() -> Option<PathBuf> {
    apt("psql", &["postgresql-client"], || on_path("psql")).await
}

/// Debian keeps it next to the server's binaries.
pub async fn pgbench() -> Option<PathBuf> {
    let next_to_the_server = || {
        let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
        versions
            .filter_map(Result::ok)
            .map(|version| version.path().join("bin/pgbench"))
            .find(|path| path.exists())
    };
    apt("pgbench", &["postgresql-contrib"], || {
        on_path("pgbench").or_else(next_to_the_server)
    })
    .await
}

/// The driver's jar, where there is a Java to run it.
pub async fn jdbc() -> Option<PathBuf> {
    apt("java", &["openjdk-17-jdk-headless"], || {
        on_path("java").filter(|_| on_path("javac").is_some())
    })
    .await?;
    let jar = Path::new("/usr/share/java/postgresql.jar");
    apt("pgJDBC", &["libpostgresql-jdbc-java"], || {
        jar.exists().then(|| jar.to_owned())
    })
    .await
}

/// The driver's library, and unixODBC to load it.
pub async fn psqlodbc() -> Option<PathBuf> {
    let library = || {
        let folders = std::fs::read_dir("/usr/lib")
            .ok()?
            .filter_map(|folder| Some(folder.ok()?.path().join("odbc/psqlodbcw.so")));
        folders
            .into_iter()
            .find(|path| path.exists())
            .filter(|_| on_path("isql").is_some())
    };
    apt("psqlODBC", &["odbc-postgresql", "unixodbc"], library).await
}

/// A virtual environment with these packages, kept for the next run.
pub async fn python(name: &str, packages: &[&str]) -> Option<Python> {
    python_alone(name, packages, &[]).await
}

/// Installs packages as `python` does, and further ones without their requirements, Python's
/// version included.
pub async fn python_alone(name: &str, packages: &[&str], alone: &[&str]) -> Option<Python> {
    let directory = cache(&format!("python-{name}"));
    let python = directory.join("bin/python");
    let install = async |options: &[&str], packages: &[&str]| {
        let quietly = ["-m", "pip", "install", "--quiet"];
        let mut pip = Command::new(&python);
        pip.args(quietly).arg("--disable-pip-version-check");
        packages.is_empty() || succeeds(pip.args(options).args(packages)).await
    };
    let wanted = [packages, alone].concat().join("\n");
    if !is_ready(&directory, &wanted) {
        let made = succeeds(Command::new("python3").args(["-m", "venv"]).arg(&directory)).await
            && install(&[], packages).await
            && install(&["--no-deps", "--ignore-requires-python"], alone).await;
        if !made {
            return skipped(name);
        }
        std::fs::write(directory.join("ready"), wanted).unwrap();
    }
    Some(Python(python))
}

/// A node_modules folder with the packages of tests/clients/NAME/package.json, kept for the next
/// run. Packages run nothing as they are installed.
pub async fn node(name: &str) -> Option<PathBuf> {
    apt("node", &["nodejs", "npm"], || {
        on_path("node").filter(|_| on_path("npm").is_some())
    })
    .await?;
    let directory = cache(&format!("node-{name}"));
    let wanted = std::fs::read_to_string(format!("tests/clients/{name}/package.json")).unwrap();
    if !is_ready(&directory, &wanted) {
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("package.json"), &wanted).unwrap();
        let quietly = [
            "install",
            "--silent",
            "--no-audit",
            "--no-fund",
            "--no-package-lock",
            "--ignore-scripts",
            "--prefix",
        ];
        if !succeeds(Command::new("npm").args(quietly).arg(&directory)).await {
            return skipped(name);
        }
        std::fs::write(directory.join("ready"), wanted).unwrap();
    }
    Some(directory.join("node_modules"))
}

/// Perl, with the driver of its DBI.
pub async fn perl() -> Option<PathBuf> {
    let driver = || {
        let perl = on_path("perl")?;
        std::process::Command::new(&perl)
            .args(["-MDBD::Pg", "-e", "1"])
            .output()
            .is_ok_and(|said| said.status.success())
            .then_some(perl)
    };
    apt("DBD::Pg", &["libdbd-pg-perl"], driver).await
}

/// The program of a crate in tests/clients, with its dependencies from crates.io.
pub async fn cargo(name: &str, program: &str) -> Option<PathBuf> {
    let target = cache(&format!("cargo-{name}"));
    let manifest = format!("tests/clients/{name}/Cargo.toml");
    let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build
        .args([
            "build",
            "--quiet",
            "--manifest-path",
            &manifest,
            "--target-dir",
        ])
        .arg(&target);
    let built = succeeds(&mut build).await;
    if built {
        Some(target.join("debug").join(program))
    } else {
        skipped(name)
    }
}

async fn apt(what: &str, packages: &[&str], find: impl Fn() -> Option<PathBuf>) -> Option<PathBuf> {
    let _one = APT.lock().await;
    if let Some(found) = find() {
        return Some(found);
    }
    let install = || async {
        succeeds(
            Command::new("apt-get")
                .args(["install", "-y", "-qq"])
                .args(packages)
                .env("DEBIAN_FRONTEND", "noninteractive"),
        )
        .await
    };
    let installed = install().await
        || (succeeds(Command::new("apt-get").args(["update", "-qq"])).await && install().await);
    match find().filter(|_| installed) {
        Some(found) => Some(found),
        None => skipped(what),
    }
}

/// Whether this very list was installed there.
fn is_ready(directory: &Path, wanted: &str) -> bool {
    std::fs::read_to_string(directory.join("ready")).is_ok_and(|installed| installed == wanted)
}

fn cache(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn on_path(program: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|directory| directory.join(program))
        .find(|path| path.exists())
}

async fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(std::process::Stdio::null())
        .output()
        .await
        .is_ok_and(|output| output.status.success())
}

fn skipped<T>(what: &str) -> Option<T> {
    println!("skipped: {what} is not here and could not be installed");
    None
}

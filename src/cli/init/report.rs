//! The report of `pgveil init` on its draft.

use std::path::Path;

use rustix::fs::Access;
use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::open_columns;
use crate::init::{
    CatalogView, DdlAdvice, Draft, Link, LinkBasis, Proposal, Stop, UnitPath, printable, shell,
};
use crate::policy::Checked;
use crate::postgres::major_version;

/// The draft and all that there is to say of it.
pub struct DraftReport<'a> {
    pub seen: &'a CatalogView,
    pub draft: &'a Draft,
    pub checked: &'a Checked,
    pub advice: Vec<DdlAdvice>,
    /// The open decisions that block serving.
    pub blocking: Vec<String>,
    pub noise: Vec<String>,
    pub passwords: &'a [Zeroizing<String>],
    pub text: &'a str,
    /// The file, where one was written.
    pub output: Option<&'a Path>,
    /// The database's address as a word that may be shown; `None` where the environment has it.
    pub address: Option<String>,
}

/// The findings, before the first question.
pub fn begin(seen: &CatalogView, proposal: &Proposal) {
    let (declared, guessed) = proposal.counts();
    eprintln!(
        "{}; links: {declared} declared by foreign keys, {guessed} guessed from names and keys. No \
            row and no statistic was read.",
        count(seen.tables.len(), "table")
    );
}

/// The candidates, as JSON, where nobody can be asked.
pub fn print_candidates(seen: &CatalogView, proposal: &Proposal, stop: &Stop) {
    let Stop::Undecided { message, flags } = stop else {
        return;
    };
    let candidates: Vec<Value> = proposal
        .candidates
        .iter()
        .map(|candidate| {
            json!({
                "unit": crate::init::flag_name(seen, candidate.at),
                "reason": candidate.reason(seen),
            })
        })
        .collect();
    let report = json!({
        "undecided": message,
        "flags": flags,
        "candidates": candidates,
        "links": links(seen, &proposal.links),
    });
    println!("{report:#}");
}

fn links(seen: &CatalogView, links: &[Link]) -> Vec<Value> {
    let text = |link: &Link| {
        let (basis, reason) = match &link.basis {
            LinkBasis::Declared => ("declared", Value::Null),
            LinkBasis::Guessed(reason) => ("guessed", json!(reason)),
            LinkBasis::Said => ("vouched for", Value::Null),
        };
        json!({
            "from": crate::init::flag_name(seen, link.from),
            "to": crate::init::flag_name(seen, link.to),
            "basis": basis,
            "reason": reason,
        })
    };
    links.iter().map(text).collect()
}

fn count(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

impl DraftReport<'_> {
    /// The draft alone goes to standard output, all else to standard error.
    pub fn print(&self) {
        for line in self.lines() {
            let line = printable(&line);
            if self.output.is_some() {
                println!("{line}");
            } else {
                eprintln!("{line}");
            }
        }
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = self.summary();
        lines.extend(self.noise.iter().cloned());
        let warnings = self.checked.warnings.iter();
        lines.extend(warnings.map(|warning| format!("warning: {}", warning.message)));
        for DdlAdvice { why, statements } in &self.advice {
            lines.push(format!("-- {why}"));
            lines.extend(statements.iter().map(|statement| format!("   {statement}")));
        }
        lines.push(self.shadow());
        lines.extend(self.next());
        lines
    }

    fn summary(&self) -> Vec<String> {
        let Draft {
            private, public, ..
        } = self.draft;
        let open = open_columns(self.draft);
        let wrote = match self.output {
            Some(path) => format!("wrote {}", path.display()),
            None => "drafted".to_owned(),
        };
        let database = &self.seen.catalog.database;
        let mut lines = vec![format!(
            "{wrote}: {}, {} public, {} left out; {} blocking, {} to DECIDE",
            count(private.len(), "private table"),
            public.len(),
            self.draft.left_out.len(),
            self.blocking.len(),
            open
        )];
        lines.extend(
            self.blocking
                .iter()
                .map(|what| format!("  blocks serving: {what}")),
        );
        for left in &self.draft.left_out {
            lines.push(format!(
                "  left out: {}: {}",
                self.seen.table_name(left.table),
                left.why
            ));
        }
        lines.push(format!(
            "It holds for database {database}; values of public tables are unread until `pgveil \
                check`."
        ));
        lines
    }

    /// Whether a shadow will start by itself.
    fn shadow(&self) -> String {
        let wanted = self.seen.catalog.server_version_num / 10_000;
        if self.draft.made.has_shadow {
            return "The shadow is the empty database that SHADOW_URL names.".to_owned();
        }
        if major_version() == Some(wanted) {
            return format!(
                "PostgreSQL {wanted} is installed here, so that the shadow starts by \
                itself."
            );
        }
        format!(
            "PostgreSQL {wanted} is not installed here for the shadow. Install it, or run one and \
                draft with --shadow: docker run -d -p 5433:5432 -e POSTGRES_PASSWORD=… \
                postgres:{wanted}"
        )
    }

    /// The commands that follow.
    fn next(&self) -> Vec<String> {
        let database = &self.seen.catalog.database;
        let file = self.output.map_or_else(|| "FILE".to_owned(), file_word);
        let address = match &self.address {
            Some(address) => format!("DATABASE_URL={address} "),
            None => String::new(),
        };
        let ledger = shell(&ledger(database, std::env::current_dir().ok().as_deref()));
        let mut lines = vec![format!("  export {address}PGVEIL_LEDGER={ledger}")];
        if !self.checked.policy.searches.is_empty() {
            lines.push(format!(
                "  pgveil bounds {file}      # the searches that `auto` leaves open, once and at a \
                    price"
            ));
        }
        lines.push(format!("  pgveil serve --policy {file}"));
        let roles = self.draft.made.roles.iter().zip(self.passwords);
        lines.extend(roles.map(|((role, _), password)| {
            format!(
                "  {}      # password, shown once: {}",
                psql(role, database),
                password.as_str()
            )
        }));
        lines
    }

    /// The report for machines.
    pub fn json(&self) -> String {
        let made = &self.draft.made;
        let private: Vec<Value> = self
            .draft
            .private
            .iter()
            .map(|private| {
                let path = match &private.way {
                    UnitPath::Own | UnitPath::Several(_) => Vec::new(),
                    UnitPath::Path(path) => links(self.seen, path),
                };
                json!({"table": self.seen.table_name(private.table), "path": path})
            })
            .collect();
        let left_out: Vec<Value> = self
            .draft
            .left_out
            .iter()
            .map(|left| json!({"table": self.seen.table_name(left.table), "why": left.why}))
            .collect();
        let names = |tables: &[usize]| -> Vec<String> {
            tables
                .iter()
                .map(|table| self.seen.table_name(*table))
                .collect()
        };
        let roles = made.roles.iter().zip(self.passwords);
        let roles: Vec<Value> = roles
            .map(|((name, _), password)| json!({"name": name, "password": password.as_str()}))
            .collect();
        let statements = self.advice.iter().flat_map(|advice| &advice.statements);
        let report = json!({
            "database": self.seen.catalog.database,
            "unit": {
                "column": crate::init::flag_name(self.seen, made.unit),
                "word": made.unit_name,
            },
            "private": private,
            "public": names(&self.draft.public),
            "left_out": left_out,
            "blocking": self.blocking,
            "to_decide": open_columns(self.draft),
            "warnings": self
                .checked
                .warnings
                .iter()
                .map(|warning| warning.message.clone())
                .collect::<Vec<_>>(),
            "noise": self.noise,
            "statements": statements.collect::<Vec<_>>(),
            "roles": roles,
            "file": self.output.map(|path| path.display().to_string()),
            "policy": self.text,
        });
        format!("{report:#}")
    }
}

/// A path as a word of a command line that is no option.
fn file_word(path: &Path) -> String {
    let text = path.display().to_string();
    if text.starts_with('-') {
        shell(&format!("./{text}"))
    } else {
        shell(&text)
    }
}

/// The command that connects, with names in the quotes of libpq and of the shell.
fn psql(role: &str, database: &str) -> String {
    let is_plain = |name: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
        !name.is_empty() && name.chars().all(plain)
    };
    let value = |name: &str| {
        if is_plain(name) {
            name.to_owned()
        } else {
            let escaped = name.replace('\\', "\\\\").replace('\'', "\\'");
            format!("'{escaped}'")
        }
    };
    let (user, dbname) = (value(role), value(database));
    let address = format!("host=127.0.0.1 port=6432 user={user} dbname={dbname}");
    if is_plain(role) && is_plain(database) {
        format!("psql \"{address}\"")
    } else {
        format!("psql {}", shell(&address))
    }
}

/// Where the ledger may lie: in the usual directory where this user may write it, else here.
fn ledger(database: &str, here: Option<&Path>) -> String {
    let is_plain = |text: &str, more: &str| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || more.contains(c);
        text.chars().all(is_plain)
    };
    let name = if is_plain(database, "_-") {
        database
    } else {
        "ledger"
    };
    let usual = Path::new("/var/lib/pgveil");
    let is_usual = rustix::fs::access(usual, Access::WRITE_OK | Access::EXEC_OK).is_ok();
    let here = here.and_then(Path::to_str);
    let directory = match here.filter(|here| !is_usual && is_plain(here, "/._-")) {
        Some(here) => here.trim_end_matches('/'),
        None => "/var/lib/pgveil",
    };
    format!("sqlite://{directory}/{name}.db")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A shell gives psql one argument, and libpq reads the names back.
    #[test]
    fn commands_quote_names() {
        assert_eq!(
            psql("analyst", "shop"),
            "psql \"host=127.0.0.1 port=6432 user=analyst dbname=shop\""
        );
        let script = psql("a b", "$(id)'`\\").replacen("psql", "printf %s", 1);
        let output = std::process::Command::new("sh")
            .args(["-c", &script])
            .output()
            .unwrap();
        assert_eq!(
            String::from_utf8(output.stdout).unwrap(),
            "host=127.0.0.1 port=6432 user='a b' dbname='$(id)\\'`\\\\'"
        );
        let here = Some(Path::new("/srv/me"));
        if !Path::new("/var/lib/pgveil").exists() {
            assert_eq!(ledger("shop", here), "sqlite:///srv/me/shop.db");
        }
        let odd = Some(Path::new("/srv/100 %"));
        assert_eq!(ledger("a b", odd), "sqlite:///var/lib/pgveil/ledger.db");
        assert_eq!(file_word(Path::new("-o x.yaml")), "'./-o x.yaml'");
        assert_eq!(printable("a\u{1b}[2J\n"), "a\\u{1b}[2J\\n");
    }
}

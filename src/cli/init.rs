//! `pgveil init` drafts a policy from the catalog of a database.

mod report;

use std::io::{IsTerminal, Write};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use zeroize::Zeroizing;

use super::arguments::InitOptions;
use super::{Failure, expected_errors, start};
use crate::init::{
    self, CatalogView, Decisions, Draft, Form, OpenDecisionMark, Proposal, Questions, Request,
    Stop, Terminal, Width,
};
use crate::policy::Checked;
use crate::postgres::connect;
use crate::wire::scram::make_verifier;
use report::DraftReport;

pub async fn run(options: InitOptions) -> Result<(), Failure> {
    if let Some(path) = options.output.as_deref().filter(|path| path.exists()) {
        return Err(exists(path));
    }
    let seen = see(&options).await?;
    let proposal = Proposal::new(&seen);
    let is_asked =
        !options.json && std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    if !options.json {
        report::begin(&seen, &proposal);
    }
    let request = request(&options);
    let mut terminal = Terminal::default();
    let questions = is_asked.then_some(&mut terminal as &mut dyn Questions);
    let made = match init::decide(&seen, &proposal, &request, questions) {
        Ok(made) => made,
        Err(stop) => {
            if options.json {
                report::print_candidates(&seen, &proposal, &stop);
            }
            return Err(failure(stop));
        }
    };
    let (mut draft, passwords) = make_draft(&seen, made)?;
    let checked = init::hold(&seen, &mut draft).await.map_err(failure)?;
    let text = init::text_of(&init::lines(
        &seen,
        &draft,
        OpenDecisionMark::Decide,
        Width::Shared,
    ));
    let noise = worth(&draft, &checked)?;
    // Last of all that can fail: the password is shown only now.
    if let Some(path) = &options.output {
        create(path, &text)?;
    }
    let report = DraftReport {
        seen: &seen,
        draft: &draft,
        advice: init::advice(&seen, &draft, &proposal.keyless),
        blocking: draft.blocking(&seen),
        noise,
        checked: &checked,
        passwords: &passwords,
        text: &text,
        output: options.output.as_deref(),
        address: options
            .database
            .as_ref()
            .map(|url| shell_word(url.expose()))
            .transpose()?,
    };
    if options.json {
        println!("{}", report.json());
        return Ok(());
    }
    if options.output.is_none() {
        print!("{text}");
    }
    report.print();
    Ok(())
}

/// The catalog of the database.
async fn see(options: &InitOptions) -> Result<CatalogView, Failure> {
    let url = match &options.database {
        Some(url) => url.expose().to_owned(),
        None => std::env::var("DATABASE_URL").map_err(|_| {
            Failure::Usage(
                "name the database: pgveil init postgresql://user@host/database".to_owned(),
            )
        })?,
    };
    let connected = connect(&start::config(&url)?)
        .await
        .map_err(start::unreachable_database)?;
    let read = init::read(&connected.client).await;
    connected.close().await;
    let seen = CatalogView::new(read.map_err(Failure::new)?, &options.schema);
    if seen.tables.is_empty() {
        let schemas = if options.schema.is_empty() {
            String::new()
        } else {
            format!(" in schema {}", options.schema.join(", "))
        };
        return Err(Failure::with_remedy(
            format_args!(
                "database {} has no table{schemas} that a policy could show",
                seen.catalog.database
            ),
            "Is it the right database? Views and foreign tables cannot be private.",
        ));
    }
    Ok(seen)
}

/// The database's address as a word of a shell, unless it holds a password.
fn shell_word(url: &str) -> Result<String, Failure> {
    let is_secret = start::config(url)?.get_password().is_some();
    Ok(if is_secret {
        "…".to_owned()
    } else {
        init::shell(url)
    })
}

fn request(options: &InitOptions) -> Request {
    Request {
        unit: options.unit.clone(),
        unit_name: options.unit_name.clone(),
        links: options.link.clone(),
        accepts_links: options.accept_links,
        public: options.public.clone(),
        rows: options.rows.clone(),
        bounds: options.bounds.clone(),
        group_by: options.group_by.clone(),
        budget: options.budget.clone(),
        roles: options.role.clone(),
        units: options.units,
        has_shadow: options.shadow,
    }
}

/// The draft, and a password for each of its roles.
fn make_draft(
    seen: &CatalogView,
    made: Decisions,
) -> Result<(Draft, Vec<Zeroizing<String>>), Failure> {
    let passwords = made
        .roles
        .iter()
        .map(|_| init::make_password().map_err(Failure::new))
        .collect::<Result<Vec<_>, _>>()?;
    let verifiers = passwords
        .iter()
        .map(|password| make_verifier(password))
        .collect();
    Ok((Draft::new(seen, made, verifiers), passwords))
}

/// The noise of the plainest questions, where the budget is known.
fn worth(draft: &Draft, checked: &Checked) -> Result<Vec<String>, Failure> {
    if draft.made.budget.is_none() {
        return Ok(Vec::new());
    }
    expected_errors::lines(&checked.policy)
}

/// Creates the file, for its owner alone; an existing one stays as it is.
fn create(path: &Path, text: &str) -> Result<(), Failure> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let created = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)
        .map(std::fs::File::from)
        .map_err(std::io::Error::from);
    let mut file = match created {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            return Err(exists(path));
        }
        created => created.map_err(|error| unwritten(path, &error))?,
    };
    file.write_all(text.as_bytes())
        .map_err(|error| unwritten(path, &error))
}

fn unwritten(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format_args!(
        "{} could not be written: {error}",
        path.display()
    ))
}

fn exists(path: &Path) -> Failure {
    Failure::with_remedy(
        format_args!("{} exists, and is not overwritten", path.display()),
        "Name another file with -o, or move this one away.",
    )
}

fn failure(stop: Stop) -> Failure {
    match stop {
        Stop::Usage(message) => Failure::Usage(init::printable(&message)),
        Stop::Undecided { message, flags } => Failure::Undecided {
            message,
            ways: flags.iter().map(|flag| init::printable(flag)).collect(),
        },
        Stop::Interrupted => Failure::Interrupted,
        Stop::Failed(message) => Failure::new(init::printable(&message)),
    }
}

/// The columns that wait for a decision.
fn open_columns(draft: &Draft) -> usize {
    let lines = draft.private.iter().flat_map(|private| &private.lines);
    lines
        .filter(|line| matches!(line.form, Form::Open(_)))
        .count()
}

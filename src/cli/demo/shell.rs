//! `--shell` is a prompt for people without psql: it sends SQL to the demo's own port and prints
//! what comes back. Without a terminal it reads statements from its input.

use std::io::{IsTerminal, Stdin};
use std::net::SocketAddr;

use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;

use super::guide;
use crate::cli::{Failure, table};
use crate::demo::LIBRARY;
use crate::demo::session::{DemoReply, DemoSession};

const HELP: &str = "\
Write SQL and end it with a semicolon. EXPLAIN in front of a question shows its price, free.
  \\d          tables
  \\d TABLE    columns of a table, such as nls.women
  \\budget     what is left
  \\library    a made-up library with its own budget: a summary, and weeks that are bought once
  \\survey     back to the survey
  \\q          end (so does Ctrl-D)";
const TABLES: &str = "SELECT table_schema || '.' || table_name AS table, CASE WHEN is_private THEN \
    'private' ELSE 'public' END AS protection FROM pgveil.tables ORDER BY 1";
const BUDGET: &str = "SELECT round((100 * fraction_left)::numeric, 2) AS percent_left, mu_spent \
    FROM pgveil.budget";

/// Where lines come from.
enum Lines {
    Terminal(Box<DefaultEditor>),
    Input(Stdin),
}

/// What a line is.
enum Line {
    Text(String),
    /// Ctrl-C: the statement so far is dropped.
    Dropped,
    End,
}

impl Lines {
    fn open() -> Result<Self, Failure> {
        if std::io::stdin().is_terminal() {
            let editor = DefaultEditor::new().map_err(Failure::new)?;
            return Ok(Self::Terminal(Box::new(editor)));
        }
        Ok(Self::Input(std::io::stdin()))
    }

    fn read(&mut self, prompt: &str) -> Line {
        match self {
            Self::Terminal(editor) => match editor.readline(prompt) {
                Ok(line) => Line::Text(line),
                Err(ReadlineError::Interrupted) => Line::Dropped,
                Err(_) => Line::End,
            },
            Self::Input(input) => {
                let mut line = String::new();
                match input.read_line(&mut line) {
                    Ok(0) | Err(_) => Line::End,
                    Ok(_) => Line::Text(line.trim_end_matches('\n').to_owned()),
                }
            }
        }
    }

    /// The arrow keys bring a statement back.
    fn remember(&mut self, statement: &str) {
        if let Self::Terminal(editor) = self {
            // A full history forgets.
            let _ = editor.add_history_entry(statement);
        }
    }
}

/// Reads and answers until the input ends.
pub async fn run(survey: (SocketAddr, &str), library: SocketAddr) -> Result<(), Failure> {
    let (listening, mut database) = survey;
    let mut session = open(listening, database).await?;
    let mut lines = Lines::open()?;
    let (mut statement, mut is_library_known) = (String::new(), false);
    if let Lines::Terminal(_) = lines {
        println!("{HELP}\n");
    }
    loop {
        let mark = if statement.is_empty() { '=' } else { '-' };
        let prompt = format!("{database}{mark}> ");
        let read = move || {
            let line = lines.read(&prompt);
            (lines, line)
        };
        let line;
        (lines, line) = tokio::task::spawn_blocking(read)
            .await
            .map_err(Failure::new)?;
        match line {
            Line::End => break,
            Line::Dropped => statement.clear(),
            Line::Text(text) => match command(&text).filter(|_| statement.is_empty()) {
                Some(Command::Quit) => return Ok(()),
                Some(Command::Help) => println!("{HELP}"),
                Some(Command::Ask(sql)) => answer(&mut session, &sql).await,
                Some(Command::Library) => {
                    if !is_library_known {
                        eprintln!(
                            "The library starts when it is first asked, which takes some seconds."
                        );
                    }
                    let is_open = change(&mut session, library, LIBRARY).await;
                    if is_open {
                        (database, is_library_known) = (LIBRARY, true);
                    }
                    if is_open && matches!(lines, Lines::Terminal(_)) {
                        let questions = guide::library_questions();
                        questions
                            .iter()
                            .for_each(|(why, sql)| guide::print_question(why, sql));
                    }
                }
                Some(Command::Survey) => {
                    let (listening, name) = survey;
                    if change(&mut session, listening, name).await {
                        database = name;
                    }
                }
                None => {
                    statement.push_str(&text);
                    statement.push('\n');
                    if is_whole(&statement) {
                        lines.remember(statement.trim_end());
                        answer(&mut session, statement.trim_end()).await;
                        statement.clear();
                    } else if statement.trim().is_empty() {
                        statement.clear();
                    }
                }
            },
        }
    }
    if !statement.trim().is_empty() {
        answer(&mut session, statement.trim_end()).await;
    }
    Ok(())
}

/// Opens the other database's session; where it cannot, says why and keeps this one.
async fn change(session: &mut DemoSession, listening: SocketAddr, database: &str) -> bool {
    match open(listening, database).await {
        Ok(opened) => {
            *session = opened;
            true
        }
        Err(failure) => {
            eprintln!("Not connected to {database}: {}", failure.in_a_line());
            false
        }
    }
}

async fn open(listening: SocketAddr, database: &str) -> Result<DemoSession, Failure> {
    let opened = DemoSession::open(listening, database, "pgveil demo shell").await;
    opened.map_err(|refused| Failure::new(refused.message))
}

/// A line that is not SQL.
#[derive(Debug, PartialEq, Eq)]
enum Command {
    Quit,
    Help,
    Library,
    Survey,
    Ask(String),
}

fn command(line: &str) -> Option<Command> {
    let line = line.trim();
    let mut words = line
        .strip_prefix('\\')?
        .trim_end_matches(';')
        .split_whitespace();
    Some(match (words.next(), words.next()) {
        (Some("q"), _) => Command::Quit,
        (Some("d" | "dt"), None) => Command::Ask(TABLES.to_owned()),
        (Some("d"), Some(table)) => Command::Ask(columns(table)),
        (Some("library"), _) => Command::Library,
        (Some("survey"), _) => Command::Survey,
        (Some("budget"), _) => Command::Ask(BUDGET.to_owned()),
        (_, _) => Command::Help,
    })
}

fn columns(table: &str) -> String {
    let name = table
        .rsplit('.')
        .next()
        .unwrap_or(table)
        .replace('\'', "''");
    format!(
        "SELECT column_name, data_type, lower_bound, upper_bound FROM pgveil.columns WHERE \
            table_name = '{name}' ORDER BY table_schema, ordinal_position"
    )
}

/// Whether the text ends with a semicolon outside quotes and comments.
fn is_whole(sql: &str) -> bool {
    let (mut quote, mut last, mut chars) = (None, ' ', sql.chars().peekable());
    while let Some(c) = chars.next() {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if c == '\'' || c == '"' => quote = Some(c),
            None if c == '-' && chars.peek() == Some(&'-') => {
                chars.by_ref().find(|c| *c == '\n');
                continue;
            }
            None => {}
        }
        if !c.is_whitespace() {
            last = c;
        }
    }
    quote.is_none() && last == ';'
}

async fn answer(session: &mut DemoSession, sql: &str) {
    let (replies, refused) = match session.run(sql).await {
        Ok(replies) => (replies, None),
        Err((replies, refused)) => (replies, Some(refused)),
    };
    for reply in &replies {
        show(reply);
    }
    for notice in session.heard() {
        eprintln!("{notice}");
    }
    if let Some(refused) = refused {
        let error = table::ErrorText {
            message: &refused.message,
            detail: refused.detail.as_deref(),
            hint: refused.hint.as_deref(),
            position: refused.position,
        };
        error.print(sql);
    }
}

/// The rows as an aligned table, then the notices.
fn show(reply: &DemoReply) {
    if !reply.columns.is_empty() {
        for line in table::of_texts(&reply.columns, &reply.rows) {
            println!("{line}");
        }
    }
    for notice in &reply.notices {
        println!("{notice}");
    }
    println!();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_end_with_a_semicolon_outside_quotes() {
        for whole in [
            "SELECT 1;",
            "SELECT ';';\n",
            "SELECT 1; -- done",
            "SELECT 'a''b';",
        ] {
            assert!(is_whole(whole), "{whole}");
        }
        for open in ["SELECT 1", "SELECT ';", "SELECT 1 --;", "\"a;"] {
            assert!(!is_whole(open), "{open}");
        }
    }

    #[test]
    fn commands_begin_with_a_backslash() {
        assert_eq!(command("\\q"), Some(Command::Quit));
        assert_eq!(command("  \\?"), Some(Command::Help));
        assert_eq!(command("SELECT 1;"), None);
        let Some(Command::Ask(sql)) = command("\\d nls.women") else {
            panic!("no question");
        };
        assert!(sql.contains("table_name = 'women'"), "{sql}");
    }
}

//! Reports the progress of a command on stderr: a moving line on a terminal, else one log line for
//! each step.

use std::io::{IsTerminal, Write};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::shadow::{CopiedTable, Copying};

/// The terminal's last line. It is cleared while other text is written to stderr.
static LINE: LazyLock<MultiProgress> = LazyLock::new(MultiProgress::new);

const TICK: Duration = Duration::from_millis(100);

/// One step of a command. It ends when it is dropped.
pub struct ProgressStep {
    /// `None` if stderr is not a terminal.
    bar: Option<ProgressBar>,
    begun: Instant,
}

impl ProgressStep {
    pub fn begin(what: &str) -> Self {
        if !std::io::stderr().is_terminal() {
            tracing::info!("{what}");
            return Self {
                bar: None,
                begun: Instant::now(),
            };
        }
        let bar = LINE.add(ProgressBar::new_spinner().with_message(what.to_owned()));
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} ({elapsed})") {
            bar.set_style(style);
        }
        // Draws at once, since a short step may end before the first tick.
        bar.tick();
        bar.enable_steady_tick(TICK);
        Self {
            bar: Some(bar),
            begun: Instant::now(),
        }
    }

    /// Shows the progress of copying public tables.
    pub fn copying(&self, now: Copying<'_>) {
        let Copying {
            schema,
            table,
            rows,
            of,
        } = now;
        let of = of.map(|of| format!("about {} rows", group_digits(of)));
        match (&self.bar, rows) {
            (Some(bar), _) => {
                let of = of.map_or_else(|| "rows".to_owned(), |of| format!("of {of}"));
                bar.set_message(format!(
                    "copying public table {schema}.{table} into the shadow: {} {of}",
                    group_digits(rows)
                ));
            }
            (None, 0) => {
                let of = of.map_or_else(String::new, |of| format!(", {of}"));
                tracing::info!("copying public table {schema}.{table} into the shadow{of}");
            }
            (None, _) => {}
        }
    }

    /// Logs the copied tables.
    pub fn log_copies(&self, copied: &[CopiedTable]) {
        let rows = group_digits(copied.iter().filter_map(|table| table.rows).sum());
        let seconds = self.begun.elapsed().as_secs_f64();
        tracing::info!(
            "copied {rows} rows of {} public tables in {seconds:.1} s",
            copied.len()
        );
    }
}

impl Drop for ProgressStep {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
            LINE.remove(bar);
        }
    }
}

/// `92331` as `92,331`.
fn group_digits(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Writes to stderr without disturbing the moving line.
pub struct Stderr;

impl Write for Stderr {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LINE.suspend(|| std::io::stderr().write(bytes))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        std::io::stderr().flush()
    }
}

#[cfg(test)]
mod tests {
    use super::group_digits;

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!(
            [0, 999, 1000, 92331, 1234567].map(group_digits),
            ["0", "999", "1,000", "92,331", "1,234,567"]
        );
    }
}

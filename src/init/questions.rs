//! The source of decisions: a terminal, or the answers of a test.

use dialoguer::theme::ColorfulTheme;
use dialoguer::{Confirm, Input, MultiSelect, Select};

use super::{Stop, printable};

/// Checks a typed text. The error is shown, and the question is asked again.
pub type Valid<'a> = &'a dyn Fn(&str) -> Result<(), String>;

/// Somebody who decides.
pub trait Questions {
    /// One of the options. No option is preselected.
    fn choose(&mut self, question: &str, options: &[String]) -> Result<usize, Stop>;
    /// Any of the options.
    fn pick(&mut self, question: &str, options: &[String]) -> Result<Vec<usize>, Stop>;
    /// No unless it is said.
    fn confirm(&mut self, question: &str) -> Result<bool, Stop>;
    /// A line of text, perhaps empty.
    fn text(&mut self, question: &str, valid: Valid<'_>) -> Result<String, Stop>;
    /// Prints the subject of the questions that follow.
    fn tell(&mut self, text: &str);
}

/// The terminal of standard error.
#[derive(Default)]
pub struct Terminal(ColorfulTheme);

impl Questions for Terminal {
    fn choose(&mut self, question: &str, options: &[String]) -> Result<usize, Stop> {
        Select::with_theme(&self.0)
            .with_prompt(format!("{} (arrow keys, enter)", printable(question)))
            .items(show(options))
            .interact()
            .map_err(stop_of)
    }

    fn pick(&mut self, question: &str, options: &[String]) -> Result<Vec<usize>, Stop> {
        MultiSelect::with_theme(&self.0)
            .with_prompt(format!("{} (space marks, enter ends)", printable(question)))
            .items(show(options))
            .interact()
            .map_err(stop_of)
    }

    fn confirm(&mut self, question: &str) -> Result<bool, Stop> {
        Confirm::with_theme(&self.0)
            .with_prompt(printable(question))
            .default(false)
            .wait_for_newline(true)
            .interact()
            .map_err(stop_of)
    }

    fn text(&mut self, question: &str, valid: Valid<'_>) -> Result<String, Stop> {
        Input::<String>::with_theme(&self.0)
            .with_prompt(printable(question))
            .allow_empty(true)
            .validate_with(|text: &String| valid(text.trim()))
            .interact_text()
            .map(|text| text.trim().to_owned())
            .map_err(stop_of)
    }

    fn tell(&mut self, text: &str) {
        // Nothing is written to a terminal that is gone.
        let _ = dialoguer::console::Term::stderr().write_line(&printable(text));
    }
}

fn show(options: &[String]) -> Vec<String> {
    options.iter().map(|option| printable(option)).collect()
}

fn stop_of(error: dialoguer::Error) -> Stop {
    let dialoguer::Error::IO(error) = error;
    if error.kind() == std::io::ErrorKind::Interrupted {
        Stop::Interrupted
    } else {
        Stop::Failed(format!("the question could not be asked: {error}"))
    }
}

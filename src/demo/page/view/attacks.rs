//! An attacker's knowledge after an attack.

use maud::{Markup, html};

use crate::demo::attack::{Answers, DifferencingAttack, HER, NoisyNumber, WAGES};
use crate::web::chart::{Plot, plot, rounded_number};
use crate::web::share;

/// A 95 % interval of Gaussian noise has this many standard deviations to each side.
const QUANTILE: f64 = 1.96;
const STEPS: usize = 60;

/// The frame of an attack's result.
pub fn attack_result(title: &str, body: &Markup, before: f64, after: f64) -> Markup {
    html! {
        h2 { (title) }
        (body)
        p .note {
            @if after < before {
                "The attack cost " (share(before - after)) " of the budget; " (share(after))
                " is left."
            } @else {
                "The attack was free: its answers had been paid for."
            }
        }
    }
}

fn plus_minus(measured: NoisyNumber) -> String {
    let width = rounded_number(QUANTILE * measured.error);
    format!("{} ± {width}", rounded_number(measured.value))
}

/// Two sums that only one woman's rows separate.
pub fn difference(found: &DifferencingAttack, exact: Option<(f64, f64)>) -> Markup {
    let belief = found.belief(STEPS);
    let most = belief.iter().map(|(_, times)| *times).fold(0.0, f64::max);
    let wage = exact.map(|(all, without)| all - without);
    let cents = |value: f64| format!("{value:.2}");
    html! {
        p {
            "The attacker knows of one woman that " code { (HER) } ", and that nobody else in the \
            survey is like her. He asks for the sum of all hourly wages of 1988, and for the same \
            sum without her. The difference is her wage."
        }
        div .scroll tabindex="0" role="region" aria-label="The attack's numbers" {
            table {
                thead { tr {
                    th scope="col" { "" }
                    th scope="col" .number { "bare PostgreSQL" }
                    th scope="col" .number { "through pgveil, 95 %" }
                } }
                tbody {
                    tr {
                        th scope="row" { "all wages" }
                        td .number .exact {
                            (exact.map_or_else(String::new, |(all, _)| cents(all)))
                        }
                        td .number { (plus_minus(found.all)) }
                    }
                    tr {
                        th scope="row" { "all but hers" }
                        td .number .exact {
                            (exact.map_or_else(String::new, |(_, without)| cents(without)))
                        }
                        td .number { (plus_minus(found.without)) }
                    }
                    tr {
                        th scope="row" { "her wage" }
                        td .number .exact { strong { (wage.map_or_else(String::new, cents)) } }
                        td .number { (plus_minus(found.wage())) }
                    }
                }
            }
        }
        p .note {
            "Wages above " (rounded_number(WAGES.1)) " count as that much through pgveil, so its \
            sums are lower."
        }
        figure {
            figcaption {
                strong { "What the attacker believes of her wage" }
                " The line is how likely each wage is after the attack, as a multiple of before. \
                The dot is the truth."
            }
            (plot(&Plot {
                label: "How likely each wage is after the attack: about as likely as before",
                line: &belief,
                band: &[],
                dots: &[],
                level: None,
                mark: wage,
                horizontal: WAGES,
                vertical: (0.0, most.max(2.0)),
                below: "her hourly wage in dollars",
            }))
        }
        p {
            "Whatever is asked, and whatever else the attacker knows: from all that was answered \
            so far, nobody guesses whether she took part and is right more often than in "
            strong { (share(found.best_guess())) }
            " of cases, where a coin gives 50 % (but for a chance of one in ten million, the \
            budget's delta). The whole budget allows 62 %."
        }
    }
}

/// The vertical range of a plot of answers: all of them, the truth, and some noise around.
fn range(found: &Answers, exact: Option<f64>) -> (f64, f64) {
    let values = found.values.iter().copied().chain(exact);
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    (low - 2.5 * found.error, high + 2.5 * found.error)
}

fn dots(found: &Answers) -> Vec<(f64, f64)> {
    let values = found.values.iter().enumerate();
    values
        .map(|(at, value)| ((at + 1) as f64, *value))
        .collect()
}

/// The interval of the mean of this many answers with fresh noise, around each of these.
fn band(found: &Answers, around: &[f64]) -> Vec<(f64, f64, f64)> {
    let means = around.iter().enumerate();
    means
        .map(|(at, mean)| {
            let number = (at + 1) as f64;
            let half = QUANTILE * found.error / number.sqrt();
            (number, mean - half, mean + half)
        })
        .collect()
}

/// The parts of a plot around the answers.
struct Drawn<'a> {
    label: &'a str,
    line: &'a [(f64, f64)],
    /// Where the band lies, answer by answer.
    around: &'a [f64],
    below: &'a str,
}

fn answers(found: &Answers, exact: Option<f64>, drawn: Drawn<'_>) -> Markup {
    plot(&Plot {
        label: drawn.label,
        line: drawn.line,
        band: &band(found, drawn.around),
        dots: &dots(found),
        level: exact,
        mark: None,
        horizontal: (0.0, found.values.len() as f64),
        vertical: range(found, exact),
        below: drawn.below,
    })
}

/// One question a hundred times.
pub fn repeats(found: &Answers, exact: Option<f64>) -> Markup {
    let first = found.values.first().copied().unwrap_or_default();
    let differ = found.values.iter().filter(|value| **value != first).count();
    let times = found.values.len();
    let hoped = vec![exact.unwrap_or(first); times];
    html! {
        p {
            "The attacker asks " code { (crate::demo::attack::count_graduates()) } " " (times) " \
            times. With fresh noise each time, the mean would close in on the exact value, along \
            the band."
        }
        figure {
            figcaption {
                strong { "A hundred answers" }
                " Each dot is an answer; the horizontal line is the exact value."
            }
            (answers(found, exact, Drawn {
                label: "All answers are equal, at the same distance from the exact value",
                line: &[],
                around: &hoped,
                below: "number of answers",
            }))
        }
        p {
            @if differ == 0 {
                "All " (times) " answers are " strong { (rounded_number(first)) } ". The first was \
                paid for, the others were free, and none of them revealed anything new"
            } @else {
                (differ) " of " (times) " answers differ from the first"
            }
            @if let Some(exact) = exact {
                ": the exact value is " strong { (rounded_number(exact)) }
            }
            "."
        }
    }
}

/// Fresh answers, bought one by one.
pub fn averaging(found: &Answers, exact: Option<f64>) -> Markup {
    let means = found.means();
    let line: Vec<(f64, f64)> = means
        .iter()
        .enumerate()
        .map(|(at, mean)| ((at + 1) as f64, *mean))
        .collect();
    let times = found.values.len();
    let mean = NoisyNumber {
        value: means.last().copied().unwrap_or_default(),
        error: found.error / (times.max(1) as f64).sqrt(),
    };
    html! {
        p {
            "With " code { "SET pgveil.reuse = off" } " every answer has fresh noise and is \
            charged. The attacker buys " (times) " cheap ones, each ± "
            (rounded_number(QUANTILE * found.error)) ", and averages."
        }
        figure {
            figcaption {
                strong { "The mean of the answers so far" }
                " Dots are answers; the band is the mean's 95 % interval; the horizontal line is \
                the exact value."
            }
            (answers(found, exact, Drawn {
                label: "The mean closes in on the exact value as the budget falls",
                line: &line,
                around: &means,
                below: "answers bought",
            }))
        }
        p {
            "The mean is " strong { (plus_minus(mean)) }
            @if let Some(exact) = exact {
                "; the exact value is " strong { (rounded_number(exact)) }
            }
            ". One answer that costs as much as all " (times) " has the same error: averaging buys \
            what the budget sells, and the budget ends. It is a count of about a thousand women, \
            and one woman more or less stays hidden in it."
        }
    }
}

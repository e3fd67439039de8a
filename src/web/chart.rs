//! Charts as SVG that needs no style attribute: places in per cent, so that they fit every width
//! while text and strokes keep their size. Every chart has its numbers as text next to it.

use maud::{Markup, html};

/// A group of an answer: the noisy value, its interval, and the exact value.
#[derive(Debug, Clone)]
pub struct Bar {
    pub label: String,
    pub value: f64,
    pub interval: Option<PrintedInterval>,
    pub exact: Option<f64>,
    /// Whether the bar stands out, as new.
    pub is_new: bool,
}

/// The ends of an interval, and their texts as they were released: rounded outward already.
#[derive(Debug, Clone, PartialEq)]
pub struct PrintedInterval {
    pub low: f64,
    pub high: f64,
    pub texts: (String, String),
}

impl PrintedInterval {
    /// `None` where an end is no number.
    pub fn new(low: &str, high: &str) -> Option<Self> {
        Some(Self {
            low: low.parse().ok()?,
            high: high.parse().ok()?,
            texts: (low.to_owned(), high.to_owned()),
        })
    }

    pub fn half(&self) -> f64 {
        (self.high - self.low) / 2.0
    }

    fn is_finite(&self) -> bool {
        self.low.is_finite() && self.high.is_finite()
    }
}

impl Bar {
    fn points(&self) -> impl Iterator<Item = f64> {
        let ends = self
            .drawable_interval()
            .map(|interval| (interval.low, interval.high));
        let (low, high) = ends.unwrap_or((self.value, self.value));
        [self.value, low, high].into_iter().chain(self.exact)
    }

    /// The interval, where it can be drawn.
    fn drawable_interval(&self) -> Option<&PrintedInterval> {
        self.interval
            .as_ref()
            .filter(|interval| interval.is_finite())
    }

    /// The value to the digits of its error.
    fn value_text(&self) -> String {
        match &self.interval {
            Some(interval) => within_error(self.value, interval.half()),
            None => rounded_number(self.value),
        }
    }

    /// The bar in words, for readers who do not see it.
    fn words(&self) -> String {
        let interval = self.interval.as_ref().map_or_else(String::new, |interval| {
            let (low, high) = &interval.texts;
            format!(", 95 % between {low} and {high}")
        });
        let exact = self.exact.map_or_else(String::new, |exact| {
            format!("; exact {}", rounded_number(exact))
        });
        format!("{}: {}{interval}{exact}", self.label, self.value_text())
    }
}

/// A date such as 2024-01-08 as a short label, `8 Jan`. `None` for other texts.
pub fn day_label(text: &str) -> Option<String> {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let [year, month, day] = <[&str; 3]>::try_from(text.split('-').collect::<Vec<_>>()).ok()?;
    let digits = |part: &str, length: usize| {
        (part.len() == length && part.bytes().all(|byte| byte.is_ascii_digit())).then_some(())
    };
    digits(year, 4).and(digits(month, 2)).and(digits(day, 2))?;
    let (year, month) = (year.parse::<u32>().ok()?, month.parse::<usize>().ok()?);
    let day = day.parse::<u32>().ok()?;
    let name = MONTHS.get(month.checked_sub(1)?)?;
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + u32::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    (1..=days).contains(&day).then(|| format!("{day} {name}"))
}

/// A number with as many digits as a reader needs.
pub fn rounded_number(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 || size == 0.0 => 2,
        // Three digits that count.
        size => (2.0 - size.log10().floor()).min(15.0) as usize,
    };
    plain(value, digits)
}

/// A number with two digits of its error, and all digits before the point.
pub fn within_error(value: f64, half: f64) -> String {
    if !(half > 0.0 && half.is_finite() && value.is_finite()) {
        return rounded_number(value);
    }
    let digits = (1.0 - half.log10().floor()).clamp(0.0, 15.0) as usize;
    plain(value, digits)
}

fn plain(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    let short = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => group_digits(&text),
    };
    match short.as_str() {
        "-0" => "0".to_owned(),
        _ => short,
    }
}

/// `12345` as `12,345`.
fn group_digits(text: &str) -> String {
    let (sign, digits) = text
        .strip_prefix('-')
        .map_or(("", text), |rest| ("-", rest));
    let mut out = String::from(sign);
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// From values to per cent of a length.
#[derive(Debug, Clone, Copy)]
struct Scale {
    low: f64,
    high: f64,
    /// Per cent at `low` and at `high`.
    from: f64,
    to: f64,
}

impl Scale {
    /// Over all values, and zero where bars start there.
    fn over(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let (mut low, mut high) = (0.0_f64, 0.0_f64);
        for value in values.filter(|value| value.is_finite()) {
            (low, high) = (low.min(value), high.max(value));
        }
        if high <= low {
            high = low + 1.0;
        }
        Self {
            low,
            high,
            from,
            to,
        }
    }

    fn place(&self, value: f64) -> f64 {
        let share = (value - self.low) / (self.high - self.low);
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }

    fn at(&self, value: f64) -> String {
        percent(self.place(value))
    }

    /// Three or four round values within the scale.
    fn ticks(&self) -> Vec<f64> {
        let rough = (self.high - self.low) / 4.0;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .into_iter()
            .map(|times| times * power)
            .find(|step| *step >= rough)
            .unwrap_or(rough);
        let first = (self.low / step).ceil();
        (0..8)
            .map(|at| (first + f64::from(at)) * step)
            .take_while(|tick| *tick <= self.high)
            .collect()
    }
}

fn percent(value: f64) -> String {
    format!("{value:.2}%")
}

/// One row a group: bars with whiskers, and a dot where the exact value is.
pub fn rows(bars: &[Bar]) -> Markup {
    let scale = Scale::over(bars.iter().flat_map(Bar::points), 1.0, 98.5);
    html! {
        div .rows {
            @for bar in bars {
                div .label { (bar.label) }
                svg .lane role="img" aria-label=(bar.words()) {
                    (lying(bar, &scale))
                }
                div .figure { (bar.value_text()) }
            }
        }
    }
}

fn lying(bar: &Bar, scale: &Scale) -> Markup {
    let (zero, end) = (scale.place(0.0), scale.place(bar.value));
    let (left, width) = (zero.min(end), (end - zero).abs());
    html! {
        line .axis x1=(percent(zero)) x2=(percent(zero)) y1="0" y2="100%" {}
        rect .bar .new[bar.is_new] x=(percent(left)) width=(percent(width)) y="22%" height="56%" {}
        @if let Some(PrintedInterval { low, high, .. }) = bar.drawable_interval() {
            line .whisker x1=(scale.at(*low)) x2=(scale.at(*high)) y1="50%" y2="50%" {}
            @for end in [*low, *high] {
                line .whisker x1=(scale.at(end)) x2=(scale.at(end)) y1="30%" y2="70%" {}
            }
        }
        @if let Some(exact) = bar.exact {
            circle .dot cx=(scale.at(exact)) cy="50%" r="4.5" {}
        }
    }
}

/// The most labels below columns.
const LABELS_MAX: usize = 30;
/// The most dates below columns.
const DAYS_MAX: usize = 14;
/// More columns have smaller dots.
const WIDE_MAX: usize = 30;

/// One column a group, for keys that are ordered numbers or dates.
pub fn columns(bars: &[Bar]) -> Markup {
    let scale = Scale::over(bars.iter().flat_map(Bar::points), 88.0, 4.0);
    let step = 92.0 / bars.len().max(1) as f64;
    let middle = |at: usize| 7.0 + step * (at as f64 + 0.5);
    let days: Option<Vec<String>> = bars.iter().map(|bar| day_label(&bar.label)).collect();
    let label = |at: usize| days.as_ref().and_then(|days| days.get(at));
    let most = if days.is_some() { DAYS_MAX } else { LABELS_MAX };
    let every = bars.len().div_ceil(most).max(1);
    // Every second label goes where the page is narrow.
    let thin = if bars.len() > 8 { 2 } else { 1 };
    let radius = if bars.len() > WIDE_MAX { "2.5" } else { "4.5" };
    html! {
        svg .columns role="group" aria-label="Answer by group" {
            @for tick in scale.ticks() {
                line .grid x1="7%" x2="100%" y1=(scale.at(tick)) y2=(scale.at(tick)) {}
                text .tick x="6%" y=(scale.at(tick)) dy="4" text-anchor="end" {
                    (rounded_number(tick))
                }
            }
            @for (at, bar) in bars.iter().enumerate() {
                g role="img" aria-label=(bar.words()) {
                    title { (bar.words()) }
                    (column(bar, &scale, (middle(at), step), radius))
                }
                @if at.is_multiple_of(every) {
                    text .tick .alternate[at / every % thin == 1] x=(percent(middle(at))) y="97%"
                        text-anchor="middle" { (label(at).unwrap_or(&bar.label)) }
                }
            }
        }
    }
}

fn column(bar: &Bar, scale: &Scale, (x, step): (f64, f64), radius: &str) -> Markup {
    let (zero, end) = (scale.place(0.0), scale.place(bar.value));
    let (top, height) = (zero.min(end), (end - zero).abs());
    let (left, width) = (x - step * 0.34, step * 0.68);
    let cap = step * 0.16;
    html! {
        rect .bar .new[bar.is_new] x=(percent(left)) width=(percent(width)) y=(percent(top))
            height=(percent(height)) {}
        @if let Some(PrintedInterval { low, high, .. }) = bar.drawable_interval() {
            line .whisker x1=(percent(x)) x2=(percent(x)) y1=(scale.at(*low))
                y2=(scale.at(*high)) {}
            @for end in [*low, *high] {
                line .whisker x1=(percent(x - cap)) x2=(percent(x + cap)) y1=(scale.at(end))
                    y2=(scale.at(end)) {}
            }
        }
        @if let Some(exact) = bar.exact {
            circle .dot cx=(percent(x)) cy=(scale.at(exact)) r=(radius) {}
        }
    }
}

/// A line over numbered steps or values, with a band, dots and marks.
#[derive(Debug)]
pub struct Plot<'a> {
    pub label: &'a str,
    /// Left to right.
    pub line: &'a [(f64, f64)],
    /// The band around the line: x, low, high.
    pub band: &'a [(f64, f64, f64)],
    pub dots: &'a [(f64, f64)],
    /// A horizontal line at the exact value.
    pub level: Option<f64>,
    /// A vertical line at the exact value.
    pub mark: Option<f64>,
    pub horizontal: (f64, f64),
    pub vertical: (f64, f64),
    pub below: &'a str,
}

/// Draws a plot.
pub fn plot(plot: &Plot<'_>) -> Markup {
    let x = Scale {
        low: plot.horizontal.0,
        high: plot.horizontal.1,
        from: 9.0,
        to: 98.0,
    };
    let y = Scale {
        low: plot.vertical.0,
        high: plot.vertical.1,
        from: 86.0,
        to: 4.0,
    };
    let point = |(at, value): (f64, f64)| format!("{:.2},{:.2} ", x.place(at), y.place(value));
    let path: String = plot.line.iter().map(|dot| point(*dot)).collect();
    let upper = plot.band.iter().map(|(at, _, high)| point((*at, *high)));
    let lower = plot
        .band
        .iter()
        .rev()
        .map(|(at, low, _)| point((*at, *low)));
    let band: String = upper.chain(lower).collect();
    html! {
        svg .plot role="img" aria-label=(plot.label) {
            @for tick in y.ticks() {
                line .grid x1="9%" x2="98%" y1=(y.at(tick)) y2=(y.at(tick)) {}
                text .tick x="8%" y=(y.at(tick)) dy="4" text-anchor="end" { (rounded_number(tick)) }
            }
            svg viewBox="0 0 100 100" preserveAspectRatio="none" width="100%" height="100%" {
                @if !band.is_empty() { polygon .band points=(band.trim_end()) {} }
                @if !path.is_empty() { polyline .line points=(path.trim_end()) {} }
            }
            @if let Some(level) = plot.level {
                line .truth x1="9%" x2="98%" y1=(y.at(level)) y2=(y.at(level)) {}
            }
            @if let Some(mark) = plot.mark {
                line .truth x1=(x.at(mark)) x2=(x.at(mark)) y1="4%" y2="86%" {}
                circle .dot cx=(x.at(mark)) cy="86%" r="4.5" {}
            }
            @for (at, value) in plot.dots {
                circle .answer cx=(x.at(*at)) cy=(y.at(*value)) r="2.5" {}
            }
            @for tick in x.ticks() {
                text .tick x=(x.at(tick)) y="96%" text-anchor="middle" { (rounded_number(tick)) }
            }
        }
        p .below { (plot.below) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let shown = [4711.0, -12345.6, 12.34, 5.0, 0.5].map(rounded_number);
        assert_eq!(shown, ["4,711", "-12,346", "12.3", "5", "0.5"]);
        assert_eq!(within_error(-0.3, 50.0), "0");
        assert_eq!(within_error(-0.004, 0.5), "0");
        assert_eq!(within_error(-0.3, 0.5), "-0.3");
    }

    #[test]
    fn scales_have_round_ticks() {
        let scale = Scale::over([63.0, 7.0].into_iter(), 0.0, 100.0);
        assert_eq!(scale.ticks(), [0.0, 20.0, 40.0, 60.0]);
        assert_eq!(scale.at(63.0), "100.00%");
        let empty = Scale::over(std::iter::empty(), 0.0, 100.0);
        assert_eq!(empty.at(0.0), "0.00%");
    }

    #[test]
    fn dates_have_short_labels() {
        assert_eq!(day_label("2024-01-08").as_deref(), Some("8 Jan"));
        assert_eq!(day_label("2024-12-31").as_deref(), Some("31 Dec"));
        assert_eq!(day_label("2024-02-29").as_deref(), Some("29 Feb"));
        for other in [
            "2024-13-01",
            "2024-00-01",
            "2024-01-00",
            "2024-04-31",
            "2023-02-29",
            "1900-02-29",
            "2024-1-08",
            "24-01-08",
            "a-b-c",
            "12",
            "",
        ] {
            assert_eq!(day_label(other), None, "{other}");
        }
    }

    /// Labels of many columns would cover each other.
    #[test]
    fn many_columns_have_few_labels() {
        let bar = |at: usize| Bar {
            label: format!("2024-{:02}-{:02}", 1 + at / 28, 1 + at % 28),
            value: at as f64,
            interval: None,
            exact: None,
            is_new: at == 99,
        };
        let bars: Vec<Bar> = (0..100).map(bar).collect();
        let drawn = columns(&bars).into_string();
        assert_eq!(drawn.matches("text-anchor=\"middle\"").count(), 13);
        assert_eq!(drawn.matches("bar new").count(), 1);
    }

    #[test]
    fn labels_are_escaped() {
        let bar = Bar {
            label: "<script>".to_owned(),
            value: 1.0,
            interval: None,
            exact: None,
            is_new: false,
        };
        let drawn = rows(std::slice::from_ref(&bar)).into_string() + &columns(&[bar]).into_string();
        assert!(!drawn.contains("<script>") && drawn.contains("&lt;script&gt;"));
        assert!(!drawn.contains("style="));
    }
}

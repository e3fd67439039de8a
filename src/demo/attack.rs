//! Three attacks on the demo's proxy, as an analyst with a password can make them.

use super::session::{DemoSession, Refused};

/// The attacker knows this of one woman, and that nobody else in the survey is like her.
pub const HER: &str = "race = 'black' AND birth_year = 1947 AND years_of_school = 18";
/// The wages that the policy lets count, which is all that is known of hers before.
pub const WAGES: (f64, f64) = (0.0, 30.0);
/// How often the same question is asked.
pub const REPEATS: usize = 100;
/// The number of answers bought to be averaged, and their query.
pub const BOUGHT: usize = 20;
const EPSILON: &str = "0.05";

const SUM: &str = "sum(hourly_wage)";
const WORKERS: &str = "nls.women JOIN nls.interviews USING (woman_id) WHERE year = 1988";
const COUNT: &str = "count(*)";
const GRADUATES: &str = "nls.women WHERE college_graduate = 1";

/// The sum of all wages of 1988.
pub fn sum_of_all() -> String {
    format!("SELECT {SUM} FROM {WORKERS}")
}

/// The sum of all wages of 1988 without hers.
pub fn sum_without_her() -> String {
    format!("SELECT {SUM} FROM {WORKERS} AND NOT ({HER})")
}

/// The query that the averaging attack repeats.
pub fn count_graduates() -> String {
    format!("SELECT {COUNT} FROM {GRADUATES}")
}

/// A noisy number, and the standard deviation of its noise.
#[derive(Debug, Clone, Copy)]
pub struct NoisyNumber {
    pub value: f64,
    pub error: f64,
}

/// The difference of two sums that only one woman's rows separate.
#[derive(Debug)]
pub struct DifferencingAttack {
    pub all: NoisyNumber,
    pub without: NoisyNumber,
    /// The role's total spending, as the mu of Gaussian privacy.
    pub mu: f64,
}

impl DifferencingAttack {
    pub fn wage(&self) -> NoisyNumber {
        NoisyNumber {
            value: self.all.value - self.without.value,
            error: self.all.error.hypot(self.without.error),
        }
    }

    /// How likely each wage is after the attack, as a multiple of how likely it was before, in
    /// `steps` equal steps over all wages.
    pub fn belief(&self, steps: usize) -> Vec<(f64, f64)> {
        let NoisyNumber { value, error } = self.wage();
        let (low, high) = WAGES;
        let wages = (0..=steps).map(|at| low + (high - low) * at as f64 / steps as f64);
        let weights: Vec<(f64, f64)> = wages
            .map(|wage| (wage, (-((wage - value) / error).powi(2) / 2.0).exp()))
            .collect();
        let total: f64 = weights.iter().map(|(_, weight)| weight).sum();
        let even = total / weights.len() as f64;
        weights
            .into_iter()
            .map(|(wage, weight)| (wage, if even > 0.0 { weight / even } else { 1.0 }))
            .collect()
    }

    /// The most often that anybody who saw everything that was answered so far is right about
    /// whether she is in the survey, if a coin decided it: the area of a normal curve up to mu / 2
    /// (Dong, Roth and Su 2019).
    pub fn best_guess(&self) -> f64 {
        libm::erfc(-self.mu / 2.0 / std::f64::consts::SQRT_2) / 2.0
    }
}

/// Answers to one question, and the standard deviation of the noise in each.
#[derive(Debug)]
pub struct Answers {
    pub values: Vec<f64>,
    pub error: f64,
}

impl Answers {
    /// The mean of the first answers, for each number of them.
    pub fn means(&self) -> Vec<f64> {
        let mut sum = 0.0;
        let mean = |(at, value): (usize, &f64)| {
            sum += value;
            sum / (at + 1) as f64
        };
        self.values.iter().enumerate().map(mean).collect()
    }
}

async fn measure(session: &mut DemoSession, what: &str, of: &str) -> Result<NoisyNumber, Refused> {
    let sql = format!("SELECT {what}, pgveil.stderr({what}) FROM {of}");
    let reply = session.ask(&sql).await?;
    let number =
        |at: usize| -> Option<f64> { reply.rows.first()?.get(at)?.as_deref()?.parse().ok() };
    match (number(0), number(1)) {
        (Some(value), Some(error)) => Ok(NoisyNumber { value, error }),
        (None, _) | (_, None) => Err(Refused::new("the answer has no number")),
    }
}

/// The mu that the role has spent.
async fn spent_mu(session: &mut DemoSession) -> Result<f64, Refused> {
    let reply = session.ask("SELECT mu_spent FROM pgveil.budget").await?;
    let value = reply
        .rows
        .first()
        .and_then(|row| row.first()?.as_deref()?.parse().ok());
    value.ok_or_else(|| Refused::new("the budget is unknown"))
}

/// Asks for all wages, and for all but hers.
///
/// # Errors
/// The proxy's, such as an exhausted budget.
pub async fn difference(session: &mut DemoSession) -> Result<DifferencingAttack, Refused> {
    let all = measure(session, SUM, WORKERS).await?;
    let without = measure(session, SUM, &format!("{WORKERS} AND NOT ({HER})")).await?;
    let mu = spent_mu(session).await?;
    Ok(DifferencingAttack { all, without, mu })
}

/// Asks one question a hundred times.
///
/// # Errors
/// The proxy's.
pub async fn repeats(session: &mut DemoSession) -> Result<Answers, Refused> {
    answers(session, REPEATS).await
}

/// Buys fresh answers of one question, cheap ones.
///
/// # Errors
/// The proxy's.
pub async fn averaging(session: &mut DemoSession) -> Result<Answers, Refused> {
    for (name, value) in [("reuse", "off"), ("epsilon", EPSILON), ("useless", "allow")] {
        session
            .ask(&format!("SET pgveil.{name} = '{value}'"))
            .await?;
    }
    answers(session, BOUGHT).await
}

async fn answers(session: &mut DemoSession, times: usize) -> Result<Answers, Refused> {
    let (mut values, mut error) = (Vec::new(), 0.0);
    for _ in 0..times {
        let measured = measure(session, COUNT, GRADUATES).await?;
        values.push(measured.value);
        error = measured.error;
    }
    Ok(Answers { values, error })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_that_is_wide_leaves_belief_flat() {
        let wide = NoisyNumber {
            value: 1000.0,
            error: 300.0,
        };
        let mut found = DifferencingAttack {
            all: wide,
            without: wide,
            mu: 0.0,
        };
        let belief = found.belief(60);
        assert_eq!(belief.len(), 61);
        assert!(belief.iter().all(|(_, times)| (0.99..1.01).contains(times)));
        assert!((found.best_guess() - 0.5).abs() < 1e-12);
        found.mu = 2.0;
        assert!((found.best_guess() - 0.841_344_746).abs() < 1e-8);
    }

    #[test]
    fn she_is_alone() {
        let (_, women) = super::super::data::TABLES[2];
        let like_her = |line: &&str| line.contains(",1947,black,18,");
        let text = std::str::from_utf8(women).unwrap();
        assert_eq!(text.lines().filter(like_her).count(), 1);
    }
}

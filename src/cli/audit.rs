//! `pgveil audit` attacks the answers that a proxy of this policy gives over made-up rows. It also
//! compares the exact influence of one unit with the declared sensitivity.

mod report;
mod stage;
mod trials;

use indicatif::{ProgressBar, ProgressStyle};

use super::arguments::AuditOptions;
use super::{Failure, budget, signal, start};
use crate::audit::{
    AuditQuestion, CANARY, Influence, Trials, attack, attempts, influence, provable, questions,
};
use crate::ir::ReleaseId;
use crate::ledger::{AccountSpec, Address, Event, Ledger, Origin, Record};
use crate::mechanism::Loss;
use crate::policy::{File, FileDigest};
use crate::rewrite::Plan;
use report::{AttackAttempt, AuditReport, AuditedQuestion, MeasuredInfluence};
use stage::Stage;

/// Probability that the audit blames a sound proxy, over all questions.
const ALARM: f64 = 1e-3;
/// Number of units whose influence on each question is measured. The canary is one of them.
const MEASURED: usize = 6;

pub async fn run(options: AuditOptions) -> Result<(), Failure> {
    let token = signal::token()?;
    // Read once: the verdict is of the file that was audited, whatever stands there afterwards.
    let file = start::read(&options.file)?;
    let kept = match options.record {
        true => Some(Kept::of(&file)?),
        false => None,
    };
    let stage = signal::unless(&token, Stage::build(file)).await?;
    let audited = signal::unless(&token, run_audit(&stage, &options)).await;
    stage.stop().await;
    let report = audited?;
    if options.json {
        println!(
            "{}",
            serde_json::to_string_pretty(&report).map_err(Failure::new)?
        );
    } else {
        report.lines().iter().for_each(|line| println!("{line}"));
    }
    if let Some(kept) = kept {
        kept.record(&report).await?;
    }
    if report.findings() == 0 {
        Ok(())
    } else {
        Err(Failure::Shown)
    }
}

/// Where the verdict is kept, and of which policy it is.
struct Kept {
    ledger: Address,
    owner: AccountSpec,
    roles: Vec<AccountSpec>,
    digest: FileDigest,
}

impl Kept {
    fn of(file: &File) -> Result<Self, Failure> {
        let (owner, roles) = start::accounts(&file.privacy, &file.roles)?;
        Ok(Self {
            ledger: start::ledger(file)?,
            owner,
            roles,
            digest: file.digest,
        })
    }

    /// Keeps the verdict in the ledger, as an act on the policy of this digest.
    async fn record(self, report: &AuditReport) -> Result<(), Failure> {
        let event = Event::Act {
            act: "audit".to_owned(),
            target: self.digest.to_string(),
            why: report.verdict(),
        };
        let act = Record::now(&budget::user(), 0, Origin::default(), event);
        let recorded = Ledger::record_at(self.ledger, self.owner, &self.roles, act).await;
        recorded.map_err(start::unread)
    }
}

async fn run_audit(stage: &Stage, options: &AuditOptions) -> Result<AuditReport, Failure> {
    let asked = questions(stage.policy(), &stage.population);
    if asked.is_empty() {
        let why = stage.population.left_out.join("; ");
        return Err(Failure::with_remedy(
            format_args!("no private table could be filled with made-up rows: {why}"),
            "Show other columns in the policy.",
        ));
    }
    let plans = stage.plans(&asked).await?;
    let (mut measured, mut unmeasured) = (Vec::new(), Vec::new());
    for (question, plan) in asked.iter().zip(&plans) {
        measure(stage, question, plan, &mut measured, &mut unmeasured).await?;
    }
    let bar = bar(&asked, options.trials);
    // The first purchase decides between Laplace and Gaussian noise. After it, all trials have the
    // same distribution.
    stage.buy(&asked, 1, &ProgressBar::hidden()).await?;
    let plans = stage.plans(&asked).await?;
    let before = stage.spent_loss().await?;
    let with = stage.buy(&asked, options.trials, &bar).await?;
    stage.fill(Some(CANARY)).await?;
    let without = stage.buy(&asked, options.trials, &bar).await?;
    bar.finish_and_clear();
    let spent = stage.spent_loss().await?;
    let alarm = ALARM / asked.len() as f64;
    let mut verdicts = Vec::new();
    for (((question, plan), with), without) in asked.iter().zip(&plans).zip(with).zip(without) {
        let loss = plan.loss();
        let gain = attack(&Trials { with, without }, loss.delta.to_f64(), alarm);
        verdicts.push(AuditedQuestion::new(question, mechanism(plan), loss, gain));
    }
    let charged = plans
        .iter()
        .try_fold(Loss::ZERO, |sum, plan| sum.compose(plan.loss()));
    let books = charged.is_some_and(|once| {
        trials::times(once, 2 * options.trials) == trials::since(spent, before)
    });
    let mut refused = Vec::new();
    for sql in attempts(stage.policy(), &stage.population) {
        refused.push(AttackAttempt {
            came_back: stage.attempt(&sql).await?,
            sql,
        });
    }
    let kept = stage.spent_loss().await? == spent;
    let left_out = stage
        .population
        .left_out
        .iter()
        .chain(&stage.warnings)
        .chain(&unmeasured)
        .cloned()
        .collect();
    let most = provable(verdicts.first().map_or(0, |asked| asked.judged), alarm);
    Ok(AuditReport {
        policy: options.file.display().to_string(),
        unit: stage.policy().privacy.unit.clone(),
        trials: options.trials,
        alarm: ALARM,
        provable_mu: most.mu,
        provable_epsilon: most.epsilon,
        asked: verdicts,
        measured,
        refused,
        books,
        kept,
        left_out,
    })
}

/// Measures the influence of units on each release of a question. Releases that show no influence
/// are listed as unmeasured.
async fn measure(
    stage: &Stage,
    question: &AuditQuestion,
    plan: &Plan,
    measured: &mut Vec<MeasuredInfluence>,
    unmeasured: &mut Vec<String>,
) -> Result<(), Failure> {
    let part = plan.part(|_| true).read_back();
    let part = part.map_err(|refusal| Failure::new(refusal.message))?;
    for release in (0..plan.releases().len()).map(ReleaseId) {
        match influence(&stage.client, &stage.population, &part, release, MEASURED)
            .await
            .map_err(start::database_failed)?
        {
            Some(Influence {
                share,
                holds,
                is_read,
                units,
            }) => {
                if share == 0.0 && is_read {
                    unmeasured.push(format!(
                        "{}: no {} moved its sums",
                        question.name,
                        stage.policy().privacy.unit
                    ));
                }
                measured.push(MeasuredInfluence {
                    question: question.name.clone(),
                    share,
                    units,
                    holds,
                    is_read,
                });
            }
            None => unmeasured.push(format!(
                "{}: it has no sums whose movement could be measured",
                question.name
            )),
        }
    }
    Ok(())
}

/// The mechanism of the plan's vector.
fn mechanism(plan: &Plan) -> &'static str {
    plan.releases()
        .iter()
        .find_map(|release| release.price())
        .map_or("none", |price| price.mechanism.name())
}

fn bar(asked: &[AuditQuestion], trials: u32) -> ProgressBar {
    let bar = ProgressBar::new(asked.len() as u64 * u64::from(trials) * 2);
    if let Ok(style) =
        ProgressStyle::with_template("{msg} [{bar:32}] {pos}/{len} answers, {eta} left")
    {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.set_message("Attacking");
    bar
}

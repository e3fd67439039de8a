//! The accuracy of answers: 31 plain questions to a generated shop whose policy has generous
//! bounds. Each is asked many times through the wire and compared with the exact answer and with
//! the best clip for the data. docs/performance.md says what the columns mean. Exits with 1 where
//! a goal is missed.
//!
//! `cargo bench --bench worth -- --households 2500 --seed 1 --draws 20`

mod measure;
mod oracle;
mod peers;
mod questions;
mod report;
mod shop;
mod stage;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use pgveil::mechanism::{Fixed, mu_of};

use measure::{Exact, Measured, measure};
use questions::{QUESTIONS, Question};
use report::{Others, Setting, Sums};
use stage::{DELTA, Stage, set};

#[derive(Parser)]
#[command(
    name = "worth",
    about = "What answers about a generated shop are worth"
)]
struct Arguments {
    /// 1,000 to 50,000 of them, with 1 to 5,000 lines each
    #[arg(long, default_value_t = 2_500)]
    households: usize,
    /// Seed of the shop; a random one unless it is given
    #[arg(long)]
    seed: Option<u64>,
    /// How often each question is asked at each epsilon
    #[arg(long, default_value_t = 10)]
    draws: usize,
    #[arg(long, value_delimiter = ',', default_value = "0.35,0.5")]
    epsilon: Vec<f64>,
    /// A session setting, such as pgveil.clip=auto; may be repeated
    #[arg(long)]
    set: Vec<String>,
    /// Questions whose name contains this
    #[arg(long, default_value = "")]
    only: String,
    /// Another build's program
    #[arg(long, default_value = env!("CARGO_BIN_EXE_pgveil"))]
    program: PathBuf,
    /// Writes all figures there
    #[arg(long)]
    json: Option<PathBuf>,
    /// The JSON of an earlier run of the same shop; its errors become a column
    #[arg(long)]
    compare: Vec<PathBuf>,
    /// A Python that has SmartNoise SQL or Qrlew; benches/worth/peers.py says how to get it
    #[arg(long)]
    peers: Option<PathBuf>,
    /// Given by cargo
    #[arg(long, hide = true)]
    bench: bool,
}

fn read(path: &PathBuf, setting: &Setting) -> Result<Others, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    Others::of_run(&name, &text, setting)
}

/// Whether all goals are reached.
async fn run(arguments: Arguments) -> Result<bool, String> {
    let seed = arguments
        .seed
        .unwrap_or_else(|| rand::random::<u64>() >> 32);
    let stage = Stage::start(&arguments.program, arguments.households, seed).await;
    let setting = Setting {
        program: arguments.program.display().to_string(),
        seed,
        households: arguments.households,
        baskets: stage.baskets,
        lines: stage.lines,
        draws: arguments.draws,
        set: arguments.set.clone(),
    };
    setting.print();
    set(&stage.analyst, "pgveil.reuse", "off").await?;
    set(&stage.analyst, "pgveil.notices", "off").await?;
    for pair in &arguments.set {
        let (name, value) = pair
            .split_once('=')
            .ok_or_else(|| format!("--set {pair}: write NAME=VALUE"))?;
        set(&stage.analyst, name, value).await?;
    }
    let others = arguments.compare.iter().map(|path| read(path, &setting));
    let mut others: Vec<Others> = others.collect::<Result<_, _>>()?;
    let questions = QUESTIONS.iter();
    let questions: Vec<&Question> = questions
        .filter(|question| question.name.contains(&arguments.only))
        .collect();
    if let Some(python) = &arguments.peers {
        let asked = (arguments.epsilon.as_slice(), arguments.draws);
        others.extend(peers::ask(python, &stage, &questions, asked).await?);
    }

    let found = ask(&stage, &questions, &arguments.epsilon, arguments.draws).await?;
    let (mut all, mut sums) = (Vec::new(), Vec::new());
    for (epsilon, here) in found {
        report::print_head(&others);
        here.iter()
            .for_each(|measured| report::print_row(measured, &others));
        let sum = Sums::of(epsilon, &here);
        sum.print();
        others.iter().for_each(|other| other.print(&here));
        println!();
        all.extend(here);
        sums.push(sum);
    }
    if let Some(path) = arguments.json {
        let text = report::json(&setting, &all, &sums, &others);
        std::fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    let missed: Vec<String> = sums.iter().flat_map(Sums::missed).collect();
    missed.iter().for_each(|line| println!("{line}"));
    Ok(missed.is_empty())
}

/// All questions at each epsilon. What the owner knows of a question is found once.
async fn ask(
    stage: &Stage,
    questions: &[&Question],
    epsilons: &[f64],
    draws: usize,
) -> Result<Vec<(f64, Vec<Measured>)>, String> {
    let mut found: Vec<(f64, Vec<Measured>)> = epsilons.iter().map(|e| (*e, Vec::new())).collect();
    for (number, question) in (1..).zip(questions) {
        let start = std::time::Instant::now();
        let exact = Exact::find(&stage.owner, question).await;
        let known = start.elapsed().as_secs_f64();
        for (epsilon, measured) in &mut found {
            let fixed = Fixed::round_down;
            let mu = mu_of(fixed(*epsilon), fixed(DELTA)).ok_or("epsilon is out of reach")?;
            set(&stage.analyst, "pgveil.epsilon", &epsilon.to_string()).await?;
            let price = (*epsilon, mu.to_f64());
            measured.push(measure(&stage.analyst, &exact, question, price, draws).await);
        }
        eprintln!(
            "{number} of {}: {}, {known:.1} s for the owner's answers, {:.1} s in all",
            questions.len(),
            question.name,
            start.elapsed().as_secs_f64()
        );
    }
    Ok(found)
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

//! Chooses bounds from noisy counts of units.

use crate::ir::GroupingSet;
use crate::mechanism::Mechanism;
use crate::policy::{AutoBound, Finding, Scalar};
use crate::rewrite::emit::sql;
use crate::rewrite::{ReleasePlan, measure_deviation};

/// The probability that a search which finds units chooses an end beyond all of their values. Such
/// an end doubles the noise, or more. But the smaller this probability, the more values lie beyond
/// the chosen ends and are cut: below this one more is lost than saved.
const BETA: f64 = 0.05;

/// A cell that passes the lower threshold only counts as an end if it is within this many cells of
/// one that counts. Noise passes in far cells as often as in near ones, and each cell further out
/// doubles the noise of later answers.
const REACH: usize = 3;

/// Probability, over a whole search, that units are found where there are none. Such an end may lie
/// below every unit's values.
const BETA_OF_NONE: f64 = 1e-4;

/// The chosen ends, and the number of ends near which no unit was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Chosen {
    pub finding: Finding,
    pub unseen: u8,
}

/// The noisy counts that cells must exceed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Thresholds {
    /// The higher threshold. If no cell of a side exceeds it, the side has no unit.
    seen: f64,
    /// The lower threshold, for cells near one that exceeds `seen`. The outermost is the end.
    end: f64,
}

/// What cells of the release must exceed.
///
/// # Guarantee
/// With probability at least `1 - BETA` no empty cell of the release passes `end`, and with
/// `1 - BETA_OF_NONE` none passes `seen`. Each empty cell passes with probability at most
/// `1 - (1 - BETA)^(1/cells)`, and the draws are independent. Whether a cell with units passes
/// reveals nothing beyond the noisy counts.
///
/// # Reference
/// Wilson et al. 2020 (arXiv 1909.01917), section 5.1.1, for Laplace noise:
/// `-ln(2 - 2 (1 - beta)^(1/B)) / epsilon`; the same for a Gaussian by its own tail.
pub fn thresholds(release: &ReleasePlan) -> Thresholds {
    let cells: usize = match release.sets() {
        [] => release
            .keys()
            .iter()
            .map(|(_, rule)| listed_count(rule))
            .product(),
        sets => sets
            .iter()
            .flat_map(GroupingSet::keys)
            .map(|key| listed_count(&release.keys()[key.0].1))
            .sum(),
    };
    let deviation = release
        .measures()
        .first()
        .and_then(|measure| measure_deviation(release, measure))
        .unwrap_or(f64::INFINITY);
    let mechanism = release
        .price()
        .map_or(Mechanism::Gaussian, |price| price.mechanism);
    Thresholds::of(cells, mechanism, deviation)
}

impl Thresholds {
    fn of(cells: usize, mechanism: Mechanism, deviation: f64) -> Self {
        Self {
            seen: passing(BETA_OF_NONE, cells, mechanism, deviation),
            end: passing(BETA, cells, mechanism, deviation),
        }
    }

    /// The cells of a side that may be its end: those where units are seen, and from them on those
    /// that pass for an end, without a gap of [`REACH`] cells.
    fn possible_ends(self, counts: &[f64]) -> impl DoubleEndedIterator<Item = usize> {
        let mut passed: Vec<bool> = counts.iter().map(|count| *count > self.seen).collect();
        let places = 0..counts.len();
        for at in places.clone().chain(places.clone().rev()) {
            let near = at.saturating_sub(REACH)..(at + REACH + 1).min(counts.len());
            passed[at] |= counts[at] > self.end && passed[near].contains(&true);
        }
        places.filter(move |at| passed[*at])
    }
}

fn passing(beta: f64, cells: usize, mechanism: Mechanism, deviation: f64) -> f64 {
    let tail = -((-beta).ln_1p() / cells.max(1) as f64).exp_m1();
    // Plus one for rounding to whole units.
    1.0 + mechanism.upper_quantile(deviation, tail)
}

fn listed_count(rule: &crate::analyze::KeyRule) -> usize {
    match rule {
        crate::analyze::KeyRule::Domain(values) => values.len(),
        crate::analyze::KeyRule::Threshold => 0,
    }
}

/// The outermost edges that enough units reach.
///
/// `lowest[k]` counts the units whose least value is at or above edge k and below the next edge.
/// `highest[k]` counts the units whose greatest value is at or below edge k and above the previous
/// edge. Values beyond the outermost edges are counted at those edges. An end near which no unit is
/// found stays at the outermost edge; a number of rows then stays at `rows_limit`.
///
/// # Requires
/// `edges` ascend, at least two.
pub fn choose(
    sought: &AutoBound,
    edges: &[Scalar],
    lowest: &[f64],
    highest: &[f64],
    thresholds: Thresholds,
    rows_limit: u32,
) -> Chosen {
    let last = edges.len().saturating_sub(1);
    let top = thresholds.possible_ends(highest).next_back();
    let top = top.map(|at| at.min(last));
    let (lower, upper) = match sought {
        AutoBound::Rows => {
            let rows = top.and_then(|at| match edges.get(at) {
                Some(Scalar::Int(rows)) => u32::try_from(*rows).ok(),
                _ => None,
            });
            return Chosen {
                finding: Finding::Rows(rows.unwrap_or(rows_limit)),
                unseen: u8::from(rows.is_none()),
            };
        }
        AutoBound::Bounds {
            column: _,
            lower,
            upper,
        } => (lower, upper),
    };
    // An end given in the policy is already at its edge. An end that is searched leaves room for
    // the other.
    let mut low = if lower.is_some() {
        Some(0)
    } else {
        let bottom = thresholds.possible_ends(lowest).next();
        bottom.map(|at| at.min(last.saturating_sub(1)))
    };
    let mut high = if upper.is_some() {
        Some(last)
    } else {
        top.map(|at| at.max(1))
    };
    if let (Some(a), Some(b)) = (low, high) {
        if a == b {
            // All values are at one edge; a range needs a neighbouring edge.
            high = Some(b + 1);
        } else if a > b {
            // One of the two is an artefact of the noise.
            (low, high) = (
                lower.is_some().then_some(0),
                upper.is_some().then_some(last),
            );
        }
    }
    let text = |at: usize| edges.get(at).map_or_else(String::new, sql::scalar_text);
    let finding = Finding::Bounds {
        lower: text(low.unwrap_or(0)),
        upper: text(high.unwrap_or(last)),
    };
    Chosen {
        finding,
        unseen: u8::from(low.is_none()) + u8::from(high.is_none()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Type;
    use crate::mechanism::testing::Seeded;
    use crate::mechanism::{Noise, Randomness, normal};
    use crate::policy::{ColumnPosition, Search};

    const TEN: Thresholds = Thresholds {
        seen: 40.0,
        end: 10.0,
    };

    fn bounds(
        lower: Option<i64>,
        upper: Option<i64>,
        lowest: &[f64],
        highest: &[f64],
    ) -> (String, String, u8) {
        let edges: Vec<Scalar> = [-4, -2, -1, 0, 1, 2, 4].map(Scalar::Int).to_vec();
        let sought = AutoBound::Bounds {
            column: ColumnPosition(0),
            lower: lower.map(Scalar::Int),
            upper: upper.map(Scalar::Int),
        };
        let Chosen { finding, unseen } = choose(&sought, &edges, lowest, highest, TEN, 7);
        let Finding::Bounds { lower, upper } = finding else {
            panic!("{finding:?}")
        };
        (lower, upper, unseen)
    }

    #[test]
    fn the_outermost_cells_that_pass_are_the_ends() {
        let none = [0.0; 7];
        let at = |cells: &[usize]| {
            let mut counts = none;
            cells.iter().for_each(|cell| counts[*cell] = 50.0);
            counts
        };
        assert_eq!(
            bounds(None, None, &at(&[3]), &at(&[4, 5])),
            ("0".to_owned(), "2".to_owned(), 0)
        );
        assert_eq!(
            bounds(None, None, &at(&[1, 5]), &at(&[2])),
            ("-2".to_owned(), "-1".to_owned(), 0)
        );
        assert_eq!(
            bounds(None, None, &none, &at(&[4])),
            ("-4".to_owned(), "1".to_owned(), 1)
        );
        assert_eq!(
            bounds(None, None, &none, &none),
            ("-4".to_owned(), "4".to_owned(), 2)
        );
        // All zeros: a range has two ends.
        assert_eq!(
            bounds(None, None, &at(&[3]), &at(&[3])),
            ("0".to_owned(), "1".to_owned(), 0)
        );
        assert_eq!(
            bounds(None, None, &at(&[6]), &at(&[6])),
            ("2".to_owned(), "4".to_owned(), 0)
        );
        // Only noise can put the lower end above the upper end.
        assert_eq!(
            bounds(None, None, &at(&[5]), &at(&[2])),
            ("-4".to_owned(), "4".to_owned(), 2)
        );
        assert_eq!(
            bounds(Some(-4), None, &[], &at(&[1])),
            ("-4".to_owned(), "-2".to_owned(), 0)
        );
        assert_eq!(
            bounds(None, Some(4), &at(&[2]), &[]),
            ("-1".to_owned(), "4".to_owned(), 0)
        );
        assert_eq!(
            bounds(None, Some(4), &none, &[]),
            ("-4".to_owned(), "4".to_owned(), 1)
        );
    }

    /// Alone and far from where units are seen, a cell has to show as they do.
    #[test]
    fn a_far_cell_is_no_end_unless_units_are_seen_in_it() {
        let edges: Vec<Scalar> = (0..20).map(|at| Scalar::Int(1 << at)).collect();
        let end = |cells: &[(usize, f64)]| {
            let mut counts = [0.0; 20];
            cells.iter().for_each(|(at, count)| counts[*at] = *count);
            choose(&AutoBound::Rows, &edges, &[], &counts, TEN, 7).finding
        };
        let rows = |at: u32| Finding::Rows(1 << at);
        assert_eq!(end(&[(5, 50.0), (8, 11.0)]), rows(8));
        assert_eq!(end(&[(5, 50.0), (9, 11.0)]), rows(5));
        assert_eq!(end(&[(5, 50.0), (8, 11.0), (11, 11.0)]), rows(11));
        assert_eq!(end(&[(5, 50.0), (19, 39.0)]), rows(5));
        assert_eq!(end(&[(5, 50.0), (19, 41.0)]), rows(19));
    }

    #[test]
    fn rows_fall_back_to_the_limit() {
        let edges: Vec<Scalar> = [1, 2, 4, 8].map(Scalar::Int).to_vec();
        let rows = |counts: &[f64]| choose(&AutoBound::Rows, &edges, &[], counts, TEN, 7);
        assert_eq!(
            rows(&[500.0, 0.0, 11.0, 9.0]),
            Chosen {
                finding: Finding::Rows(4),
                unseen: 0
            }
        );
        // No cell shows that there are any units.
        for unseen in [[0.0; 4], [39.0, 0.0, 11.0, 9.0]] {
            assert_eq!(rows(&unseen).unseen, 1);
        }
        assert_eq!(
            rows(&[0.0; 4]),
            Chosen {
                finding: Finding::Rows(7),
                unseen: 1
            }
        );
    }

    /// Sums of 20,000 units with a heavy tail, asked at epsilon 0.2, of which a fifth is the
    /// search's: the known range (0 to 2^20) alone gives a relative error of 0.81, the best clip
    /// 0.02, R2T 0.37. The seed decides every draw; the error is the root mean square of a hundred
    /// runs.
    #[test]
    fn a_fifth_of_the_budget_finds_a_clip_that_beats_the_declared_one() {
        const UNITS: usize = 20_000;
        let mut random = Seeded::new(20_261_121);
        let mut uniform = || (random.next_u64().unwrap() >> 11) as f64 / (1u64 << 53) as f64;
        let mut normal =
            || (-2.0 * (1.0 - uniform()).ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos();
        let sums: Vec<f64> = (0..UNITS)
            .map(|_| {
                (457f64.ln() - 1.125 + 1.5 * normal())
                    .exp()
                    .min(1_048_576.0)
            })
            .collect();
        let search = Search {
            table: 0,
            sought: AutoBound::Bounds {
                column: ColumnPosition(0),
                lower: Some(Scalar::Int(0)),
                upper: Some(Scalar::Int(1 << 20)),
            },
        };
        let edges = search.edges(&Type::Int4);
        let sought = AutoBound::Bounds {
            column: ColumnPosition(0),
            lower: Some(Scalar::Int(0)),
            upper: None,
        };
        let value = |edge: &Scalar| {
            if let Scalar::Int(value) = edge {
                *value as f64
            } else {
                panic!("{edge:?}")
            }
        };
        let mut counts = vec![0i128; edges.len()];
        sums.iter().for_each(|sum| {
            counts[edges.iter().position(|edge| *sum <= value(edge)).unwrap()] += 1
        });
        let total: f64 = sums.iter().sum();
        let (noise, passing) = (
            Noise::Laplace { scale: 25 },
            Thresholds::of(
                edges.len(),
                Mechanism::Laplace,
                25.0 * std::f64::consts::SQRT_2,
            ),
        );
        let mut squares = 0.0;
        for _ in 0..100 {
            let noisy: Vec<f64> = counts
                .iter()
                .map(|count| (count + noise.sample(&mut random).unwrap()) as f64)
                .collect();
            let Finding::Bounds { upper, .. } =
                choose(&sought, &edges, &[], &noisy, passing, 1).finding
            else {
                panic!("no bounds")
            };
            let clip: f64 = upper.parse().unwrap();
            let scale = (clip / 0.16) as u64;
            let answer = sums.iter().map(|sum| sum.min(clip)).sum::<f64>()
                + Noise::Laplace { scale }.sample(&mut random).unwrap() as f64;
            squares += (answer / total - 1.0).powi(2);
        }
        let error = (squares / 100.0).sqrt();
        assert!((0.03..0.1).contains(&error), "{error}");
    }

    /// Units that are spread so that no cell holds enough of them: noise alone must not pass for an
    /// end below all of them. 20,000 runs have 2 such ends in the mean; the seed decides.
    #[test]
    fn noise_alone_is_no_end() {
        let mut random = Seeded::new(20_261_124);
        let edges: Vec<Scalar> = (0..63).map(|at| Scalar::Int(1i64 << at.min(62))).collect();
        let deviation = 10.0 * std::f64::consts::SQRT_2;
        let thresholds = Thresholds::of(edges.len(), Mechanism::Laplace, deviation);
        let noise = Noise::Laplace { scale: 10 };
        let (mut below, mut unseen) = (0, 0);
        for _ in 0..20_000 {
            let count = |at| if (40..50).contains(&at) { 15.0 } else { 0.0 };
            let noisy: Vec<f64> = (0..edges.len())
                .map(|at| count(at) + noise.sample(&mut random).unwrap() as f64)
                .collect();
            let found = choose(&AutoBound::Rows, &edges, &[], &noisy, thresholds, 1);
            let end = thresholds.possible_ends(&noisy).next_back();
            unseen += usize::from(found.unseen == 1);
            below += usize::from(end.is_some_and(|at| at < 40));
        }
        assert!(below <= 10, "{below} ends below every unit");
        assert!(unseen > 15_000, "{unseen}");
    }

    #[test]
    fn thresholds_are_those_of_the_laws() {
        // Wilson et al.: -ln(2 - 2 (1 - beta)^(1/B)) / epsilon, of a Laplace law whose deviation is
        // sqrt 2 / epsilon.
        let (epsilon, cells) = (0.04f64, 20usize);
        let wanted = -(2.0 - 2.0 * (1.0 - BETA).powf(1.0 / cells as f64)).ln() / epsilon;
        let got = passing(
            BETA,
            cells,
            Mechanism::Laplace,
            std::f64::consts::SQRT_2 / epsilon,
        ) - 1.0;
        assert!((got / wanted - 1.0).abs() < 1e-6, "{got} {wanted}");
        let tail =
            1.0 - normal::cdf((passing(BETA, cells, Mechanism::Gaussian, 30.0) - 1.0) / 30.0);
        assert!(
            ((1.0 - tail).powi(20) - (1.0 - BETA)).abs() < 1e-9,
            "{tail}"
        );
    }
}

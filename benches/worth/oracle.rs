//! The least error that one clip can have: each household's vector over all groups of a question is
//! scaled to a length C, and noise C/mu is added to each group. C is chosen with the data in hand.

/// Candidates of C in an octave.
const STEPS: f64 = 8.0;

/// What one household adds to one group of a question.
#[derive(Clone, Copy)]
pub struct Cell {
    pub household: u32,
    pub group: u32,
    pub value: f64,
}

/// What each household adds to the groups of a question: cells of one household after the other.
pub struct Vectors(Vec<Cell>);

impl Vectors {
    pub fn new(mut cells: Vec<Cell>) -> Self {
        cells.sort_unstable_by_key(|cell| (cell.household, cell.group));
        Self(cells)
    }
}

/// Every group's value under one clip.
struct Clipped {
    length: f64,
    sums: Vec<f64>,
}

impl Vectors {
    /// The sums under every candidate clip: from one that cuts nearly all to one that cuts nobody.
    fn clipped(&self, groups: usize) -> Vec<Clipped> {
        let length = |cells: &[Cell]| {
            let squares: f64 = cells.iter().map(|cell| cell.value * cell.value).sum();
            squares.sqrt()
        };
        let households = self.0.chunk_by(|a, b| a.household == b.household);
        let mut vectors: Vec<(f64, &[Cell])> = households
            .map(|cells| (length(cells), cells))
            .filter(|(length, _)| *length > 0.0)
            .collect();
        vectors.sort_by(|a, b| a.0.total_cmp(&b.0));
        let longest = vectors.last().map_or(1.0, |(length, _)| *length);
        let shortest = vectors.first().map_or(1.0, |(length, _)| *length);
        let octaves = (longest / shortest).log2().clamp(0.0, 30.0) + 2.0;
        let steps = (octaves * STEPS).ceil() as i32;

        let mut whole = vec![0.0; groups];
        let mut directions = vec![0.0; groups];
        for (length, cells) in &vectors {
            for cell in *cells {
                directions[cell.group as usize] += cell.value / length;
            }
        }
        let mut rest = vectors.iter().peekable();
        let mut found = Vec::new();
        for step in (0..=steps).rev() {
            let clip = longest * (-f64::from(step) / STEPS).exp2();
            while let Some((length, cells)) = rest.next_if(|(length, _)| *length <= clip) {
                for cell in *cells {
                    whole[cell.group as usize] += cell.value;
                    directions[cell.group as usize] -= cell.value / length;
                }
            }
            let sums = whole.iter().zip(&directions);
            found.push(Clipped {
                length: clip,
                sums: sums
                    .map(|(whole, direction)| whole + clip * direction)
                    .collect(),
            });
        }
        found
    }
}

/// The candidate of the least root mean square error over the groups by their weights, and that
/// error.
fn best<'c>(candidates: &'c [Clipped], weights: &[f64], mu: f64) -> Option<(&'c Clipped, f64)> {
    let exact = &candidates.last()?.sums;
    let error = |clipped: &Clipped| {
        let noise = clipped.length / mu;
        let squares = clipped.sums.iter().zip(exact).zip(weights);
        let squares: f64 = squares
            .map(|((sum, exact), weight)| weight * ((sum - exact).powi(2) + noise * noise))
            .sum();
        (squares / weights.iter().sum::<f64>()).sqrt()
    };
    let errors = candidates.iter().map(|clipped| (clipped, error(clipped)));
    errors.min_by(|a, b| a.1.total_cmp(&b.1))
}

/// The root mean square error of the best single clip, over the groups by their weights.
pub fn of_sum(vectors: &Vectors, weights: &[f64], mu: f64) -> Option<f64> {
    Some(best(&vectors.clipped(weights.len()), weights, mu)?.1)
}

/// The least error of a quotient: numerator and denominator each have half of the price, and the
/// clip that is best for their own sums. The best pair for the quotient would be one whose two
/// biases happen to cancel, and nobody finds that pair without the answer. The noise counts to
/// first order.
pub fn of_quotient(above: &Vectors, below: &Vectors, weights: &[f64], mu: f64) -> Option<f64> {
    let (above, below) = (above.clipped(weights.len()), below.clipped(weights.len()));
    let (sums, counts) = (&above.last()?.sums, &below.last()?.sums);
    let mu = mu / std::f64::consts::SQRT_2;
    let (upper, lower) = (best(&above, weights, mu)?.0, best(&below, weights, mu)?.0);
    let groups: Vec<usize> = (0..weights.len())
        .filter(|group| weights[*group] > 0.0 && counts[*group] > 0.0)
        .collect();
    let total: f64 = groups.iter().map(|group| weights[*group]).sum();
    let squares = groups.iter().map(|&group| {
        let (sum, count) = (upper.sums[group], lower.sums[group]);
        let quotient = sum / count;
        let bias = quotient - sums[group] / counts[group];
        let noise = (upper.length / mu).powi(2) + (quotient * lower.length / mu).powi(2);
        weights[group] * (bias * bias + noise / (count * count))
    });
    Some((squares.sum::<f64>() / total).sqrt()).filter(|error| error.is_finite())
}

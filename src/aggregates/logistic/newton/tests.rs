use super::*;
use crate::aggregates::moments::testing::{ENDS, assert_near, rows, scale};
use crate::mechanism::normal;

/// Rows of y and features as they are written, the constant among them.
type Rows = Vec<(f64, Vec<f64>)>;

fn step(at: usize, ends: &[Option<(f64, f64)>]) -> NewtonStep {
    NewtonStep {
        at,
        before: BEFORE,
        scales: ends.iter().map(|ends| ends.map(scale)).collect(),
        constants: ends.iter().map(|e| e.is_none().then_some(1.0)).collect(),
    }
}

/// The six steps. Each sum has noise of the step's deviation: `whole` over the root of its share.
fn fitted(
    rows: &Rows,
    ends: &[Option<(f64, f64)>],
    whole: f64,
    mut draw: impl FnMut() -> f64,
) -> (Vec<f64>, LogisticFit) {
    let size = ends.len();
    let mut coef = vec![0.0; size];
    for at in 0..STEPS {
        let deviation = whole * (63.0 / f64::from(1u32 << at)).sqrt();
        let mut first = 0;
        let mut noisy = |sum: f64| {
            let mut noise = vec![0.0; size + size * (size + 1) / 2];
            noise[first] = deviation;
            first += 1;
            Noisy {
                value: sum + deviation * draw(),
                noise,
            }
        };
        let step = step(at, ends);
        let scaled = |x: &[f64], i: usize| match step.scales[i] {
            Some(Scale { middle, half }) => (x[i] - middle) / half,
            None => 1.0,
        };
        let probability = |x: &[f64]| {
            let sum: f64 = x.iter().zip(&coef).map(|(x, coef)| x * coef).sum();
            (1.0 + (sum / 2.0).tanh()) / 2.0
        };
        let gradient: Vec<Noisy> = (0..size)
            .map(|i| {
                let of = |(y, x): &(f64, Vec<f64>)| (y - probability(x)) * scaled(x, i);
                noisy(rows.iter().map(of).sum())
            })
            .collect();
        let pairs = (0..size).flat_map(|i| (0..=i).map(move |j| (i, j)));
        let curvature: Vec<Noisy> = pairs
            .map(|(i, j)| {
                let of = |(_, x): &(f64, Vec<f64>)| {
                    let p = probability(x);
                    p * (1.0 - p) * scaled(x, i) * scaled(x, j)
                };
                noisy(rows.iter().map(of).sum())
            })
            .collect();
        let fit = solve(&gradient, &curvature, &step).unwrap();
        coef.iter_mut()
            .zip(&fit.coef)
            .for_each(|(c, add)| *c += add);
        if at + 1 == STEPS {
            return (coef, fit);
        }
    }
    unreachable!()
}

/// NumPy's own, by 40 steps of Newton's method:
///
/// ```python
/// i = np.arange(40)
/// x = np.stack([np.ones(40), i % 7, i**2 % 11, 7*i % 17 - 8], axis=1)
/// t = (5*i % 9 + i % 7 > 6)
/// p = 1/(1 + np.exp(-x @ w))
/// H = (x*(p*(1 - p))[:, None]).T @ x
/// w += np.linalg.solve(H, x.T @ (t - p))
/// np.sqrt(np.diag(np.linalg.inv(H)))
/// ```
#[test]
fn fits_without_noise_are_those_of_numpy() {
    let of = |row: &Vec<f64>, i: usize| {
        let y = f64::from(u8::from((5 * i % 9) as f64 + row[1] > 6.0));
        (y, vec![1.0, row[1], row[2], row[5]])
    };
    let rows: Rows = rows()
        .iter()
        .enumerate()
        .map(|(i, row)| of(row, i))
        .collect();
    let ends = [None, Some(ENDS[1]), Some(ENDS[2]), Some(ENDS[5])];
    let (coef, fit) = fitted(&rows, &ends, 0.0, || 0.0);
    let wanted = [
        -2.1175551868385183,
        0.5514977330850331,
        0.16573859660713824,
        -0.08380817077214686,
    ];
    let errors = [
        0.9435670728677625,
        0.21321577172933637,
        0.13414849483595634,
        0.07571125245976588,
    ];
    for (found, wanted) in coef.iter().zip(&wanted) {
        assert!((found - wanted).abs() < 1e-7, "{coef:?}");
    }
    for (found, wanted) in fit.std_err.iter().zip(&errors) {
        assert!((found / wanted - 1.0).abs() < 1e-4, "{fit:?}");
    }
    assert_eq!((fit.noise_err, fit.is_held), (vec![0.0; 4], false));
}

/// Features that depend on each other have no curvature in some direction, and without noise no
/// answer; separate ones that predict y surely make no step too long.
#[test]
fn what_is_not_determined_is_no_fit() {
    let sums = |values: &[f64]| -> Vec<Noisy> {
        let noisy = |value: &f64| Noisy {
            value: *value,
            noise: Vec::new(),
        };
        values.iter().map(noisy).collect()
    };
    let ends = [Some((0.0, 1.0)), Some((0.0, 1.0))];
    let of = |gradient: &[f64], curvature: &[f64]| {
        solve(&sums(gradient), &sums(curvature), &step(STEPS - 1, &ends))
    };
    assert_eq!(of(&[1.0, 1.0], &[1.0, 1.0, 1.0]), None);
    assert_eq!(of(&[1.0, 1.0], &[0.0, 0.0, 0.0]), None);
    assert_eq!(of(&[f64::NAN, 1.0], &[1.0, 0.0, 1.0]), None);
    let long = of(&[300.0, -400.0], &[1.0, 0.0, 1.0]).unwrap();
    assert_near(
        &long.coef,
        &[1.6, -3.2 / 1.5],
        "two thirds of a step of length 2",
    );
    assert!(long.is_held);
}

/// Numbers between 0 and 1, by SplitMix64.
fn dice(mut state: u64) -> impl FnMut() -> f64 {
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((z ^ (z >> 31)) >> 11) as f64 + 0.5) / 2f64.powi(53)
    }
}

/// Where the noise hides the curvature, every step goes a part of the way, and its noise stays. The
/// errors say so, within a factor: noise decides which curvatures are raised. The seed is fixed.
#[test]
fn what_is_held_has_the_noise_of_all_its_steps() {
    let (mut uniform, mut other) = (dice(7), dice(8));
    let mut normal = || normal::quantile(other());
    let ends = [None, Some((0.0, 4.0)), Some((-1.0, 1.0))];
    let rows: Rows = (0..600)
        .map(|_| {
            let x = vec![1.0, 1.0 + 2.0 * uniform(), uniform() / 2.0];
            (f64::from(u8::from(uniform() < 0.4)), x)
        })
        .collect();
    let fits: Vec<(Vec<f64>, LogisticFit)> = (0..400)
        .map(|_| fitted(&rows, &ends, 15.0, &mut normal))
        .collect();
    assert!(fits.iter().filter(|(_, fit)| fit.is_held).count() > 300);
    for at in 0..3 {
        let middle = fits.iter().map(|(coef, _)| coef[at]).sum::<f64>() / 400.0;
        let squares = fits.iter().map(|(coef, _)| (coef[at] - middle).powi(2));
        let spread = (squares.sum::<f64>() / 400.0).sqrt();
        let said = fits.iter().map(|(_, fit)| fit.noise_err[at]).sum::<f64>() / 400.0;
        assert!(
            (0.6..1.6).contains(&(said / spread)),
            "{at}: {said} {spread}"
        );
    }
}

/// Over 2,000 samples with noise, 95 % intervals by `noise_err` hold the coefficients that the rows
/// have without noise, and intervals by `std_err` hold the coefficients of the law that the rows
/// are drawn from. A true 95 % interval is outside 93 to 97 % by chance once in 24,000; the seed is
/// fixed.
#[test]
fn intervals_hold_as_often_as_they_say() {
    let (mut uniform, mut other) = (dice(5), dice(6));
    let mut normal = || normal::quantile(other());
    let ends = [None, Some((0.0, 4.0)), Some((-1.0, 1.0))];
    let truth = [-1.0, 0.6, 0.8];
    let (mut of_law, mut of_rows) = ([0u32; 3], [0u32; 3]);
    let samples = 2_000u32;
    for _ in 0..samples {
        let mut row = || {
            let x = vec![1.0, 4.0 * uniform(), 2.0 * uniform() - 1.0];
            let sum: f64 = x.iter().zip(&truth).map(|(x, t)| x * t).sum();
            let y = uniform() < (1.0 + (sum / 2.0f64).tanh()) / 2.0;
            (f64::from(u8::from(y)), x)
        };
        let rows: Rows = (0..600).map(|_| row()).collect();
        let (coef, fit) = fitted(&rows, &ends, 4.0, &mut normal);
        let (wanted, _) = fitted(&rows, &ends, 0.0, || 0.0);
        for at in 0..3 {
            let holds = |exact: f64, error: f64| (coef[at] - exact).abs() <= 1.96 * error;
            of_law[at] += u32::from(holds(truth[at], fit.std_err[at]));
            of_rows[at] += u32::from(holds(wanted[at], fit.noise_err[at]));
        }
    }
    for held in of_law.iter().chain(&of_rows) {
        let share = f64::from(*held) / f64::from(samples);
        assert!((0.93..=0.97).contains(&share), "{of_law:?} {of_rows:?}");
    }
}

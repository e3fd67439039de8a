use super::*;
use crate::aggregates::moments::testing::{ENDS, assert_near, exact, moments, rows};
use crate::mechanism::normal;

/// The fit of the first value by these features, without a penalty.
fn fit(moments: &Moments, features: &[Feature]) -> Option<RegressionFit> {
    penalised(moments, features, 0.0)
}

fn penalised(moments: &Moments, features: &[Feature], l1: f64) -> Option<RegressionFit> {
    let features = features.to_vec();
    super::fit(moments, &Regression { features, l1 })
}

fn five() -> Vec<Feature> {
    let values = (1..6).map(Feature::Value);
    std::iter::once(Feature::Constant(1.0))
        .chain(values)
        .collect()
}

/// NumPy's own, of
///
/// ```python
/// i = np.arange(40)
/// x = np.stack([i % 7, i**2 % 11, (3*i + 1) % 5, i**3 % 13, 7*i % 17 - 8]).astype(float)
/// y = 2*x[0] - x[1] + x[2]/2 + 5*i % 9
/// b, rss = np.linalg.lstsq(X, y, rcond=None)[:2]
/// np.sqrt(np.diag(rss / (40 - X.shape[1]) * np.linalg.inv(X.T @ X)))
/// 1 - rss / np.sum((y - y.mean())**2)
/// np.linalg.cond(S.T @ S)
/// ```
///
/// where X has 1 and x, or x[0] and x[1] alone, and S their columns within [-1, 1].
#[test]
fn fits_without_noise_are_those_of_numpy() {
    let found = fit(&exact(&rows(), &ENDS), &five()).unwrap();
    let coef = [
        2.8603127336344465,
        1.8657783963079044,
        -0.8915673377971881,
        0.7175690466763799,
        0.09105387245667994,
        -0.11699247494524934,
    ];
    let std_err = [
        1.4231075499580352,
        0.2280816350783103,
        0.16112346507037922,
        0.34401531004609326,
        0.10601288989712787,
        0.10045911929808522,
    ];
    assert_near(&found.coef, &coef, "coef");
    assert_near(found.std_err.as_ref().unwrap(), &std_err, "std_err");
    assert_near(&[found.r2.unwrap()], &[0.7961429116628167], "r2");
    assert_near(&[found.condition], &[31.51269748582332], "condition");
    assert_eq!((found.noise_err, found.penalty), (vec![0.0; 6], 0.0));

    let bare = [Feature::Value(1), Feature::Value(2)];
    let found = fit(&exact(&rows(), &ENDS), &bare).unwrap();
    assert_near(
        &found.coef,
        &[2.6617018537590114, -0.45629505664263664],
        "coef",
    );
    let std_err = found.std_err.as_ref().unwrap();
    assert_near(std_err, &[0.202934895699148, 0.1463143020771055], "std_err");
    assert_near(&[found.r2.unwrap()], &[0.6337041074015586], "r2");
    assert_near(&[found.condition], &[5.4048449094914615], "condition");
}

/// A constant of 4 takes a quarter of the intercept; y as its own feature explains itself; a
/// constant alone is the mean.
#[test]
fn constants_and_y_itself_are_features() {
    let moments = exact(&rows(), &ENDS);
    let fitted = |features: &[Feature]| fit(&moments, features).unwrap();
    let one = fitted(&[Feature::Constant(1.0), Feature::Value(3)]);
    let four = fitted(&[Feature::Value(3), Feature::Constant(-4.0)]);
    assert_near(&[four.coef[1] * -4.0, four.coef[0]], &one.coef, "coef");
    let errors = |fit: &RegressionFit| fit.std_err.clone().unwrap();
    assert_near(
        &[errors(&four)[1] * 4.0, errors(&four)[0]],
        &errors(&one),
        "std_err",
    );
    let own = fitted(&[Feature::Constant(1.0), Feature::Value(0)]);
    assert_near(&own.coef, &[0.0, 1.0], "coef");
    assert_near(&[own.r2.unwrap()], &[1.0], "r2");
    let mean = fitted(&[Feature::Constant(1.0)]);
    let all = rows();
    let wanted = all.iter().map(|row| row[0]).sum::<f64>() / 40.0;
    assert_near(&mean.coef, &[wanted], "mean");
    assert_near(&[mean.r2.unwrap()], &[0.0], "r2");
}

/// Columns that depend on each other, no row, and too few.
#[test]
fn what_is_not_determined_is_no_fit() {
    let ends = [(0.0, 10.0), (0.0, 10.0), (0.0, 30.0)];
    let of = |rows: u32| -> Vec<Vec<f64>> {
        let row = |i: u32| vec![f64::from(i % 4), f64::from(i % 11), f64::from(3 * (i % 11))];
        (0..rows).map(row).collect()
    };
    let with_one = [Feature::Constant(1.0), Feature::Value(1), Feature::Value(2)];
    assert_eq!(fit(&exact(&of(50), &ends), &with_one), None);
    assert_eq!(fit(&exact(&of(50), &ends), &with_one[1..]), None);
    assert_eq!(fit(&exact(&of(0), &ends), &with_one[..2]), None);
    assert_eq!(fit(&exact(&of(1), &ends), &with_one[..2]), None);
    let line = fit(&exact(&of(2), &ends), &with_one[..2]).unwrap();
    assert_near(&line.coef, &[0.0, 1.0], "coef");
    assert_eq!(line.std_err, None);
    let flat = vec![
        vec![3.0, 1.0, 0.0],
        vec![3.0, 5.0, 0.0],
        vec![3.0, 6.0, 0.0],
    ];
    assert_eq!(fit(&exact(&flat, &ends), &with_one[..2]).unwrap().r2, None);
    let mut strange = exact(&of(50), &ends);
    strange.sums[1].value = f64::NAN;
    assert_eq!(fit(&strange, &with_one[..2]), None);
}

/// Squares that `f64` does not hold are no exact fit, whose errors would leave the rows out.
#[test]
fn what_f64_does_not_hold_is_no_fit() {
    let features = [Feature::Constant(1.0), Feature::Value(1)];
    let mut moments = exact(&rows(), &ENDS);
    assert!(fit(&moments, &features).is_some());
    for squares in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        moments.sums[2].value = squares;
        assert_eq!(fit(&moments, &features), None, "{squares}");
    }
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

/// Where the columns depend on each other, or the noise hides them, a penalty keeps the
/// coefficients small; and where it does not, there is none.
#[test]
fn a_penalty_stands_in_where_the_noise_hides_the_columns() {
    let mut uniform = dice(3);
    let ends = [(0.0, 10.0), (0.0, 1.0), (0.0, 1.0)];
    let mut of = |rows: usize, own: f64| -> Vec<Vec<f64>> {
        let mut row = || {
            let (a, b) = (uniform(), uniform());
            vec![2.0 + 6.0 * a, a, (1.0 - own) * a + own * b]
        };
        (0..rows).map(|_| row()).collect()
    };
    let features = [Feature::Constant(1.0), Feature::Value(1), Feature::Value(2)];
    let mut uniform = dice(4);
    let mut normal = || normal::quantile(uniform());
    for (rows, own, least, most) in [(2_000, 0.0, 50, 50), (25, 1.0, 40, 50), (2_000, 1.0, 0, 0)] {
        let mut penalised = 0;
        for _ in 0..50 {
            let released = moments(&of(rows, own), &ends, 5.0, &mut normal);
            let found = fit(&released, &features).unwrap();
            penalised += u32::from(found.penalty > 0.0);
            assert!(found.condition >= 1.0, "{found:?}");
            if own == 0.0 {
                // What two columns share is divided between them, and the slope is that of both.
                let both = found.coef[1] + found.coef[2];
                assert!((both - 6.0).abs() < 1.5, "{found:?}");
            }
            assert!(found.coef.iter().all(|coef| coef.abs() < 20.0), "{found:?}");
        }
        assert!(
            (least..=most).contains(&penalised),
            "{rows} {own}: {penalised}"
        );
    }
}

/// scikit-learn's `Lasso(alpha)` by the same rows, with the equations of the columns that it
/// chooses solved by `numpy.linalg.solve`; the last without a constant, by x[0] and x[1] alone.
#[test]
fn penalised_fits_are_those_of_scikit_learn() {
    let moments = exact(&rows(), &ENDS);
    let half = [
        3.9762092435486847,
        1.7779896517942535,
        -0.8594676860427621,
        0.3796410804302975,
        0.03973329784431081,
        -0.06821535276678013,
    ];
    let two = [
        5.418314729216324,
        1.450765761310753,
        -0.7301528359049492,
        0.0,
        0.0,
        -0.0057585016079497444,
    ];
    for (l1, coef, r2) in [
        (0.5, half, 0.7871802568415553),
        (2.0, two, 0.7244083990194918),
    ] {
        let found = penalised(&moments, &five(), l1).unwrap();
        assert_near(&found.coef, &coef, "coef");
        assert_near(&[found.r2.unwrap()], &[r2], "r2");
        assert_eq!((found.std_err, found.penalty), (None, 0.0));
        assert_eq!(found.noise_err, vec![0.0; 6]);
    }
    let bare = [Feature::Value(1), Feature::Value(2)];
    let found = penalised(&moments, &bare, 2.0).unwrap();
    let wanted = [2.262113800205973, -0.18852986611740474];
    assert_near(&found.coef, &wanted, "bare");
    let mean = rows().iter().map(|row| row[0]).sum::<f64>() / 40.0;
    let none = penalised(&moments, &five(), 1e9).unwrap();
    assert_near(&none.coef, &[mean, 0.0, 0.0, 0.0, 0.0, 0.0], "none");
}

/// What makes penalised coefficients the right ones: a row's mean gradient is the penalty where a
/// coefficient is not zero, and no more elsewhere. Also where features are nearly the same, and for
/// any penalty that can be written.
#[test]
fn features_that_are_nearly_the_same_are_penalised() {
    let ends = [
        (-8.0, 8.0),
        (-2.0, 2.0),
        (-2.0, 2.0),
        (-2.0, 2.0),
        (-2.0, 2.0),
    ];
    let mut uniform = dice(11);
    for apart in [0.3, 1e-2, 1e-3, 1e-4] {
        let mut row = || {
            let near = 2.0 * uniform() - 1.0;
            let mut moved = || near + apart * (2.0 * uniform() - 1.0);
            let x = [moved(), moved(), moved()];
            let other = 2.0 * uniform() - 1.0;
            let y = 2.0 * x[0] - x[1] + 0.2 * other + uniform() - 0.5;
            vec![y, x[0], x[1], x[2], other]
        };
        let rows: Vec<Vec<f64>> = (0..60).map(|_| row()).collect();
        let moments = exact(&rows, &ends);
        for l1 in [1e-60, 1e-9, 1e-4, 0.01, 0.1, 0.4, 1e9, 1e154, f64::MAX] {
            let found = penalised(&moments, &five()[..5], l1).unwrap();
            let left = |row: &Vec<f64>| {
                let fitted = row[1..].iter().zip(&found.coef[1..]).map(|(x, b)| x * b);
                row[0] - found.coef[0] - fitted.sum::<f64>()
            };
            // What rounding leaves of sums that the solution takes apart.
            let most = found
                .coef
                .iter()
                .fold(1.0, |most: f64, of| most.max(of.abs()));
            for at in 1..5 {
                let sum: f64 = rows.iter().map(|row| left(row) * row[at]).sum();
                let (gradient, coef) = (sum / rows.len() as f64, found.coef[at]);
                let is_right = match coef == 0.0 {
                    true => gradient.abs() <= l1 + 1e-10 * most,
                    false => (gradient - l1 * coef.signum()).abs() <= 1e-10 * most,
                };
                assert!(is_right, "{apart} {l1}: {gradient} {:?}", found.coef);
            }
            let none = found.coef[1..].iter().all(|coef| *coef == 0.0);
            assert!(l1 > 0.1 || !none, "{apart} {l1}: {:?}", found.coef);
            assert!(l1 < 1e8 || none, "{apart} {l1}: {:?}", found.coef);
        }
    }
}

/// With noise, too: a fit is known whatever the penalty, and its errors are numbers.
#[test]
fn every_penalty_has_an_answer_with_noise() {
    let ends = [(-8.0, 8.0), (-2.0, 2.0), (-2.0, 2.0)];
    let (mut uniform, mut other) = (dice(12), dice(13));
    let mut normal = || normal::quantile(other());
    for l1 in [1e-60, 0.01, 1e9, 1e154, f64::MAX] {
        for _ in 0..50 {
            let mut row = || {
                let x = 2.0 * uniform() - 1.0;
                vec![3.0 * x, x, x + 1e-6 * uniform()]
            };
            let rows: Vec<Vec<f64>> = (0..500).map(|_| row()).collect();
            let found = penalised(&moments(&rows, &ends, 2.0, &mut normal), &five()[..3], l1);
            let found = found.unwrap();
            assert!(found.noise_err[1..].iter().all(|of| of.is_finite()), "{l1}");
        }
    }
}

/// Over 2,000 samples, 95 % intervals by `noise_err` hold the coefficients that the same penalty
/// gives without noise. One coefficient is far from zero, and its interval is a true one: outside
/// 93 to 97 % by chance once in 24,000. One is zero or nearly so: its interval holds at least as
/// often. One is zero by far, without noise and with it. The seed is fixed.
#[test]
fn intervals_of_penalised_coefficients_hold() {
    let (mut uniform, mut other) = (dice(7), dice(8));
    let mut normal = || normal::quantile(other());
    let ends = [(-10.0, 20.0), (0.0, 4.0), (0.0, 4.0), (0.0, 4.0)];
    let (mut held, mut zeros) = ([0u32; 4], [0u32; 4]);
    let samples = 2_000u32;
    for _ in 0..samples {
        let mut row = || {
            let x = [4.0 * uniform(), 4.0 * uniform(), 4.0 * uniform()];
            let y = 1.0 + 2.0 * x[0] + 0.15 * x[1] + 4.0 * (uniform() - 0.5);
            vec![y, x[0], x[1], x[2]]
        };
        let rows: Vec<Vec<f64>> = (0..500).map(|_| row()).collect();
        let found = penalised(&moments(&rows, &ends, 2.0, &mut normal), &five()[..4], 0.2);
        let wanted = penalised(&exact(&rows, &ends), &five()[..4], 0.2).unwrap();
        let found = found.unwrap();
        for at in 0..4 {
            let apart = (found.coef[at] - wanted.coef[at]).abs();
            held[at] += u32::from(apart <= 1.96 * found.noise_err[at]);
            zeros[at] += u32::from(wanted.coef[at] == 0.0);
        }
    }
    let share = |held: u32| f64::from(held) / f64::from(samples);
    assert!((0.93..=0.97).contains(&share(held[1])), "{held:?}");
    assert!(held.iter().all(|held| share(*held) >= 0.93), "{held:?}");
    assert!((400..1_600).contains(&zeros[2]), "{zeros:?}");
    assert!(zeros[3] > 1_900, "{zeros:?}");
}

/// Over 2,000 samples with noise, 95 % intervals by `std_err` hold the coefficients of the law that
/// the rows are drawn from, and intervals by `noise_err` hold the coefficients of the rows. A true
/// 95 % interval is outside 93 to 97 % by chance once in 24,000 (4.1 standard deviations); the seed
/// is fixed.
#[test]
fn intervals_hold_as_often_as_they_say() {
    let (mut uniform, mut other) = (dice(5), dice(6));
    let mut normal = || normal::quantile(other());
    let ends = [(-8.0, 18.0), (0.0, 4.0), (-1.0, 1.0)];
    let truth = [1.0, 2.0, -3.0];
    let features = [Feature::Constant(1.0), Feature::Value(1), Feature::Value(2)];
    let (mut of_law, mut of_rows) = ([0u32; 3], [0u32; 3]);
    let samples = 2_000u32;
    for _ in 0..samples {
        let rows: Vec<Vec<f64>> = (0..400)
            .map(|_| {
                let x = [4.0 * uniform(), 2.0 * uniform() - 1.0];
                let y = truth[0] + truth[1] * x[0] + truth[2] * x[1] + 12.0 * (uniform() - 0.5);
                vec![y, x[0], x[1]]
            })
            .collect();
        let found = fit(&moments(&rows, &ends, 2.0, &mut normal), &features).unwrap();
        let wanted = fit(&exact(&rows, &ends), &features).unwrap();
        let errors = found.std_err.unwrap();
        for at in 0..3 {
            let holds = |exact: f64, error: f64| (found.coef[at] - exact).abs() <= 1.96 * error;
            of_law[at] += u32::from(holds(truth[at], errors[at]));
            of_rows[at] += u32::from(holds(wanted.coef[at], found.noise_err[at]));
            assert!(found.noise_err[at] <= errors[at]);
        }
    }
    for held in of_law.iter().chain(&of_rows) {
        let share = f64::from(*held) / f64::from(samples);
        assert!((0.93..=0.97).contains(&share), "{of_law:?} {of_rows:?}");
    }
}

/// Root mean square errors of the coefficients at epsilon 1 and delta 1e-6, as they were simulated
/// before this was built, by 20 samples: each within a quarter. With 2,000 rows and eight features
/// the penalty halves the error; without it, it was 0.229.
#[test]
fn errors_are_as_they_were_simulated() {
    const MU: f64 = 0.236_704_38;
    let (mut uniform, mut other) = (dice(7), dice(8));
    let mut normal = || normal::quantile(other());
    for (rows, features, wanted) in [
        (2_000, 3, 0.053),
        (2_000, 8, 0.113),
        (20_000, 3, 0.0055),
        (20_000, 8, 0.0128),
    ] {
        let size = (features + 1) as f64;
        let deviation = (1.0 + size + size * (size - 1.0) / 2.0).sqrt() / MU;
        let ends = vec![(-1.0, 1.0); features + 1];
        let by: Vec<Feature> = std::iter::once(Feature::Constant(1.0))
            .chain((1..=features).map(Feature::Value))
            .collect();
        let mut squares = Vec::new();
        for _ in 0..40 {
            let most = 0.8 / (features as f64).sqrt();
            let slopes: Vec<f64> = (0..features)
                .map(|_| most * (2.0 * uniform() - 1.0))
                .collect();
            let mut row = || {
                let x: Vec<f64> = slopes.iter().map(|_| 0.35 * normal()).collect();
                let x = x.into_iter().map(|x| x.clamp(-1.0, 1.0));
                let x: Vec<f64> = x.collect();
                let line: f64 = x.iter().zip(&slopes).map(|(x, slope)| x * slope).sum();
                let y = (0.1 + line + 0.2 * normal()).clamp(-1.0, 1.0);
                std::iter::once(y).chain(x).collect()
            };
            let sample: Vec<Vec<f64>> = (0..rows).map(|_| row()).collect();
            let exact = fit(&exact(&sample, &ends), &by).unwrap().coef;
            let found = fit(&moments(&sample, &ends, deviation, &mut normal), &by);
            let off = found.unwrap().coef.into_iter().zip(exact);
            squares.extend(off.map(|(found, exact)| (found - exact).powi(2)));
        }
        let error = (squares.iter().sum::<f64>() / squares.len() as f64).sqrt();
        let times = error / wanted;
        assert!((0.75..1.25).contains(&times), "{rows} {features}: {error}");
    }
}

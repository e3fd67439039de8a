//! Dense matrices of effects, by their definition.

use super::super::{Effect, Effects};

/// The rows of one level of a key, each with what it is divided by.
fn rows_of_key(effects: &Effects, key: usize, level: u32) -> Vec<(Vec<i128>, i128)> {
    let size = effects.sizes()[key];
    let whole = size as i128;
    if level == 0 {
        return vec![(vec![1; size], whole)];
    }
    if !effects.ranges().contains(&key) {
        let entry = |row, column| if row == column { whole - 1 } else { -1 };
        let row = |row| (0..size).map(|column| entry(row, column)).collect();
        return (0..size).map(|at| (row(at), whole * whole)).collect();
    }
    let half = 1 << (level - 1);
    let runs = (0..size).step_by(2 * half);
    let halves = |first: usize| {
        let has = |from: usize, to: usize| (from.min(size)..to.min(size)).len() as i128;
        (
            has(first, first + half),
            has(first + half, first + 2 * half),
        )
    };
    let split: Vec<usize> = runs.filter(|first| halves(*first).1 > 0).collect();
    let shortest = split.iter().map(|first| halves(*first).1).min().unwrap();
    let scale = half as i128 / num_integer::gcd(half as i128, shortest);
    let row = |first: &usize| {
        let (left, right) = halves(*first);
        let entry = |value: usize| match value {
            value if value < *first || value >= first + 2 * half => 0,
            value if value < first + half => right * scale / left,
            _ => -scale,
        };
        let row: Vec<i128> = (0..size).map(entry).collect();
        let squared = row.iter().map(|entry| entry * entry).sum();
        (row, squared)
    };
    split.iter().map(row).collect()
}

/// The rows of B_A, each with k_A.
pub fn divided_rows(effects: &Effects, effect: &Effect) -> Vec<(Vec<i128>, i128)> {
    let mut product = vec![(vec![1i128], 1)];
    for at in 0..effects.sizes().len() {
        let factor = rows_of_key(effects, at, effect.level(at));
        let row = |left: &Vec<i128>, right: &Vec<i128>| {
            left.iter()
                .flat_map(|a| right.iter().map(move |b| a * b))
                .collect::<Vec<_>>()
        };
        product = product
            .iter()
            .flat_map(|(left, divisor)| {
                factor
                    .iter()
                    .map(|(right, own)| (row(left, right), divisor * own))
                    .collect::<Vec<_>>()
            })
            .collect();
    }
    product
}

/// B_A, row by row.
pub fn matrix(effects: &Effects, effect: &Effect) -> Vec<Vec<i128>> {
    let rows = divided_rows(effects, effect);
    rows.into_iter().map(|(row, _)| row).collect()
}

pub fn dot(row: &[i128], cells: &[i128]) -> i128 {
    row.iter().zip(cells).map(|(a, b)| a * b).sum()
}

pub fn times(matrix: &[Vec<i128>], cells: &[i128]) -> Vec<i128> {
    matrix.iter().map(|row| dot(row, cells)).collect()
}

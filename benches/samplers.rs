//! Draws of noise per second, from the production source.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use pgveil::mechanism::{Noise, OsRandomness};

fn samplers(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("samplers");
    group.throughput(Throughput::Elements(1));
    for exponent in [0, 10, 20, 30, 58] {
        let scale = 1u64 << exponent;
        for (name, noise) in [
            ("laplace", Noise::Laplace { scale }),
            ("gaussian", Noise::Gaussian { sigma: scale }),
        ] {
            let mut random = OsRandomness::new();
            group.bench_function(BenchmarkId::new(name, format!("2^{exponent}")), |bencher| {
                bencher.iter(|| noise.sample(&mut random))
            });
        }
    }
    group.finish();
}

criterion_group!(benches, samplers);
criterion_main!(benches);

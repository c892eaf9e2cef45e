//! A histogram of call durations. Its buckets are an eighth wide, so its size is constant.

use std::time::Duration;

/// Bits after the leading one that distinguish buckets.
const BITS: u32 = 3;
/// Number of buckets for durations of up to 2^32 microseconds.
const CLASSES: usize = ((32 - BITS as usize) + 1) << BITS;

/// Count per bucket. Empty until the first duration is added.
#[derive(Clone, Debug, Default)]
pub(super) struct LatencyHistogram(Vec<u32>);

impl LatencyHistogram {
    pub(super) fn add(&mut self, took: Duration) {
        if self.0.is_empty() {
            self.0 = vec![0; CLASSES];
        }
        let micros = u32::try_from(took.as_micros()).unwrap_or(u32::MAX);
        if let Some(count) = self.0.get_mut(class(micros)) {
            *count = count.saturating_add(1);
        }
    }

    /// Returns these percentiles in milliseconds; `None` without durations.
    pub(super) fn percentiles<const N: usize>(&self, wanted: [u64; N]) -> Option<[f64; N]> {
        let all: u64 = self.0.iter().map(|count| u64::from(*count)).sum();
        (all > 0).then(|| {
            wanted.map(|percent| {
                let wanted = (all * percent).div_ceil(100);
                let mut seen = 0;
                let class = self.0.iter().position(|count| {
                    seen += u64::from(*count);
                    seen >= wanted
                });
                middle(class.unwrap_or(CLASSES - 1))
            })
        })
    }
}

/// Returns the bucket of a duration in microseconds.
fn class(micros: u32) -> usize {
    let log = micros.max(1).ilog2();
    if log < BITS {
        return micros as usize;
    }
    let rest = (micros >> (log - BITS)) & ((1 << BITS) - 1);
    (((log - BITS + 1) << BITS) + rest) as usize
}

/// Returns the middle of a bucket, in milliseconds.
fn middle(class: usize) -> f64 {
    let class = u32::try_from(class).unwrap_or(u32::MAX);
    let (log, rest) = (class >> BITS, class & ((1 << BITS) - 1));
    let (begin, width) = if log == 0 {
        (f64::from(rest), 0.0)
    } else {
        let width = f64::from(1_u32 << (log - 1).min(31));
        (f64::from((1 << BITS) + rest) * width, width - 1.0)
    };
    // Rounded to hundredths of a millisecond.
    ((begin + width / 2.0) / 10.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_ordered_and_an_eighth_wide() {
        let mut last = 0;
        for micros in (0..5000).chain((5000..=u32::MAX).step_by(65_537)).chain([u32::MAX]) {
            let class = class(micros);
            assert!(class >= last && class < CLASSES, "{micros}");
            last = class;
            let ms = f64::from(micros) / 1000.0;
            assert!((middle(class) - ms).abs() <= ms / 14.0 + 0.01, "{micros}: {}", middle(class));
        }
    }

    #[test]
    fn percentiles_cover_all_durations() {
        let mut times = LatencyHistogram::default();
        assert_eq!(times.percentiles([50]), None);
        for ms in 1..=100 {
            times.add(Duration::from_millis(ms));
        }
        let [p50, p95, p99] = times.percentiles([50, 95, 99]).unwrap();
        assert!((46.0..54.0).contains(&p50), "{p50}");
        assert!((88.0..102.0).contains(&p95) && (92.0..106.0).contains(&p99), "{p95} {p99}");
        times.add(Duration::MAX);
        assert!(times.percentiles([100]).unwrap()[0] > 4_000_000.0);
    }
}

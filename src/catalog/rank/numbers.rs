//! Vectors in one byte a number: sums of products are whole, so they come out the same everywhere.

/// The sum of the products of two vectors.
#[inline]
#[expect(clippy::cast_precision_loss, reason = "the last digits of thousands of products")]
pub(super) fn dot(a: &[i8], b: &[i8]) -> f32 {
    let sum: i32 = a.iter().zip(b).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum();
    sum as f32
}

/// A number from -1 to 1 in steps of 1/127.
#[expect(clippy::cast_possible_truncation, reason = "it is at most 127")]
pub(super) fn small(number: f32) -> i8 {
    (number * 127.0).round() as i8
}

//! Vectors with one byte per number. Dot products are sums of integers, so every machine gets the
//! same result.

#[inline]
#[expect(clippy::cast_precision_loss, reason = "the last digits of thousands of products")]
pub(super) fn dot(a: &[i8], b: &[i8]) -> f32 {
    let sum: i32 = a.iter().zip(b).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum();
    sum as f32
}

/// Quantizes a vector in steps of 1/127 of its largest number. The length is lost.
#[expect(clippy::cast_possible_truncation, reason = "at most 127")]
pub(super) fn quantize(vector: &[f32]) -> impl Iterator<Item = i8> {
    let largest = vector.iter().fold(0.0, |largest: f32, number| largest.max(number.abs()));
    let largest = if largest > 0.0 { largest } else { 1.0 };
    vector.iter().map(move |number| (number / largest * 127.0).round() as i8)
}

/// Returns the factor that normalizes the length to 1, or 0 for a zero vector.
pub(super) fn scale(numbers: &[i8]) -> f32 {
    let square = dot(numbers, numbers);
    if square > 0.0 { square.sqrt().recip() } else { 0.0 }
}

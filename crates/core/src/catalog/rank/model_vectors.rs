//! Embeddings from an external model, used instead of the compiled-in table.
//!
//! With many models all texts point in nearly the same direction, so their similarity says little.
//! Subtracting the mean of a few unrelated texts first removes the common part.

use crate::catalog::rank::quantization::{dot, quantize, scale};

/// Unrelated descriptions of tools. Their mean vector is subtracted from all others.
pub const BACKGROUND: [&str; 12] = [
    "files delete_file: Delete a file or an empty folder",
    "music play_song: Play a song on a speaker",
    "weather get_forecast: The weather of the next days in a city",
    "accounting create_invoice: Write an invoice for a customer",
    "git list_commits: The commits of a branch, the newest first",
    "calendar move_event: Move an appointment to another time",
    "chemistry find_molecule: Look up a molecule by its formula",
    "shop track_parcel: Where a parcel is, by its number",
    "database run_query: Run an SQL query and return the rows",
    "football league_table: The places of all teams in a league",
    "maps route: The way between two addresses by car or train",
    "chat send_message: Send a message to a person or a channel",
];

/// A vector of length 1, or 0, with one byte per dimension.
#[derive(Clone, Debug, PartialEq)]
pub struct QuantizedVector {
    numbers: Box<[i8]>,
}

impl QuantizedVector {
    /// Quantizes a vector. Only its direction is preserved.
    pub fn of(vector: &[f32]) -> Self {
        Self { numbers: quantize(vector).collect() }
    }

    /// Restores a vector from the output of [`Self::bytes`].
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self { numbers: bytes.iter().map(|byte| byte.cast_signed()).collect() }
    }

    /// Returns the vector, one byte per dimension.
    pub fn bytes(&self) -> impl Iterator<Item = u8> {
        self.numbers.iter().map(|number| number.cast_unsigned())
    }

    /// Returns the number of dimensions.
    pub fn dimensions(&self) -> usize {
        self.numbers.len()
    }

    fn scale(&self) -> f32 {
        scale(&self.numbers)
    }

    fn add_to(&self, sum: &mut [f32], times: f32) {
        let times = times * self.scale();
        for (sum, number) in sum.iter_mut().zip(&self.numbers) {
            *sum += times * f32::from(*number);
        }
    }
}

/// The embeddings of an index's tools, by position, relative to the mean of the background texts.
#[derive(Debug)]
pub struct CenteredVectors {
    /// The mean of the background vectors.
    center: Vec<f32>,
    /// Each vector relative to the center, and the factor that normalizes it.
    directions: Vec<(QuantizedVector, f32)>,
}

impl CenteredVectors {
    /// Centers the tools' vectors on the mean of `background`, the vectors of [`BACKGROUND`].
    /// Returns `None` if `background` is empty or the dimensions differ.
    pub fn new<'v>(
        background: &[&QuantizedVector],
        tools: impl IntoIterator<Item = &'v QuantizedVector>,
    ) -> Option<Self> {
        let dimensions = background.first()?.dimensions();
        let mut center = vec![0.0; dimensions];
        let count: f32 = background.iter().map(|_| 1.0).sum();
        for vector in background {
            vector.add_to(&mut center, count.recip());
        }
        let mut vectors = Self { center, directions: Vec::new() };
        let is_long = |vector: &QuantizedVector| vector.dimensions() == dimensions;
        if !background.iter().all(|vector| is_long(vector)) {
            return None;
        }
        for tool in tools {
            let direction = vectors.seen(tool)?;
            vectors.directions.push(direction);
        }
        Some(vectors)
    }

    /// Returns the similarity of each tool to a query: 1 for the same meaning, 0 for unrelated
    /// ones. Returns `None` if the query's dimensions differ.
    pub fn similarities_to(&self, query: &QuantizedVector) -> Option<Vec<f32>> {
        let (query, scale) = self.seen(query)?;
        let near =
            |(tool, own): &(QuantizedVector, f32)| dot(&tool.numbers, &query.numbers) * own * scale;
        Some(self.directions.iter().map(near).collect())
    }

    fn seen(&self, vector: &QuantizedVector) -> Option<(QuantizedVector, f32)> {
        if vector.dimensions() != self.center.len() {
            return None;
        }
        let mut seen: Vec<f32> = self.center.iter().map(|number| -number).collect();
        vector.add_to(&mut seen, 1.0);
        let seen = QuantizedVector::of(&seen);
        let scale = seen.scale();
        Some((seen, scale))
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::{collection::vec, prop_assert, proptest};

    use super::*;

    fn vectors(background: &[[f32; 3]], tools: &[[f32; 3]]) -> CenteredVectors {
        let all = |vectors: &[[f32; 3]]| {
            vectors.iter().map(|v| QuantizedVector::of(v)).collect::<Vec<_>>()
        };
        let (background, tools) = (all(background), all(tools));
        let background: Vec<_> = background.iter().collect();
        CenteredVectors::new(&background, &tools).unwrap()
    }

    #[test]
    fn subtracts_the_mean_of_the_background_texts() {
        // All vectors share the first number and differ in the others.
        let common = [[9.0, 1.0, 1.0], [9.0, -1.0, -1.0]];
        let vectors = vectors(&common, &[[9.0, 2.0, 0.0], [9.0, 0.0, 2.0]]);
        let near = vectors.similarities_to(&QuantizedVector::of(&[90.0, 21.0, 0.0])).unwrap();
        assert!(near[0] > 0.95 && near[1].abs() < 0.2, "{near:?}");
    }

    #[test]
    fn vectors_of_different_dimensions_are_rejected() {
        let (two, three) =
            (QuantizedVector::of(&[1.0, 0.0]), QuantizedVector::of(&[1.0, 0.0, 0.0]));
        assert!(CenteredVectors::new(&[&two], [&three]).is_none());
        assert!(CenteredVectors::new(&[&two, &three], []).is_none());
        assert!(CenteredVectors::new(&[], [&three]).is_none());
        let vectors = CenteredVectors::new(&[&two], [&two]).unwrap();
        assert_eq!(vectors.similarities_to(&three), None);
        assert_eq!(vectors.similarities_to(&two), Some(vec![0.0]));
    }

    #[test]
    fn vector_round_trips_through_bytes() {
        let vector = QuantizedVector::of(&[0.5, -0.25, 0.0]);
        assert_eq!(vector.bytes().collect::<Vec<_>>(), [127, 192, 0]);
        assert_eq!(QuantizedVector::from_bytes(&vector.bytes().collect::<Vec<_>>()), vector);
    }

    proptest! {
        #[test]
        fn similarity_of_any_vectors_is_bounded(
            a in vec(proptest::num::f32::NORMAL | proptest::num::f32::ZERO, 4),
            b in vec(-1.0_f32..1.0, 4),
        ) {
            let (a, b) = (QuantizedVector::of(&a), QuantizedVector::of(&b));
            let vectors = CenteredVectors::new(&[&b], [&a, &b]).unwrap();
            let near = vectors.similarities_to(&a).unwrap();
            prop_assert!(near.iter().all(|near| (-1.01..=1.01).contains(near)), "{near:?}");
        }
    }
}

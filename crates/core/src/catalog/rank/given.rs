//! Meaning that is given from outside: vectors of a model, in place of the table.
//!
//! In many models all texts point in nearly the same direction, some more and some less, so that
//! how near two of them are says little by itself. So what all texts have in common, by the vectors
//! of a few that have nothing to do with each other, is taken off first.

use crate::catalog::rank::numbers::{dot, scale, small};

/// Texts that have nothing in common but that they are said of tools. Their vectors are what others
/// are seen from.
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

/// A vector of length 1, or of none, in small numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Vector {
    numbers: Box<[i8]>,
}

impl Vector {
    /// Where a vector points.
    pub fn of(vector: &[f32]) -> Self {
        Self { numbers: small(vector).collect() }
    }

    /// A vector of what [`Self::bytes`] gave.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self { numbers: bytes.iter().map(|byte| byte.cast_signed()).collect() }
    }

    /// It in one byte a number.
    pub fn bytes(&self) -> impl Iterator<Item = u8> {
        self.numbers.iter().map(|number| number.cast_unsigned())
    }

    /// How many numbers it has.
    pub fn dimensions(&self) -> usize {
        self.numbers.len()
    }

    /// The factor that makes its length 1.
    fn scale(&self) -> f32 {
        scale(&self.numbers)
    }

    /// Adds it, with length 1, so many times to others.
    fn add_to(&self, sum: &mut [f32], times: f32) {
        let times = times * self.scale();
        for (sum, number) in sum.iter_mut().zip(&self.numbers) {
            *sum += times * f32::from(*number);
        }
    }
}

/// Where the tools of an index point, each by its place.
#[derive(Debug)]
pub struct Vectors {
    /// The part that all texts have in common.
    center: Vec<f32>,
    /// Where each points as seen from there, and what its numbers have to be multiplied by.
    directions: Vec<(Vector, f32)>,
}

impl Vectors {
    /// The vectors of an index's tools, seen from those of [`BACKGROUND`]; `None` if they are not
    /// all of one length.
    pub fn new<'v>(
        background: &[&Vector],
        tools: impl IntoIterator<Item = &'v Vector>,
    ) -> Option<Self> {
        let dimensions = background.first()?.dimensions();
        let mut center = vec![0.0; dimensions];
        let count: f32 = background.iter().map(|_| 1.0).sum();
        for vector in background {
            vector.add_to(&mut center, count.recip());
        }
        let mut vectors = Self { center, directions: Vec::new() };
        let is_long = |vector: &Vector| vector.dimensions() == dimensions;
        if !background.iter().all(|vector| is_long(vector)) {
            return None;
        }
        for tool in tools {
            let direction = vectors.seen(tool)?;
            vectors.directions.push(direction);
        }
        Some(vectors)
    }

    /// How near each tool is to a query: 1 if they mean the same, 0 if they have nothing in common;
    /// `None` if the query's vector is of another length.
    pub fn nearness(&self, query: &Vector) -> Option<Vec<f32>> {
        let (query, scale) = self.seen(query)?;
        let near = |(tool, own): &(Vector, f32)| dot(&tool.numbers, &query.numbers) * own * scale;
        Some(self.directions.iter().map(near).collect())
    }

    fn seen(&self, vector: &Vector) -> Option<(Vector, f32)> {
        if vector.dimensions() != self.center.len() {
            return None;
        }
        let mut seen: Vec<f32> = self.center.iter().map(|number| -number).collect();
        vector.add_to(&mut seen, 1.0);
        let seen = Vector::of(&seen);
        let scale = seen.scale();
        Some((seen, scale))
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::{collection::vec, prop_assert, proptest};

    use super::*;

    fn vectors(background: &[[f32; 3]], tools: &[[f32; 3]]) -> Vectors {
        let all = |vectors: &[[f32; 3]]| vectors.iter().map(|v| Vector::of(v)).collect::<Vec<_>>();
        let (background, tools) = (all(background), all(tools));
        let background: Vec<_> = background.iter().collect();
        Vectors::new(&background, &tools).unwrap()
    }

    #[test]
    fn what_all_texts_have_in_common_says_nothing() {
        // Everything points along the first number, and differs in the others.
        let common = [[9.0, 1.0, 1.0], [9.0, -1.0, -1.0]];
        let vectors = vectors(&common, &[[9.0, 2.0, 0.0], [9.0, 0.0, 2.0]]);
        let near = vectors.nearness(&Vector::of(&[90.0, 21.0, 0.0])).unwrap();
        assert!(near[0] > 0.95 && near[1].abs() < 0.2, "{near:?}");
    }

    #[test]
    fn lengths_that_differ_are_not_compared() {
        let (two, three) = (Vector::of(&[1.0, 0.0]), Vector::of(&[1.0, 0.0, 0.0]));
        assert!(Vectors::new(&[&two], [&three]).is_none());
        assert!(Vectors::new(&[&two, &three], []).is_none());
        assert!(Vectors::new(&[], [&three]).is_none());
        let vectors = Vectors::new(&[&two], [&two]).unwrap();
        assert_eq!(vectors.nearness(&three), None);
        assert_eq!(vectors.nearness(&two), Some(vec![0.0]));
    }

    #[test]
    fn a_vector_is_kept_in_bytes() {
        let vector = Vector::of(&[0.5, -0.25, 0.0]);
        assert_eq!(vector.bytes().collect::<Vec<_>>(), [127, 192, 0]);
        assert_eq!(Vector::from_bytes(&vector.bytes().collect::<Vec<_>>()), vector);
    }

    proptest! {
        #[test]
        fn no_vector_is_too_strange(
            a in vec(proptest::num::f32::NORMAL | proptest::num::f32::ZERO, 4),
            b in vec(-1.0_f32..1.0, 4),
        ) {
            let (a, b) = (Vector::of(&a), Vector::of(&b));
            let vectors = Vectors::new(&[&b], [&a, &b]).unwrap();
            let near = vectors.nearness(&a).unwrap();
            prop_assert!(near.iter().all(|near| (-1.01..=1.01).contains(near)), "{near:?}");
        }
    }
}

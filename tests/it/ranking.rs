//! How good search is, on the small data of ours: what `just eval` prints is what is on file.

use std::fs;
use std::path::Path;

use pretty_assertions::assert_eq;

#[allow(dead_code, reason = "what exports rankings is for people")]
#[path = "../../benches/eval/measure.rs"]
mod measure;

use measure::{Acts, Data, report};

#[test]
fn the_ranker_is_wrong_in_at_most_5_of_100_acts() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/eval");
    let Acts { all, wrong } = Data::read(&folder).acts();
    assert!(all >= 40, "it acts on no more than {all} tasks");
    assert!(20 * wrong <= all, "{wrong} of {all} acts are wrong");
}

#[test]
fn search_is_as_good_as_is_on_file() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/eval");
    let report = report(&Data::read(&folder));
    let baseline = fs::read_to_string(folder.join("baseline.txt")).expect("a baseline");
    assert_eq!(
        report, baseline,
        "search finds other things than are on file (right); if that is no worse, \
         `just eval > tests/eval/baseline.txt`",
    );
}

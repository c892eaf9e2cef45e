//! Search quality on the small data set: the report of `just eval` must equal the stored baseline.

use std::fs;
use std::path::Path;

use pretty_assertions::assert_eq;

#[allow(dead_code, reason = "the export is a developer tool")]
#[path = "../../benches/eval/measure.rs"]
mod measure;

use measure::{Acts, Data, report};

// invariant: navigator-never-guesses
#[test]
fn at_most_5_percent_of_ranker_actions_are_wrong() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/eval");
    let Acts { all, wrong } = Data::read(&folder).acts();
    assert!(all >= 40, "the ranker acts on only {all} tasks");
    assert!(20 * wrong <= all, "{wrong} of {all} actions are wrong");
}

// invariant: search-without-model
#[test]
fn search_matches_the_stored_baseline() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/eval");
    let report = report(&Data::read(&folder));
    let baseline = fs::read_to_string(folder.join("baseline.txt")).expect("a baseline");
    assert_eq!(
        report, baseline,
        "search results differ from the stored baseline (right); if they are not worse, run \
         `just eval > tests/eval/baseline.txt`",
    );
}

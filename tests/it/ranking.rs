//! How good search is, on the small data of ours: what `just eval` prints is what is on file.

use std::fs;
use std::path::Path;

use pretty_assertions::assert_eq;

#[allow(dead_code, reason = "what exports rankings is for people")]
#[path = "../../benches/eval/measure.rs"]
mod measure;

use measure::{Data, report};

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

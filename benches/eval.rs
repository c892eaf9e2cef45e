//! How good search is, and the navigator with its ranker: tables for every folder of data that is
//! given, or for our own small one.
//!
//! `just eval [--rankings TO] [FOLDER...]`. A folder has a `catalog.json` and a `queries.jsonl`, as
//! `tests/eval` has. What is found for each query goes to `TO/words.jsonl` and `TO/mixed.jsonl`.
#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a program for developers: it prints, and gives up where it cannot go on"
)]

use std::fs;
use std::path::{Path, PathBuf};

use mcp_workbench::catalog::rank::Method;

#[path = "eval/measure.rs"]
mod measure;

use measure::{Data, report};

fn main() {
    let (mut folders, mut rankings) = (Vec::new(), None);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--rankings" => rankings = Some(PathBuf::from(words.next().expect("a folder"))),
            // Cargo adds it.
            "--bench" => {}
            folder => folders.push(PathBuf::from(folder)),
        }
    }
    let is_own = folders.is_empty();
    if is_own {
        folders.push(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/eval"));
    }
    for folder in folders {
        let data = Data::read(&folder);
        if !is_own {
            println!("{}\n", folder.display());
        }
        print!("{}", report(&data));
        if let Some(to) = &rankings {
            for (name, method) in [("words", Method::Words), ("mixed", Method::Mixed)] {
                let path = to.join(format!("{name}.jsonl"));
                fs::write(path, data.rankings(method)).expect("a file");
            }
        }
    }
}

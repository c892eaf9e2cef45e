//! Prints quality figures of search and of the navigator's ranker. Reads the given data folders, or
//! `tests/eval`.
//!
//! Run with `just eval [--rankings TO] [FOLDER...]`. A folder has a `catalog.json` and a
//! `queries.jsonl`. With `--rankings`, the ranked tools of each query are written to
//! `TO/words.jsonl` and `TO/mixed.jsonl`.
#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a developer tool: it prints and panics on errors"
)]

use std::fs;
use std::path::{Path, PathBuf};

use mcp_workbench_core::catalog::rank::RankingMethod;

#[path = "eval/measure.rs"]
mod measure;

use measure::{Data, report};

fn main() {
    let (mut folders, mut rankings) = (Vec::new(), None);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--rankings" => rankings = Some(PathBuf::from(words.next().expect("a folder"))),
            // `cargo bench` passes this flag.
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
            for (name, method) in
                [("words", RankingMethod::Lexical), ("mixed", RankingMethod::Hybrid)]
            {
                let path = to.join(format!("{name}.jsonl"));
                fs::write(path, data.rankings(method)).expect("a file");
            }
        }
    }
}

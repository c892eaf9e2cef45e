//! A workbench over HTTP that runs as long as a benchmark.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::thread;

use serde_json::Value;
use tempfile::TempDir;

#[path = "../program_under_test.rs"]
mod program_under_test;

/// Killed on drop.
pub(crate) struct Program {
    pub(crate) child: Child,
    pub(crate) address: SocketAddr,
}

impl Program {
    pub(crate) fn start(folder: &TempDir, config: &Value) -> Self {
        let file = folder.path().join("workbench.json");
        fs::write(&file, config.to_string()).expect("a file in the folder");
        let mut command = Command::new(program_under_test::program());
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.args(["serve", "--http", "127.0.0.1:0", "--config"]).arg(&file);
        command.arg("--cache-dir").arg(folder.path().join("cache"));
        let mut child = command
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut log = BufReader::new(child.stderr.take().expect("piped")).lines();
        let address = log.find_map(|line| {
            let line = line.ok()?;
            let (_, rest) = line.split_once("http://")?;
            rest.split_once("/mcp")?.0.parse().ok()
        });
        // Drain stderr, so that the program never blocks on a full pipe.
        thread::spawn(move || log.count());
        Self { child, address: address.expect("an address") }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // The process may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

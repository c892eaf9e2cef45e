//! Whatever a client gives us as standard streams, and whatever it does not read of them.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use pretty_assertions::assert_eq;
use serde_json::json;

use crate::support::command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_mcp-workbench");

#[test]
fn input_from_a_socket_and_output_to_a_pipe() {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let mut child = command(PROGRAM)
        .args(["serve", "--embedded-config"])
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for id in 1..=2 {
        writeln!(ours, "{}", json!({"jsonrpc": "2.0", "id": id, "method": "tools/list"})).unwrap();
        let line = lines.next().expect("an answer").unwrap();
        assert!(line.starts_with(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result""#)), "{line}");
    }
    drop(ours);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

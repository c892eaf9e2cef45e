//! Standard input and output that are no pipes.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use crate::support::{Bench, command, fake};

const PING: &str = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";

/// Serves on these streams, and returns the answer to a ping.
fn ping(
    input: impl Into<Stdio>,
    output: impl Into<Stdio>,
    mut to: impl Write,
    from: impl std::io::Read,
) -> String {
    let bench = Bench::new().server("box", "srv", fake(serde_json::json!({})));
    bench.write_config();
    let mut child = command(env!("CARGO_BIN_EXE_mcp-workbench"))
        .arg("--config")
        .arg(bench.config_path())
        .stdin(input)
        .stdout(output)
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    // Where the program has left already, there is no answer either.
    let _ = to.write_all(PING.as_bytes());
    let mut line = String::new();
    BufReader::new(from).read_line(&mut line).expect("an answer");
    drop(to);
    let status = child.wait().expect("a child can be waited for");
    assert!(status.success());
    line
}

#[test]
fn one_may_be_a_socket_and_the_other_a_pipe() {
    let expected = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n";
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    assert_eq!(ping(OwnedFd::from(theirs), writer, ours, reader), expected);
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    assert_eq!(ping(reader, OwnedFd::from(theirs), writer, ours), expected);
}

#[test]
fn they_may_be_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("input");
    std::fs::write(&path, PING).unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    let line = ping(File::open(&path).unwrap(), writer, std::io::sink(), reader);
    assert!(line.contains("result"), "{line}");
}

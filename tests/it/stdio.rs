//! Standard input and output: pipes, sockets and files.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use pretty_assertions::assert_eq;
use serde_json::json;

use crate::support::{TestEnvironment, command, fake};

const PING: &str = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";

fn ping(
    input: impl Into<Stdio>,
    output: impl Into<Stdio>,
    mut to: impl Write,
    from: impl std::io::Read,
) -> String {
    let bench = TestEnvironment::new().server("box", "srv", fake(json!({})));
    bench.write_config();
    let mut child = command(env!("CARGO_BIN_EXE_mcp-workbench"))
        .arg("--config")
        .arg(bench.config_path())
        .stdin(input)
        .stdout(output)
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    // If the program has exited already, the missing response shows it.
    let _ = to.write_all(PING.as_bytes());
    let mut line = String::new();
    BufReader::new(from).read_line(&mut line).expect("an answer");
    drop(to);
    let status = child.wait().expect("a child process");
    assert!(status.success());
    line
}

#[test]
fn socket_and_pipe_can_be_mixed() {
    let expected = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n";
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    assert_eq!(ping(OwnedFd::from(theirs), writer, ours, reader), expected);
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    assert_eq!(ping(reader, OwnedFd::from(theirs), writer, ours), expected);
}

#[test]
fn input_can_be_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("input");
    std::fs::write(&path, PING).unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    let line = ping(File::open(&path).unwrap(), writer, std::io::sink(), reader);
    assert!(line.contains("result"), "{line}");
}

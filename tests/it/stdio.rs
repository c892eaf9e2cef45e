//! Standard input and output: pipes that grow, sockets and files.

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

#[test]
#[cfg(target_os = "linux")]
fn long_message_grows_every_pipe() {
    let server = fake(json!({ "tools": ["echo", "pid"] }));
    let agent = TestEnvironment::new().server("box", "srv", server).agent();
    agent.initialize();
    let server = agent.call("box__srv__pid", json!({})).structured()["pid"].to_string();
    let pipes = ["0", "1"].map(|stream| format!("/proc/{}/fd/{stream}", agent.pid()));
    let pipes =
        pipes.into_iter().chain(["0", "1"].map(|stream| format!("/proc/{server}/fd/{stream}")));
    let pipes: Vec<_> =
        pipes.map(|pipe| File::options().read(true).write(true).open(pipe).unwrap()).collect();
    let hold = || {
        pipes.iter().map(|pipe| rustix::pipe::fcntl_getpipe_size(pipe).unwrap()).collect::<Vec<_>>()
    };
    let before = hold();
    let call = |text: &str| {
        let answer = agent.call("box__srv__echo", json!({ "text": text })).structured();
        assert_eq!(answer["text"], text);
    };
    call("short");
    assert_eq!(hold(), before);
    call(&"long ".repeat(200_000));
    assert_eq!(hold(), [512 * 1024; 4]);
}

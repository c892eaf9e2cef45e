//! The least that anything between a client and a server can do: it copies lines both ways.

use std::io::{BufRead, BufReader, Read, Write, stdin, stdout};
use std::process::{Command, Stdio, exit};
use std::thread;

/// As much as a pipe holds.
const BUFFER: usize = 64 * 1024;

/// Stands between our standard streams and a server until either of them ends.
pub(crate) fn run(mut server: Command) {
    let mut child =
        server.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the server starts");
    let to_server = child.stdin.take().expect("piped");
    let from_server = child.stdout.take().expect("piped");
    thread::spawn(move || {
        copy(stdin().lock(), to_server);
        exit(0);
    });
    copy(from_server, stdout().lock());
    // It has closed its output, so it is about to end.
    let _ = child.wait();
}

fn copy(from: impl Read, mut to: impl Write) {
    let mut from = BufReader::with_capacity(BUFFER, from);
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        if to.write_all(&line).and_then(|()| to.flush()).is_err() {
            return;
        }
        line.clear();
    }
}

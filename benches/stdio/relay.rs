//! The baseline between a stdio client and a server: copies lines both ways.

use std::io::{BufRead, BufReader, Read, Write, stdin, stdout};
use std::process::{Command, Stdio, exit};
use std::thread;

/// The default capacity of a Linux pipe.
const BUFFER: usize = 64 * 1024;

/// Relays until the input or the server's output ends.
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
    // The server has closed its output and is about to exit.
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

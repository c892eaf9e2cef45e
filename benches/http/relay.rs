//! The baseline between HTTP clients and a stdio server: it copies messages and renumbers requests.
//! One thread per connection, and one that reads from the server.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

/// The text before a message's ID. The benchmark's messages have no other `id` member.
const ID: &[u8] = b"\"id\":";

struct Relay {
    to_server: Mutex<ChildStdin>,
    waiting: Mutex<HashMap<u64, Sender<Vec<u8>>>>,
    next: AtomicU64,
}

/// Relays until it is killed. Prints the listening address as its first line.
pub(crate) fn run(mut server: Command) {
    let child = server.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = child.expect("the server starts");
    let relay = Arc::new(Relay {
        to_server: Mutex::new(child.stdin.take().expect("piped")),
        waiting: Mutex::default(),
        next: AtomicU64::new(1),
    });
    let from_server = BufReader::new(child.stdout.take().expect("piped"));
    let answering = Arc::clone(&relay);
    thread::spawn(move || answering.answer_all(from_server));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    println!("{}", listener.local_addr().expect("an address"));
    for connection in listener.incoming().map_while(Result::ok) {
        let relay = Arc::clone(&relay);
        thread::spawn(move || relay.serve(connection));
    }
    let _ = child.wait();
}

impl Relay {
    fn answer_all(&self, from_server: impl BufRead) {
        for line in from_server.split(b'\n').map_while(Result::ok) {
            let Some((at, end)) = id(&line) else { continue };
            let number = std::str::from_utf8(&line[at..end]).ok().and_then(|n| n.parse().ok());
            let waiting = number
                .and_then(|number: u64| self.waiting.lock().expect("no panic").remove(&number));
            // The client may have disconnected.
            waiting.map(|waiting| waiting.send(line).ok());
        }
    }

    fn serve(&self, connection: TcpStream) {
        connection.set_nodelay(true).expect("a connection");
        let mut client = BufReader::new(connection);
        let (sender, answers) = channel();
        while let Some(mut body) = request(&mut client) {
            let Some((at, end)) = id(&body) else {
                body.push(b'\n');
                self.to_server.lock().expect("no panic").write_all(&body).expect("a line");
                let done = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n";
                client.get_mut().write_all(done).expect("a line");
                continue;
            };
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            self.waiting.lock().expect("no panic").insert(number, sender.clone());
            let theirs = body[at..end].to_vec();
            body.splice(at..end, number.to_string().into_bytes());
            body.push(b'\n');
            self.to_server.lock().expect("no panic").write_all(&body).expect("a line");
            let mut answer = answers.recv().expect("an answer");
            let (at, end) = id(&answer).expect("an ID");
            answer.splice(at..end, theirs);
            let mut response = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nMcp-Session-Id: {number}\r\n\
                 Content-Length: {}\r\n\r\n",
                answer.len()
            )
            .into_bytes();
            response.append(&mut answer);
            if client.get_mut().write_all(&response).is_err() {
                return;
            }
        }
    }
}

fn id(message: &[u8]) -> Option<(usize, usize)> {
    let at = message.windows(ID.len()).position(|window| window == ID)? + ID.len();
    let digits = message[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    Some((at, at + digits))
}

fn request(client: &mut impl BufRead) -> Option<Vec<u8>> {
    let (mut line, mut length) = (String::new(), 0);
    loop {
        line.clear();
        if client.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end().split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.parse().ok()?;
            }
            None if line.trim_end().is_empty() => break,
            _ => {}
        }
    }
    let mut body = vec![0; length];
    client.read_exact(&mut body).ok()?;
    Some(body)
}

//! Many sessions over few HTTP connections. Shared by a benchmark and a test.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

pub(crate) mod connection;

use connection::Connection;

pub(crate) struct Load {
    address: SocketAddr,
    pub(crate) sessions: Vec<String>,
    listening: Vec<Connection>,
}

impl Load {
    pub(crate) fn begin(address: SocketAddr, sessions: usize) -> Self {
        let mut connection = Connection::open(address, None);
        let sessions = (0..sessions).map(|_| connection.begin()).collect();
        Self { address, sessions, listening: Vec::new() }
    }

    pub(crate) fn listen(&mut self, count: usize) {
        for session in self.sessions.iter().take(count) {
            let mut connection = Connection::open(self.address, None);
            assert_eq!(connection.send("GET", Some(session), "").status, 200);
            self.listening.push(connection);
        }
    }

    /// Makes `calls` calls in each session. Returns the sorted latencies.
    pub(crate) fn call(&self, calls: usize, clients: usize) -> Vec<Duration> {
        let share = self.sessions.len().div_ceil(clients);
        let mut times: Vec<Duration> = thread::scope(|scope| {
            let clients: Vec<_> = self
                .sessions
                .chunks(share)
                .map(|sessions| {
                    scope.spawn(move || {
                        let mut connection = Connection::open(self.address, None);
                        let all = (0..calls).flat_map(|_| sessions);
                        all.map(|session| connection.call(session)).collect::<Vec<_>>()
                    })
                })
                .collect();
            let done = clients.into_iter().map(|client| client.join().expect("call times"));
            done.flatten().collect()
        });
        times.sort_unstable();
        times
    }
}

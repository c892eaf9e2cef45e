//! Several workbenches with a shared store behind a proxy. Used by a benchmark and by tests.
//!
//! The store is a real `redis-server`. The proxy is a real `HAProxy` or nginx with the
//! configuration from `deploy/proxies/`; only addresses are replaced. Everything listens on this
//! machine and is killed on drop.

#![allow(clippy::disallowed_methods, reason = "benchmarks and tests spawn processes themselves")]

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

const DEADLINE: Duration = Duration::from_secs(30);

const OFTEN: Duration = Duration::from_millis(10);

/// Polls until `is_so` returns `true`; panics after `DEADLINE`.
pub(crate) fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < DEADLINE, "timed out after {DEADLINE:?}: {what}");
        thread::sleep(OFTEN); // Other processes can only be polled.
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proxy {
    /// `HAProxy` that learns the session ID from responses.
    Haproxy,
    /// nginx with a hash of the session ID.
    Nginx,
    /// `HAProxy` without session affinity.
    RoundRobin,
}

/// Killed on drop.
pub(crate) struct Process {
    pub(crate) child: Child,
    pub(crate) address: SocketAddr,
    /// The stderr of the program, if it is captured.
    log: Arc<Mutex<String>>,
}

impl Process {
    fn start(command: &mut Command, address: SocketAddr) -> Self {
        let program = command.get_program().to_owned();
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = child.unwrap_or_else(|error| {
            panic!("{}: {error}; `scripts/test.sh` installs it", program.display())
        });
        let process = Self { child, address, log: Arc::default() };
        wait_until(&format!("{} is listening", program.display()), || {
            TcpStream::connect(address).is_ok()
        });
        process
    }

    pub(crate) fn log(&self) -> String {
        self.log.lock().expect("no panic").clone()
    }

    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()), "failed to send SIG{name}");
    }

    pub(crate) fn ends_within(&mut self, time: Duration) -> bool {
        let began = Instant::now();
        while began.elapsed() < time {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return true;
            }
            thread::sleep(OFTEN); // The standard library can't wait for a child with a timeout.
        }
        false
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) struct Fleet {
    pub(crate) proxy: Process,
    pub(crate) replicas: Vec<Process>,
    pub(crate) store: Process,
    folder: TempDir,
    program: String,
}

impl Fleet {
    /// Starts everything. The n-th workbench gets the configuration `config(n)`.
    pub(crate) fn start(
        program: &str,
        count: usize,
        proxy: Proxy,
        config: impl Fn(usize) -> Value,
    ) -> Self {
        let folder = TempDir::with_prefix("fleet-").expect("a temporary folder");
        let store = store(free(), folder.path());
        let replicas: Vec<Process> =
            (0..count).map(|n| replica(program, n, &config(n), &store, folder.path())).collect();
        let addresses: Vec<SocketAddr> = replicas.iter().map(|replica| replica.address).collect();
        let proxy = start_proxy(proxy, &addresses, folder.path());
        Self { proxy, replicas, store, folder, program: program.to_owned() }
    }

    /// Starts another workbench that the proxy doesn't know.
    pub(crate) fn one_more(&self, config: &Value) -> Process {
        replica(&self.program, 1000, config, &self.store, self.folder.path())
    }

    pub(crate) fn restart_store(&mut self) {
        let address = self.store.address;
        // The new process can only bind after the old one has exited.
        let _ = self.store.child.kill();
        let _ = self.store.child.wait();
        self.store = store(address, self.folder.path());
    }

    pub(crate) fn ask_store(&self, command: &str) -> String {
        let mut stream = TcpStream::connect(self.store.address).expect("the store listens");
        write!(stream, "{command}\r\nQUIT\r\n").expect("the store reads");
        let mut said = String::new();
        // A paused store never closes the connection.
        stream.set_read_timeout(Some(Duration::from_secs(1))).expect("a connection");
        let _ = stream.read_to_string(&mut said);
        said
    }
}

pub(crate) fn free() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address")
}

/// A store without any data, at this address.
pub(crate) fn store(address: SocketAddr, folder: &Path) -> Process {
    let mut command = Command::new("redis-server");
    command.args(["--bind", "127.0.0.1", "--port", &address.port().to_string()]);
    command.args(["--save", "", "--appendonly", "no", "--daemonize", "no", "--dir"]).arg(folder);
    Process::start(&mut command, address)
}

fn replica(program: &str, n: usize, config: &Value, store: &Process, folder: &Path) -> Process {
    let folder = folder.join(format!("replica-{n}"));
    fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("workbench.json");
    fs::write(&file, config.to_string()).expect("a file in the folder");
    let mut command = Command::new(program);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env("HOME", &folder).args(["serve", "--http", "127.0.0.1:0", "--config"]).arg(&file);
    command.args(["--drain-delay", "3s"]);
    command.arg("--shared-store").arg(format!("redis://{}", store.address));
    let mut child =
        command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the program starts");
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    let log = Arc::new(Mutex::new(String::new()));
    let kept = Arc::clone(&log);
    let keep = move |line: &str| {
        let _ = writeln!(kept.lock().expect("no panic"), "{line}");
    };
    let address = lines.find_map(|line| {
        let line = line.ok()?;
        keep(&line);
        let (_, rest) = line.split_once("http://")?;
        rest.split_once("/mcp")?.0.parse().ok()
    });
    // Drain stderr, so that the program never blocks on a full pipe.
    thread::spawn(move || lines.map_while(Result::ok).for_each(|line| keep(&line)));
    let address = address.unwrap_or_else(|| panic!("{}", log.lock().expect("a log")));
    Process { child, address, log }
}

fn start_proxy(proxy: Proxy, replicas: &[SocketAddr], folder: &Path) -> Process {
    let address = free();
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/proxies");
    let file = folder.join("proxy.conf");
    let mut command = match proxy {
        Proxy::Haproxy | Proxy::RoundRobin => {
            let text =
                fs::read_to_string(deploy.join("haproxy.cfg")).expect("a file in deploy/proxies/");
            fs::write(&file, haproxy(&text, address, replicas, proxy)).expect("a file");
            let mut command = daemon("haproxy");
            command.arg("-f").arg(&file);
            command
        }
        Proxy::Nginx => {
            let text =
                fs::read_to_string(deploy.join("nginx.conf")).expect("a file in deploy/proxies/");
            fs::write(&file, nginx(&text, address, replicas, folder)).expect("a file");
            let mut command = daemon("nginx");
            command.arg("-p").arg(folder).arg("-e").arg(folder.join("proxy.log"));
            command.arg("-c").arg(&file);
            // A killed master would leave its workers running.
            command.args(["-g", "master_process off;"]);
            command
        }
    };
    Process::start(&mut command, address)
}

/// A command that may only be in `/usr/sbin`, outside the `PATH` of ordinary users.
fn daemon(program: &str) -> Command {
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    path.push(":/usr/sbin:/sbin");
    let mut command = Command::new(program);
    command.env("PATH", path);
    command
}

/// `RoundRobin` drops the `stick` lines.
fn haproxy(text: &str, address: SocketAddr, replicas: &[SocketAddr], proxy: Proxy) -> String {
    let mut file = String::new();
    let mut is_listed = false;
    for line in text.lines() {
        let said = line.trim_start();
        if said.starts_with("server ") {
            if !is_listed {
                for (n, replica) in replicas.iter().enumerate() {
                    let rest = said.split_whitespace().skip(3).collect::<Vec<_>>().join(" ");
                    let _ = writeln!(file, "    server r{n} {replica} {rest}");
                }
            }
            is_listed = true;
        } else if said.starts_with("bind ") {
            let _ = writeln!(file, "    bind {address}");
        } else if !(said.starts_with("stick") && proxy == Proxy::RoundRobin) {
            let _ = writeln!(file, "{line}");
        }
    }
    file
}

fn nginx(text: &str, address: SocketAddr, replicas: &[SocketAddr], folder: &Path) -> String {
    let mut file = format!("pid {}/nginx.pid;\n", folder.display());
    let mut is_listed = false;
    for line in text.lines() {
        let said = line.trim_start();
        if said.starts_with("server ") && said.ends_with(';') {
            if !is_listed {
                for replica in replicas {
                    let rest = said.trim_end_matches(';').split_whitespace().skip(2);
                    let rest = rest.collect::<Vec<_>>().join(" ");
                    let _ = writeln!(file, "    server {replica} {rest};");
                }
            }
            is_listed = true;
        } else if said.starts_with("listen ") {
            let _ = writeln!(file, "        listen {address};");
        } else if !said.starts_with("pid ") {
            let _ = writeln!(file, "{line}");
        }
    }
    file
}

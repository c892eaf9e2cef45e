//! The authorization server of the tests, and a scripted browser.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::process::Output;
use crate::support::{DEADLINE, TestEnvironment, real};

pub(crate) struct Authority {
    child: Child,
    pub(crate) mcp: String,
    pub(crate) issuer: String,
    control: String,
    /// Secret and keys for the client credentials grant.
    pub(crate) machines: Value,
}

impl Authority {
    #[track_caller]
    pub(crate) fn start() -> Self {
        Self::of(real::authority())
    }

    /// Starts `command`, which prints its URLs as one line of JSON.
    #[track_caller]
    pub(crate) fn of(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let told: Value = serde_json::from_str(&line).expect("the authority's addresses");
        let text = |name: &str| told[name].as_str().unwrap().to_owned();
        Self {
            mcp: text("mcp"),
            issuer: text("issuer"),
            control: text("control"),
            machines: told["machines"].clone(),
            child,
        }
    }

    #[track_caller]
    pub(crate) fn ask(&self, path: &str) -> Value {
        let address = self.control.trim_start_matches("http://");
        let mut stream = TcpStream::connect(address).unwrap();
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let is_good = answer.starts_with("HTTP/1.1 200");
        let start = answer.find('{').filter(|_| is_good).unwrap_or_else(|| panic!("{answer}"));
        let end = answer.rfind('}').unwrap();
        serde_json::from_str(&answer[start..=end]).unwrap()
    }

    /// Changes its behavior from now on, for example `ttl=2`.
    #[track_caller]
    pub(crate) fn set(&self, how: &str) {
        self.ask(&format!("/set?{how}"));
    }

    /// Opens `address` in the browser. Returns the final URL and the page.
    #[track_caller]
    pub(crate) fn browse(&self, address: &str) -> Value {
        let address: String = url::form_urlencoded::byte_serialize(address.as_bytes()).collect();
        self.ask(&format!("/browse?url={address}"))
    }

    pub(crate) fn counts(&self) -> Value {
        self.ask("/counts")
    }

    #[track_caller]
    pub(crate) fn wait_for(&self, what: &str, times: u64) {
        let began = Instant::now();
        while self.counts()[what].as_u64() < Some(times) {
            assert!(began.elapsed() < DEADLINE, "{}", self.counts());
            // Counts are only available over HTTP, so poll.
            sleep(Duration::from_millis(20));
        }
    }

    /// Runs `auth login` and opens the printed URL in the browser.
    #[track_caller]
    pub(crate) fn sign_in(&self, bench: &TestEnvironment, args: &[&str]) -> Output {
        bench.write_config();
        let config = bench.config_path();
        self.sign_in_with(bench, &[args, &["--config", &config.to_string_lossy()]].concat())
    }

    /// Like [`Self::sign_in`], with the configuration in `args`.
    #[track_caller]
    pub(crate) fn sign_in_with(&self, bench: &TestEnvironment, args: &[&str]) -> Output {
        let mut command = bench.command(&["auth", "login", "--no-browser"]);
        command.args(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        let mut reader = BufReader::new(child.stdout.take().unwrap());
        let mut stdout = String::new();
        reader.read_line(&mut stdout).unwrap();
        if stdout.starts_with("http") {
            let came = self.browse(stdout.trim());
            if came["status"] == 0 {
                // The browser didn't follow the redirect; its user pastes the final URL.
                writeln!(input, "{}", came["url"].as_str().unwrap()).unwrap();
            }
        }
        reader.read_to_string(&mut stdout).unwrap();
        let mut stderr = String::new();
        child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        let code = child.wait().unwrap().code();
        Output { code, stdout, stderr }
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

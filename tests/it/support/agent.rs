//! An [`Agent`]: a raw MCP client on a child's stdio that sees the exact bytes.

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::support::http::HttpWorkbench;
use crate::support::process::{signal, signal_group};
use crate::support::{DEADLINE, command};

mod eras;
mod http;
mod inbox;
mod response;

use http::HttpSender;
use inbox::{Answer, Inbox, Reply};
pub(crate) use response::Response;

/// How long the child of a dropped agent can take to exit.
const LAST_GRACE: Duration = Duration::from_secs(3);
const PRINTED: usize = 600;

pub(crate) struct Agent {
    pid: u32,
    link: Arc<Link>,
    dir: Option<Arc<TempDir>>,
    /// The workbench of an agent over HTTP, shared by all its agents.
    program: Option<Arc<HttpWorkbench>>,
}

#[derive(Default)]
struct Link {
    stdin: Mutex<Option<ChildStdin>>,
    /// Set for an agent over HTTP, which sends messages here instead of to stdin.
    outlet: Option<HttpSender>,
    inbox: Mutex<Inbox>,
    changed: Condvar,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestId(pub(crate) Value);

impl From<&str> for RequestId {
    fn from(id: &str) -> Self {
        Self(id.into())
    }
}

impl Agent {
    pub(crate) fn spawn<A: AsRef<OsStr>>(program: &str, args: impl IntoIterator<Item = A>) -> Self {
        let mut command = command(program);
        command.args(args);
        Self::start(command)
    }

    /// Starts the command in its own process group and reads all of its output.
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let link = Arc::new(Link { stdin: Mutex::new(child.stdin.take()), ..Link::default() });
        let pid = child.id();
        let stdout = child.stdout.take().expect("piped");
        let stderr = child.stderr.take().expect("piped");
        thread::spawn({
            let link = Arc::clone(&link);
            move || inbox::read_messages(stdout, &link)
        });
        thread::spawn({
            let link = Arc::clone(&link);
            move || inbox::read_log(stderr, &link)
        });
        thread::spawn({
            let link = Arc::clone(&link);
            move || {
                let status = child.wait().expect("a child process");
                link.update(|inbox| inbox.status = Some(status));
            }
        });
        Self { pid, link, dir: None, program: None }
    }

    pub(crate) fn with_temp_dir(mut self, dir: Arc<TempDir>) -> Self {
        self.dir = Some(dir);
        self
    }

    /// Accepts lines that aren't JSON-RPC; see [`Self::violations`].
    pub(crate) fn allowing_violations(self) -> Self {
        self.link.update(|inbox| inbox.tolerant = true);
        self
    }

    /// Lists the tools again after every `list_changed`, as Claude Code does.
    pub(crate) fn relisting_on_change(self) -> Self {
        self.link.update(|inbox| inbox.relists = Some(Vec::new()));
        self
    }

    /// Makes all further requests modern: each carries 2026-07-28 in its `_meta`.
    pub(crate) fn modern(self) -> Self {
        self.modern_with(json!({}))
    }

    pub(crate) fn modern_with(self, capabilities: Value) -> Self {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": capabilities,
            "io.modelcontextprotocol/clientInfo": { "name": "test-agent", "version": "1.0.0" },
        });
        self.link.update(|inbox| inbox.meta = meta.as_object().cloned());
        self
    }

    pub(crate) fn with_reply(self, method: &str, result: Value) -> Self {
        self.link.update(|inbox| inbox.replies.insert(method.to_owned(), Reply::Result(result)));
        self
    }

    /// Leaves the server's requests of `method` for [`Self::next_request`] and [`Self::respond`].
    pub(crate) fn without_reply(self, method: &str) -> Self {
        self.link.update(|inbox| inbox.replies.insert(method.to_owned(), Reply::Hold));
        self
    }

    /// Performs the handshake of a 2025-11-25 client.
    pub(crate) fn initialize(&self) -> Value {
        self.initialize_with(json!({}))
    }

    /// Like [`Self::initialize`], with parameters that replace the usual ones, such as
    /// `{"clientInfo": {"name": "codex-mcp-client", "version": "0.169.0"}}`.
    pub(crate) fn initialize_with(&self, changes: Value) -> Value {
        let mut params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": { "name": "test-agent", "version": "1.0.0" },
        });
        for (key, value) in changes.as_object().into_iter().flatten() {
            params[key] = value.clone();
        }
        let result = self.request("initialize", params).ok();
        self.notify("notifications/initialized", Value::Null);
        result
    }

    pub(crate) fn request(&self, method: &str, params: Value) -> Response {
        let id = self.send_request(method, params);
        self.wait(&id)
    }

    pub(crate) fn send_request(&self, method: &str, params: Value) -> RequestId {
        let id = self.link.update(Inbox::next_id);
        self.link.send_request(&id.into(), method, params);
        RequestId(id.into())
    }

    /// Waits for the response, or the next one with the same id.
    pub(crate) fn wait(&self, id: &RequestId) -> Response {
        self.wait_for(&format!("the answer to request {}", id.0), |inbox| {
            inbox.take_response(&id.0)
        })
    }

    pub(crate) fn answered(&self, id: &RequestId) -> Option<Response> {
        self.link.inbox().take_response(&id.0)
    }

    pub(crate) fn send_raw(&self, line: &str) {
        self.link.send(line);
    }

    /// `Value::Null` omits the parameters.
    pub(crate) fn notify(&self, method: &str, params: Value) {
        self.link.send(&inbox::message(None, method, params).to_string());
    }

    /// Cancels a request. A modern client over HTTP closes its connection.
    pub(crate) fn cancel(&self, id: &RequestId) {
        if let Some(outlet) = self.link.outlet.as_ref().filter(|_| self.is_modern()) {
            return outlet.hang_up(&id.0);
        }
        self.notify("notifications/cancelled", json!({ "requestId": id.0 }));
    }

    pub(crate) fn call(&self, tool: &str, arguments: Value) -> Response {
        let id = self.send_call(tool, arguments);
        self.wait(&id)
    }

    /// Uses the request id as the progress token, as the known clients do.
    pub(crate) fn send_call(&self, tool: &str, arguments: Value) -> RequestId {
        let id = self.link.update(Inbox::next_id);
        let params = json!({
            "name": tool,
            "arguments": arguments,
            "_meta": { "progressToken": id },
        });
        self.link.send_request(&id.into(), "tools/call", params);
        RequestId(id.into())
    }

    pub(crate) fn open(&self, toolbox: &str) -> Response {
        self.call("open_toolbox", json!({ "toolbox": toolbox }))
    }

    pub(crate) fn use_tool(&self, path: [&str; 3], arguments: Value) -> Response {
        let [toolbox, server, tool] = path;
        let tool = json!({ "toolbox": toolbox, "server": server, "tool": tool });
        self.call("use_tool", json!({ "tool": tool, "arguments": arguments }))
    }

    /// Lists all pages of tools.
    pub(crate) fn tools(&self) -> Vec<Value> {
        let mut tools = Vec::new();
        let mut params = Value::Null;
        loop {
            let page = self.request("tools/list", params).ok();
            tools.extend(page["tools"].as_array().expect("a list").iter().cloned());
            match &page["nextCursor"] {
                Value::Null => return tools,
                cursor => params = json!({ "cursor": cursor }),
            }
            assert!(tools.len() < 10_000, "the tool list has too many pages");
        }
    }

    pub(crate) fn tool_names(&self) -> Vec<String> {
        names(&self.tools())
    }

    /// Waits for the next notification of `method` that no test has taken, and returns its
    /// parameters.
    pub(crate) fn next_notification(&self, method: &str) -> Value {
        self.wait_for(method, |inbox| inbox.take_notification(method))
    }

    /// All notifications so far, including taken ones.
    pub(crate) fn notifications(&self) -> Vec<Value> {
        self.link.inbox().notifications.clone()
    }

    pub(crate) fn progress(&self, id: &RequestId) -> Vec<Value> {
        let of_call = |message: &Value| {
            message["method"] == "notifications/progress"
                && message["params"]["progressToken"] == id.0
        };
        let all = self.notifications().into_iter();
        all.filter(of_call).map(|message| message["params"].clone()).collect()
    }

    pub(crate) fn wait_progress(&self, id: &RequestId, count: usize) {
        self.wait_for(&format!("{count} steps of request {}", id.0), |inbox| {
            let steps = inbox.notifications.iter().filter(|message| {
                message["method"] == "notifications/progress"
                    && message["params"]["progressToken"] == id.0
            });
            (steps.count() >= count).then_some(())
        });
    }

    /// One list of names per `list_changed` so far.
    pub(crate) fn relists(&self) -> Vec<Vec<String>> {
        let relists = self.link.inbox().relists.clone();
        relists.unwrap_or_default().iter().map(|tools| names(tools)).collect()
    }

    /// Waits until a relisting agent has listed `count` times. Returns the last list.
    pub(crate) fn wait_relists(&self, count: usize) -> Vec<String> {
        self.wait_for(&format!("{count} lists"), |inbox| {
            let tools = inbox.relists.as_ref()?.get(count - 1)?;
            Some(names(tools))
        })
    }

    pub(crate) fn next_request(&self, method: &str) -> Value {
        self.wait_for(method, |inbox| inbox.take_request(method))
    }

    pub(crate) fn respond(&self, request: &Value, result: Value) {
        let answer = json!({ "jsonrpc": "2.0", "id": request["id"], "result": result });
        self.send_raw(&answer.to_string());
    }

    /// Every line received (`< `) and sent (`> `).
    pub(crate) fn transcript(&self) -> Vec<String> {
        self.link.inbox().transcript.clone()
    }

    pub(crate) fn violations(&self) -> Vec<String> {
        self.link.inbox().violations.clone()
    }

    pub(crate) fn stderr(&self) -> String {
        self.link.inbox().log.clone()
    }

    /// Waits until stderr contains the text, and returns stderr up to now. The program writes its
    /// log asynchronously, so a test that expects a line has to wait for it.
    #[track_caller]
    pub(crate) fn wait_stderr(&self, text: &str) -> String {
        self.wait_stderr_times(text, 1)
    }

    /// Waits until stderr contains the text at least `times` times, and returns stderr up to now.
    #[track_caller]
    pub(crate) fn wait_stderr_times(&self, text: &str, times: usize) -> String {
        let log = self.link.wait(DEADLINE, |inbox| {
            let found = inbox.log.matches(text).count() >= times;
            (found || inbox.log_ended).then(|| found.then(|| inbox.log.clone()))
        });
        let seen = || panic!("stderr lacks `{text}` ({times} times): {}", self.stderr());
        log.flatten().unwrap_or_else(seen)
    }

    #[track_caller]
    pub(crate) fn wait_line(&self, line: &str) {
        let line = format!("< {line}");
        self.wait_for(&line, |inbox| inbox.transcript.contains(&line).then_some(()));
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    pub(crate) fn close_stdin(&self) {
        self.link.stdin().take();
    }

    #[track_caller]
    pub(crate) fn wait_exit(&self, within: Duration) -> ExitStatus {
        let status = self.link.wait(within, |inbox| inbox.status);
        status.unwrap_or_else(|| panic!("still running after {within:?}"))
    }

    /// Waits until all output of the child has been read.
    #[track_caller]
    pub(crate) fn wait_end(&self) {
        let ended =
            self.link.wait(DEADLINE, |inbox| (inbox.ended && inbox.log_ended).then_some(()));
        assert!(ended.is_some(), "the output did not end");
    }

    pub(crate) fn signal(&self, which: Signal) {
        signal(self.pid, which);
    }

    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Fails at the deadline, at the end of the output, and on a line that isn't JSON-RPC.
    #[track_caller]
    fn wait_for<T>(&self, what: &str, mut look: impl FnMut(&mut Inbox) -> Option<T>) -> T {
        let found = self.link.wait(DEADLINE, |inbox| {
            if let Some(found) = look(inbox) {
                return Some(Ok(found));
            }
            let over = inbox.ended || (!inbox.tolerant && !inbox.violations.is_empty());
            over.then(|| Err(inbox.violations.clone()))
        });
        match found {
            Some(Ok(found)) => found,
            Some(Err(violations)) if violations.is_empty() => {
                panic!("the output ended before {what}")
            }
            Some(Err(violations)) => panic!("protocol violations before {what}: {violations:#?}"),
            None => panic!("no {what} within {DEADLINE:?}"),
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.close_stdin();
        if self.program.is_none() {
            self.end();
        }
        let inbox = self.link.inbox();
        if thread::panicking() {
            println!("--- transcript");
            for line in &inbox.transcript {
                let short: String = line.chars().take(PRINTED).collect();
                println!("{short}");
            }
            println!("--- stderr\n{}", inbox.log);
        } else if !inbox.tolerant {
            let violations = inbox.violations.clone();
            drop(inbox);
            assert!(violations.is_empty(), "protocol violations: {violations:#?}");
            assert!(!self.stderr().contains("rehearsal: "), "{}", self.stderr());
        }
    }
}

impl Agent {
    fn end(&self) {
        if self.link.wait(LAST_GRACE, |inbox| inbox.status).is_none() {
            self.kill();
        }
        signal_group(self.pid, Signal::KILL);
    }
}

impl Link {
    /// Ignores poisoning: a failing test still prints the log.
    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stdin(&self) -> MutexGuard<'_, Option<ChildStdin>> {
        self.stdin.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update<T>(&self, change: impl FnOnce(&mut Inbox) -> T) -> T {
        let changed = change(&mut self.inbox());
        self.changed.notify_all();
        changed
    }

    /// Returns `None` at the deadline.
    fn wait<T>(
        &self,
        within: Duration,
        mut look: impl FnMut(&mut Inbox) -> Option<T>,
    ) -> Option<T> {
        let end = Instant::now() + within;
        let mut inbox = self.inbox();
        loop {
            if let Some(found) = look(&mut inbox) {
                return Some(found);
            }
            let left = end.checked_duration_since(Instant::now())?;
            let woken = self.changed.wait_timeout(inbox, left);
            inbox = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn send_request(&self, id: &Value, method: &str, mut params: Value) {
        if let Some(era) = &self.inbox().meta {
            let mut meta = params["_meta"].as_object().cloned().unwrap_or_default();
            meta.extend(era.clone());
            params["_meta"] = Value::Object(meta);
        }
        self.send(&inbox::message(Some(id), method, params).to_string());
    }

    fn take(&self, line: &str) {
        match self.update(|inbox| inbox.receive(line)) {
            None => {}
            Some(Answer::Line(line)) => self.send(&line),
            Some(Answer::Relist(id)) => self.send_request(&id, "tools/list", Value::Null),
        }
    }

    /// Ignores write errors: waiting for the response fails if the child is gone.
    fn send(&self, line: &str) {
        let mut stdin = self.stdin();
        self.inbox().transcript.push(format!("> {line}"));
        if let Some(outlet) = &self.outlet {
            return outlet.post(line);
        }
        if let Some(stdin) = stdin.as_mut() {
            let _ = stdin.write_all(format!("{line}\n").as_bytes());
        }
    }
}

fn names(tools: &[Value]) -> Vec<String> {
    let name = |tool: &Value| tool["name"].as_str().expect("a tool has a name").to_owned();
    tools.iter().map(name).collect()
}

type Meta = Map<String, Value>;

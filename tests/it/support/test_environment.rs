//! A [`TestEnvironment`]: configuration, environment and folder of one test, around the real
//! executable.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::agent::Agent;
use crate::support::http::{HttpClient, HttpWorkbench};
use crate::support::process::{Output, fake_path, finish_within, run_to_exit};
use crate::support::real::{Sdk, sdk_client};
use crate::support::{DEADLINE, REHEARSAL_VAR, command, snapshot};

pub(crate) const TOKEN_OF_ANN: &str = "mcpw_ann_0123456789abcdefghij";
pub(crate) const TOKEN_OF_BOB: &str = "mcpw_bob_0123456789abcdefghij";

pub(crate) fn fake(script: Value) -> Value {
    json!({ "command": fake_path(), "args": [script.to_string()] })
}

fn parts(entry: &Value) -> (String, Vec<String>, Vec<(String, String)>) {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let args = entry["args"].as_array().into_iter().flatten().map(text);
    let env = entry["env"].as_object().into_iter().flatten();
    let env = env.map(|(name, value)| (name.clone(), text(value)));
    (text(&entry["command"]), args.collect(), env.collect())
}

fn address_of(program: &HttpWorkbench) -> HttpClient {
    const SAYS: &str = "serving MCP at http";
    let log = program.0.wait_stderr("/mcp");
    let (_, url) = log.split_once(SAYS).expect("a URL");
    let (_, url) = url.split_once("://").expect("a URL");
    let (address, _) = url.split_once("/mcp").expect("the endpoint");
    HttpClient(address.parse().expect("an address"))
}

pub(crate) fn conformance(eras: &str) -> Value {
    json!({ "command": env!("CARGO_BIN_EXE_conformance-server"), "args": [eras] })
}

/// A temporary folder, a configuration in it, and a cleared environment.
#[derive(Clone)]
#[must_use]
pub(crate) struct TestEnvironment {
    dir: Arc<TempDir>,
    config: Value,
    env: Vec<(String, String)>,
    /// If `true`, a configuration without `toolMode` is served in the default mode instead of
    /// `dynamic`.
    leaves_mode: bool,
}

impl TestEnvironment {
    pub(crate) fn new() -> Self {
        let dir = TempDir::with_prefix("workbench-").expect("a temporary folder");
        fs::create_dir(dir.path().join("home")).expect("an empty home");
        Self { dir: Arc::new(dir), config: json!({}), env: Vec::new(), leaves_mode: false }
    }

    pub(crate) fn toolbox(mut self, toolbox: &str, description: &str) -> Self {
        self.config["toolboxes"][toolbox]["description"] = description.into();
        self
    }

    /// Adds a server and, if it is missing, its toolbox.
    pub(crate) fn server(mut self, toolbox: &str, server: &str, entry: Value) -> Self {
        let toolbox_entry = &mut self.config["toolboxes"][toolbox];
        if toolbox_entry.is_null() {
            toolbox_entry["description"] = format!("The tools of {toolbox}").into();
        }
        toolbox_entry["mcpServers"][server] = entry;
        self
    }

    pub(crate) fn set(mut self, key: &str, value: Value) -> Self {
        self.config[key] = value;
        self
    }

    /// Serves a configuration without `toolMode` in the default mode. Otherwise it is served in
    /// `dynamic` mode, which exposes the most to tests.
    pub(crate) fn in_default_mode(mut self) -> Self {
        self.leaves_mode = true;
        self
    }

    pub(crate) fn config(mut self, config: Value) -> Self {
        self.config = config;
        self
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn file(self, name: &str, text: &str) -> Self {
        self.write(name, text);
        self
    }

    /// The folder of the test, which is also the working directory of the program.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn path_text(&self, name: &str) -> String {
        self.path(name).to_string_lossy().into_owned()
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("a file in the test folder");
    }

    pub(crate) fn config_path(&self) -> PathBuf {
        self.path("workbench.json")
    }

    pub(crate) fn write_config(&self) {
        let text = serde_json::to_string_pretty(&self.config).expect("JSON");
        self.write("workbench.json", &text);
    }

    /// Runs a command, with `--config` unless the arguments have it.
    pub(crate) fn run<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Output {
        let args: Vec<&str> = args.into_iter().collect();
        let mut command = self.command(&args);
        if !args.contains(&"--config") {
            self.write_config();
            command.arg("--config").arg(self.config_path());
        }
        run_to_exit(command, "")
    }

    pub(crate) fn run_with_input<'a>(
        &self,
        args: impl IntoIterator<Item = &'a str>,
        input: &str,
    ) -> Output {
        self.write_config();
        let args: Vec<&str> = args.into_iter().collect();
        let mut command = self.command(&args);
        command.arg("--config").arg(self.config_path());
        run_to_exit(command, input)
    }

    /// Runs a command with exactly these arguments, without a configuration.
    pub(crate) fn run_bare<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Output {
        let args: Vec<&str> = args.into_iter().collect();
        run_to_exit(self.command(&args), "")
    }

    pub(crate) fn agent(&self) -> Agent {
        self.agent_with([])
    }

    pub(crate) fn agent_with<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Agent {
        let mut command = self.serve();
        command.args(args);
        Agent::start(command).with_temp_dir(Arc::clone(&self.dir))
    }

    /// The command of [`Self::agent`], for tests that read and write the streams themselves.
    pub(crate) fn serve(&self) -> Command {
        self.write_config();
        let mut command = self.command(&["serve"]);
        let has_servers = ["toolboxes", "mcpServers"].iter().any(|key| !self.config[key].is_null());
        if has_servers && self.config["toolMode"].is_null() && !self.leaves_mode {
            command.env("WORKBENCH_TOOL_MODE", "dynamic");
        }
        command.arg("--config").arg(self.config_path());
        command
    }

    pub(crate) fn http(&self) -> (HttpWorkbench, HttpClient) {
        self.http_with([])
    }

    pub(crate) fn http_with<'a>(
        &self,
        args: impl IntoIterator<Item = &'a str>,
    ) -> (HttpWorkbench, HttpClient) {
        self.http_at("127.0.0.1:0", args)
    }

    pub(crate) fn http_at<'a>(
        &self,
        address: &'a str,
        args: impl IntoIterator<Item = &'a str>,
    ) -> (HttpWorkbench, HttpClient) {
        let args = ["--http", address].into_iter().chain(args);
        let program = HttpWorkbench(self.agent_with(args));
        let http = address_of(&program);
        (program, http)
    }

    pub(crate) fn expose<'a>(
        &self,
        args: impl IntoIterator<Item = &'a str>,
    ) -> (HttpWorkbench, HttpClient) {
        self.write_config();
        let args = ["expose", "--http", "127.0.0.1:0"].into_iter().chain(args);
        let mut command = self.command(&args.collect::<Vec<_>>());
        command.env("WORKBENCH_CONFIG", self.config_path());
        let program = HttpWorkbench(Agent::start(command).with_temp_dir(Arc::clone(&self.dir)));
        let http = address_of(&program);
        (program, http)
    }

    /// Writes the record of a service, as `setup --service` does if the system has no service
    /// manager. `program` is the executable to start.
    pub(crate) fn remember_service(&self, address: SocketAddr, program: &str) {
        let service = json!({
            "version": 1,
            "address": address,
            "program": program,
            "manager": "nobody",
            "name": "mcp-workbench",
            "tokens": { "ann": TOKEN_OF_ANN, "bob": TOKEN_OF_BOB },
        });
        self.write("workbench.service.json", &service.to_string());
    }

    /// An agent on the bridge to a workbench at this address.
    pub(crate) fn connect_to(&self, address: SocketAddr) -> Agent {
        self.remember_service(address, env!("CARGO_BIN_EXE_mcp-workbench"));
        self.connect("ann")
    }

    pub(crate) fn connect(&self, agent: &str) -> Agent {
        let mut command = self.command(&["connect", "--agent", agent, "--config"]);
        command.arg(self.config_path());
        Agent::start(command).with_temp_dir(Arc::clone(&self.dir))
    }

    /// An agent connected to a server itself, started as the gateway would start this entry.
    pub(crate) fn direct(&self, entry: &Value) -> Agent {
        let (program, args, env) = parts(entry);
        let mut server = self.equip(command(&program));
        server.args(args).envs(env);
        Agent::start(server).with_temp_dir(Arc::clone(&self.dir))
    }

    /// Runs an SDK client against the gateway. The client opens the toolbox and calls the tool, in
    /// mode `dynamic` or `proxy`. Returns its events.
    pub(crate) fn sdk(
        &self,
        sdk: Sdk,
        mode: &str,
        path: [&str; 3],
        arguments: Value,
    ) -> Vec<Value> {
        self.client(DEADLINE, sdk_client(sdk, mode, path, arguments)).json_lines()
    }

    /// Like [`Self::sdk`], against the server at this URL. The mode can also be `direct`.
    pub(crate) fn sdk_at(
        &self,
        url: &str,
        sdk: Sdk,
        mode: &str,
        path: [&str; 3],
        arguments: Value,
    ) -> Vec<Value> {
        let mut client = sdk_client(sdk, mode, path, arguments);
        client.arg(url);
        finish_within(DEADLINE, self.equip(client), "").json_lines()
    }

    /// Runs a client against the gateway. The command of the gateway is appended to its arguments.
    pub(crate) fn client(&self, within: Duration, mut client: Command) -> Output {
        self.write_config();
        client
            .arg(env!("CARGO_BIN_EXE_mcp-workbench"))
            .args(["serve", "--config"])
            .arg(self.config_path());
        finish_within(within, self.equip(client), "")
    }

    pub(crate) fn direct_client(
        &self,
        within: Duration,
        mut client: Command,
        entry: &Value,
    ) -> Output {
        let (program, args, env) = parts(entry);
        client.arg(program).args(args).envs(env);
        finish_within(within, self.equip(client), "")
    }

    pub(crate) fn settings(&self) -> insta::Settings {
        snapshot::settings(self.dir())
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = command(env!("CARGO_BIN_EXE_mcp-workbench"));
        command.args(args);
        self.equip(command)
    }

    fn equip(&self, mut command: Command) -> Command {
        command
            .current_dir(self.dir())
            .env("HOME", self.path("home"))
            .env_remove("WORKBENCH_CACHE_DIR")
            .envs(std::env::var_os(REHEARSAL_VAR).map(|is_on| (REHEARSAL_VAR, is_on)))
            .envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }

    pub(crate) fn workbenches(&self) -> Vec<Value> {
        let all = self.run_bare(["ps", "--json"]);
        serde_json::from_str(&all.stdout).unwrap_or_else(|_| panic!("{all}"))
    }

    pub(crate) fn services(&self) -> Vec<u32> {
        let all = self.workbenches();
        let over_http = all.iter().filter(|workbench| workbench["endpoint"] != "stdio");
        over_http.map(|own| u32::try_from(own["pid"].as_u64().unwrap()).unwrap()).collect()
    }

    /// Waits for the only workbench that serves over HTTP and returns its pid.
    pub(crate) fn service(&self) -> u32 {
        let end = Instant::now() + DEADLINE;
        loop {
            match self.services().as_slice() {
                [] => assert!(Instant::now() < end, "no background service is running"),
                [pid] => return *pid,
                several => panic!("{several:?}"),
            }
        }
    }
}

//! A `redis-server` process for a test.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use redis::{FromRedisValue, cmd};
use tempfile::TempDir;

use crate::tests::{config, until};
use mcp_workbench_settings::SharedStoreConfig;

/// Killed on drop.
pub(crate) struct Server {
    child: Child,
    port: u16,
    arguments: Vec<String>,
    folder: TempDir,
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::with(&[]).await
    }

    pub(crate) async fn with(arguments: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        let arguments: Vec<_> = arguments.iter().map(|it| (*it).to_owned()).collect();
        let port = free_port();
        let child = launch(port, &arguments, folder.path());
        let server = Self { child, port, arguments, folder };
        server.ready().await;
        server
    }

    async fn ready(&self) {
        // Don't bind the port to find out: the server couldn't bind it at that moment.
        until("the server listens", async || TcpStream::connect(self.address()).is_ok()).await;
        let is_plain = !self.arguments.iter().any(|it| it == "--tls-port");
        if is_plain {
            until("the server answers", async || {
                self.try_ask::<String>("PING").await.is_ok_and(|_| true)
                    || self
                        .try_ask::<String>("PING")
                        .await
                        .is_err_and(|error| error.code().is_some())
            })
            .await;
        }
    }

    fn address(&self) -> (&'static str, u16) {
        ("127.0.0.1", self.port)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn config(&self) -> SharedStoreConfig {
        config(&format!("redis://127.0.0.1:{}", self.port))
    }

    async fn try_ask<T: FromRedisValue>(&self, asked: &str) -> redis::RedisResult<T> {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}", self.port))?;
        let mut connection = client.get_multiplexed_async_connection().await?;
        let mut words = asked.split(' ');
        let mut asked = cmd(words.next().unwrap_or_default());
        words.for_each(|word| _ = asked.arg(word));
        asked.query_async(&mut connection).await
    }

    /// Runs a command, given as words separated by spaces.
    pub(crate) async fn ask<T: FromRedisValue>(&self, asked: &str) -> T {
        self.try_ask(asked).await.unwrap_or_else(|error| panic!("{asked}: {error}"))
    }

    pub(crate) async fn keys(&self) -> Vec<String> {
        let mut keys: Vec<String> = self.ask("KEYS *").await;
        keys.sort();
        keys
    }

    pub(crate) async fn key_with(&self, part: &str) -> String {
        let keys = self.keys().await;
        let found = keys.iter().find(|key| key.contains(part)).cloned();
        found.unwrap_or_else(|| panic!("no {part} in {keys:?}"))
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Restarts the server on the same port, with an empty database.
    pub(crate) async fn restart(&mut self) {
        self.kill();
        self.child = launch(self.port, &self.arguments, self.folder.path());
        self.ready().await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The server may be dead already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

fn launch(port: u16, arguments: &[String], folder: &Path) -> Child {
    let port = port.to_string();
    let has_tls = arguments.iter().any(|it| it == "--tls-port");
    #[expect(clippy::disallowed_methods, reason = "starts the store of a test")]
    let mut command = Command::new("redis-server");
    command.args(["--port", if has_tls { "0" } else { &port }]);
    command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir"]).arg(folder);
    command.args(arguments.iter().map(|it| if it == "PORT" { &port } else { it }));
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    child.unwrap_or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            panic!("redis-server is not installed; run `scripts/test.sh --setup`")
        }
        _ => panic!("redis-server: {error}"),
    })
}

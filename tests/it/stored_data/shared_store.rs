//! A shared store: sessions, a truncated result, and sealed listings and logins.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::replicas::fleet::{Process, free, store};
use crate::stored_data::{fixture, json_fixture, parse, sha256_hex, with_fake_on_path};
use crate::support::http::{HttpClient, Response, request};
use crate::support::test_environment::{TOKEN_OF_ANN, TOKEN_OF_BOB};
use crate::support::{DEADLINE, TestEnvironment};

/// A Redis with the fixture's data.
struct Redis {
    stream: BufReader<TcpStream>,
    process: Process,
    _folder: TempDir,
}

impl Redis {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let process = store(free(), folder.path());
        let stream =
            BufReader::new(TcpStream::connect(process.address).expect("the store listens"));
        stream.get_ref().set_read_timeout(Some(DEADLINE)).expect("a timeout");
        let mut redis = Self { stream, process, _folder: folder };
        let keys = json_fixture("shared/redis.json");
        for (key, value) in keys.as_object().expect("keys") {
            redis.load(key, value);
        }
        redis
    }

    fn load(&mut self, key: &str, value: &Value) {
        const TTL_MS: &str = "600000";
        let (kind, content) =
            value.as_object().and_then(|value| value.iter().next()).expect("a kind");
        let members = || content.as_array().expect("members").iter().map(bytes);
        let words = match kind.as_str() {
            "string" => vec![b"SET".to_vec(), key.into(), bytes(content)],
            "hash" => {
                let fields = content.as_object().expect("fields").iter();
                let fields =
                    fields.flat_map(|(field, value)| [field.clone().into_bytes(), bytes(value)]);
                [b"HSET".to_vec(), key.into()].into_iter().chain(fields).collect()
            }
            "set" => [b"SADD".to_vec(), key.into()].into_iter().chain(members()).collect(),
            "zset" => {
                // The score is when the member expires, in microseconds since 1970.
                let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time");
                let expires = (now.as_micros() + 600_000_000).to_string().into_bytes();
                let members = members().flat_map(|member| [expires.clone(), member]);
                [b"ZADD".to_vec(), key.into()].into_iter().chain(members).collect()
            }
            kind => panic!("{key}: {kind}"),
        };
        self.ask(&words);
        self.ask(&[b"PEXPIRE".to_vec(), key.into(), TTL_MS.into()]);
    }

    /// Sends a command, and returns its reply: the text of a bulk string, or else the whole line.
    fn ask(&mut self, words: &[Vec<u8>]) -> String {
        let mut command = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            command.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            command.extend_from_slice(word);
            command.extend_from_slice(b"\r\n");
        }
        self.stream.get_mut().write_all(&command).expect("the store reads");
        let mut line = String::new();
        self.stream.read_line(&mut line).expect("an answer");
        assert!(!line.starts_with('-'), "{line}");
        let Some(length) = line.strip_prefix('$') else { return line };
        let mut text = vec![0; length.trim_end().parse::<usize>().expect("a text") + 2];
        self.stream.read_exact(&mut text).expect("a text");
        String::from_utf8(text).expect("UTF-8").trim_end().to_owned()
    }

    /// The record of the session at this key.
    fn session(&mut self, key: &str) -> Value {
        let text = self.ask(&[b"HGET".to_vec(), key.into(), b"text".to_vec()]);
        serde_json::from_str(&text).expect("JSON")
    }

    /// The store without keys: sessions aren't sealed then, as in the previous version.
    fn without_keys(&self, env: TestEnvironment) -> TestEnvironment {
        env.set("sharedStore", json!({ "url": format!("redis://{}", self.process.address) }))
    }

    /// An environment with one of the fixture's configurations and this store.
    fn environment(&self, config: &str) -> TestEnvironment {
        let url = format!("redis://{}", self.process.address);
        let config = fixture(config).replace("{{redis}}", &url);
        let env = TestEnvironment::new().config(serde_json::from_str(&config).expect("JSON"));
        env.file("sealing.key", &fixture("shared/sealing.key"))
    }
}

/// A text, or bytes in base64.
fn bytes(value: &Value) -> Vec<u8> {
    match value {
        Value::String(text) => text.clone().into_bytes(),
        value => STANDARD.decode(value["base64"].as_str().expect("base64")).expect("base64"),
    }
}

/// A stored session that continues in another process.
struct StoredSession {
    stored: Value,
    http: HttpClient,
    /// The key of its record in the store.
    key: String,
    before: Value,
}

impl StoredSession {
    /// The session of a client in this mode, before its first request.
    fn find(redis: &mut Redis, mode: &str, http: HttpClient) -> Self {
        let stored = json_fixture("shared/sessions.json")[mode].take();
        let word = format!(r#""mode":"{mode}""#);
        let keys = json_fixture("shared/redis.json");
        let mut keys = keys.as_object().expect("keys").iter();
        let is_its =
            |content: &Value| content["hash"]["text"].as_str().is_some_and(|it| it.contains(&word));
        let (key, _) = keys.find(|(_, content)| is_its(content)).expect("a session");
        let before = redis.session(key);
        Self { stored, http, key: key.clone(), before }
    }

    fn send(&self, token: &str, method: &str, params: Value) -> Response {
        let bearer = format!("Bearer {token}");
        let headers = [
            ("Authorization", bearer.as_str()),
            ("Mcp-Session-Id", self.stored["id"].as_str().expect("an id")),
            ("MCP-Protocol-Version", "2025-11-25"),
        ];
        self.http.post(&headers, &request(100, method, params))
    }

    fn ask(&self, method: &str, params: Value) -> Value {
        self.send(TOKEN_OF_ANN, method, params).last()
    }

    fn call(&self, tool: &str) -> Value {
        self.ask("tools/call", json!({ "name": tool, "arguments": { "text": "hello" } }))["result"]
            .take()
    }

    #[track_caller]
    fn assert_same_tools(&self) {
        let listed = self.ask("tools/list", json!({}));
        assert_eq!(json!(names(&listed["result"]["tools"])), self.stored["tools"]);
    }

    /// Compares the record with the stored one, except for members that describe the process.
    #[track_caller]
    fn assert_same_record(&self, redis: &mut Redis) {
        let after = redis.session(&self.key);
        let own = |record: &Value| {
            let mut session = record["record"]["session"].clone();
            let members = session.as_object_mut().expect("a session");
            for member in ["tenure", "moves", "configuration"] {
                assert!(members.remove(member).is_some(), "{member}");
            }
            // The client has listed its tools again, so both depend on this version and on when
            // its servers start.
            let lists = &mut session["lists"];
            assert!(lists["given"]["tools"].take().is_string());
            assert!(lists["isCurrent"].take().is_boolean());
            session
        };
        assert_eq!(own(&after), own(&self.before));
        let epoch = |record: &Value| record["record"]["session"]["tenure"]["epoch"].as_u64();
        assert_eq!((epoch(&self.before), epoch(&after)), (Some(0), Some(1)));
    }
}

fn names(tools: &Value) -> Vec<&str> {
    let tools = tools.as_array().expect("tools").iter();
    tools.map(|tool| tool["name"].as_str().expect("a name")).collect()
}

#[test]
fn session_of_the_previous_version_continues() {
    let mut redis = Redis::start();
    let [ann, bob] = [("ann", TOKEN_OF_ANN), ("bob", TOKEN_OF_BOB)]
        .map(|(agent, token)| json!({ "agent": agent, "sha256": sha256_hex(token) }));
    let env = redis.environment("shared/dynamic.json");
    let env = with_fake_on_path(env.set("auth", json!({ "tokens": [ann, bob] })));
    let (_program, http) = redis.without_keys(env).http();
    let session = StoredSession::find(&mut redis, "dynamic", http);

    let foreign = session.send(TOKEN_OF_BOB, "tools/list", json!({}));
    assert_eq!(foreign.status, 404, "the session belongs to ann");
    session.assert_same_tools();
    let called = session.call("box__srv__echo");
    assert_eq!(called["structuredContent"]["text"], "hello", "{called}");
    let read = session.ask("resources/read", json!({ "uri": session.stored["remainder"] }));
    assert!(read["error"].is_object(), "remainders aren't shared without keys: {read}");
    session.assert_same_record(&mut redis);
}

#[test]
fn unsealed_session_is_unknown_with_keys() {
    let mut redis = Redis::start();
    let (_program, http) = with_fake_on_path(redis.environment("shared/dynamic.json")).http();
    let session = StoredSession::find(&mut redis, "dynamic", http);
    assert_eq!(session.send(TOKEN_OF_ANN, "tools/list", json!({})).status, 404);
}

#[test]
fn session_of_the_previous_version_keeps_its_active_tools_and_isolated_servers() {
    let mut redis = Redis::start();
    let env = with_fake_on_path(redis.environment("shared/activate.json"));
    let (_program, http) = redis.without_keys(env).http();
    let session = StoredSession::find(&mut redis, "activate", http);
    session.assert_same_tools();
    session.assert_same_record(&mut redis);
    // The isolated server process ended with the previous workbench; the first call reports that.
    let called = session.call("box_echo");
    assert_eq!(called["isError"], true, "{called}");
    let called = session.call("box_echo");
    assert_eq!(called["structuredContent"]["text"], "hello", "{called}");
}

#[test]
fn sealed_listing_of_the_previous_version_is_read() {
    let redis = Redis::start();
    // The fake server isn't on PATH, so the tools come from the store.
    let env = redis.environment("shared/dynamic.json").set("toolMode", json!("direct"));
    let (_program, http) = env.env("PATH", "/nonexistent").http();
    let bearer = format!("Bearer {TOKEN_OF_ANN}");
    let listed = http.modern("tools/list", json!({}), &[("Authorization", &bearer)]).last();
    assert_eq!(names(&listed["result"]["tools"]), ["echo", "result", "ask", "notify", "add"]);
}

#[test]
fn sealed_login_of_the_previous_version_has_the_same_status() {
    let redis = Redis::start();
    let status =
        parse(&redis.environment("shared/signed-in.json").run(["auth", "status", "--json"]));
    assert_eq!(status, json_fixture("shared/status.json"));
}

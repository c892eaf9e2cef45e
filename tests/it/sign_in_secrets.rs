//! Login secrets stay out of traces, metrics, records, logs, files and child processes.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, sleep};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use url::Url;

use crate::sign_in::authority::Authority;
use crate::sign_in::{login, texts, walk};
use crate::support::{Agent, DEADLINE, TestEnvironment, fake, real};

fn collector() -> (String, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (sender, exports) = channel();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut reader = BufReader::new(&stream);
            let (mut length, mut line) = (0, String::new());
            while reader.read_line(&mut line).unwrap_or(0) > 2 {
                if let Some(said) = line.to_lowercase().strip_prefix("content-length: ") {
                    length = said.trim().parse().unwrap();
                }
                line.clear();
            }
            let mut body = vec![0; length];
            let _ = reader.read_exact(&mut body);
            let answer = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            let _ = (&stream).write_all(answer.as_bytes());
            if sender.send(body).is_err() {
                return;
            }
        }
    });
    (address, exports)
}

fn kept(bench: &TestEnvironment) -> Vec<String> {
    let mut secrets = Vec::new();
    texts(&login(bench), "", &mut secrets);
    assert!(secrets.len() >= 3, "expected two tokens and a client secret: {secrets:?}");
    secrets
}

#[test]
fn login_secrets_do_not_leak() {
    let mut command = real::authority();
    command.env("AUTH_METHODS", "client_secret_basic");
    let authority = Authority::of(command);
    let (address, exports) = collector();
    let script = json!({
        "tools": ["env", "args"], "behavior": { "env": { "env": {} }, "args": { "args": {} } },
    });
    let bench = TestEnvironment::new()
        .server("dev", "hub", json!({ "url": authority.mcp }))
        .server("dev", "child", fake(script))
        .set("toolMode", json!("proxy"))
        .set("telemetry", json!({ "otlp": address }))
        .set("audit", json!({ "file": "audit.jsonl", "arguments": "whole" }));
    authority.set("ttl=2");
    let (program, http) = bench.http_with(["--log-level", "trace"]);
    let abilities = json!({ "elicitation": { "form": {}, "url": {} } });
    let question = "elicitation/create";
    let agent = Agent::over_http((program, http)).without_reply(question).begin(false, abilities);
    let call = |tool: &str, server: &str| {
        let tool = json!({ "toolbox": "dev", "server": server, "tool": tool });
        agent.send_call("use_tool", json!({ "tool": tool, "arguments": {} }))
    };
    let waiting = call("read", "hub");
    let asked = agent.next_request(question);
    let page = asked["params"]["url"].as_str().unwrap();
    agent.respond(&asked, json!({ "action": "accept" }));
    let back = authority.browse(page)["url"].as_str().unwrap().to_owned();
    assert!(format!("{:?}", agent.wait(&waiting)).contains("read by ann"));
    let code = Url::parse(&back).unwrap();
    let code = code.query_pairs().find(|(name, _)| name == "code").expect("a code").1.into_owned();
    let mut secrets = kept(&bench);
    // Wait until the token has expired by the clock of the authorization server.
    sleep(Duration::from_millis(2500));
    authority.set("ttl=3600");
    assert!(format!("{:?}", agent.wait(&call("read", "hub"))).contains("read by ann"));
    secrets.extend(kept(&bench));
    secrets.push(code);
    secrets.sort();
    secrets.dedup();
    assert!(secrets.len() >= 6, "expected four tokens, a client secret and a code: {secrets:?}");

    let mut told: Vec<(String, Vec<u8>)> = Vec::new();
    for tool in ["env", "args"] {
        let child = agent.wait(&call(tool, "child")).raw_result();
        told.push((format!("the child's {tool}"), child.into_bytes()));
    }
    let metrics = http.send("GET", "/metrics", &[], "").text();
    assert!(metrics.contains("sign_in"), "{metrics}");
    told.push(("the metrics".to_owned(), metrics.into_bytes()));
    for args in [&["ps", "--json"][..], &["auth", "status", "--json"], &["logs"], &["stats"]] {
        let said = bench.run(args.iter().copied()).to_string();
        told.push((args.join(" "), said.into_bytes()));
    }
    let pid = agent.pid().to_string();
    for what in ["environ", "cmdline"] {
        told.push((
            format!("the workbench's {what}"),
            fs::read(format!("/proc/{pid}/{what}")).unwrap(),
        ));
    }
    let transcript = agent.transcript().join("\n");
    told.push(("the agent's transcript".to_owned(), transcript.into_bytes()));
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(agent.pid().cast_signed()).unwrap(),
        Signal::TERM,
    )
    .unwrap();
    let spans = exports.recv_timeout(DEADLINE).expect("spans");
    assert!(String::from_utf8_lossy(&spans).contains("tools/call"), "no span for a call");
    told.push(("the spans".to_owned(), spans));
    told.push(("the log".to_owned(), agent.program().stderr().into_bytes()));
    let audit = fs::read(bench.path("audit.jsonl")).unwrap();
    assert!(String::from_utf8_lossy(&audit).contains(r#""outcome":"renewed""#));
    for file in walk(bench.dir()) {
        if !file.to_string_lossy().contains("/credentials/") {
            told.push((file.display().to_string(), fs::read(&file).unwrap_or_default()));
        }
    }
    while let Ok(more) = exports.try_recv() {
        told.push(("further spans".to_owned(), more));
    }
    for secret in &secrets {
        let escaped: String = url::form_urlencoded::byte_serialize(secret.as_bytes()).collect();
        for (place, text) in &told {
            let has = |part: &str| text.windows(part.len()).any(|at| at == part.as_bytes());
            assert!(!has(secret) && !has(&escaped), "{secret} is in {place}");
        }
    }
    let _: Value = login(&bench);
}

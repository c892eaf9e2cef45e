//! Isolation between agents: two agents act at the same time on servers that broadcast everything.
//! Neither receives the other's data, and the second agent doesn't change a response to the first.

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::support::{Agent, TestEnvironment, fake};

const CASES: u32 = 12;
const TOKENS: [&str; 2] = ["a-token-for-ann-0123", "a-token-for-bob-4567"];
const MARKS: [&str; 2] = ["anns-own-business", "bobs-own-business"];

#[derive(Clone, Copy, Debug)]
enum AgentStep {
    Echo,
    /// Makes the server send its mark in this notification.
    Talk(&'static str),
    /// Starts a call that stays in flight during later steps.
    Linger,
    /// Makes the server write its mark to stderr and exit.
    Crash,
    /// Starts a task with an ID that both agents share.
    Begin,
    Task(&'static str),
}

#[derive(Clone, Debug)]
struct TwoAgents {
    is_named: bool,
    is_modern: [bool; 2],
    deeds: Vec<(usize, AgentStep)>,
}

fn meeting() -> impl Strategy<Value = TwoAgents> {
    let talk = select(vec![
        "notifications/message",
        "notifications/unheard/of",
        "notifications/tasks",
        "notifications/tasks/status",
        "notifications/resources/updated",
        "notifications/elicitation/complete",
    ]);
    let task = select(vec!["tasks/get", "tasks/result", "tasks/list", "tasks/cancel"]);
    let deed = prop_oneof![
        2 => Just(AgentStep::Echo),
        4 => talk.prop_map(AgentStep::Talk),
        2 => Just(AgentStep::Linger),
        1 => Just(AgentStep::Crash),
        1 => Just(AgentStep::Begin),
        2 => task.prop_map(AgentStep::Task),
    ];
    let deeds = proptest::collection::vec((0_usize..2, deed), 4..24);
    (any::<bool>(), any::<[bool; 2]>(), deeds).prop_map(|(is_named, is_modern, deeds)| {
        // Nothing distinguishes anonymous modern agents.
        let is_modern = is_modern.map(|is_modern| is_modern && is_named);
        TwoAgents { is_named, is_modern, deeds }
    })
}

fn bench(is_named: bool) -> TestEnvironment {
    let task = json!({ "taskId": "t-1", "status": "working" });
    let bench = TestEnvironment::new().set("toolMode", json!("proxy")).server(
        "box",
        "srv",
        fake(json!({
            "tools": ["echo", "notify", "sleep", "crash", "begin"],
            "capabilities": { "logging": {}, "tasks": { "list": {}, "cancel": {} } },
            "behavior": { "begin": { "result": { "raw": json!({ "task": task }).to_string() } } },
            "repeat": ["tasks/get", "tasks/result", "tasks/cancel"],
            "answers": { "tasks/list": { "tasks": [task] } },
        })),
    );
    let entry = |(agent, token): (&str, &str)| {
        let digest = Sha256::digest(token.as_bytes());
        let sha256 = hex::encode(digest);
        json!({ "agent": agent, "sha256": sha256 })
    };
    if is_named {
        let tokens: Vec<_> = ["ann", "bob"].into_iter().zip(TOKENS).map(entry).collect();
        bench.set("auth", json!({ "tokens": tokens }))
    } else {
        bench
    }
}

fn agents(meeting: &TwoAgents) -> [Agent; 2] {
    let http = bench(meeting.is_named).http();
    let ann = if meeting.is_named {
        Agent::over_http_with(http, TOKENS[0])
    } else {
        Agent::over_http(http)
    };
    let bob = if meeting.is_named { ann.beside_with(TOKENS[1]) } else { ann.beside() };
    let begin = |agent: Agent, is_modern| {
        let agent = agent.begin(is_modern, json!({ "extensions": { "example.com/any": {} } }));
        agent.open("box").ok();
        agent
    };
    [begin(ann, meeting.is_modern[0]), begin(bob, meeting.is_modern[1])]
}

fn meet(agents: &[Agent; 2], deeds: &[(usize, AgentStep)]) -> Vec<(usize, Value)> {
    let (mut echoes, mut lingering) = (Vec::new(), Vec::new());
    for (who, deed) in deeds {
        let (agent, mark) = (&agents[*who], MARKS[*who]);
        let call = |tool, arguments| agent.use_tool(["box", "srv", tool], arguments);
        match deed {
            AgentStep::Echo => {
                let answer = call("echo", json!({ "mark": mark }));
                echoes.push((*who, answer.structured()));
            }
            AgentStep::Talk(method) => {
                let params =
                    json!({ "level": "error", "data": mark, "taskId": "of-nobody", "uri": mark });
                call("notify", json!({ "method": method, "params": params })).ok();
            }
            AgentStep::Linger => {
                let path = json!({ "toolbox": "box", "server": "srv", "tool": "sleep" });
                let arguments = json!({ "tool": path, "arguments": { "ms": 150 } });
                lingering.push((*who, agent.send_call("use_tool", arguments)));
            }
            AgentStep::Crash => {
                let _ = call("crash", json!({ "stderr": [format!("it was about {mark}")] }));
            }
            AgentStep::Begin => drop(call("begin", json!({}))),
            AgentStep::Task(method) => {
                let params = json!({ "taskId": "t-1", "note": mark });
                let _ = agent.request(method, params);
            }
        }
    }
    for (who, id) in lingering {
        // It fails if the server has crashed.
        let _ = agents[who].wait(&id);
    }
    echoes
}

fn check(meeting: &TwoAgents) -> Result<(), TestCaseError> {
    let both = agents(meeting);
    let echoes = meet(&both, &meeting.deeds);
    for who in 0..2 {
        let received = both[who].transcript().into_iter().filter(|line| line.starts_with('<'));
        let others = MARKS[1 - who];
        for line in received {
            prop_assert!(!line.contains(others), "agent {who} received {line}");
        }
        let own: Vec<_> = echoes.iter().filter(|(of, _)| *of == who).collect();
        let expected = json!({ "mark": MARKS[who] });
        prop_assert!(own.iter().all(|(_, answer)| *answer == expected), "{own:?}");
    }
    Ok(())
}

#[test]
fn agents_never_receive_each_others_messages() {
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    TestRunner::new(config).run(&meeting(), |meeting| check(&meeting)).unwrap_or_else(|error| {
        panic!("{error}");
    });
}

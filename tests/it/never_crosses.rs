//! Nothing crosses between agents: whatever two of them do at the same time, with servers that say
//! everything they are told to everybody, neither receives a word of the other's, and each is answered
//! as if it were alone.

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::support::{Agent, Bench, fake};

/// How many random meetings are looked at.
const CASES: u32 = 12;
const TOKENS: [&str; 2] = ["a-token-for-ann-0123", "a-token-for-bob-4567"];
const MARKS: [&str; 2] = ["anns-own-business", "bobs-own-business"];

/// Something that an agent does.
#[derive(Clone, Copy, Debug)]
enum Deed {
    /// Has the server answer with what it is told.
    Echo,
    /// Has it say that to whoever listens, in this way.
    Talk(&'static str),
    /// Begins a call that is running while others are made.
    Linger,
    /// Has it write that to standard error, and end.
    Crash,
    /// Begins a task, whose id is everybody's.
    Begin,
    /// Asks after that task.
    Task(&'static str),
}

/// Who does what, one after the other.
#[derive(Clone, Debug)]
struct Meeting {
    /// `true` if the agents have names.
    is_named: bool,
    /// `true` for one of the newest revision.
    is_modern: [bool; 2],
    deeds: Vec<(usize, Deed)>,
}

fn meeting() -> impl Strategy<Value = Meeting> {
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
        2 => Just(Deed::Echo),
        4 => talk.prop_map(Deed::Talk),
        2 => Just(Deed::Linger),
        1 => Just(Deed::Crash),
        1 => Just(Deed::Begin),
        2 => task.prop_map(Deed::Task),
    ];
    let deeds = proptest::collection::vec((0_usize..2, deed), 4..24);
    (any::<bool>(), any::<[bool; 2]>(), deeds).prop_map(|(is_named, is_modern, deeds)| {
        // Those of the newest revision without a name are not told apart by anything.
        let is_modern = is_modern.map(|is_modern| is_modern && is_named);
        Meeting { is_named, is_modern, deeds }
    })
}

fn bench(is_named: bool) -> Bench {
    let task = json!({ "taskId": "t-1", "status": "working" });
    let bench = Bench::new().set("toolMode", json!("proxy")).server(
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
        let sha256 = digest.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
        json!({ "agent": agent, "sha256": sha256 })
    };
    if is_named {
        let tokens: Vec<_> = ["ann", "bob"].into_iter().zip(TOKENS).map(entry).collect();
        bench.set("auth", json!({ "tokens": tokens }))
    } else {
        bench
    }
}

/// The two of them, each after it has opened the toolbox.
fn agents(meeting: &Meeting) -> [Agent; 2] {
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

/// Does all of it; the answers that echoes were given.
fn meet(agents: &[Agent; 2], deeds: &[(usize, Deed)]) -> Vec<(usize, Value)> {
    let (mut echoes, mut lingering) = (Vec::new(), Vec::new());
    for (who, deed) in deeds {
        let (agent, mark) = (&agents[*who], MARKS[*who]);
        let call = |tool, arguments| agent.use_tool(["box", "srv", tool], arguments);
        match deed {
            Deed::Echo => {
                let answer = call("echo", json!({ "mark": mark }));
                echoes.push((*who, answer.structured()));
            }
            Deed::Talk(method) => {
                let params =
                    json!({ "level": "error", "data": mark, "taskId": "of-nobody", "uri": mark });
                call("notify", json!({ "method": method, "params": params })).ok();
            }
            Deed::Linger => {
                let path = json!({ "toolbox": "box", "server": "srv", "tool": "sleep" });
                let arguments = json!({ "tool": path, "arguments": { "ms": 150 } });
                lingering.push((*who, agent.send_call("use_tool", arguments)));
            }
            Deed::Crash => {
                let _ = call("crash", json!({ "stderr": [format!("it was about {mark}")] }));
            }
            Deed::Begin => drop(call("begin", json!({}))),
            Deed::Task(method) => {
                let params = json!({ "taskId": "t-1", "note": mark });
                let _ = agent.request(method, params);
            }
        }
    }
    for (who, id) in lingering {
        // One that was running in a crash has failed.
        let _ = agents[who].wait(&id);
    }
    echoes
}

fn check(meeting: &Meeting) -> Result<(), TestCaseError> {
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
fn neither_of_two_agents_receives_a_word_of_the_others() {
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    TestRunner::new(config).run(&meeting(), |meeting| check(&meeting)).unwrap_or_else(|error| {
        panic!("{error}");
    });
}

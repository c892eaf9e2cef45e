//! Compares server-everything behind the workbench with server-everything itself. Clients on the
//! official SDKs run `tests/clients/everything.json` against both. The transcripts must be equal,
//! except for the differences that [`except`] removes.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::{Value, from_str, json};

use crate::support::TestEnvironment;
use crate::support::real::{WalkerSdk, npm, walker};

/// The task steps take ten seconds.
const WALK: Duration = Duration::from_secs(55);

const TOOLBOX: &str = "box";
const SERVER: &str = "all";

type Transcript = BTreeMap<String, Value>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Direct,
    Dynamic,
    Proxy,
}

fn entry() -> Value {
    json!({
        "command": npm("mcp-server-everything"),
        "args": ["stdio"],
        "env": { "EVERYTHING_MARK": "yes" },
    })
}

fn transcript(lines: Vec<Value>) -> Transcript {
    let step = |mut line: Value| {
        let name = line["step"].take();
        (name.as_str().expect("a step has a name").to_owned(), line)
    };
    lines.into_iter().map(step).collect()
}

fn of_the_server(sdk: WalkerSdk) -> Transcript {
    let client = walker(sdk, "plain", TOOLBOX, SERVER);
    transcript(TestEnvironment::new().direct_client(WALK, client, &entry()).json_lines())
}

fn through_the_workbench(sdk: WalkerSdk, mode: Mode) -> Transcript {
    let (tool_mode, naming) = match mode {
        Mode::Direct => ("direct", "plain"),
        Mode::Dynamic => ("dynamic", "dynamic"),
        Mode::Proxy => ("proxy", "proxy"),
    };
    let mut entry = entry();
    entry["roots"] = true.into();
    let bench =
        TestEnvironment::new().set("toolMode", tool_mode.into()).server(TOOLBOX, SERVER, entry);
    transcript(bench.client(WALK, walker(sdk, naming, TOOLBOX, SERVER)).json_lines())
}

fn except(sdk: WalkerSdk, mode: Mode, direct: &mut Transcript, through: &mut Transcript) {
    // Server instructions come with the toolbox, trimmed. In direct mode the handshake precedes the
    // start of the servers, so the instructions are the workbench's own.
    let said = &mut at(direct, "connect")["result"]["instructions"];
    *said = match mode {
        Mode::Direct => Value::Null,
        Mode::Dynamic | Mode::Proxy => said.as_str().expect("instructions").trim().into(),
    };
    if mode == Mode::Direct {
        at(through, "connect")["result"]["instructions"].take();
    }

    // `use_tool` appends a hint about invalid arguments to an error.
    if mode == Mode::Proxy {
        let content = at(through, "arguments that are wrong")["result"]["content"].as_array_mut();
        let hint = content.and_then(Vec::pop).expect("a block").to_string();
        assert!(hint.contains("the arguments violate the schema"), "{hint}");
    }

    // The workbench prefixes the logger with the server name.
    change_heard(direct, |message| {
        if message["method"] == "notifications/message" {
            let logger = message["params"]["logger"].as_str();
            let logger = logger.map_or(SERVER.to_owned(), |logger| format!("{SERVER}/{logger}"));
            message["params"]["logger"] = logger.into();
        }
    });

    // Starting a server adds prompts that the agent didn't know.
    drop_heard(through, "notifications/prompts/list_changed");

    // The first list waits for the server, so it includes changes that happen during startup.
    if mode == Mode::Direct {
        both(direct, through, |seen| drop_heard(seen, "notifications/tools/list_changed"));
    }

    if mode == Mode::Proxy {
        // The tool list never changes.
        drop_heard(direct, "notifications/tools/list_changed");
        // The SDK refuses to call a tool that its list declares as a task. Through `use_tool` the
        // server refuses.
        if sdk == WalkerSdk::TypeScript1 {
            both(direct, through, |seen| {
                let refused = seen.remove("a tool that is a task, as a call").expect("a step");
                assert!(failed(&refused), "{refused}");
            });
        }
    }

    // Dynamic mode needs list changes, which exist only in the legacy era, so it offers no other.
    if sdk.probes() && mode != Mode::Dynamic {
        except_modern(sdk, mode, direct, through);
    }
}

/// Removes the differences between an agent on 2026-07-28 and a legacy server.
fn except_modern(sdk: WalkerSdk, mode: Mode, direct: &mut Transcript, through: &mut Transcript) {
    let is_typescript = sdk == WalkerSdk::TypeScript2Auto;

    // This era has no tasks, so the capability is not offered.
    remove(&mut at(direct, "connect")["result"]["capabilities"], "tasks");
    // Definitions can't mention tasks either. This SDK drops the member, the other doesn't.
    if is_typescript && mode == Mode::Direct {
        for tool in at(direct, "list tools")["result"].as_array_mut().expect("tools") {
            remove(tool, "execution");
        }
    }

    // Log messages belong to a request that asks for them. Without a running one they are dropped.
    for data in ["Roots updated", "Received Subscribe", "Received Unsubscribe"] {
        both(direct, through, |seen| drop_heard(seen, data));
    }

    // In this era agents don't announce changed roots.
    both(direct, through, |seen| seen.remove("roots after the change"));

    // URL elicitations have no ID in this era. This SDK drops it, the other doesn't.
    if is_typescript {
        change_heard(direct, |message| {
            if message["params"]["mode"] == "url" {
                remove(&mut message["params"], "elicitationId");
            }
        });
    }

    // Read results carry a TTL in this era, and this SDK shows it.
    if is_typescript {
        for (_, seen) in through.iter_mut().filter(|(step, _)| step.starts_with("read ")) {
            if let Some(result) = seen.get_mut("result") {
                remove(result, "ttlMs");
                remove(result, "cacheScope");
            }
        }
    }

    // This era has no such error code, so it is nested in another error.
    let error = &mut at(through, "elicitation by error")["error"];
    *error = error["data"]["error"].take();

    // The first list has all tools, and it stays the same.
    drop_heard(direct, "notifications/tools/list_changed");

    // Lists can't depend on open toolboxes in this era, so they are empty. Requests by name or URI
    // still work.
    if mode == Mode::Proxy {
        for step in
            ["list prompts", "list resources", "list resources with new ones", "list templates"]
        {
            assert_eq!(at(through, step)["result"], json!([]), "{step}");
            both(direct, through, |seen| seen.remove(step));
        }
        for step in ["gzip as resource", "gzip as link"] {
            assert!(remove(at(through, step), "unheard").is_some(), "{step}");
        }
        drop_heard(direct, "notifications/resources/list_changed");
    }
}

fn failed(outcome: &Value) -> bool {
    !outcome["error"].is_null() || outcome["result"]["isError"] == true
}

#[track_caller]
fn at<'a>(seen: &'a mut Transcript, step: &str) -> &'a mut Value {
    seen.get_mut(step).unwrap_or_else(|| panic!("the step `{step}` was not run"))
}

fn remove(object: &mut Value, member: &str) -> Option<Value> {
    object.as_object_mut().and_then(|object| object.remove(member))
}

fn both<T>(direct: &mut Transcript, through: &mut Transcript, f: impl Fn(&mut Transcript) -> T) {
    f(direct);
    f(through);
}

fn heard(seen: &mut Transcript) -> &mut Vec<Value> {
    at(seen, "heard")["result"].as_array_mut().expect("messages")
}

fn change_heard(seen: &mut Transcript, change: impl Fn(&mut Value)) {
    heard(seen).iter_mut().for_each(change);
}

fn drop_heard(seen: &mut Transcript, text: &str) {
    heard(seen).retain(|message| !message.to_string().contains(text));
}

#[track_caller]
fn assert_the_same(sdk: WalkerSdk, mode: Mode) {
    let (mut direct, mut through) = thread::scope(|scope| {
        let direct = scope.spawn(|| of_the_server(sdk));
        let through = through_the_workbench(sdk, mode);
        (direct.join().expect("a transcript"), through)
    });
    except(sdk, mode, &mut direct, &mut through);
    both(&mut direct, &mut through, |seen| {
        change_heard(seen, Value::sort_all_objects);
        heard(seen).sort_by_cached_key(Value::to_string);
    });
    let is_same = |step: &String| direct.get(step) == through.get(step);
    let steps = direct.keys().chain(through.keys().filter(|step| !direct.contains_key(*step)));
    let differ: Vec<String> = steps.filter(|step| !is_same(step)).cloned().collect();
    both(&mut direct, &mut through, |seen| seen.retain(|step, _| differ.contains(step)));
    assert_eq!(through, direct, "{sdk:?}, {mode:?}: {differ:?}");
}

/// Checks that every step ends as the scenario says. Otherwise two transcripts full of equal errors
/// would pass as equal.
#[track_caller]
fn assert_complete(sdk: WalkerSdk) {
    let transcript = of_the_server(sdk);
    let scenario: Value = from_str(include_str!("../clients/everything.json")).expect("JSON");
    let has_tasks = matches!(sdk, WalkerSdk::TypeScript1 | WalkerSdk::Python1);
    let steps = scenario["steps"].as_array().expect("steps").iter();
    let steps: Vec<_> = steps.filter(|step| has_tasks || step["needs"].is_null()).collect();
    for step in &steps {
        let name = step["step"].as_str().expect("a step has a name");
        let outcome = &transcript[name];
        assert_eq!(failed(outcome), step["fails"] == true, "{sdk:?}: {name}: {outcome}");
        assert_eq!(outcome["unheard"], Value::Null, "{sdk:?}: {name}");
    }
    assert_eq!(transcript.len(), steps.len() + 2, "all steps plus `connect` and `heard`");
    let tools = transcript["list tools"]["result"].as_array().expect("tools");
    assert_eq!(tools.len(), if has_tasks { 19 } else { 17 });
}

macro_rules! walk {
    ($name:ident, $sdk:expr) => {
        mod $name {
            use super::{Mode, WalkerSdk, assert_complete, assert_the_same};

            #[test]
            fn completes_every_step_with_the_server_itself() {
                assert_complete($sdk);
            }

            #[test]
            fn direct_mode_is_equivalent() {
                assert_the_same($sdk, Mode::Direct);
            }

            #[test]
            fn dynamic_mode_is_equivalent() {
                assert_the_same($sdk, Mode::Dynamic);
            }

            #[test]
            fn proxy_mode_is_equivalent() {
                assert_the_same($sdk, Mode::Proxy);
            }
        }
    };
}

walk!(typescript_1, WalkerSdk::TypeScript1);
walk!(typescript_2, WalkerSdk::TypeScript2);
walk!(typescript_2_auto, WalkerSdk::TypeScript2Auto);
walk!(python_1, WalkerSdk::Python1);
walk!(python_2, WalkerSdk::Python2);
walk!(python_2_auto, WalkerSdk::Python2Auto);

//! Proof that what works with a server works through the workbench. Clients on the official SDKs
//! walk `tests/clients/everything.json` with server-everything, once with the server itself and
//! once with the workbench between. They see the same, but for what [`except`] takes away.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::{Value, from_str, json};

use crate::support::Bench;
use crate::support::real::{WalkerSdk, npm, walker};

/// The steps with tasks alone take ten seconds.
const WALK: Duration = Duration::from_secs(55);

const TOOLBOX: &str = "box";
const SERVER: &str = "all";

/// The outcome of each step, by its name.
type Transcript = BTreeMap<String, Value>;

/// How the workbench shows its servers.
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

/// The lines that a walker prints.
fn transcript(lines: Vec<Value>) -> Transcript {
    let step = |mut line: Value| {
        let name = line["step"].take();
        (name.as_str().expect("a step has a name").to_owned(), line)
    };
    lines.into_iter().map(step).collect()
}

/// The outcomes that a client sees with the server itself.
fn of_the_server(sdk: WalkerSdk) -> Transcript {
    let client = walker(sdk, "plain", TOOLBOX, SERVER);
    transcript(Bench::new().direct_client(WALK, client, &entry()).json_lines())
}

/// The outcomes that a client sees with the server through the workbench.
fn through_the_workbench(sdk: WalkerSdk, mode: Mode) -> Transcript {
    let (tool_mode, naming) = match mode {
        Mode::Direct => ("direct", "plain"),
        Mode::Dynamic => ("dynamic", "dynamic"),
        Mode::Proxy => ("proxy", "proxy"),
    };
    let mut entry = entry();
    entry["roots"] = true.into();
    let bench = Bench::new().set("toolMode", tool_mode.into()).server(TOOLBOX, SERVER, entry);
    transcript(bench.client(WALK, walker(sdk, naming, TOOLBOX, SERVER)).json_lines())
}

/// Takes away, or brings in line, what the workbench may make different.
fn except(sdk: WalkerSdk, mode: Mode, direct: &mut Transcript, through: &mut Transcript) {
    // A server's instructions come with its toolbox, trimmed. In direct mode the agent is greeted
    // before any server is started, with what the workbench itself has to say.
    let said = &mut at(direct, "connect")["result"]["instructions"];
    *said = match mode {
        Mode::Direct => Value::Null,
        Mode::Dynamic | Mode::Proxy => said.as_str().expect("instructions").trim().into(),
    };
    if mode == Mode::Direct {
        at(through, "connect")["result"]["instructions"].take();
    }

    // Called through a tool of ours, an error is followed by what is wrong with the arguments.
    if mode == Mode::Proxy {
        let content = at(through, "arguments that are wrong")["result"]["content"].as_array_mut();
        let hint = content.and_then(Vec::pop).expect("a block").to_string();
        assert!(hint.contains("the arguments do not fit the schema"), "{hint}");
    }

    // What a server logs says which server it is.
    change_heard(direct, |message| {
        if message["method"] == "notifications/message" {
            let logger = message["params"]["logger"].as_str();
            let logger = logger.map_or(SERVER.to_owned(), |logger| format!("{SERVER}/{logger}"));
            message["params"]["logger"] = logger.into();
        }
    });

    // A server that starts brings prompts with it, which the agent did not know of.
    drop_heard(through, "notifications/prompts/list_changed");

    // The first list waits for the server, and has what that tells of while it starts.
    if mode == Mode::Direct {
        both(direct, through, |seen| drop_heard(seen, "notifications/tools/list_changed"));
    }

    if mode == Mode::Proxy {
        // The list of tools is always the same.
        drop_heard(direct, "notifications/tools/list_changed");
        // The SDK refuses to call what its list says is a task. Through `use_tool` it is the server
        // that refuses.
        if sdk == WalkerSdk::TypeScript1 {
            both(direct, through, |seen| {
                let refused = seen.remove("a tool that is a task, as a call").expect("a step");
                assert!(failed(&refused), "{refused}");
            });
        }
    }

    // A list that changes exists in the older era only, so dynamic mode offers no other.
    if sdk.probes() && mode != Mode::Dynamic {
        except_modern(sdk, mode, direct, through);
    }
}

/// Takes away the differences for an agent that speaks 2026-07-28, while the server does not.
fn except_modern(sdk: WalkerSdk, mode: Mode, direct: &mut Transcript, through: &mut Transcript) {
    let is_typescript = sdk == WalkerSdk::TypeScript2Auto;

    // There are no tasks in this era, so they are not offered.
    remove(&mut at(direct, "connect")["result"]["capabilities"], "tasks");
    // Nor may definitions say anything of them; this SDK drops it, the other does not.
    if is_typescript && mode == Mode::Direct {
        for tool in at(direct, "list tools")["result"].as_array_mut().expect("tools") {
            remove(tool, "execution");
        }
    }

    // Logs belong to a request that asks for them, so these have nowhere to go, unless one runs.
    for data in ["Roots updated", "Received Subscribe", "Received Unsubscribe"] {
        both(direct, through, |seen| drop_heard(seen, data));
    }

    // No agent says that its roots have changed.
    both(direct, through, |seen| seen.remove("roots after the change"));

    // Addresses to go to have no id in this era; this SDK drops it, the other does not.
    if is_typescript {
        change_heard(direct, |message| {
            if message["params"]["mode"] == "url" {
                remove(&mut message["params"], "elicitationId");
            }
        });
    }

    // What is read says in this era how long it holds; this SDK shows it.
    if is_typescript {
        for (_, seen) in through.iter_mut().filter(|(step, _)| step.starts_with("read ")) {
            if let Some(result) = seen.get_mut("result") {
                remove(result, "ttlMs");
                remove(result, "cacheScope");
            }
        }
    }

    // There is no such error in this era, so it comes within another.
    let error = &mut at(through, "elicitation by error")["error"];
    *error = error["data"]["error"].take();

    // The first list has all tools, and they stay the same.
    drop_heard(direct, "notifications/tools/list_changed");

    // What is listed may not depend on the toolboxes that are open, so there is nothing in it.
    // What is asked for by name or address is there.
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

/// Returns `true` if a step ended in an error, or in a result that says so.
fn failed(outcome: &Value) -> bool {
    !outcome["error"].is_null() || outcome["result"]["isError"] == true
}

#[track_caller]
fn at<'a>(seen: &'a mut Transcript, step: &str) -> &'a mut Value {
    seen.get_mut(step).unwrap_or_else(|| panic!("the step `{step}` was not taken"))
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

/// Drops the messages in which the text occurs.
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
    // In which order messages came is not the same from walk to walk.
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

/// Every step ends as the scenario says, so that two transcripts are not the same for being
/// full of the same errors.
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
    assert_eq!(transcript.len(), steps.len() + 2, "with `connect` and `heard`");
    let tools = transcript["list tools"]["result"].as_array().expect("tools");
    assert_eq!(tools.len(), if has_tasks { 19 } else { 17 });
}

/// The tests of one SDK.
macro_rules! walk {
    ($name:ident, $sdk:expr) => {
        mod $name {
            use super::{Mode, WalkerSdk, assert_complete, assert_the_same};

            #[test]
            fn every_step_is_taken_with_the_server_itself() {
                assert_complete($sdk);
            }

            #[test]
            fn direct_mode_shows_the_same() {
                assert_the_same($sdk, Mode::Direct);
            }

            #[test]
            fn dynamic_mode_shows_the_same() {
                assert_the_same($sdk, Mode::Dynamic);
            }

            #[test]
            fn proxy_mode_shows_the_same() {
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

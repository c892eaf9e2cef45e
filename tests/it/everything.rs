//! Clients on the official SDKs walk `tests/clients/everything.json` with server-everything.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, from_str, json};

use crate::support::Bench;
use crate::support::real::{WalkerSdk, npm, walker};

/// The task-based steps alone take ten seconds.
const WALK: Duration = Duration::from_secs(50);

const TOOLBOX: &str = "box";
const SERVER: &str = "all";

/// What came of each step, by its name.
type Transcript = BTreeMap<String, Value>;

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

/// What a client sees of the server itself.
fn of_the_server(sdk: WalkerSdk) -> Transcript {
    let client = walker(sdk, "plain", TOOLBOX, SERVER);
    transcript(Bench::new().direct_client(WALK, client, &entry()).json_lines())
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
        let failed = !outcome["error"].is_null() || outcome["result"]["isError"] == true;
        assert_eq!(failed, step["fails"] == true, "{sdk:?}: {name}: {outcome}");
    }
    assert_eq!(transcript.len(), steps.len() + 2, "with `connect` and `heard`");
    let tools = transcript["list tools"]["result"].as_array().expect("tools");
    assert_eq!(tools.len(), if has_tasks { 19 } else { 17 });
}

/// The tests of one SDK.
macro_rules! walk {
    ($name:ident, $sdk:expr) => {
        mod $name {
            use super::{WalkerSdk, assert_complete};

            #[test]
            fn every_step_is_taken_with_the_server_itself() {
                assert_complete($sdk);
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

//! Logins for reads, prompts and completions, and logins in a terminal while the user is being
//! asked.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::sign_in::authority::Authority;
use crate::sign_in::url_elicitation::{HINT, QUESTION, abilities, address, send, text};
use crate::sign_in::{bench, credentials, signed_in};
use crate::support::Agent;

fn requests() -> [(&'static str, Value); 3] {
    let reference = json!({ "type": "ref/prompt", "name": "greet" });
    let argument = json!({ "name": "whom", "value": "a" });
    [
        ("resources/read", json!({ "uri": "note://one" })),
        ("prompts/get", json!({ "name": "greet" })),
        ("completion/complete", json!({ "ref": reference, "argument": argument })),
    ]
}

#[test]
fn reads_prompts_and_completions_continue_after_login() {
    for over_http in [false, true] {
        let (authority, bench) = signed_in();
        let agent = if over_http { Agent::over_http(bench.http()) } else { bench.agent() };
        let agent = agent.without_reply(QUESTION).begin(false, abilities());
        let call = send(&agent, "read");
        assert!(text(&agent, &call).contains("read by ann"));
        for (method, params) in requests() {
            authority.ask("/revoke");
            let request = agent.send_request(method, params);
            let asked = agent.next_request(QUESTION);
            let message = asked["params"]["message"].as_str().unwrap();
            assert!(message.ends_with("The request continues afterwards."), "{message}");
            agent.respond(&asked, json!({ "action": "accept" }));
            assert_eq!(authority.browse(address(&asked))["status"], 200);
            let answer = text(&agent, &request);
            assert!(answer.contains("by ann"), "{method}: {answer}");
        }
        // Declining returns the hint.
        authority.ask("/revoke");
        let [(method, params), ..] = requests();
        let request = agent.send_request(method, params);
        let asked = agent.next_request(QUESTION);
        agent.respond(&asked, json!({ "action": "decline" }));
        assert!(text(&agent, &request).contains(HINT));
    }
}

#[test]
fn modern_reads_and_prompts_continue_but_completions_hint() {
    let (authority, bench) = signed_in();
    let agent = bench.agent().begin(true, abilities());
    let call = send(&agent, "read");
    assert!(text(&agent, &call).contains("read by ann"));
    let [read, prompt, (completion, completed)] = requests();
    for (method, mut params) in [read, prompt] {
        authority.ask("/revoke");
        let required = agent.request(method, params.clone()).ok();
        assert_eq!(required["resultType"], "input_required", "{method}: {required}");
        let asked = &required["inputRequests"]["question"];
        params["requestState"] = required["requestState"].clone();
        params["inputResponses"] = json!({ "question": { "action": "accept" } });
        let again = agent.send_request(method, params);
        authority.browse(address(asked));
        let answer = text(&agent, &again);
        assert!(answer.contains("by ann"), "{method}: {answer}");
    }
    // A completion of this revision can't return input requests.
    authority.ask("/revoke");
    let request = agent.send_request(completion, completed);
    assert!(text(&agent, &request).contains(HINT));
}

#[test]
fn completions_ask_once_at_a_time() {
    let (authority, bench) = signed_in();
    let agent = bench.agent().without_reply(QUESTION).begin(false, abilities());
    let call = send(&agent, "read");
    assert!(text(&agent, &call).contains("read by ann"));
    authority.ask("/revoke");
    let [.., (method, params)] = requests();
    let first = agent.send_request(method, params.clone());
    let asked = agent.next_request(QUESTION);
    // The user keeps typing.
    let next = agent.send_request(method, params);
    assert!(text(&agent, &next).contains(HINT));
    agent.respond(&asked, json!({ "action": "accept" }));
    authority.browse(address(&asked));
    assert!(text(&agent, &first).contains("by ann"));
    assert_eq!(agent.transcript().iter().filter(|line| line.contains(QUESTION)).count(), 1);
}

#[test]
fn terminal_login_cancels_the_elicitation_and_resumes_the_call() {
    for over_http in [false, true] {
        let authority = Authority::start();
        let bench = bench(&authority);
        let agent = if over_http { Agent::over_http(bench.http()) } else { bench.agent() };
        let agent = agent.without_reply(QUESTION).begin(false, abilities());
        let call = send(&agent, "read");
        let asked = agent.next_request(QUESTION);
        assert_eq!(authority.sign_in(&bench, &["hub"]).code, Some(0));
        let answer = text(&agent, &call);
        assert!(answer.contains("read by ann"), "{answer}");
        let told = agent.next_notification("notifications/cancelled");
        assert_eq!(told["requestId"], asked["id"]);
        let complete = agent.next_notification("notifications/elicitation/complete");
        assert_eq!(complete["elicitationId"], asked["params"]["elicitationId"]);
        assert_eq!(credentials(&bench).len(), 1);
        assert_eq!(authority.counts()["code"], 1);
    }
}

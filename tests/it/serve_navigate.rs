//! `navigate` mode: one tool runs a task with the best-matching tool, here chosen by the ranker.

use std::fs;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::process::StartedProcesses;
use crate::support::{Agent, Response, TestEnvironment, fake};

fn send_message() -> Value {
    json!({
        "name": "send_message",
        "description": "Sends a message to a channel or to a user.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "channel": {"type": "string", "description": "The channel (#general) or the user"},
                "text": {"type": "string", "description": "What the message says"},
                "thread_ts": {"type": "string"},
            },
            "required": ["channel", "text"],
        },
    })
}

fn simple(name: &str, description: &str) -> Value {
    json!({"name": name, "description": description, "inputSchema": {"type": "object"}})
}

/// The example of the documentation: five categories. `database` has a single service with a single
/// tool.
fn bench() -> TestEnvironment {
    let slack = json!({
        "tools": [send_message(), simple("list_channels", "Lists the channels of a workspace.")],
        "behavior": {"send_message": "echo"},
    });
    let email = json!({"tools": [simple("send_email", "Sends an electronic mail.")]});
    let postgres =
        json!({"tools": [simple("query", "Runs a query in SQL.")], "behavior": {"query": "echo"}});
    TestEnvironment::new()
        .set("toolMode", json!("navigate"))
        .toolbox("communication", "Chat messages and mail")
        .server("communication", "slack", fake(slack))
        .server("communication", "email", fake(email))
        .toolbox("database", "Relational databases such as PostgreSQL")
        .server("database", "postgres", fake(postgres))
        .toolbox("files", "Files in the cloud")
        .server("files", "gdrive", fake(json!({"tools": [simple("upload", "Uploads a file.")]})))
        .toolbox("calendar", "Appointments")
        .server(
            "calendar",
            "google",
            fake(json!({"tools": [simple("add", "Adds an appointment.")]})),
        )
        .toolbox("web", "Pages of the web")
        .server("web", "browser", fake(json!({"tools": [simple("open", "Opens a page.")]})))
}

fn agent(bench: &TestEnvironment) -> Agent {
    let agent = bench.agent();
    agent.initialize();
    agent
}

fn execute(agent: &Agent, task: &str) -> Response {
    agent.call("execute_task", json!({"task": task}))
}

#[test]
fn half_of_a_surrogate_pair_fails_neither_the_task_nor_its_result() {
    let raw = r#"{"content":[{"type":"text","text":"half \ud800"}]}"#;
    let list = concat!(
        r#"{"tools":[{"name":"get","description":"Gets the \ud83d weather.","#,
        r#""inputSchema":{"type":"object"}}]}"#
    );
    let script = json!({
        "tools": [simple("get", "")],
        "behavior": {"get": {"result": {"raw": raw}}},
        "rawAnswers": {"tools/list": list},
    });
    let bench = TestEnvironment::new().set("toolMode", json!("navigate")).server(
        "box",
        "sky",
        fake(script),
    );
    let agent = agent(&bench);
    for task in [r"get the weather", r"get the weather \ud800"] {
        let line = format!(
            r#"{{"jsonrpc":"2.0","id":"{}","method":"tools/call","params":{{"name":"execute_task","arguments":{{"task":"{task}"}}}}}}"#,
            task.len()
        );
        agent.send_raw(&line);
        let answer = agent.wait(&task.len().to_string().as_str().into());
        assert!(!answer.is_tool_error(), "{}", answer.text());
    }
    let found = bench.run(["search", "weather"]);
    assert!(found.stdout.contains("get"), "{found}");
}

#[track_caller]
fn error(response: &Response) -> Value {
    assert!(response.is_tool_error(), "{}", response.text());
    let shape = response.structured();
    let first = response.ok()["content"][0]["text"].clone();
    let first: Value = serde_json::from_str(first.as_str().expect("a text")).expect("JSON");
    assert_eq!(first, shape);
    assert_eq!(shape["success"], false);
    shape["error"].clone()
}

fn calls(bench: &TestEnvironment, file: &str) -> usize {
    let requests = fs::read_to_string(bench.path(file)).unwrap_or_default();
    requests.lines().filter(|method| *method == "tools/call").count()
}

#[test]
fn execute_task_describes_the_toolboxes() {
    let bench = bench();
    let agent = bench.agent();
    let greeting = agent.initialize();
    let instructions = greeting["instructions"].as_str().expect("instructions");
    assert!(
        instructions.starts_with("Tools for: communication, database, files, calendar, web.\n"),
        "{instructions}"
    );
    let before = agent.tools();
    assert_eq!(agent.tool_names(), ["execute_task"]);
    let description = before[0]["description"].as_str().expect("a description");
    assert!(description.contains("\n- database: Relational databases"), "{description}");
    assert_eq!(before[0]["outputSchema"]["required"], json!(["success"]));
    execute(&agent, "run a query").ok();
    assert_eq!(agent.tools(), before, "the tool list changed");
    let told = agent.notifications();
    assert!(told.iter().all(|told| told["method"] == "notifications/progress"), "{told:?}");
}

#[test]
fn task_returns_the_tool_result_in_both_eras() {
    let bench = bench();
    for modern in [false, true] {
        let agent = if modern { bench.agent().modern() } else { agent(&bench) };
        if modern {
            agent.request("server/discover", json!({})).ok();
        }
        let arguments = json!({"task": "run a query in SQL", "arguments": {"sql": "SELECT 1"}});
        let response = agent.call("execute_task", arguments);
        assert!(!response.is_tool_error(), "{}", response.text());
        assert_eq!(
            response.structured(),
            json!({"success": true, "tool_used": "postgres.query", "result": {"sql": "SELECT 1"}})
        );
        if modern {
            assert_eq!(response.ok()["resultType"], "complete");
        }
    }
}

#[test]
fn hierarchy_skips_levels_with_a_single_option() {
    let bench = bench().set("navigator", json!({"strategy": "hierarchy"}));
    let run = bench.run(["task", "a query of the PostgreSQL database"]);
    assert_eq!(run.code, Some(0), "{run}");
    let steps: Vec<_> = run.stderr.lines().collect();
    assert_eq!(
        steps,
        [
            "category: database (by ranker)",
            "service: postgres (only option)",
            "tool: query (only option)",
            "parameters: none (by agent)",
            "execution: postgres.query",
        ]
    );
    let agent = agent(&bench);
    let response = execute(&agent, "a query of the PostgreSQL database");
    assert_eq!(response.structured()["tool_used"], "postgres.query");
}

#[test]
fn missing_parameters_can_be_passed_in_the_next_call() {
    for strategy in ["hierarchy", "retrieve"] {
        let bench = bench().set("navigator", json!({"strategy": strategy}));
        let agent = agent(&bench);
        let task = "send a chat message to the channel #general in slack";
        let arguments = json!({"task": task, "arguments": {"channel": "#general"}});
        let asked = agent.call("execute_task", arguments);
        assert_eq!(asked.structured()["tool_used"], "slack.send_message", "{}", asked.text());
        let error = error(&asked);
        assert_eq!(error["type"], "missing_parameters");
        assert_eq!(error["message"], "`slack.send_message` needs `text`");
        assert_eq!(
            error["parameters"],
            json!([{"name": "text", "type": "string", "description": "What the message says"}])
        );
        assert_eq!(error["context"], r##"known so far: {"channel":"#general"}"##);
        assert!(error["suggestion"].as_str().is_some_and(|text| text.contains("`arguments`")));

        let given = json!({"channel": "#general", "text": "Hallo Team!"});
        let answered = agent.call("execute_task", json!({"task": task, "arguments": given}));
        assert_eq!(
            answered.structured(),
            json!({"success": true, "tool_used": "slack.send_message", "result": given})
        );
    }
}

#[test]
fn arguments_and_results_pass_byte_for_byte() {
    let bench = bench();
    let agent = agent(&bench);
    agent.send_raw(
        &json!({"jsonrpc": "2.0", "id": "raw", "method": "tools/call", "params": {
            "name": "execute_task",
            "arguments": {"task": "run a query in SQL", "arguments": "ARGUMENTS"},
        }})
        .to_string()
        .replace("\"ARGUMENTS\"", r#"{"n": 1.50,  "big": 12345678901234567890123}"#),
    );
    let line = agent.wait(&"raw".into()).raw_result();
    assert!(line.contains(r#""result":{"n": 1.50,  "big": 12345678901234567890123}}"#), "{line}");
}

#[test]
fn rejects_an_empty_task_and_a_task_without_a_matching_tool() {
    let bench = bench();
    let agent = agent(&bench);
    let invalid = error(&agent.call("execute_task", json!({"taks": "x"})));
    assert_eq!(invalid["type"], "invalid_task");
    assert!(invalid["suggestion"].as_str().is_some_and(|text| text.contains("\"task\"")));
    let nothing = error(&execute(&agent, "xyzzy plugh"));
    assert_eq!(nothing["type"], "no_matching_tool");
    let suggestion = nothing["suggestion"].as_str().expect("a suggestion");
    assert!(
        suggestion.contains("database (postgres.query), files (gdrive.upload)"),
        "{suggestion}"
    );
}

#[test]
fn schema_mismatches_are_left_to_the_server() {
    let requests = "requests";
    let bench = TestEnvironment::new().set("toolMode", json!("navigate"));
    let file = bench.path_text(requests);
    let raw = r#"{"content":[{"type":"text","text":"no channel 7"}],"isError":true}"#;
    let behavior = json!({"send_message": {"result": {"raw": raw}}});
    let script = json!({"tools": [send_message()], "behavior": behavior, "requestFile": file});
    let bench = bench.server("chat", "slack", fake(script));
    let agent = agent(&bench);
    let given = json!({"channel": 7, "text": "hello"});
    let wrong = agent.call("execute_task", json!({"task": "send a message", "arguments": given}));
    let error = error(&wrong);
    assert_eq!(error["type"], "tool_execution_error");
    let message = error["message"].as_str().expect("a message");
    assert!(message.starts_with("no channel 7\n"), "{message}");
    assert!(message.contains("`channel` is a number"), "{message}");
    assert_eq!(calls(&bench, requests), 1);
}

#[test]
fn tool_error_has_message_context_and_suggestion() {
    let script = json!({
        "tools": [
            simple("archive_channel", "Archives a channel."),
            simple("list_channels", "Lists the channels."),
            simple("explode", "Explodes with an error of the protocol."),
        ],
        "behavior": {
            "archive_channel": {"tool_error": {"text": "Channel #general-old nicht gefunden"}},
            "explode": {"error": {"code": -32602, "message": "no such cheese"}},
        },
    });
    let bench = TestEnvironment::new().set("toolMode", json!("navigate")).server(
        "chat",
        "slack",
        fake(script),
    );
    let agent = agent(&bench);
    let arguments = json!({"task": "archive the channel", "arguments": {"name": "#general-old"}});
    let failed = agent.call("execute_task", arguments);
    assert_eq!(failed.structured()["tool_used"], "slack.archive_channel");
    let told = error(&failed);
    assert_eq!(told["type"], "tool_execution_error");
    assert_eq!(told["message"], "Channel #general-old nicht gefunden");
    assert_eq!(
        told["context"],
        r##"slack.archive_channel was called with {"name":"#general-old"}"##
    );
    let suggestion = told["suggestion"].as_str().expect("a suggestion");
    assert!(suggestion.contains("`slack.list_channels`"), "{suggestion}");

    let told = error(&execute(&agent, "explode with an error"));
    assert_eq!(told["type"], "tool_execution_error");
    assert_eq!(told["message"], "no such cheese (code -32602)");
}

#[test]
fn failed_start_is_retried_before_it_is_reported() {
    let bench = TestEnvironment::new().set("toolMode", json!("navigate"));
    let counter = bench.path_text("counter");
    let script = json!({
        "tools": [simple("walk", "Walks the dog.")],
        "failTimes": {"n": 2, "counterFile": counter},
    });
    let bench = bench.server("pets", "dog", fake(script));
    let agent = agent(&bench);
    let done = execute(&agent, "walk the dog");
    assert_eq!(done.structured()["tool_used"], "dog.walk", "{}", done.text());
    assert_eq!(done.structured()["success"], true);

    let script = json!({"failStart": {"code": 3, "stderr": ["no leash"]}});
    let bench = TestEnvironment::new().set("toolMode", json!("navigate")).server(
        "pets",
        "cat",
        fake(script),
    );
    let agent = self::agent(&bench);
    let told = error(&execute(&agent, "walk the cat"));
    assert_eq!(told["type"], "server_unavailable");
    let message = told["message"].as_str().expect("a message");
    assert!(message.contains("`cat`") && message.contains("no leash"), "{message}");
}

// invariant: at-most-once
#[test]
fn crash_during_a_call_is_not_retried() {
    let bench = TestEnvironment::new().set("toolMode", json!("navigate"));
    let (requests, pids) = (bench.path_text("requests"), bench.path_text("pids"));
    let script = json!({
        "tools": [simple("fire", "Fires the rocket.")],
        "behavior": {"fire": {"crash": {"stderr": ["boom"], "code": 3}}},
        "requestFile": requests,
        "pidFile": pids,
    });
    let bench = bench.server("space", "rocket", fake(script));
    let agent = agent(&bench);
    let failed = execute(&agent, "fire the rocket");
    assert_eq!(failed.structured()["tool_used"], "rocket.fire");
    let told = error(&failed);
    assert_eq!(told["type"], "no_answer");
    assert!(told["suggestion"].as_str().is_some_and(|text| text.contains("not repeated")));
    assert_eq!(calls(&bench, "requests"), 1);
    assert_eq!(StartedProcesses::read(bench.path("pids")).servers.len(), 1);
}

// invariant: at-most-once
#[test]
fn timed_out_call_is_not_retried() {
    let bench = TestEnvironment::new().set("toolMode", json!("navigate"));
    let requests = bench.path_text("requests");
    let script = json!({
        "tools": [simple("wait", "Waits for Godot.")],
        "behavior": {"wait": "never"},
        "requestFile": requests,
    });
    let mut entry = fake(script);
    entry["callTimeoutMs"] = 200.into();
    let bench = bench.server("stage", "godot", entry);
    let agent = agent(&bench);
    assert_eq!(error(&execute(&agent, "wait for Godot"))["type"], "no_answer");
    assert_eq!(calls(&bench, "requests"), 1);
}

/// Two servers. The agent `reader` is allowed a single tool.
fn guarded() -> TestEnvironment {
    let bench = TestEnvironment::new();
    let requests = bench.path_text("requests");
    let vault = json!({
        "tools": [simple("delete_secret", "Deletes a secret."), simple("list_secrets", "Lists secrets.")],
        "requestFile": requests,
    });
    let other =
        json!({"tools": [simple("burn", "Burns a secret to ashes.")], "requestFile": requests});
    bench
        .set("toolMode", json!("navigate"))
        .toolbox("vault", "Secrets")
        .server("vault", "vault", fake(vault))
        .toolbox("furnace", "Fire")
        .server("furnace", "oven", fake(other))
        .set("agentPolicies", json!({
            "reader": {"allowedServers": ["vault"], "toolOverrides": {"vault": ["list_secrets"]}},
        }))
}

// invariant: answer-is-an-option
#[test]
fn forbidden_tools_are_neither_named_nor_called() {
    for strategy in ["hierarchy", "retrieve"] {
        let bench = guarded().set("navigator", json!({"strategy": strategy}));
        let agent = bench.agent_with(["--agent", "reader"]);
        let greeting = agent.initialize();
        let mut seen = vec![greeting.to_string(), json!(agent.tools()).to_string()];
        for task in
            ["delete a secret", "burn a secret to ashes", "vault.delete_secret", "oven", "xyzzy"]
        {
            let arguments = json!({"task": task, "arguments": {"tool": task}});
            let answer = agent.call("execute_task", arguments);
            let shape = answer.structured();
            let used = shape.get("tool_used").and_then(Value::as_str).unwrap_or_default();
            assert!(["", "vault.list_secrets"].contains(&used), "{used}");
            if task == "xyzzy" {
                seen.push(answer.line.clone());
            }
        }
        let run = bench.run(["task", "--agent", "reader", "--dry-run", "--explain", "burn it"]);
        seen.extend([run.stdout, run.stderr]);
        for text in seen {
            for forbidden in ["delete_secret", "burn", "oven", "furnace", "Fire"] {
                let text = text.replace("\"burn it\"", "");
                assert!(!text.contains(forbidden), "{forbidden}: {text}");
            }
        }
    }
}

#[test]
fn dangerous_tools_need_confirmation() {
    let script = json!({"tools": [simple("wipe", "Wipes the disk.")]});
    let bench = TestEnvironment::new()
        .set("toolMode", json!("navigate"))
        .server("disk", "disk", fake(script))
        .set("dangerousTools", json!(["disk:wipe"]));
    let told = error(&execute(&agent(&bench), "wipe the disk"));
    assert_eq!(told["type"], "refused");
    for is_modern in [false, true] {
        let agent = bench
            .agent()
            .with_reply("elicitation/create", json!({"action": "accept", "content": {}}))
            .begin(is_modern, json!({"elicitation": {}}));
        let done = agent.call_to_completion("execute_task", json!({"task": "wipe the disk"}));
        assert_eq!(done.structured()["success"], true, "{}", done.text());
    }
}

#[test]
fn server_requests_reach_the_agent_in_both_eras() {
    let elicit =
        json!({"message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}});
    let script = json!({
        "tools": [simple("format", "Formats the disk.")],
        "behavior": {"format": {"ask": {"method": "elicitation/create", "params": elicit}}},
    });
    for server in ["legacy", "modern"] {
        let mut script = script.clone();
        script["protocol"] = server.into();
        let bench = TestEnvironment::new().set("toolMode", json!("navigate")).server(
            "disk",
            "disk",
            fake(script),
        );
        for is_modern in [false, true] {
            let agent = bench
                .agent()
                .with_reply("elicitation/create", json!({"action": "accept", "content": {}}))
                .begin(is_modern, json!({"elicitation": {}}));
            let done = agent.call_to_completion("execute_task", json!({"task": "format the disk"}));
            assert_eq!(done.structured()["tool_used"], "disk.format", "{}", done.text());
            assert_eq!(done.structured()["success"], true, "{}", done.text());
        }
    }
}

#[test]
fn images_and_meta_pass_and_long_results_are_truncated() {
    let image = r#"{"type":"image","mimeType":"image/png","data":"AAAA"}"#;
    let result =
        format!(r#"{{"content":[{{"type":"text","text":"a cat"}},{image}],"_meta":{{"k":1.0}}}}"#);
    let script = json!({
        "tools": [simple("paint", "Paints a cat."), simple("write", "Writes a novel.")],
        "behavior": {"paint": {"result": {"raw": result}}, "write": {"huge": {"bytes": 50_000}}},
    });
    let bench = TestEnvironment::new().set("toolMode", json!("navigate")).server(
        "art",
        "art",
        fake(script),
    );
    let cut = bench.clone().set("limits", json!({"maxResultBytes": 4000}));
    let agent = agent(&bench);
    let painted = execute(&agent, "paint a cat").raw_result();
    assert!(painted.contains(&format!(",{image}]")), "{painted}");
    assert!(painted.contains(r#""_meta":{"k":1.0}"#), "{painted}");
    assert!(execute(&agent, "write a novel").line.len() > 100_000, "the result was truncated");

    let agent = self::agent(&cut);
    assert!(agent.tools()[0].get("outputSchema").is_none());
    let novel = execute(&agent, "write a novel");
    assert!(novel.line.len() < 8000, "{}", novel.line.len());
    assert!(novel.text().contains("mcp-workbench://results/"), "{}", novel.text());
}

#[test]
fn steps_are_reported_as_progress() {
    let bench = bench();
    let agent = agent(&bench);
    let call = agent.send_call("execute_task", json!({"task": "run a query in SQL"}));
    agent.wait(&call).ok();
    let messages: Vec<_> = agent
        .progress(&call)
        .iter()
        .map(|p| p["message"].as_str().unwrap_or("").to_owned())
        .collect();
    assert_eq!(
        messages,
        [
            "tool: postgres.query (by ranker; score 0.85, ahead by 0.78)",
            "parameters: none (by agent)",
            "execution: postgres.query",
        ]
    );
}

#[test]
fn use_tool_and_registered_names_also_work() {
    let bench = bench();
    let agent = agent(&bench);
    let echoed = agent.use_tool(["database", "postgres", "query"], json!({"x": 1}));
    assert_eq!(echoed.structured(), json!({"x": 1}));
    assert_eq!(
        agent.call("database__postgres__query", json!({"x": 2})).structured(),
        json!({"x": 2})
    );
}

fn chat() -> TestEnvironment {
    let tools = json!([
        simple("archive_channel", "Archives a channel of the team chat."),
        simple("mute_channel", "Mutes a channel of the team chat."),
        simple("rename_channel", "Renames a channel of the team chat."),
        simple("delete_channel", "Deletes a channel of the team chat."),
    ]);
    let bench = TestEnvironment::new().set("toolMode", json!("navigate"));
    let requests = bench.path_text("requests");
    let script = json!({
        "tools": tools,
        "behavior": {"mute_channel": "echo"},
        "requestFile": requests,
    });
    bench.server("chat", "discord", fake(script))
}

#[test]
fn ambiguous_task_returns_candidates_for_the_next_call() {
    let bench = chat();
    let agent = agent(&bench);
    let task = "the channel of the team chat";
    let asked = execute(&agent, task);
    let told = error(&asked);
    assert_eq!(told["type"], "ambiguous_task", "{told}");
    assert!(asked.structured().get("tool_used").is_none());
    let candidates = told["candidates"].as_array().expect("candidates");
    assert_eq!(candidates.len(), 3, "{told}");
    let mute = json!({
        "tool": "discord.mute_channel",
        "signature": "mute_channel()",
        "description": "Mutes a channel of the team chat.",
    });
    assert!(candidates.contains(&mute), "{told}");
    assert_eq!(calls(&bench, "requests"), 0);

    let arguments = json!({"task": task, "tool": "discord.mute_channel", "arguments": {"id": 7}});
    let done = agent.call("execute_task", arguments);
    let expected =
        json!({"success": true, "tool_used": "discord.mute_channel", "result": {"id": 7}});
    assert_eq!(done.structured(), expected);
    assert_eq!(calls(&bench, "requests"), 1);
}

#[test]
fn task_for_an_unknown_service_is_rejected() {
    let bench = chat();
    let agent = agent(&bench);
    for task in ["archive a channel of the team chat in slack", "archive the channel in Slack"] {
        let told = error(&execute(&agent, task));
        assert_eq!(told["type"], "no_matching_tool");
        let message = told["message"].as_str().expect("a message");
        assert!(message.contains("no server here provides `slack`"), "{message}");
    }
    assert_eq!(calls(&bench, "requests"), 0);
}

#[test]
fn unknown_tool_name_returns_candidates() {
    let bench = chat();
    let agent = agent(&bench);
    for tool in ["discord.delete", "delete_everything", "chat", "../discord.mute_channel"] {
        let arguments = json!({"task": "mute the channel", "tool": tool});
        let told = error(&agent.call("execute_task", arguments));
        let message = told["message"].as_str().expect("a message");
        assert!(message.starts_with(&format!("unknown tool `{tool}`")), "{message}");
        assert_eq!(told["candidates"][0]["tool"], "discord.mute_channel", "{told}");
    }
    let told = error(&agent.call("execute_task", json!({"task": "mute", "tool": 7})));
    assert_eq!(told["type"], "invalid_task");
    assert_eq!(calls(&bench, "requests"), 0);
}

#[test]
fn mutating_tool_is_not_called_without_arguments() {
    let schema = json!({"type": "object", "properties": {"channel": {"type": "string"}}});
    let tool = |name: &str, about: &str| json!({"name": name, "description": about, "inputSchema": schema});
    let script = json!({
        "tools": [
            tool("archive_channel", "Archives a channel of the chat."),
            tool("list_members", "Lists the members of the chat."),
        ],
        "behavior": {"archive_channel": "echo", "list_members": "echo"},
    });
    let bench = TestEnvironment::new().set("toolMode", json!("navigate")).server(
        "chat",
        "discord",
        fake(script),
    );
    let agent = agent(&bench);
    let told = error(&execute(&agent, "archive a channel of the chat"));
    assert_eq!(told["type"], "missing_parameters", "{told}");
    assert_eq!(told["parameters"][0]["name"], "channel");
    let read = execute(&agent, "list the members of the chat");
    assert_eq!(read.structured()["success"], true, "{}", read.text());
    let arguments =
        json!({"task": "archive it", "tool": "discord.archive_channel", "arguments": {}});
    let named = agent.call("execute_task", arguments);
    assert_eq!(named.structured()["success"], true, "{}", named.text());
}

#[test]
fn tasks_in_other_languages_are_matched() {
    let bench = chat();
    for (task, tool) in [
        ("archiviere einen Kanal im Team-Chat", "archive_channel"),
        ("renomme le canal de la discussion", "rename_channel"),
        ("borra el canal del chat del equipo", "delete_channel"),
        ("删除团队聊天的频道", "delete_channel"),
    ] {
        let run = bench.run(["task", "--dry-run", "--explain", task]);
        assert!(run.stderr.contains(&format!("discord.{tool}")), "{task}: {run}");
        let first = run.stderr.lines().next().unwrap_or_default();
        assert!(first.contains(&format!("discord.{tool}")), "{task}: {run}");
    }
}

//! `navigate`: one tool takes a task in plain words, finds the tool for it and calls it.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use serde_json::json;

use crate::exposure::instructions::{
    DEFAULT_MAX_INSTRUCTIONS, MAX_DESCRIPTION, NO_TOOLBOXES, PREVIEW_CHARS, STEPS, on_one_line,
};
use crate::exposure::meta_tools;
use crate::exposure::mode::{
    BoxFuture, ExposedTools, Exposure, Instructions, ListContext, Mode, ModeTraits,
};
use crate::exposure::tool_call::{ListMutability, ToolCallReply, ToolCallRequest};
use crate::exposure::truncation::{first_that_fits, names_that_fit};
use crate::navigator::{self, NavigationStep, NavigationTask, TaskError, TaskOutcome, ToolOutcome};
use mcp_workbench_core::backend::RpcOutcome;
use mcp_workbench_core::catalog::shorten;
use mcp_workbench_core::gateway::{AgentEvent, Gateway, RequestContext, heartbeat};
use mcp_workbench_settings::Config;
use mcp_workbench_wire::json::RawJson;

pub(crate) const EXECUTE_TASK: &str = "execute_task";

/// Spellings of the `task` argument that models use.
const TASK: [&str; 5] = ["task", "query", "instruction", "prompt", "description"];

pub(crate) struct Navigate;

impl Mode for Navigate {
    fn traits(&self) -> &ModeTraits {
        const TRAITS: ModeTraits = ModeTraits::new("execute_task finds the tool for a task.");
        &TRAITS
    }

    fn instructions(&self, config: &Config, _: ListMutability) -> Instructions {
        Instructions::Own(instructions(config))
    }

    fn tools(&self, ctx: ListContext<'_>) -> ExposedTools {
        ExposedTools::of_mode(tools(ctx.exposure.gateway()), ctx)
    }

    fn call<'a>(
        &'a self,
        exposure: &'a Exposure,
        request: ToolCallRequest<'a>,
    ) -> Option<BoxFuture<'a, ToolCallReply>> {
        let is_ours = request.name == EXECUTE_TASK;
        is_ours
            .then(|| -> BoxFuture<'a, ToolCallReply> { Box::pin(execute_task(exposure, request)) })
    }
}

fn tools(gateway: &Gateway) -> Vec<RawJson> {
    vec![RawJson::encode(&json!({
        "name": EXECUTE_TASK,
        "title": "Execute a Task",
        "description": description(gateway.config()),
        "inputSchema": {
            "type": "object",
            "properties": {
                "task": {
                    "type": "string",
                    "description": "The task in plain words, in any language, with everything it \
                                    needs: names, numbers, texts",
                },
                "tool": {
                    "type": "string",
                    "description": "The tool to use, as named by an earlier answer",
                },
                "arguments": {
                    "type": "object",
                    "description": "Known arguments of the tool, such as those that an earlier \
                                    answer asked for",
                },
            },
            "required": ["task"],
        },
        "outputSchema": {
            "type": "object",
            "properties": {
                "success": {"type": "boolean"},
                "tool_used": {"type": "string", "description": "<service>.<tool>"},
                "result": {"description": "The tool's result"},
                "error": {
                    "type": "object",
                    "properties": {
                        "type": {"type": "string"},
                        "message": {"type": "string"},
                        "suggestion": {"type": "string"},
                        "context": {"type": "string"},
                        "candidates": {
                            "type": "array",
                            "items": {
                                "type": "object",
                                "properties": {
                                    "tool": {"type": "string"},
                                    "signature": {"type": "string"},
                                    "description": {"type": "string"},
                                },
                                "required": ["tool", "signature", "description"],
                            },
                        },
                        "parameters": {
                            "type": "array",
                            "items": {
                                "type": "object",
                                "properties": {
                                    "name": {"type": "string"},
                                    "type": {"type": "string"},
                                    "description": {"type": "string"},
                                },
                                "required": ["name", "type", "description"],
                            },
                        },
                    },
                    "required": ["type", "message", "suggestion"],
                },
            },
            "required": ["success"],
        },
        "annotations": {
            "readOnlyHint": false,
            "destructiveHint": true,
            "idempotentHint": false,
            "openWorldHint": true,
        },
    }))]
}

fn instructions(config: &Config) -> String {
    let what = categories(config);
    let head = if what.is_empty() {
        NO_TOOLBOXES.to_owned()
    } else {
        let names = what.iter().map(|(name, _)| *name);
        match names_that_fit(PREVIEW_CHARS - "Tools for: , and 1,000,000 more.".len(), names) {
            (names, 0) => format!("Tools for: {names}."),
            (names, more) => format!("Tools for: {names}, and {more} more."),
        }
    };
    let usage = "Call execute_task {\"task\": \"<what to do>\"} for one step at a time: it finds \
                 the tool, calls it and returns its result. If parameters are missing, it names \
                 them; call it again with them in \"arguments\". If several tools fit, it names \
                 them; call it again with one as \"tool\".";
    let versions = STEPS.iter().map(|max| format!("{head}\n{usage}\n{}", lines(&what, *max)));
    first_that_fits(DEFAULT_MAX_INSTRUCTIONS, versions.chain([format!("{head}\n{usage}")]))
}

/// Returns a short form of the instructions, for clients that never show those to their model.
fn description(config: &Config) -> String {
    let purpose = "Runs a task with the best of many tools: finds the tool, calls it and returns \
                   its result. Give one step at a time, in any language, with everything it needs. \
                   If parameters are missing, the answer names them: call again with them in \
                   `arguments`; if it names candidates, with one as `tool`.";
    let what = categories(config);
    if what.is_empty() {
        return format!("{purpose} {NO_TOOLBOXES}");
    }
    let with_descriptions =
        STEPS.iter().map(|max| format!("{purpose} There are tools for:{}", lines(&what, *max)));
    let capacity =
        MAX_DESCRIPTION - purpose.len() - " There are tools for: , and 1,000,000 more.".len();
    let names = match names_that_fit(capacity, what.iter().map(|(name, _)| *name)) {
        (names, 0) => format!("{purpose} There are tools for: {names}."),
        (names, more) => format!("{purpose} There are tools for: {names}, and {more} more."),
    };
    first_that_fits(MAX_DESCRIPTION, with_descriptions.chain([names]))
}

/// Returns the catalog's categories with a configured server, or else the toolboxes.
fn categories(config: &Config) -> Vec<(&str, &str)> {
    let Some(catalog) = &config.navigator.catalog else {
        let toolboxes = config.toolboxes.iter();
        return toolboxes.map(|toolbox| (toolbox.name.as_str(), &*toolbox.description)).collect();
    };
    let categories = catalog.categories.iter().filter(|category| {
        category.services.iter().any(|service| {
            let toolbox = config.toolbox(service.at.toolbox.as_str());
            toolbox.is_some_and(|toolbox| toolbox.server(service.at.server.as_str()).is_some())
        })
    });
    categories.map(|category| (category.name.as_str(), &*category.description)).collect()
}

fn lines(what: &[(&str, &str)], max: usize) -> String {
    let line = |(name, about): &(&str, &str)| match shorten(&on_one_line(about), max) {
        about if about.is_empty() => format!("\n- {name}"),
        about => format!("\n- {name}: {about}"),
    };
    what.iter().map(line).collect()
}

#[derive(Debug, PartialEq, Eq)]
struct ExecuteTask {
    task: String,
    tool: Option<String>,
    arguments: Option<RawJson>,
}

impl ExecuteTask {
    /// Accepts other names for the task, a plain text, and arguments encoded as a string.
    fn parse(arguments: Option<&RawJson>) -> Result<Self, &'static str> {
        let given = meta_tools::unwrap_json_string(arguments).ok_or("no task given")?;
        if let Some(task) = given.decode_string_lossy() {
            return Self::checked(task.into_owned(), None, None);
        }
        let task = TASK.iter().find_map(|key| given.member(key)).ok_or("no task given")?;
        let task = task.decode_string_lossy().ok_or("the task is not a string")?.into_owned();
        let tool = given.member("tool").filter(|tool| tool.as_bytes() != b"null");
        let tool = match tool {
            Some(tool) => Some(tool.decode_string().ok_or("`tool` is not a string")?.into_owned()),
            None => None,
        };
        let arguments =
            meta_tools::unwrap_json_string(given.member("arguments")).map(Cow::into_owned);
        Self::checked(task, tool, arguments)
    }

    fn checked(
        task: String,
        tool: Option<String>,
        arguments: Option<RawJson>,
    ) -> Result<Self, &'static str> {
        if task.trim().is_empty() {
            return Err("the task is empty");
        }
        if arguments.as_ref().is_some_and(|arguments| arguments.members().is_none()) {
            return Err("`arguments` is not an object");
        }
        let tool = tool.filter(|tool| !tool.trim().is_empty());
        Ok(Self { task, tool, arguments })
    }
}

pub(crate) async fn execute_task(
    exposure: &Exposure,
    request: ToolCallRequest<'_>,
) -> ToolCallReply {
    let wanted = match ExecuteTask::parse(request.arguments) {
        Ok(wanted) => wanted,
        Err(why) => {
            let came = ToolOutcome::Failed(TaskError::invalid_task(why));
            let answer = navigator::tool_result(&TaskOutcome { tool: None, outcome: came });
            return ToolCallReply::from_outcome(RpcOutcome::Result(answer));
        }
    };
    let task = NavigationTask {
        text: &wanted.task,
        tool: wanted.tool.as_deref(),
        arguments: wanted.arguments.as_ref(),
        is_dry_run: false,
    };
    let context = request.context;
    let way = ProgressReporter::new(context);
    let heard = |step: &NavigationStep<'_>| way.on_step(step);
    let navigating = navigator::navigate(&exposure.gateway, context, task, &heard);
    let done = Box::pin(way.accompany(navigating)).await;
    let TaskOutcome { tool, outcome: came } = done;
    let came = match (&tool, came) {
        (Some(used), ToolOutcome::Result(result)) => {
            let server = exposure.gateway.scope().result_server(&used.id);
            match exposure.rewrite_uris(&server, RpcOutcome::Result(result)) {
                RpcOutcome::Result(result) => ToolOutcome::Result(result),
                RpcOutcome::Error(_) => ToolOutcome::Result(RawJson::encode(&json!({}))),
            }
        }
        (_, came) => came,
    };
    let done = TaskOutcome { tool, outcome: came };
    let of = done.tool.as_ref().map_or(EXECUTE_TASK, |used| used.id.tool.as_str());
    let mut answer = RpcOutcome::Result(navigator::tool_result(&done));
    exposure.gateway.results().truncate(of, &mut answer, context).await;
    ToolCallReply::from_outcome(answer)
}

/// Sends progress notifications for a task: one for each step and heartbeats in between, because
/// clients time out on silence.
struct ProgressReporter<'a> {
    context: &'a RequestContext<'a>,
    told: AtomicU32,
    /// `true` while the tool is called: the call sends its own progress.
    is_calling: AtomicBool,
}

impl<'a> ProgressReporter<'a> {
    fn new(context: &'a RequestContext<'a>) -> Self {
        Self { context, told: AtomicU32::new(0), is_calling: AtomicBool::new(false) }
    }

    fn on_step(&self, step: &NavigationStep<'_>) {
        self.is_calling.store(matches!(step, NavigationStep::Execution { .. }), Ordering::Relaxed);
        self.tell(&step.text());
    }

    fn tell(&self, message: &str) {
        let Some(events) = self.context.progress() else { return };
        // Progress must increase, and the call reports its own under the same token later. Stay
        // below any value that it could start with.
        let number = self.told.fetch_add(1, Ordering::Relaxed) + 1;
        let params = json!({
            "progress": f64::from(number) * f64::EPSILON / 1024.0,
            "message": message,
        });
        // A slow agent misses a step instead of delaying the task.
        drop(events.try_send(AgentEvent::Progress(RawJson::encode(&params))));
    }

    async fn accompany<T>(&self, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        let mut heartbeat = heartbeat();
        let mut told = 0;
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                _ = heartbeat.tick() => {}
            }
            let before = std::mem::replace(&mut told, self.told.load(Ordering::Relaxed));
            if before == told && !self.is_calling.load(Ordering::Relaxed) {
                self.tell("still looking for a tool");
                told += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pretty_assertions::assert_eq;
    use serde_json::Value;
    use tokio::time::sleep;

    use super::*;
    use crate::navigator::TreeLevel;
    use mcp_workbench_core::backend::{AgentHandle, events};
    use mcp_workbench_names::{ServerName, ToolId, ToolboxName};

    fn parsed(arguments: &Value) -> Result<(String, Option<String>), &'static str> {
        let arguments = (!arguments.is_null()).then(|| RawJson::encode(arguments));
        let parsed = ExecuteTask::parse(arguments.as_ref())?;
        Ok((parsed.task, parsed.arguments.map(|arguments| arguments.as_str().into_owned())))
    }

    #[test]
    fn accepts_all_forms_in_which_models_write_tasks() {
        let task = || "do it".to_owned();
        let given = || Some(r#"{"a":1}"#.to_owned());
        for (arguments, expected) in [
            (json!({"task": "do it"}), (task(), None)),
            (json!({"query": "do it"}), (task(), None)),
            (json!("do it"), (task(), None)),
            (json!(r#"{"task": "do it"}"#), (task(), None)),
            (json!({"task": "do it", "arguments": {"a": 1}}), (task(), given())),
            (json!({"task": "do it", "arguments": r#"{"a":1}"#}), (task(), given())),
            (json!({"task": "do it", "arguments": null}), (task(), None)),
            (json!({"task": "do it", "arguments": ""}), (task(), None)),
        ] {
            assert_eq!(parsed(&arguments), Ok(expected), "{arguments}");
        }
    }

    #[test]
    fn rejects_missing_and_malformed_tasks() {
        for (arguments, expected) in [
            (json!(null), "no task given"),
            (json!({}), "no task given"),
            (json!({"task": " "}), "the task is empty"),
            (json!({"task": 7}), "the task is not a string"),
            (json!({"task": "do it", "arguments": [1]}), "`arguments` is not an object"),
        ] {
            assert_eq!(parsed(&arguments), Err(expected), "{arguments}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn sends_heartbeats_until_the_tool_is_called() {
        let (sender, mut told) = events::channel(16);
        let no_agent = AgentHandle::new(None);
        let context = RequestContext {
            events: Some(&sender),
            wants_progress: true,
            ..RequestContext::detached(&no_agent)
        };
        let way = ProgressReporter::new(&context);
        let id = ToolId {
            toolbox: ToolboxName::new("pets"),
            server: ServerName::new("dog"),
            tool: "walk".to_owned(),
        };
        let work = async {
            // The paused clock advances when all tasks are idle.
            sleep(Duration::from_secs(12)).await;
            way.on_step(&NavigationStep::Skipped { level: TreeLevel::Category, only: "pets" });
            // The next heartbeat is skipped because of this step; the one after it isn't.
            sleep(Duration::from_secs(9)).await;
            way.on_step(&NavigationStep::Execution { tool: "dog.walk", id: &id, arguments: None });
            // Progress now comes from the call itself.
            sleep(Duration::from_mins(1)).await;
            "done"
        };
        assert_eq!(way.accompany(work).await, "done");
        let (mut messages, mut last) = (Vec::new(), 0.0);
        while let Some(AgentEvent::Progress(params)) = told.try_recv() {
            let params: Value = params.parse().expect("JSON");
            let progress = params["progress"].as_f64().expect("a number");
            assert!(progress > last && progress < f64::EPSILON, "{progress}");
            last = progress;
            messages.push(params["message"].as_str().expect("a text").to_owned());
        }
        let waiting = "still looking for a tool";
        let steps = ["category: pets (only option)", waiting, "execution: dog.walk"];
        assert_eq!(messages, [&[waiting; 2][..], &steps].concat());
    }

    #[test]
    fn instructions_and_description_are_bounded() {
        let names: Vec<String> = (0..500).map(|n| format!("category-number-{n}")).collect();
        let about = "Says at length what it is for. ".repeat(20);
        for count in [0, 1, 8, 40, 500] {
            let config = Config {
                toolboxes: names[..count].iter().map(|name| toolbox(name, &about)).collect(),
                ..Config::default()
            };
            let (instructions, description) = (instructions(&config), description(&config));
            assert!(instructions.len() <= 2048, "{count}: {}", instructions.len());
            assert!(description.len() <= 1024, "{count}: {}", description.len());
            if count == 8 {
                let glance = &instructions[..250];
                assert!(names[..8].iter().all(|name| glance.contains(name.as_str())), "{glance}");
                assert!(description.contains("\n- category-number-7: Says"), "{description}");
            }
        }
    }

    fn toolbox(name: &str, description: &str) -> mcp_workbench_settings::ToolboxConfig {
        mcp_workbench_settings::ToolboxConfig {
            name: ToolboxName::new(name),
            description: description.to_owned(),
            namespace: name.to_owned(),
            servers: Vec::new(),
        }
    }
}

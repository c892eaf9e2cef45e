//! `navigate`: one tool takes a task in words, finds the tool for it and calls it.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use serde_json::json;

use crate::backend::Outcome;
use crate::catalog::shorten;
use crate::exposure::budget::{first_that_fits, names_that_fit};
use crate::exposure::guidance::{
    FIRST_GLANCE, MAX_DESCRIPTION, MAX_INSTRUCTIONS, STEPS, on_one_line,
};
use crate::exposure::meta;
use crate::exposure::mode::{Audience, Doing, Exposure, Mode};
use crate::exposure::request::{Reply, Request};
use crate::gateway::{Event, Gateway, RequestContext, heartbeat};
use crate::navigator::{self, Came, Done, Failure, Step, Task};
use crate::raw::Raw;
use crate::settings::Config;

/// The one tool.
pub(crate) const EXECUTE_TASK: &str = "execute_task";

/// The names that the task may have in a call besides its own.
const TASK: [&str; 5] = ["task", "query", "instruction", "prompt", "description"];

/// The mode.
pub(crate) struct Navigate;

impl Mode for Navigate {
    fn instructions(&self, config: &Config) -> Option<String> {
        Some(instructions(config))
    }

    fn where_tools_are(&self) -> &'static str {
        "execute_task finds the tool for a task."
    }

    fn own_tools(&self, audience: Audience<'_>) -> Vec<Raw> {
        tools(audience.exposure.gateway())
    }

    fn call<'a>(
        &'a self,
        exposure: &'a Exposure,
        request: Request<'a>,
    ) -> Option<Doing<'a, Reply>> {
        let is_ours = request.name == EXECUTE_TASK;
        is_ours.then(|| -> Doing<'a, Reply> { Box::pin(exposure.execute_task(request)) })
    }
}

/// `execute_task`, always.
fn tools(gateway: &Gateway) -> Vec<Raw> {
    vec![Raw::encode(&json!({
        "name": EXECUTE_TASK,
        "title": "Execute a Task",
        "description": description(gateway.config()),
        "inputSchema": {
            "type": "object",
            "properties": {
                "task": {
                    "type": "string",
                    "description": "What is to be done, in plain words of any language, with all \
                                    that is needed for it: names, numbers, texts",
                },
                "tool": {
                    "type": "string",
                    "description": "The tool to do it with, where an answer before has named it",
                },
                "arguments": {
                    "type": "object",
                    "description": "Arguments of the tool that are known already, such as those \
                                    that an answer before has asked for",
                },
            },
            "required": ["task"],
        },
        "outputSchema": {
            "type": "object",
            "properties": {
                "success": {"type": "boolean"},
                "tool_used": {"type": "string", "description": "<service>.<tool>"},
                "result": {"description": "What the tool answered"},
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

/// The instructions for a model before its first call, at most 2,048 bytes.
fn instructions(config: &Config) -> String {
    let what = what_there_is(config);
    let head = if what.is_empty() {
        "No tools are configured.".to_owned()
    } else {
        let names = what.iter().map(|(name, _)| *name);
        match names_that_fit(FIRST_GLANCE - "Tools for: , and 1,000,000 more.".len(), names) {
            (names, 0) => format!("Tools for: {names}."),
            (names, more) => format!("Tools for: {names}, and {more} more."),
        }
    };
    let usage = "Call execute_task {\"task\": \"<what is to be done>\"} for one thing at a time: it \
                 finds the tool, calls it and returns its result. Where it lacks something, it says \
                 what; call it again with that in \"arguments\". Where several tools may be meant, \
                 it names them; call it again with one as \"tool\".";
    let versions = STEPS.iter().map(|max| format!("{head}\n{usage}\n{}", lines(&what, *max)));
    first_that_fits(MAX_INSTRUCTIONS, versions.chain([format!("{head}\n{usage}")]))
}

/// The instructions in short, for clients that never ask for them.
fn description(config: &Config) -> String {
    let purpose = "Does a task with one of many tools: finds the tool that fits, calls it and \
                   returns its result. Say one thing at a time, in any language, with all that is \
                   needed for it. If something is missing, the answer says what: call again with it \
                   in `arguments`; if it names candidates, with one as `tool`.";
    let what = what_there_is(config);
    let with_descriptions =
        STEPS.iter().map(|max| format!("{purpose} There are tools for:{}", lines(&what, *max)));
    let room =
        MAX_DESCRIPTION - purpose.len() - " There are tools for: , and 1,000,000 more.".len();
    let names = match names_that_fit(room, what.iter().map(|(name, _)| *name)) {
        (names, 0) => format!("{purpose} There are tools for: {names}."),
        (names, more) => format!("{purpose} There are tools for: {names}, and {more} more."),
    };
    first_that_fits(MAX_DESCRIPTION, with_descriptions.chain([names]))
}

/// Categories with what is said of them: those of the catalog, of which the agent has a server, or
/// the toolboxes.
fn what_there_is(config: &Config) -> Vec<(&str, &str)> {
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

/// A call of `execute_task`.
#[derive(Debug, PartialEq, Eq)]
struct ExecuteTask {
    task: String,
    tool: Option<String>,
    arguments: Option<Raw>,
}

impl ExecuteTask {
    /// Understands what models write: the task by other names, or alone as a text; arguments that
    /// are missing, `null`, or an object written as a string.
    fn parse(arguments: Option<&Raw>) -> Result<Self, &'static str> {
        let given = meta::unquoted(arguments).ok_or("there is no task")?;
        if let Some(task) = given.text() {
            return Self::checked(task.into_owned(), None, None);
        }
        let task = TASK.iter().find_map(|key| given.member(key)).ok_or("there is no task")?;
        let task = task.text().ok_or("the task is no text")?.into_owned();
        let tool = given.member("tool").filter(|tool| tool.as_bytes() != b"null");
        let tool = match tool {
            Some(tool) => Some(tool.text().ok_or("`tool` is no text")?.into_owned()),
            None => None,
        };
        let arguments = meta::unquoted(given.member("arguments")).map(Cow::into_owned);
        Self::checked(task, tool, arguments)
    }

    fn checked(
        task: String,
        tool: Option<String>,
        arguments: Option<Raw>,
    ) -> Result<Self, &'static str> {
        if task.trim().is_empty() {
            return Err("the task is empty");
        }
        if arguments.as_ref().is_some_and(|arguments| arguments.members().is_none()) {
            return Err("`arguments` are no object");
        }
        let tool = tool.filter(|tool| !tool.trim().is_empty());
        Ok(Self { task, tool, arguments })
    }
}

impl Exposure {
    pub(crate) async fn execute_task(&self, request: Request<'_>) -> Reply {
        let wanted = match ExecuteTask::parse(request.arguments) {
            Ok(wanted) => wanted,
            Err(why) => {
                let came = Came::Failed(Failure::invalid_task(why));
                let answer = navigator::answer(&Done { tool: None, came });
                return Reply::plain(Outcome::Result(answer));
            }
        };
        let task = Task {
            words: &wanted.task,
            tool: wanted.tool.as_deref(),
            arguments: wanted.arguments.as_ref(),
            is_rehearsal: false,
        };
        let context = request.context;
        let way = Way::new(context);
        let heard = |step: &Step<'_>| way.took(step);
        let navigating = navigator::navigate(&self.gateway, context, task, &heard);
        let done = Box::pin(way.accompany(navigating)).await;
        let Done { tool, came } = done;
        let came = match (&tool, came) {
            (Some(used), Came::Result(result)) => {
                let server = self.gateway.answering(&used.id);
                match self.with_addresses(&server, Outcome::Result(result)) {
                    Outcome::Result(result) => Came::Result(result),
                    Outcome::Error(_) => Came::Result(Raw::encode(&json!({}))),
                }
            }
            (_, came) => came,
        };
        let done = Done { tool, came };
        let of = done.tool.as_ref().map_or(EXECUTE_TASK, |used| used.id.tool.as_str());
        let mut answer = Outcome::Result(navigator::answer(&done));
        self.gateway.hand_out(of, &mut answer, context).await;
        Reply::plain(answer)
    }
}

/// The news to an agent on the way of a task: each step, and signs of life where there is none, for
/// an agent may give up what it hears nothing of.
struct Way<'a> {
    context: &'a RequestContext<'a>,
    told: AtomicU32,
    /// `true` while the tool is called, for the call tells of itself.
    is_calling: AtomicBool,
}

impl<'a> Way<'a> {
    fn new(context: &'a RequestContext<'a>) -> Self {
        Self { context, told: AtomicU32::new(0), is_calling: AtomicBool::new(false) }
    }

    fn took(&self, step: &Step<'_>) {
        self.is_calling.store(matches!(step, Step::Execution { .. }), Ordering::Relaxed);
        self.tell(&step.text());
    }

    fn tell(&self, message: &str) {
        let Some(events) = self.context.progress() else { return };
        // The call's own progress is yet to come under the same token, and may only rise.
        let number = self.told.fetch_add(1, Ordering::Relaxed) + 1;
        let params = json!({
            "progress": f64::from(number) * f64::EPSILON / 1024.0,
            "message": message,
        });
        // An agent that is slow to take them misses a step.
        drop(events.offer(Event::Progress(Raw::encode(&params))));
    }

    /// Waits for `work`, whose steps these are.
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
                self.tell("the tool for it is still looked for");
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
    use crate::backend::{Presence, events};
    use crate::name::{ServerName, ToolId, ToolboxName};
    use crate::navigator::Level;

    fn parsed(arguments: &Value) -> Result<(String, Option<String>), &'static str> {
        let arguments = (!arguments.is_null()).then(|| Raw::encode(arguments));
        let parsed = ExecuteTask::parse(arguments.as_ref())?;
        Ok((parsed.task, parsed.arguments.map(|arguments| arguments.as_str().into_owned())))
    }

    #[test]
    fn every_way_in_which_models_write_it_is_understood() {
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
    fn what_is_no_task_is_explained() {
        for (arguments, expected) in [
            (json!(null), "there is no task"),
            (json!({}), "there is no task"),
            (json!({"task": " "}), "the task is empty"),
            (json!({"task": 7}), "the task is no text"),
            (json!({"task": "do it", "arguments": [1]}), "`arguments` are no object"),
        ] {
            assert_eq!(parsed(&arguments), Err(expected), "{arguments}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_agent_is_told_that_it_goes_on_until_the_tool_is_called() {
        let (sender, mut told) = events::channel(16);
        let nobody = Presence::new(None);
        let context = RequestContext {
            events: Some(&sender),
            wants_progress: true,
            ..RequestContext::nobody(&nobody)
        };
        let way = Way::new(&context);
        let id = ToolId {
            toolbox: ToolboxName::new("pets"),
            server: ServerName::new("dog"),
            tool: "walk".to_owned(),
        };
        let work = async {
            // Time is paused here, and goes on by itself when everybody waits.
            sleep(Duration::from_secs(12)).await;
            way.took(&Step::Skipped { level: Level::Category, only: "pets" });
            // The next beat is left out, for something has been told; the one after that is not.
            sleep(Duration::from_secs(9)).await;
            way.took(&Step::Execution { tool: "dog.walk", id: &id, arguments: None });
            // What the call takes is told by the call.
            sleep(Duration::from_mins(1)).await;
            "done"
        };
        assert_eq!(way.accompany(work).await, "done");
        let (mut messages, mut last) = (Vec::new(), 0.0);
        while let Some(Event::Progress(params)) = told.try_recv() {
            let params: Value = params.parse().expect("JSON");
            let progress = params["progress"].as_f64().expect("a number");
            assert!(progress > last && progress < f64::EPSILON, "{progress}");
            last = progress;
            messages.push(params["message"].as_str().expect("a text").to_owned());
        }
        let waiting = "the tool for it is still looked for";
        let steps = ["category: pets (the only one)", waiting, "execution: dog.walk"];
        assert_eq!(messages, [&[waiting; 2][..], &steps].concat());
    }

    #[test]
    fn what_a_model_reads_is_bounded_however_much_there_is() {
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

    fn toolbox(name: &str, description: &str) -> crate::settings::ToolboxConfig {
        crate::settings::ToolboxConfig {
            name: ToolboxName::new(name),
            description: description.to_owned(),
            namespace: name.to_owned(),
            servers: Vec::new(),
        }
    }
}

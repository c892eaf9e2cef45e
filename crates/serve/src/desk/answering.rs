//! Answers to all that is asked at the desk, found out or done.

use std::time::{Instant, SystemTime};

use serde_json::json;
use serde_json::value::RawValue;
use tokio::task::{JoinSet, spawn_blocking};

use crate::backend::{self, Outcome, events};
use crate::catalog::rank::{Finds, shared_words};
use crate::desk::ask::{Act, Answer, Ask, Failure, Hit, Refused, ToolDefinition};
use crate::desk::looking::millis;
use crate::desk::papers::Idle;
use crate::desk::view::Unused;
use crate::desk::{Desk, Papers};
use crate::gateway::{
    CallError, Event, FailedServer, Found, Gateway, Presence, RequestContext, SignInPage, Sought,
};
use crate::name::{ServerName, ServerRef, ToolId, ToolboxName, seen};
use crate::observe::{Payer, stats, tokens};
use crate::raw::Raw;
use crate::settings::{Launch, ServerConfig};

/// How many tools a search finds at most.
const MAX_HITS: usize = 20;
/// The most bytes of a query.
const MAX_QUERY: usize = 4096;
/// The most tools that are told that nobody has used.
const MAX_UNUSED: usize = 1000;
/// The most characters of a name that is repeated, and of a description.
const MAX_NAME: usize = 200;
const MAX_LINE: usize = 300;
/// How many events of a call may wait.
const EVENTS: usize = 16;

impl Desk {
    /// Answers whoever runs the workbench.
    pub async fn answer(&self, ask: Ask) -> Answer {
        let answered = match ask {
            Ask::View => Ok(Answer::View(Box::new(self.view()))),
            Ask::Act { act, toolbox, server } => self.act(act, &toolbox, server.as_deref()).await,
            Ask::Search { query } => self.search(&query).await,
            Ask::Tools { toolbox, server } => self.tools(&toolbox, &server).await,
            Ask::Call { toolbox, server, tool, arguments, is_confirmed } => {
                let tool = ToolId {
                    toolbox: ToolboxName::new(&toolbox),
                    server: ServerName::new(&server),
                    tool,
                };
                self.call(&tool, arguments.as_deref(), is_confirmed).await
            }
            Ask::SignIn { toolbox, server } => self.sign_in(&toolbox, &server).await,
            Ask::Unused => self.unused().await,
            Ask::Findings => self.findings().await,
        };
        answered.unwrap_or_else(Answer::Refused)
    }

    async fn act(&self, act: Act, toolbox: &str, server: Option<&str>) -> Result<Answer, Refused> {
        let gateways = &self.0.gateways;
        let config = gateways.config();
        let toolbox = config.toolbox(toolbox).ok_or_else(|| no_toolbox(toolbox))?;
        let meant: Vec<&ServerConfig> = match server {
            Some(name) => vec![toolbox.server(name).ok_or_else(|| no_server(name))?],
            None => toolbox.launched().collect(),
        };
        let mut acting = JoinSet::new();
        for server in meant {
            match &server.launch {
                Launch::Macros(_) => {
                    let message = format!("`{}` is no server: it is made of macros", server.name);
                    return Err(failed(message));
                }
                Launch::Unsupported { reason, hint } | Launch::Broken { reason, hint } => {
                    return Err(failed(format!("`{}`: {reason}; {hint}", server.name)));
                }
                Launch::Stdio(_) | Launch::Http(_) => {}
            }
            let at = ServerRef { toolbox: toolbox.name.clone(), server: server.name.clone() };
            let (gateways, caller) = (gateways.clone(), self.0.caller.clone());
            acting.spawn(async move {
                match act {
                    Act::Open => gateways.begin(&at, &caller).await?,
                    Act::Restart => gateways.restart(&at, &caller).await?,
                    Act::Stop => gateways.halt(&at).await,
                    Act::Mute => gateways.mute(&at, true).await,
                    Act::Unmute => gateways.mute(&at, false).await,
                }
                Ok::<(), FailedServer>(())
            });
        }
        let mut problems = Vec::new();
        while let Some(acted) = acting.join_next().await {
            match acted {
                Ok(Ok(())) => {}
                Ok(Err(FailedServer { server, reason, hint, .. })) => {
                    problems.push(format!("`{server}`: {reason}; {hint}"));
                }
                Err(_) => problems.push("an error of ours: the log has more".to_owned()),
            }
        }
        problems.sort();
        if problems.is_empty() { Ok(Answer::Done) } else { Err(failed(problems.join("\n"))) }
    }

    async fn sign_in(&self, toolbox: &str, server: &str) -> Result<Answer, Refused> {
        let gateways = &self.0.gateways;
        let config = gateways.config();
        let toolbox = config.toolbox(toolbox).ok_or_else(|| no_toolbox(toolbox))?;
        let server = toolbox.server(server).ok_or_else(|| no_server(server))?;
        let at = ServerRef { toolbox: toolbox.name.clone(), server: server.name.clone() };
        let begun = gateways.begin_sign_in(&at, &self.0.caller).await;
        let SignInPage { address, code } =
            begun.map_err(|it| failed(format!("`{}`: {}; {}", it.server, it.reason, it.hint)))?;
        Ok(Answer::Open { address, code })
    }

    async fn search(&self, query: &str) -> Result<Answer, Refused> {
        if query.len() > MAX_QUERY {
            let why = Failure::Malformed;
            let message =
                format!("the query has {} bytes, expected {MAX_QUERY} at most", query.len());
            return Err(Refused { why, message });
        }
        let gateway = self.gateway().await;
        let nobody = Presence::new(None);
        let sought =
            Sought { query, toolbox: None, server: None, finds: Finds::WhatFits, limit: MAX_HITS };
        let found = gateway.search(sought, &RequestContext::nobody(&nobody)).await;
        let hits = found.iter().map(|found| hit(query, found)).collect();
        Ok(Answer::Hits { hits })
    }

    async fn tools(&self, toolbox: &str, server: &str) -> Result<Answer, Refused> {
        let gateway = self.gateway().await;
        let config = gateway.config().toolbox(toolbox).ok_or_else(|| no_toolbox(toolbox))?;
        let server = config.server(server).ok_or_else(|| no_server(server))?;
        let view = gateway.snapshot().view(&config.name);
        let mut tools: Vec<_> = view
            .tools_of(&server.name)
            .iter()
            .map(|tool| ToolDefinition {
                name: tool.id.tool.clone(),
                description: seen::lines(
                    tool.definition.description.as_deref().unwrap_or_default(),
                ),
                input_schema: verbatim(tool.definition.schema()),
                is_dangerous: gateway.is_dangerous(tool),
                tokens: tokens(tool.definition.raw.len()) as u64,
            })
            .collect();
        tools.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(Answer::Tools { tools })
    }

    async fn call(
        &self,
        tool: &ToolId,
        arguments: Option<&RawValue>,
        is_confirmed: bool,
    ) -> Result<Answer, Refused> {
        let gateway = self.gateway().await;
        let caller = &self.0.caller;
        let arguments = arguments.map(|arguments| Raw::encode(&arguments));
        let purse = self.0.gateways.payers().purse(&Payer::new(caller.agent.as_ref(), None));
        let (sender, mut heard) = events::channel(EVENTS);
        let agent = Presence::new(None).named(caller.agent.clone()).paying_with(purse);
        let context =
            RequestContext { caller, events: Some(&sender), ..RequestContext::nobody(&agent) };
        let began = Instant::now();
        let mut question = None;
        let called = {
            let calling = gateway.call(tool, arguments.as_ref(), &[], &context);
            tokio::pin!(calling);
            loop {
                tokio::select! {
                    called = &mut calling => break called,
                    Some(event) = heard.recv() => {
                        // What a server asks is not answered here: that is for agents.
                        let Event::Question(asked) = event else { continue };
                        let mode = asked.params.as_ref().and_then(|params| params.member("mode"));
                        let is_page = mode.as_ref().and_then(Raw::text).as_deref() == Some("url");
                        // Nor does anybody open a page here: the view has a button for that.
                        if asked.is_of_server || is_page {
                            continue;
                        }
                        if is_confirmed {
                            let yes = json!({"action": "accept", "content": {}});
                            asked.answer(Outcome::Result(Raw::encode(&yes))).await;
                        } else {
                            let message = asked.params.as_ref().and_then(|raw| raw.member("message"));
                            let message = message.as_ref().and_then(Raw::text);
                            question = Some(message.unwrap_or_default().into_owned());
                        }
                    }
                }
            }
        };
        // It was a guest for this one call.
        self.0.gateways.leave(agent.id);
        let ms = (began.elapsed().as_secs_f64() * 100_000.0).round() / 100.0;
        match (called, question) {
            (Err(CallError::Refused { .. }), Some(question)) => Ok(Answer::Confirm { question }),
            (Ok(Outcome::Result(result)), _) => {
                Ok(Answer::Called { result: Some(verbatim(&result)), error: None, ms })
            }
            (Ok(Outcome::Error(error)), _) => {
                Ok(Answer::Called { result: None, error: Some(verbatim(&error)), ms })
            }
            (Err(error), _) => Err(refused(&error)),
        }
    }

    async fn unused(&self) -> Result<Answer, Refused> {
        let gateway = self.gateway().await;
        let audit = self.0.gateways.config().audit.as_ref().map(|audit| audit.file.clone());
        let summary = match audit {
            Some(file) => {
                let read = move || stats::Stats::read(&stats::files(&file), None);
                let read = spawn_blocking(read).await.map_err(|error| failed(error.to_string()))?;
                let read =
                    read.map_err(|error| failed(format!("the audit cannot be read: {error}")))?;
                Some(read.finish())
            }
            None => None,
        };
        let (noted, used) = self.0.gateways.observer().live().used();
        let is_used = |tool: &ToolId| match &summary {
            Some(summary) => {
                let (toolbox, server) = (tool.toolbox.as_str(), tool.server.as_str());
                let called = summary.tool(toolbox, server, &tool.tool);
                called.is_some_and(|called| called.calls > called.refused())
            }
            None => used.contains(&(tool.toolbox.clone(), tool.server.clone(), tool.tool.clone())),
        };
        let idle = idle(&gateway, is_used);
        let tools = idle.iter().flat_map(|server| {
            let (toolbox, server_name) = (server.toolbox.clone(), server.server.clone());
            let tools = server.tools.iter();
            tools.map(move |(tool, _)| (toolbox.clone(), server_name.clone(), tool.clone()))
        });
        let tools = tools.take(MAX_UNUSED).collect();
        let since = match &summary {
            Some(summary) => stats::millis(&summary.from).unwrap_or_default(),
            None if noted > 0 => noted,
            None => millis(SystemTime::now()),
        };
        let patch = self.with_papers(move |papers| (papers.patch)(&idle)).await?;
        Ok(Answer::Unused(Unused { since, tools, patch }))
    }

    async fn findings(&self) -> Result<Answer, Refused> {
        let file = self.0.papers.config.clone();
        let (text, findings) = self.with_papers(|papers| (papers.findings)()).await?;
        Ok(Answer::Findings { file, text, findings })
    }

    /// Asks for something that takes reading files.
    async fn with_papers<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Papers) -> Result<T, String> + Send + 'static,
    ) -> Result<T, Refused> {
        let desk = self.clone();
        let done = spawn_blocking(move || work(&desk.0.papers)).await;
        done.map_err(|error| failed(error.to_string()))?.map_err(failed)
    }
}

fn hit(query: &str, found: &Found) -> Hit {
    let tool = found.tool();
    let description = tool.definition.summary().unwrap_or_default();
    let whole = tool.definition.description.as_deref().unwrap_or_default();
    let text = format!("{} {} {whole}", tool.id.server, tool.id.tool);
    Hit {
        toolbox: tool.id.toolbox.to_string(),
        server: tool.id.server.to_string(),
        tool: tool.id.tool.clone(),
        description: seen::line(&description).chars().take(MAX_LINE).collect(),
        score: found.rounded_score(),
        is_good: found.fits_well(),
        words: shared_words(query, &text),
    }
}

/// The tools of each server that are not used, of servers that have been listed.
fn idle(gateway: &Gateway, is_used: impl Fn(&ToolId) -> bool) -> Vec<Idle> {
    let snapshot = gateway.snapshot();
    let mut all = Vec::new();
    for toolbox in &gateway.config().toolboxes {
        let view = snapshot.view(&toolbox.name);
        for server in toolbox.launched() {
            let shown = view.tools_of(&server.name);
            let unused = shown.iter().filter(|tool| !is_used(&tool.id));
            all.push(Idle {
                toolbox: toolbox.name.to_string(),
                server: server.name.to_string(),
                tools: unused.map(|tool| (tool.id.tool.clone(), tool.own.name.clone())).collect(),
                shown: shown.len(),
            });
        }
    }
    all
}

fn verbatim(raw: &Raw) -> Box<RawValue> {
    raw.parse().unwrap_or_else(|_| RawValue::NULL.to_owned())
}

fn failed(message: String) -> Refused {
    Refused { why: Failure::Failed, message }
}

fn no_toolbox(name: &str) -> Refused {
    let message = format!("there is no toolbox `{}`", seen::named(name, MAX_NAME));
    Refused { why: Failure::Unknown, message }
}

fn no_server(name: &str) -> Refused {
    let message = format!("there is no server `{}` in it", seen::named(name, MAX_NAME));
    Refused { why: Failure::Unknown, message }
}

fn refused(error: &CallError) -> Refused {
    let why = match error {
        CallError::UnknownToolbox { .. }
        | CallError::UnknownServer { .. }
        | CallError::UnknownTool { .. }
        | CallError::UnknownPrimitive { .. } => Failure::Unknown,
        CallError::NotAnObject { .. } | CallError::BadArguments { .. } => Failure::Malformed,
        CallError::Refused { .. } => Failure::NotAllowed,
        CallError::Server { .. } => Failure::Failed,
    };
    let hint = match error {
        CallError::Refused { hint, .. } => Some(hint),
        CallError::Server { error: backend::Error::StartFailed(failure), .. } => {
            Some(&failure.hint)
        }
        _ => None,
    };
    let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
    Refused { why, message: seen::lines(&format!("{error}{hint}")) }
}

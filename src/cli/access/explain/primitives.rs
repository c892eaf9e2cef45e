//! `explain` for resources and prompts.

use std::fmt::Write;
use std::process::ExitCode;
use std::sync::Arc;

use serde::Serialize;

use crate::cli::access::explain::explanation::{
    ExplainedAccess, RuleFiles, RulePlace, RuleReason, disabled_text, shown_agent,
    switched_off_as_json,
};
use crate::cli::args::GlobalArgs;
use crate::cli::output::{CommandError, print};
use crate::cli::servers::cached_listings;
use mcp_workbench_core::policy::{Policies, ResourceOrPrompt, RulePath, Verdict};
use mcp_workbench_names::{AgentName, ServerRef};
use mcp_workbench_settings::Config;

pub(super) struct ExplainInput {
    pub(super) config: Config,
    pub(super) files: RuleFiles,
    pub(super) servers: Vec<ServerRef>,
    /// Matching servers that are disabled.
    pub(super) off: Vec<ServerRef>,
}

pub(super) fn explain(
    global: &GlobalArgs,
    agents: &[Option<AgentName>],
    what: ResourceOrPrompt<'_>,
    found: ExplainInput,
    is_json: bool,
) -> Result<ExitCode, CommandError> {
    let ExplainInput { config, files, servers, off } = found;
    let known = cached_listings::listings(global, &config)?;
    let project_toolboxes = config.policy.project_toolboxes.clone();
    let policies = Policies::new(Arc::new(config));
    let (mut answers, mut texts) = (Vec::new(), Vec::new());
    for (at, of) in servers.iter().flat_map(|at| agents.iter().map(move |of| (at, of.as_ref()))) {
        let listing = known.get(at).cloned();
        let is_listed = listing.as_ref().map(|listing| match what {
            ResourceOrPrompt::Resource(uri) => {
                listing.resources.iter().any(|one| one.uri == uri)
                    || listing.templates.iter().any(|one| one.uri == uri)
            }
            ResourceOrPrompt::Prompt(name) => listing.prompts.iter().any(|one| one.name == name),
        });
        let verdict = policies.explain_primitive(of, at, what, &listing.unwrap_or_default());
        let Some(verdict) = verdict else { continue };
        let is_project = project_toolboxes.contains(&at.toolbox);
        let place = verdict.rule.as_ref().map(|rule| files.locate(rule, is_project));
        let place = place.unwrap_or_default();
        let case = PrimitiveCase { of, at, what, verdict, place, is_listed };
        if is_json {
            answers.push(serde_json::to_value(case.answer()).map_err(CommandError::internal)?);
        } else {
            texts.push(case.text());
        }
    }
    let (ResourceOrPrompt::Resource(name) | ResourceOrPrompt::Prompt(name)) = what;
    for at in &off {
        let path = ["mcp_servers", at.server.as_str(), "disabled"].map(str::to_owned);
        let place = files.locate_own(&path);
        if is_json {
            answers.push(switched_off_as_json(
                at,
                agents.first().and_then(Option::as_ref),
                name,
                &place,
            ));
        } else {
            texts.push(disabled_text(at, name, &place));
        }
    }
    if is_json {
        print::json(&answers)?;
    } else {
        print::prose(&texts.join("\n\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

struct PrimitiveCase<'a> {
    of: Option<&'a AgentName>,
    at: &'a ServerRef,
    what: ResourceOrPrompt<'a>,
    verdict: Verdict,
    place: RulePlace,
    /// `None` if the server has no cached listing.
    is_listed: Option<bool>,
}

#[derive(Serialize)]
struct PrimitiveExplanation<'a> {
    #[serde(flatten)]
    access: ExplainedAccess<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<&'a str>,
    visible: bool,
    /// `None` if no rule mentions it.
    rule: Option<&'a str>,
    #[serde(flatten)]
    reason: RuleReason<'a>,
    listed: Option<bool>,
}

impl PrimitiveCase<'_> {
    fn name(&self) -> &str {
        let (ResourceOrPrompt::Resource(name) | ResourceOrPrompt::Prompt(name)) = self.what;
        name
    }

    fn answer(&self) -> PrimitiveExplanation<'_> {
        let Verdict { is_visible, rule, is_named } = &self.verdict;
        let is_prompt = matches!(self.what, ResourceOrPrompt::Prompt(_));
        PrimitiveExplanation {
            access: ExplainedAccess {
                agent: self.of.map(AgentName::as_str),
                agent_has_entry: *is_named,
                toolbox: self.at.toolbox.as_str(),
                server: self.at.server.as_str(),
            },
            resource: (!is_prompt).then(|| self.name()),
            prompt: is_prompt.then(|| self.name()),
            visible: *is_visible,
            rule: rule.as_ref().map(RulePath::as_str),
            reason: RuleReason::new(&self.place, self.reason()),
            listed: self.is_listed,
        }
    }

    fn text(&self) -> String {
        let Verdict { is_visible, rule, .. } = &self.verdict;
        let ServerRef { toolbox, server } = self.at;
        let who = shown_agent(self.of);
        let word = match self.what {
            ResourceOrPrompt::Resource(_) => "resource",
            ResourceOrPrompt::Prompt(_) => "prompt",
        };
        let verdict = if *is_visible { "is available to" } else { "is hidden from" };
        let mut text = format!("{word} `{}` of `{toolbox}/{server}` {verdict} {who}", self.name());
        let mut line = |what: &str, says: &str| _ = write!(text, "\n  {what:<10}{says}");
        if let Some(rule) = rule {
            line("rule", &format!("{rule}{}", self.place));
        }
        let (why, change) = self.reason();
        line("reason", why);
        if let Some(change) = change {
            line("change", &change);
        }
        match self.is_listed {
            Some(true) => {}
            Some(false) => {
                line("note", &format!("the server's cached list has no such {word}"));
            }
            None => line("note", "no cached list for this server"),
        }
        text
    }

    fn reason(&self) -> (&'static str, Option<String>) {
        let Verdict { is_visible, rule, .. } = &self.verdict;
        let (name, server) = (self.name(), &self.at.server);
        let path = rule.as_ref().map(|rule| rule.path().iter().map(String::as_str));
        let path: Vec<&str> = path.into_iter().flatten().collect();
        let (lists, unlisted) = match self.what {
            ResourceOrPrompt::Resource(_) => (
                "`resourceOverrides`",
                "the agent cannot use any tool of the server, and no list names the resource",
            ),
            ResourceOrPrompt::Prompt(_) => (
                "`promptOverrides`",
                "the agent cannot use any tool of the server, and no list names the prompt",
            ),
        };
        if *is_visible {
            let why = if rule.is_some() { "the list allows it" } else { "no list mentions it" };
            return (why, None);
        }
        match path.as_slice() {
            ["allowed_servers"] => (
                "the project does not allow the server",
                Some(format!("add \"{server}\" to the list")),
            ),
            ["agent_policies", _, "when", ..] => ("the condition is not met", None),
            ["agent_policies", _, "allowed_servers"] => (
                "the list does not contain the server",
                Some(format!("add \"{server}\" to the list")),
            ),
            ["agent_policies"] => (
                "no policy allows the server for this agent",
                Some("add a policy for the agent, or a `defaultPolicy`".to_owned()),
            ),
            ["default_policy", ..] | ["agent_policies", _, "tool_overrides", ..] => {
                (unlisted, Some(format!("add a list for `{server}` to the agent's {lists}")))
            }
            [_, _, "resource_filters" | "prompt_filters"] => {
                ("the server's filters exclude it", Some("change the filters".to_owned()))
            }
            _ => (
                "the list does not allow it",
                Some(format!(
                    "add \"{name}\" or a matching glob to the list, and remove patterns that exclude it"
                )),
            ),
        }
    }
}

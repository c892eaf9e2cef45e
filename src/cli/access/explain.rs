//! `explain`: tells why an agent can or can't use a tool, resource or prompt.

mod primitives;

use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::SystemTime;

use clap_complete::engine::ArgValueCandidates;
use serde::Serialize;
use serde_json::{Value, json};

use crate::catalog::DefinitionDrift;
use crate::cli::args::completion;
use crate::cli::args::global::{GlobalArgs, warn_of_misspelled_agent};
use crate::cli::output::error::CommandError;
use crate::cli::output::print;
use crate::cli::output::wording::{did_you_mean, quoted};
use crate::cli::runtime::block_on;
use crate::cli::servers::cached_listings;
use crate::cli::servers::login_summary::{self, LoginSummary};
use crate::cli::servers::server_names::is_named;
use crate::cli::servers::tool_target::tool_ids;
use crate::config::{KeyLocation, LoadedConfig, locate_key};
use crate::name::{self, AgentName, ServerName, ServerRef, ToolId, ToolboxName};
use crate::os::read_input_text;
use crate::policy::{Explanation, Policies, ResourceOrPrompt, RiskReason, ToolTraits, UnixTime};
use crate::settings::{Config, DriftPolicy, ToolOverride};

const EXAMPLES: &str = "\
Examples:
  mcp-workbench explain github:delete_file                (every agent)
  mcp-workbench explain - desk/github/get_file --json     (an unnamed agent)
  mcp-workbench explain claude-code files --resource file:///etc/passwd";

/// Explain why an agent can or cannot use a tool
///
/// Shows the deciding rule with its line, the change that would reverse the decision, the conditions
/// on calls, and whose login the server uses. Also explains resources and prompts. Starts no server:
/// the answer comes from the access rules and the cached tool lists.
///
/// Name the tool as for `call`: `server tool`, `server:tool`, `toolbox/server/tool` and so on. Without
/// an agent, explains the tool for every agent in `agentPolicies` and for unnamed ones.
///
/// Exits with 0 for either answer, and with 2 if the server doesn't exist.
#[derive(Debug, clap::Args)]
#[command(
    after_help = EXAMPLES,
    override_usage = "mcp-workbench explain [OPTIONS] [AGENT] <TOOL>\n       \
                      mcp-workbench explain [OPTIONS] [AGENT] <SERVER> --resource <URI>"
)]
pub(crate) struct Args {
    /// Agent, or `-` for an unnamed one [default: every agent]
    #[arg(value_name = "AGENT", add = ArgValueCandidates::new(completion::agents))]
    agent_name: String,
    /// Server, as `server` or `toolbox/server`
    #[arg(add = ArgValueCandidates::new(completion::servers))]
    server: Option<String>,
    /// Tool, by its own or its configured name
    #[arg(add = ArgValueCandidates::new(completion::tools))]
    tool: Option<String>,
    #[arg(hide = true)]
    more: Option<String>,
    /// Explain a resource URI or template instead of a tool
    #[arg(long, value_name = "URI", conflicts_with_all = ["more", "tool", "prompt"])]
    resource: Option<String>,
    /// Explain a prompt instead of a tool
    #[arg(long, value_name = "NAME", conflicts_with_all = ["more", "tool"])]
    prompt: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct ToolExplanation<'a> {
    agent: Option<&'a str>,
    agent_has_entry: bool,
    toolbox: &'a str,
    server: &'a str,
    tool: &'a str,
    /// The name that agents see, if the configuration sets one.
    #[serde(skip_serializing_if = "Option::is_none")]
    configured_name: Option<&'a str>,
    /// Names of arguments that the configuration sets in every call. Agents don't see them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pinned: Vec<&'a str>,
    visible: bool,
    /// How the definition differs from the lock, with commands to review and accept it.
    #[serde(skip_serializing_if = "Option::is_none")]
    lock: Option<String>,
    /// `true` if the tool is available once all conditions hold.
    allowed: bool,
    rule: &'a str,
    /// The macro step that the rule is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<String>,
    conditions: Vec<ConditionRow<'a>>,
    dangerous: Option<&'static str>,
    confirmed: Option<&'static str>,
    /// `null` if the server has no cached listing.
    listed: Option<bool>,
    #[serde(skip_serializing_if = "<[LoginSummary]>::is_empty")]
    logins: &'a [LoginSummary],
}

#[derive(Serialize)]
struct ConditionRow<'a> {
    rule: &'a str,
    condition: &'a str,
    holds: bool,
}

pub(crate) fn run(global: &GlobalArgs, args: &Args) -> Result<ExitCode, CommandError> {
    let LoadedConfig { config, file, disabled, .. } =
        global.read()?.map_err(CommandError::config)?;
    let (file, text) = settings(global, file)?;
    let off = disabled.into_iter().map(|(toolbox, server)| ServerRef { toolbox, server });
    let off: Vec<ServerRef> = off.collect();
    let words = [Some(&args.agent_name), args.server.as_ref(), args.tool.as_ref()];
    let words: Vec<String> =
        words.into_iter().chain([args.more.as_ref()]).flatten().cloned().collect();
    let besides = args.resource.as_deref().map(ResourceOrPrompt::Resource);
    let what = besides.or(args.prompt.as_deref().map(ResourceOrPrompt::Prompt));
    let known = Servers::new(&config, &off);
    let is_agent = |word: &str| config.policy.agents.contains_key(&AgentName::new(word));
    let (agent, tools) = match what {
        None => known.agent_and_tools(&words, is_agent)?,
        Some(_) => known.agent_and_servers(&words)?,
    };
    let agents = agents(global, &config, agent);
    let (off, asked): (Vec<ToolId>, Vec<ToolId>) =
        tools.into_iter().partition(|tool| off.contains(&tool.server_ref()));
    if let Some(what) = what {
        let server = |tool: &ToolId| tool.server_ref();
        let (servers, off) = (asked.iter().map(server).collect(), off.iter().map(server).collect());
        let found = primitives::ExplainInput { config, file, text, servers, off };
        return primitives::explain(global, &agents, what, found, args.json);
    }
    let (known, drift) = cached_listings::tools_with_drift(global, &config)?;
    let config = Arc::new(config);
    let policies = Policies::new(Arc::clone(&config));
    let now = UnixTime::from(SystemTime::now());
    let logins = login_summary::LoginSummaryReader::new(global);
    let mut answers = Vec::new();
    let mut texts = Vec::new();
    for (asked, of) in asked.iter().flat_map(|asked| agents.iter().map(move |of| (asked, of))) {
        let tools = known.get(&asked.server_ref());
        let tool = config.original_tool_id(asked);
        let found = tools.and_then(|tools| tools.iter().find(|(own, _)| *own == tool.tool));
        let traits = found.map(|(_, traits)| *traits).unwrap_or_default();
        let case = ToolCase::new(&policies, of.as_ref(), &tool, traits, now);
        let Some(mut case) = case else { continue };
        let own = config.toolbox(tool.toolbox.as_str());
        let own = own.and_then(|toolbox| toolbox.server(tool.server.as_str()));
        let over = own.and_then(|own| own.tool_override(&tool.tool, traits.has_prefixed_twin));
        case.tool_override = over.cloned().unwrap_or_default();
        case.is_shadowed = *asked != tool
            && tools.is_some_and(|tools| tools.iter().any(|(own, _)| *own == asked.tool));
        let rule = case.explanation.rule.path();
        case.key = text.as_deref().and_then(|text| locate_key(text, Path::new(&file), rule));
        let is_method = policies.for_agent(of.as_ref()).lists_extension_method(&tool);
        case.is_listed = tools.map(|_| found.is_some() || is_method);
        let names = tools.into_iter().flatten().map(|(own, _)| own.as_str());
        case.near = name::nearest(&tool.tool, names, 3).into_iter().map(str::to_owned).collect();
        let drifted = drift.get(&tool.server_ref()).into_iter().flatten();
        let mut drifted = drifted.filter(|one| one.word == "tool" && one.name == tool.tool);
        case.drift = own.zip(drifted.next()).map(|(own, drifted)| {
            let name = config.lock_key(tool.toolbox.as_str(), own);
            (own.effective_drift_policy(), drifted.clone(), drifted.accept_command(&name))
        });
        if let Some(own) = own {
            case.logins = block_on(logins.all(own, of.as_ref()))?;
        }
        if args.json {
            answers.push(serde_json::to_value(case.answer()).map_err(CommandError::internal)?);
        } else {
            texts.push(case.text(&file));
        }
    }
    for tool in &off {
        let at = tool.server_ref();
        let path = ["mcp_servers", at.server.as_str(), "disabled"].map(str::to_owned);
        let key = text.as_deref().and_then(|text| locate_key(text, Path::new(&file), &path));
        if args.json {
            let agent = agents.first().and_then(Option::as_ref);
            answers.push(switched_off_as_json(&at, agent, &tool.tool, key.as_ref()));
        } else {
            texts.push(disabled_text(&at, &tool.tool, key.as_ref(), &file));
        }
    }
    if args.json {
        print::json(&answers)?;
    } else {
        print::prose(&texts.join("\n\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the agents to explain; `None` stands for unnamed ones.
fn agents(global: &GlobalArgs, config: &Config, word: Option<&str>) -> Vec<Option<AgentName>> {
    match word.map(str::trim) {
        Some("" | "-") => vec![None],
        Some(name) => {
            let name = AgentName::new(name);
            warn_of_misspelled_agent(&name, &config.policy);
            vec![Some(name)]
        }
        None => match global.caller().agent {
            Some(agent) => vec![Some(agent)],
            None => config.policy.agents.keys().cloned().map(Some).chain([None]).collect(),
        },
    }
}

/// The servers that a command line can name.
struct Servers<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Servers<'a> {
    fn new(config: &'a Config, off: &'a [ServerRef]) -> Self {
        let on = config.toolboxes.iter().flat_map(|toolbox| {
            let servers = toolbox.servers.iter();
            servers.map(|server| (toolbox.name.as_str(), server.name.as_str()))
        });
        let off = off.iter().map(|at| (at.toolbox.as_str(), at.server.as_str()));
        Self(on.chain(off).collect())
    }

    /// Splits the words into an agent and the tool of each server that they can mean. A first word
    /// that is an agent counts as one if the others name a tool.
    fn agent_and_tools<'w>(
        &self,
        words: &'w [String],
        is_agent: impl Fn(&str) -> bool,
    ) -> Result<(Option<&'w str>, Vec<ToolId>), CommandError> {
        let find = |words: &[String]| {
            let mut found = tool_ids(words, &self.0);
            found.retain(|id| self.0.contains(&(id.toolbox.as_str(), id.server.as_str())));
            found
        };
        let (first, others) = words.split_first().ok_or_else(|| self.unknown(""))?;
        let (with, without) = (find(others), find(words));
        let is_first_an_agent = first == "-" || is_agent(first) || without.is_empty();
        if !with.is_empty() && is_first_an_agent {
            return Ok((Some(first), with));
        }
        if !without.is_empty() {
            return Ok((None, without));
        }
        let at = if words.len() < 3 { words.len() - 1 } else { words.len() - 2 };
        Err(self.unknown(&words[at]))
    }

    fn agent_and_servers<'w>(
        &self,
        words: &'w [String],
    ) -> Result<(Option<&'w str>, Vec<ToolId>), CommandError> {
        let (agent, wanted) = match words {
            [agent, server] => (Some(agent.as_str()), server),
            _ => (None, &words[0]),
        };
        let found = self.0.iter().filter(|(toolbox, server)| is_named(toolbox, server, wanted));
        let found = found.map(|(toolbox, server)| ToolId {
            toolbox: ToolboxName::new(*toolbox),
            server: ServerName::new(*server),
            tool: String::new(),
        });
        let found: Vec<_> = found.collect();
        if found.is_empty() { Err(self.unknown(wanted)) } else { Ok((agent, found)) }
    }

    fn unknown(&self, wanted: &str) -> CommandError {
        let server = wanted.split(['/', ':']).next().unwrap_or_default();
        let mut near = name::nearest(server, self.0.iter().map(|(_, server)| *server), 3);
        near.dedup();
        if let Some((toolbox, server)) = self.0.iter().find(|(_, server)| *server == wanted) {
            return CommandError::usage(format!("name a tool of `{server}`"))
                .with_hint(format!("run `mcp-workbench list {toolbox}` to see its tools"));
        }
        let is_tool = server != wanted;
        let error = if is_tool {
            CommandError::usage(format!("no server in the configuration for `{wanted}`"))
        } else {
            CommandError::usage(format!("no server `{wanted}` in the configuration"))
        };
        error.suggesting(&near, "name the tool as `server:tool` or `toolbox/server/tool`")
    }
}

/// Returns the shown path and the text of the file with the rules: for a catalog, its
/// `_config.yaml`.
fn settings(global: &GlobalArgs, shown: String) -> Result<(String, Option<String>), CommandError> {
    let Some(source) = global.source_file()? else { return Ok((shown, None)) };
    let mut names = ["_config.yaml", "_config.yml"].into_iter();
    let in_it = names.find_map(|name| Some((name, read_input_text(&source.join(name)).ok()?)));
    Ok(match in_it {
        Some((name, text)) => (Path::new(&shown).join(name).display().to_string(), Some(text)),
        None => (shown, read_input_text(&source).ok()),
    })
}

fn disabled_text(at: &ServerRef, tool: &str, key: Option<&KeyLocation>, file: &str) -> String {
    let line = key.map(|key| format!(" ({file}:{})", key.line)).unwrap_or_default();
    format!(
        "`{tool}` of `{}/{}` is hidden from all agents\n  rule      {}{line}\n  reason    {DISABLED_REASON}\n  \
         change    {SWITCH_ON}",
        at.toolbox,
        at.server,
        key.map_or("disabled", |key| key.path.as_str()),
    )
}

fn switched_off_as_json(
    at: &ServerRef,
    of: Option<&AgentName>,
    tool: &str,
    key: Option<&KeyLocation>,
) -> Value {
    json!({
        "agent": of.map(AgentName::as_str),
        "toolbox": at.toolbox.as_str(),
        "server": at.server.as_str(),
        "tool": tool,
        "visible": false,
        "allowed": false,
        "rule": "disabled",
        "key": key.map(|key| &key.path),
        "line": key.map(|key| key.line),
        "reason": DISABLED_REASON,
        "change": SWITCH_ON,
    })
}

const DISABLED_REASON: &str = "the server is disabled";
const SWITCH_ON: &str = "remove `\"disabled\": true` or `\"enabled\": false`";

struct ToolCase<'a> {
    agent: Option<&'a AgentName>,
    tool: &'a ToolId,
    explanation: Explanation,
    tool_override: ToolOverride,
    /// `true` if the configured name hides another tool of the server.
    is_shadowed: bool,
    key: Option<KeyLocation>,
    is_listed: Option<bool>,
    /// Known tools with similar names.
    near: Vec<String>,
    /// The drift policy, the difference from the lock, and the command that accepts it.
    drift: Option<(DriftPolicy, DefinitionDrift, String)>,
    logins: Vec<LoginSummary>,
}

impl<'a> ToolCase<'a> {
    fn new(
        policies: &Policies,
        of: Option<&'a AgentName>,
        tool: &'a ToolId,
        traits: ToolTraits,
        now: UnixTime,
    ) -> Option<Self> {
        let explanation = policies.explain(of, tool, traits, now)?;
        let over = ToolOverride::default();
        let (is_eclipsed, logins) = (false, Vec::new());
        let (key, is_listed, drift) = (None, None, None);
        Some(Self {
            agent: of,
            tool,
            explanation,
            tool_override: over,
            is_shadowed: is_eclipsed,
            key,
            is_listed,
            near: Vec::new(),
            drift,
            logins,
        })
    }

    fn answer(&self) -> ToolExplanation<'_> {
        let Explanation {
            is_visible,
            rule,
            is_allowed,
            step,
            has_agent_policy: is_named,
            conditions: demands,
            danger,
            confirmation,
        } = &self.explanation;
        let (reason, change) = self.reason();
        ToolExplanation {
            agent: self.agent.map(AgentName::as_str),
            agent_has_entry: *is_named,
            toolbox: self.tool.toolbox.as_str(),
            server: self.tool.server.as_str(),
            tool: &self.tool.tool,
            configured_name: self.tool_override.name.as_deref(),
            pinned: self.tool_override.arguments.keys().map(String::as_str).collect(),
            visible: *is_visible && !self.is_withheld(),
            lock: self.lock_note(),
            allowed: *is_allowed,
            rule: rule.as_str(),
            step: step.as_ref().map(ToString::to_string),
            key: self.key.as_ref().map(|key| key.path.as_str()),
            line: self.key.as_ref().map(|key| key.line),
            reason,
            change,
            conditions: demands
                .iter()
                .map(|demand| ConditionRow {
                    rule: demand.rule.as_str(),
                    condition: &demand.words,
                    holds: demand.holds,
                })
                .collect(),
            dangerous: danger.map(RiskReason::config_key),
            confirmed: confirmation.map(RiskReason::config_key),
            listed: self.is_listed,
            logins: &self.logins,
        }
    }

    fn text(&self, file: &str) -> String {
        let Explanation {
            is_visible,
            rule,
            step,
            has_agent_policy: is_named,
            conditions: demands,
            danger,
            confirmation,
            ..
        } = &self.explanation;
        let ToolId { toolbox, server, tool } = self.tool;
        let who = match self.agent {
            None => "unnamed agents".to_owned(),
            Some(of) => format!("agent `{of}`"),
        };
        let verdict =
            if *is_visible && !self.is_withheld() { "is available to" } else { "is hidden from" };
        let mut text = String::new();
        if self.is_listed == Some(false) {
            let near = did_you_mean(&self.near, " or ").map(|near| format!(" ({near})"));
            let near = near.unwrap_or_default();
            _ = writeln!(
                text,
                "no tool `{tool}` is known of `{toolbox}/{server}`{near}; if there were one:"
            );
        }
        _ = write!(text, "`{tool}` of `{toolbox}/{server}` {verdict} {who}");
        let mut line = |what: &str, says: &str| _ = write!(text, "\n  {what:<10}{says}");
        let place = self.key.as_ref().map(|key| format!(" ({file}:{})", key.line));
        line("rule", &format!("{rule}{}", place.unwrap_or_default()));
        if let Some(step) = step {
            line("step", &format!("the macro calls `{step}`"));
        }
        let (why, change) = self.reason();
        line("reason", &why);
        if let Some(change) = change {
            line("change", &change);
        }
        if let Some(name) = &self.tool_override.name {
            line("name", &format!("agents see `{name}`; the server calls it `{tool}`"));
            if self.is_shadowed {
                line(
                    "note",
                    &format!("the server's own `{name}` is hidden: this tool takes its name"),
                );
            }
        }
        if !self.tool_override.arguments.is_empty() {
            let names = quoted(self.tool_override.arguments.keys(), ", ");
            let says = format!("arguments set by the configuration, hidden from agents: {names}");
            line("pinned", &says);
        }
        for demand in demands {
            let state = if demand.holds { "" } else { ", currently not met" };
            line("only when", &format!("{}{state} ({})", demand.words, demand.rule));
        }
        if let Some(concern) = confirmation {
            line(
                "confirmed",
                &format!("the user must confirm each call: {concern} ({})", concern.config_key()),
            );
        } else if let Some(concern) = danger {
            line(
                "dangerous",
                &format!("{concern} ({}); no confirmation required", concern.config_key()),
            );
        }
        if self.agent.is_some() && !is_named && !self.is_unknown_agent() {
            line("note", "no policy for this agent; default rules apply");
        }
        if let Some(says) = self.lock_note() {
            line("lock", &says);
        }
        if self.is_listed.is_none() {
            line("note", "no cached tool list for this server");
        }
        for login in &self.logins {
            line("login", &login.to_text());
        }
        text
    }

    /// Returns `true` if agents don't see the tool because its definition differs from the lock.
    fn is_withheld(&self) -> bool {
        self.drift.as_ref().is_some_and(|(definitions, ..)| definitions.is_enforced())
    }

    fn lock_note(&self) -> Option<String> {
        let (definitions, drifted, accept) = self.drift.as_ref()?;
        Some(format!(
            "differs from `workbench.lock`: {drifted} (`onDefinitionChange` is `{}`); review it with \
             `mcp-workbench lock --diff`, accept it with `{accept}`",
            definitions.as_str()
        ))
    }

    fn is_unknown_agent(&self) -> bool {
        let Explanation { rule, has_agent_policy: is_named, is_allowed, .. } = &self.explanation;
        self.agent.is_some() && !is_named && !is_allowed && rule.path() == ["agent_policies"]
    }

    /// Returns the reason, and the change that would reverse the outcome.
    fn reason(&self) -> (String, Option<String>) {
        let explanation = &self.explanation;
        let ToolId { server, tool, .. } = explanation.step.as_ref().unwrap_or(self.tool);
        let path: Vec<&str> = explanation.rule.path().iter().map(String::as_str).collect();
        if explanation.is_visible {
            let why = match path.as_slice() {
                ["default_policy", ..] => "no list mentions it",
                _ => "the list contains it",
            };
            return (why.to_owned(), None);
        }
        let to_list = || Some(format!("add \"{tool}\" or a matching glob to the list"));
        let (why, change) = match path.as_slice() {
            ["agent_policies", _, "when", ..] => ("the condition is not met", None),
            ["agent_policies", _, "allowed_servers"] => (
                "the list does not contain the server",
                Some(format!("add \"{server}\" to the list")),
            ),
            ["agent_policies"] if self.is_unknown_agent() => (
                "the agent has no policy, and there is no `defaultPolicy`",
                Some("add a policy for the agent, or a `defaultPolicy`".to_owned()),
            ),
            ["agent_policies"] => ("no policy that it extends allows the server", None),
            ["default_policy", "allow_unknown_servers"] => (
                "no list mentions the server",
                Some(format!(
                    "add a list for `{server}` to `exposedTools` or the agent's `toolOverrides`"
                )),
            ),
            ["default_policy", ..] => (
                "no list mentions it",
                Some(format!(
                    "add \"{tool}\" for `{server}` to `exposedTools` or the agent's `toolOverrides`"
                )),
            ),
            [_, _, "tool_filters"] => {
                ("the server's filters exclude it", Some("change the filters".to_owned()))
            }
            [_, _, "include_names"] => ("the category does not include it", to_list()),
            [_, _, "overrides"] => {
                ("it is turned off", Some("remove `\"enabled\": false`".to_owned()))
            }
            _ => ("the list does not contain it", to_list()),
        };
        (why.to_owned(), change)
    }
}

//! `explain`: why an agent may use a tool, a resource or a prompt, or why that does not exist for it.

mod besides;

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::SystemTime;

use clap_complete::engine::ArgValueCandidates;
use serde::Serialize;
use serde_json::{Value, json};

use crate::catalog::Drifted;
use crate::cli::error::Error;
use crate::cli::logins::{self, Used};
use crate::cli::{Global, block_on, complete, known, print};
use crate::config::{Key, Loaded, find_key};
use crate::name::{self, AgentName, ServerRef, ToolId};
use crate::policy::{Besides, Concern, Explanation, Moment, Policies, Traits};
use crate::settings::{Config, Definitions, ToolOverride};

const EXAMPLES: &str = "\
Examples:
  mcp-workbench explain claude-code github delete_file   Why it may, or may not
  mcp-workbench explain - desk/github get_file --json    Of an agent without a name
  mcp-workbench explain claude-code files --resource file:///etc/passwd";

/// Say why an agent may use something or not, and which rule decides
///
/// It may be a tool, a resource or a prompt. Starts nothing: the rules are asked, and what is kept of servers' listings. Names the rule, the
/// line it stands in, what would have to change, and what the call has to be like besides. A tool
/// that the file calls otherwise is meant by either name. Says with whose login the server is used, where it wants one.
///
/// Exits with 0 whatever the answer is, 2 if there is no such server.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The agent; `-` is one without a name
    #[arg(value_name = "AGENT", add = ArgValueCandidates::new(complete::agents))]
    of: String,
    /// The server, or toolbox/server
    #[arg(add = ArgValueCandidates::new(complete::servers))]
    server: String,
    /// The tool, as its server or the file calls it
    #[arg(
        add = ArgValueCandidates::new(complete::tools),
        required_unless_present_any = ["resource", "prompt"],
        default_value = "",
        hide_default_value = true
    )]
    tool: String,
    /// A resource's address, or a template, not a tool
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["tool", "prompt"])]
    resource: Option<String>,
    /// A prompt, as its server calls it, not a tool
    #[arg(long, value_name = "NAME", conflicts_with = "tool")]
    prompt: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The rules for the tool in one toolbox, for those who read JSON.
#[derive(Serialize)]
struct Answer<'a> {
    agent: Option<&'a str>,
    /// `true` if there is an entry for the agent.
    agent_has_entry: bool,
    toolbox: &'a str,
    server: &'a str,
    /// The tool as its server calls it.
    tool: &'a str,
    /// The file's own name for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    called: Option<&'a str>,
    /// The arguments that the file gives in every call, which agents do not see.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pinned: Vec<&'a str>,
    visible: bool,
    /// In what it is not as the lock has it, and what helps.
    #[serde(skip_serializing_if = "Option::is_none")]
    lock: Option<String>,
    /// `true` if it would be there with all conditions held.
    allowed: bool,
    rule: &'a str,
    /// The tool of a macro's step that the rule is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    why: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<String>,
    conditions: Vec<Condition<'a>>,
    dangerous: Option<&'static str>,
    confirmed: Option<&'static str>,
    /// `true` if its server has it; `null`: nothing is kept of that server.
    listed: Option<bool>,
    /// The logins that the agent uses the server with; none where it wants none, as far as is known.
    #[serde(skip_serializing_if = "<[Used]>::is_empty")]
    logins: &'a [Used],
}

#[derive(Serialize)]
struct Condition<'a> {
    rule: &'a str,
    wants: &'a str,
    holds: bool,
}

/// Explains.
pub(crate) fn run(global: &Global, args: &Args) -> Result<ExitCode, Error> {
    let Loaded { config, file, disabled, .. } = global.read()?.map_err(Error::config)?;
    let (file, text) = settings(global, file)?;
    let off: Vec<ServerRef> = disabled
        .into_iter()
        .map(|(toolbox, server)| ServerRef { toolbox, server })
        .filter(|at| is_meant(at, &args.server))
        .collect();
    let servers = servers(&config, &args.server, !off.is_empty())?;
    let of = Some(args.of.trim()).filter(|name| !matches!(*name, "" | "-")).map(AgentName::new);
    let besides = args.resource.as_deref().map(Besides::Resource);
    if let Some(what) = besides.or(args.prompt.as_deref().map(Besides::Prompt)) {
        let found = besides::Found { config, file, text, servers, off };
        return besides::explain(global, of.as_ref(), what, found, args.json);
    }
    let (known, drift) = known::tools_and_drift(global, &config)?;
    let config = Arc::new(config);
    let policies = Policies::new(Arc::clone(&config));
    let now = Moment::from(SystemTime::now());
    let logins = logins::Reader::new(global);
    let mut answers = Vec::new();
    let mut texts = Vec::new();
    for at in servers {
        let tools = known.get(&at);
        let ServerRef { toolbox, server } = at;
        let asked = ToolId { toolbox, server, tool: args.tool.clone() };
        let tool = config.own_id(&asked);
        let found = tools.and_then(|tools| tools.iter().find(|(own, _)| *own == tool.tool));
        let traits = found.map(|(_, traits)| *traits).unwrap_or_default();
        let case = Case::new(&policies, of.as_ref(), &tool, traits, now);
        let Some(mut case) = case else { continue };
        let own = config.toolbox(tool.toolbox.as_str());
        let own = own.and_then(|toolbox| toolbox.server(tool.server.as_str()));
        let over = own.and_then(|own| own.tool_override(&tool.tool, traits.has_namesake));
        case.over = over.cloned().unwrap_or_default();
        case.is_eclipsed = asked != tool
            && tools.is_some_and(|tools| tools.iter().any(|(own, _)| *own == asked.tool));
        let rule = case.explanation.rule.path();
        case.key = text.as_deref().and_then(|text| find_key(text, Path::new(&file), rule));
        case.is_listed = tools.map(|_| found.is_some());
        let drifted = drift.get(&tool.server_ref()).into_iter().flatten();
        let mut drifted = drifted.filter(|one| one.word == "tool" && one.name == tool.tool);
        case.drift = own.zip(drifted.next()).map(|(own, drifted)| {
            let name = config.name_in_lock(tool.toolbox.as_str(), own);
            (own.definitions(), drifted.clone(), drifted.accepting(&name))
        });
        if let Some(own) = own {
            case.logins = block_on(logins.all(own, of.as_ref()))?;
        }
        if args.json {
            answers.push(serde_json::to_value(case.answer()).map_err(Error::internal)?);
        } else {
            texts.push(case.text(&file));
        }
    }
    for at in &off {
        let path = ["mcp_servers", at.server.as_str(), "disabled"].map(str::to_owned);
        let key = text.as_deref().and_then(|text| find_key(text, Path::new(&file), &path));
        if args.json {
            answers.push(switched_off_as_json(at, of.as_ref(), &args.tool, key.as_ref()));
        } else {
            texts.push(switched_off(at, &args.tool, key.as_ref(), &file));
        }
    }
    if args.json {
        print::json(&answers)?;
    } else {
        print::prose(&texts.join("\n\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The file that has the rules, as the user calls it, and its text; of a catalog, that in its folder.
fn settings(global: &Global, shown: String) -> Result<(String, Option<String>), Error> {
    let Some(source) = global.own_file()? else { return Ok((shown, None)) };
    let mut names = ["_config.yaml", "_config.yml"].into_iter();
    let in_it = names.find_map(|name| Some((name, fs::read_to_string(source.join(name)).ok()?)));
    Ok(match in_it {
        Some((name, text)) => (Path::new(&shown).join(name).display().to_string(), Some(text)),
        None => (shown, fs::read_to_string(source).ok()),
    })
}

/// Returns true if `wanted` is the name of a server, or that of its toolbox and its own.
fn is_meant(at: &ServerRef, wanted: &str) -> bool {
    at.server.as_str() == wanted || format!("{}/{}", at.toolbox, at.server) == wanted
}

/// Says that a server is switched off, and so all of its tools.
fn switched_off(at: &ServerRef, tool: &str, key: Option<&Key>, file: &str) -> String {
    let line = key.map(|key| format!(" ({file}:{})", key.line)).unwrap_or_default();
    format!(
        "`{tool}` of `{}/{}` does not exist for anybody\n  rule      {}{line}\n  why       {OFF}\n  \
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
    key: Option<&Key>,
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
        "why": OFF,
        "change": SWITCH_ON,
    })
}

const OFF: &str = "its server is disabled";
const SWITCH_ON: &str = "take `\"disabled\": true` (or `\"enabled\": false`) away";

/// Where the server stands that is meant; nowhere is no error if `is_off`, for it is switched off.
fn servers(config: &Config, wanted: &str, is_off: bool) -> Result<Vec<ServerRef>, Error> {
    let all = config.toolboxes.iter().flat_map(|toolbox| {
        let server_ref = |name| ServerRef { toolbox: toolbox.name.clone(), server: name };
        toolbox.servers.iter().map(move |server| server_ref(server.name.clone()))
    });
    let all: Vec<ServerRef> = all.collect();
    let found: Vec<ServerRef> = all.iter().filter(|at| is_meant(at, wanted)).cloned().collect();
    if !found.is_empty() || is_off {
        return Ok(found);
    }
    let names = all.iter().map(|at| at.server.as_str());
    let mut near = name::nearest(wanted, names, 3);
    near.dedup();
    let error = Error::wrong(format!("there is no server `{wanted}`"));
    let near: Vec<String> = near.into_iter().map(|name| format!("`{name}`")).collect();
    Err(if near.is_empty() {
        error
    } else {
        error.hint(format!("did you mean {}?", near.join(", ")))
    })
}

/// One tool for one agent.
struct Case<'a> {
    of: Option<&'a AgentName>,
    tool: &'a ToolId,
    explanation: Explanation,
    /// The changes that the file makes to it.
    over: ToolOverride,
    /// `true` if the server has another tool of the name that the file gives this one.
    is_eclipsed: bool,
    key: Option<Key>,
    is_listed: Option<bool>,
    /// In what it is not as the lock has it, what becomes of that, and the command that takes it over.
    drift: Option<(Definitions, Drifted, String)>,
    logins: Vec<Used>,
}

impl<'a> Case<'a> {
    fn new(
        policies: &Policies,
        of: Option<&'a AgentName>,
        tool: &'a ToolId,
        traits: Traits,
        now: Moment,
    ) -> Option<Self> {
        let explanation = policies.explain(of, tool, traits, now)?;
        let over = ToolOverride::default();
        let (is_eclipsed, logins) = (false, Vec::new());
        let (key, is_listed, drift) = (None, None, None);
        Some(Self { of, tool, explanation, over, is_eclipsed, key, is_listed, drift, logins })
    }

    fn answer(&self) -> Answer<'_> {
        let Explanation {
            is_visible,
            rule,
            is_allowed,
            step,
            is_named,
            demands,
            danger,
            confirmation,
        } = &self.explanation;
        let (why, change) = self.reason();
        Answer {
            agent: self.of.map(AgentName::as_str),
            agent_has_entry: *is_named,
            toolbox: self.tool.toolbox.as_str(),
            server: self.tool.server.as_str(),
            tool: &self.tool.tool,
            called: self.over.name.as_deref(),
            pinned: self.over.arguments.keys().map(String::as_str).collect(),
            visible: *is_visible && !self.is_kept_back(),
            lock: self.of_lock(),
            allowed: *is_allowed,
            rule: rule.as_str(),
            step: step.as_ref().map(ToString::to_string),
            key: self.key.as_ref().map(|key| key.path.as_str()),
            line: self.key.as_ref().map(|key| key.line),
            why,
            change,
            conditions: demands
                .iter()
                .map(|demand| Condition {
                    rule: demand.rule.as_str(),
                    wants: &demand.words,
                    holds: demand.holds,
                })
                .collect(),
            dangerous: danger.map(Concern::rule),
            confirmed: confirmation.map(Concern::rule),
            listed: self.is_listed,
            logins: &self.logins,
        }
    }

    fn text(&self, file: &str) -> String {
        let Explanation { is_visible, rule, step, is_named, demands, danger, confirmation, .. } =
            &self.explanation;
        let ToolId { toolbox, server, tool } = self.tool;
        let who = match self.of {
            None => "an agent without a name".to_owned(),
            Some(of) => format!("agent `{of}`"),
        };
        let verdict = if *is_visible && !self.is_kept_back() {
            "may be used by"
        } else {
            "does not exist for"
        };
        let mut text = format!("`{tool}` of `{toolbox}/{server}` {verdict} {who}");
        let mut line = |what: &str, says: &str| _ = write!(text, "\n  {what:<10}{says}");
        let place = self.key.as_ref().map(|key| format!(" ({file}:{})", key.line));
        line("rule", &format!("{rule}{}", place.unwrap_or_default()));
        if let Some(step) = step {
            line("step", &format!("it calls `{step}`"));
        }
        let (why, change) = self.reason();
        line("why", &why);
        if let Some(change) = change {
            line("change", &change);
        }
        if let Some(name) = &self.over.name {
            line("called", &format!("`{name}` for agents; `{tool}` is its server's name for it"));
            if self.is_eclipsed {
                line(
                    "note",
                    &format!("its server's own `{name}` is not shown: this one has the name"),
                );
            }
        }
        if !self.over.arguments.is_empty() {
            let names: Vec<_> =
                self.over.arguments.keys().map(|name| format!("`{name}`")).collect();
            line(
                "pinned",
                &format!("the file gives {}, which agents do not see", names.join(", ")),
            );
        }
        for demand in demands {
            let state = if demand.holds { "" } else { ", which is not so now" };
            line("only when", &format!("{}{state} ({})", demand.words, demand.rule));
        }
        if let Some(concern) = confirmation {
            line(
                "confirmed",
                &format!("the user is asked before each call: {concern} ({})", concern.rule()),
            );
        } else if let Some(concern) = danger {
            line("dangerous", &format!("{concern} ({}), and nobody is asked", concern.rule()));
        }
        if self.of.is_some() && !is_named && !self.is_stranger() {
            line("note", "`agentPolicies` has no such agent; it is one like any other");
        }
        if let Some(says) = self.of_lock() {
            line("lock", &says);
        }
        match self.is_listed {
            Some(true) => {}
            Some(false) => line("note", "its server had no such tool when it was last listed"),
            None => line("note", "nothing is kept of what its server has"),
        }
        for login in &self.logins {
            line("login", &login.in_words());
        }
        text
    }

    /// Returns true if it is kept from agents because it is not as the lock has it.
    fn is_kept_back(&self) -> bool {
        self.drift.as_ref().is_some_and(|(definitions, ..)| definitions.is_enforced())
    }

    /// Says in what it is not as the lock has it, and what helps.
    fn of_lock(&self) -> Option<String> {
        let (definitions, drifted, accept) = self.drift.as_ref()?;
        Some(format!(
            "not as `workbench.lock` has it: {drifted} (`definitions` is `{}`); `mcp-workbench lock --diff` \
             shows it, `{accept}` takes it over",
            definitions.as_str()
        ))
    }

    /// Returns true if the agent may use nothing because no rule knows it.
    fn is_stranger(&self) -> bool {
        let Explanation { rule, is_named, is_allowed, .. } = &self.explanation;
        self.of.is_some() && !is_named && !is_allowed && rule.path() == ["agent_policies"]
    }

    /// Why, and what would have to change for the opposite.
    fn reason(&self) -> (String, Option<String>) {
        let explanation = &self.explanation;
        let ToolId { server, tool, .. } = explanation.step.as_ref().unwrap_or(self.tool);
        let path: Vec<&str> = explanation.rule.path().iter().map(String::as_str).collect();
        if explanation.is_visible {
            let why = match path.as_slice() {
                ["default_policy", ..] => "no list speaks of it",
                _ => "it is in that list",
            };
            return (why.to_owned(), None);
        }
        let to_list = || Some(format!("add \"{tool}\", or a glob that matches it, to that list"));
        let (why, change) = match path.as_slice() {
            ["agent_policies", _, "when", ..] => ("that condition does not hold", None),
            ["agent_policies", _, "allowed_servers"] => (
                "the list does not have that server",
                Some(format!("add \"{server}\" to that list")),
            ),
            ["agent_policies"] if self.is_stranger() => (
                "it has no such agent, and no `defaultPolicy` says what others may use",
                Some("add the agent, or a `defaultPolicy`".to_owned()),
            ),
            ["agent_policies"] => ("it extends nobody who may use that server", None),
            ["default_policy", "allow_unknown_servers"] => (
                "nothing names that server",
                Some(format!(
                    "add a list for `{server}` to `exposedTools` or the agent's `toolOverrides`"
                )),
            ),
            ["default_policy", ..] => (
                "no list speaks of it",
                Some(format!(
                    "add \"{tool}\" for `{server}` to `exposedTools` or the agent's `toolOverrides`"
                )),
            ),
            [_, _, "tool_filters"] => {
                ("the server's own filters leave it out", Some("change those filters".to_owned()))
            }
            [_, _, "include_names"] => ("the category does not have it", to_list()),
            [_, _, "overrides"] => {
                ("it is switched off", Some("take `\"enabled\": false` away".to_owned()))
            }
            _ => ("it is not in that list", to_list()),
        };
        (why.to_owned(), change)
    }
}

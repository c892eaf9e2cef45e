//! `explain`: tells why an agent can or can't use a tool, resource or prompt.

mod explanation;
mod primitives;
mod tool;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::SystemTime;

use clap_complete::engine::ArgValueCandidates;

use crate::cli::access::explain::explanation::{RuleFiles, disabled_text, switched_off_as_json};
use crate::cli::access::explain::tool::ToolCase;
use crate::cli::args::{GlobalArgs, completion, warn_of_misspelled_agent};
use crate::cli::output::{CommandError, print};
use crate::cli::runtime::block_on;
use crate::cli::servers::cached_listings;
use crate::cli::servers::login_summary::LoginSummaryReader;
use crate::cli::servers::server_names::is_named;
use crate::cli::servers::tool_target::tool_ids;
use mcp_workbench_config::LoadedConfig;
use mcp_workbench_core::policy::{Policies, ResourceOrPrompt, UnixTime};
use mcp_workbench_names::{AgentName, ServerName, ServerRef, ToolId, ToolboxName};
use mcp_workbench_os::read_input_text;
use mcp_workbench_settings::Config;

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

pub(crate) fn run(global: &GlobalArgs, args: &Args) -> Result<ExitCode, CommandError> {
    let LoadedConfig { config, file, disabled, project, .. } = global.read()?;
    let project = project.map(|project| project.file);
    let files = RuleFiles::new(settings(global, file)?, project.as_deref());
    let project_toolboxes = config.policy.project_toolboxes.clone();
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
        let found = primitives::ExplainInput { config, files, servers, off };
        return primitives::explain(global, &agents, what, found, args.json);
    }
    let (known, drift) = cached_listings::tools_with_drift(global, &config)?;
    let config = Arc::new(config);
    let policies = Policies::new(Arc::clone(&config));
    let now = UnixTime::from(SystemTime::now());
    let logins = LoginSummaryReader::new(global);
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
        let is_project = project_toolboxes.contains(&tool.toolbox);
        case.place = files.locate(&case.explanation.rule, is_project);
        case.project = project.as_deref().filter(|_| is_project);
        let is_method = policies.for_agent(of.as_ref()).lists_extension_method(&tool);
        case.is_listed = tools.map(|_| found.is_some() || is_method);
        let names = tools.into_iter().flatten().map(|(own, _)| own.as_str());
        case.near = mcp_workbench_names::nearest(&tool.tool, names, 3)
            .into_iter()
            .map(str::to_owned)
            .collect();
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
            texts.push(case.text());
        }
    }
    for tool in &off {
        let at = tool.server_ref();
        let path = ["mcp_servers", at.server.as_str(), "disabled"].map(str::to_owned);
        let place = files.locate_own(&path);
        if args.json {
            let agent = agents.first().and_then(Option::as_ref);
            answers.push(switched_off_as_json(&at, agent, &tool.tool, &place));
        } else {
            texts.push(disabled_text(&at, &tool.tool, &place));
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
        let mut near =
            mcp_workbench_names::nearest(server, self.0.iter().map(|(_, server)| *server), 3);
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

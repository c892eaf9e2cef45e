//! Validation of `macros`: tools that run several steps, each a call of another tool.
//!
//! The macros of a toolbox become the tools of a server entry named [`MACROS`], which has no
//! process. `raw` is the shape in the file, `template` builds values from inputs and step results.

use std::collections::HashSet;

use crate::sections::macros::raw::{RawMacro, RawStep, RawStepTool};
use crate::syntax::document::SourceLocation;
use crate::syntax::objects::LocatedMap;
use crate::syntax::reader::{ConfigReader, Located, did_you_mean, quoted_list};
use mcp_workbench_names::{ServerName, ToolId, ToolboxName};
use mcp_workbench_settings::{
    Launch, MACROS, MacroConfig, Pointer, ServerConfig, StepConfig, ToolboxConfig,
};

pub(crate) mod raw;
mod schema;
mod template;

const DESCRIPTION: &str = "Tools that run several steps in one call";
const MAX_STEPS: usize = 100;

/// Macros that aren't assigned to a toolbox yet. Their steps can call tools of any toolbox, so all
/// toolboxes must be read first.
pub(crate) struct PendingMacros {
    pub(crate) macros: LocatedMap<RawMacro>,
    /// The names of all servers, including disabled ones.
    pub(crate) servers: Vec<String>,
}

impl PendingMacros {
    pub(crate) fn place(self, toolboxes: &mut Vec<ToolboxConfig>, reader: &mut ConfigReader<'_>) {
        let Self { macros, servers } = self;
        let Some((first, _)) = macros.0.first() else { return };
        if servers.iter().any(|server| server == MACROS) {
            let message =
                "the server name `macros` is reserved for the tools defined under `macros`";
            reader.report_error(&first.location, message, Some("rename the server".to_owned()));
            return;
        }
        let names = MacroResolver { toolboxes, servers: &servers };
        let mut checked = Vec::new();
        for (name, raw) in macros.0 {
            checked.extend(names.check(&name, raw, reader));
        }
        put(checked, toolboxes);
    }
}

/// Adds each macro to its toolbox, creating the toolbox `macros` if needed.
fn put(checked: Vec<(ToolboxName, MacroConfig)>, toolboxes: &mut Vec<ToolboxConfig>) {
    for (wanted, tool) in checked {
        let at = toolboxes.iter().position(|toolbox| toolbox.name == wanted);
        let at = at.unwrap_or_else(|| {
            toolboxes.push(ToolboxConfig {
                name: wanted.clone(),
                description: DESCRIPTION.to_owned(),
                namespace: wanted.to_string(),
                servers: Vec::new(),
            });
            toolboxes.len() - 1
        });
        let servers = &mut toolboxes[at].servers;
        if let Some(Launch::Macros(macros)) = servers.last_mut().map(|server| &mut server.launch) {
            macros.push(tool);
        } else {
            let launch = Launch::Macros(vec![tool]);
            servers.push(ServerConfig::new(ServerName::new(MACROS), launch));
        }
    }
}

/// The names that the steps of one macro can refer to.
struct StepScope<'a> {
    /// The macro's toolbox, or `None` if it is invalid.
    toolbox: Option<&'a ToolboxName>,
    names: &'a [String],
    inputs: &'a schema::MacroInputs,
}

struct MacroResolver<'a> {
    toolboxes: &'a [ToolboxConfig],
    servers: &'a [String],
}

impl MacroResolver<'_> {
    fn check(
        &self,
        name: &Located<String>,
        raw: RawMacro,
        reader: &mut ConfigReader<'_>,
    ) -> Option<(ToolboxName, MacroConfig)> {
        let RawMacro { description, toolbox, input_schema, steps, result } = raw;
        check_name(name, "macro", reader);
        let (description, location) = match description {
            Some(text) => (text.value.trim().to_owned(), text.location),
            None => (String::new(), name.location.clone()),
        };
        if description.is_empty() && !reader.has_error_under(&name.location, "description") {
            let hint =
                "describe it in a sentence: agents read it to decide whether to call the macro";
            reader.report_error(&location, "expected a description", Some(hint.to_owned()));
        }
        let own = self.toolbox(toolbox, reader);
        let input_schema = schema::check(input_schema, reader);
        let steps = steps.unwrap_or_default().0;
        if steps.is_empty() && !reader.has_error_under(&name.location, "steps") {
            let hint = "add `\"steps\": {\"first\": {\"tool\": \"server:tool\"}}`".to_owned();
            reader.report_error(
                &name.location,
                "expected at least one step under `steps`",
                Some(hint),
            );
        }
        if steps.len() > MAX_STEPS {
            let message = format!("expected at most {MAX_STEPS} steps, found {}", steps.len());
            reader.report_error(&name.location, message, None);
            return None;
        }
        let names: Vec<String> = steps.iter().map(|(name, _)| name.value.clone()).collect();
        let around = StepScope { toolbox: own.as_ref(), names: &names, inputs: &input_schema };
        let mut checked = Some(Vec::new());
        for (name, step) in steps {
            check_name(&name, "step", reader);
            let step = self.step(&name, step, &around, reader);
            checked = checked.zip(step).map(|(mut steps, step)| {
                steps.push(step);
                steps
            });
        }
        let result = result.map(|result| {
            for pointer in &result.pointers {
                around.check_pointer(pointer, reader);
            }
            result.template
        });
        let steps = checked?;
        if let Some(circle) = find_cycle(&steps) {
            let circle = circle.into_iter().map(|step| format!("`{}`", steps[step].name));
            let circle = circle.collect::<Vec<_>>().join(" → ");
            let message = format!("steps wait for each other: {circle}");
            let hint = "a step waits for the steps in `after` and for those whose results it uses";
            reader.report_error(&name.location, message, Some(hint.to_owned()));
            return None;
        }
        let input_schema = input_schema.text;
        let tool =
            MacroConfig { name: name.value.clone(), description, input_schema, steps, result };
        Some((own?, tool)).filter(|(_, tool)| !tool.steps.is_empty())
    }

    /// Returns the macro's toolbox, `macros` by default.
    fn toolbox(
        &self,
        wanted: Option<Located<String>>,
        reader: &mut ConfigReader<'_>,
    ) -> Option<ToolboxName> {
        let Some(Located { value, location: spot }) = wanted else {
            return Some(ToolboxName::new(MACROS));
        };
        let known: Vec<_> = self.toolboxes.iter().map(|toolbox| toolbox.name.as_str()).collect();
        if value != MACROS && !known.contains(&value.as_str()) {
            let message = format!("no toolbox `{value}`");
            let hint = did_you_mean(&value, &known).unwrap_or_else(|| expected(&known));
            reader.report_error(&spot, message, Some(hint));
            return None;
        }
        Some(ToolboxName::new(value))
    }

    fn step(
        &self,
        name: &Located<String>,
        raw: RawStep,
        around: &StepScope<'_>,
        reader: &mut ConfigReader<'_>,
    ) -> Option<StepConfig> {
        let RawStep { tool, arguments, after } = raw;
        if tool.is_none() && !reader.has_error_under(&name.location, "tool") {
            let hint = "add `\"tool\": \"server:tool\"`".to_owned();
            reader.report_error(&name.location, "expected a `tool`", Some(hint));
        }
        let tool = tool.and_then(|tool| self.tool(tool, around.toolbox, reader));
        let mut needs = Vec::new();
        let mut need = |step: Option<usize>| {
            needs.extend(step.filter(|step| !needs.contains(step)));
        };
        for step in after.unwrap_or_default() {
            need(around.known_step(&step.value, &step.location, reader));
        }
        let arguments = arguments.map(|arguments| {
            for pointer in &arguments.pointers {
                need(around.check_pointer(pointer, reader));
            }
            arguments.template
        });
        needs.sort_unstable();
        Some(StepConfig { name: name.value.clone(), tool: tool?, arguments, needs })
    }

    /// Finds the tool that a step calls. Without a `toolbox`, the macro's own toolbox is preferred,
    /// then one that includes the tool.
    fn tool(
        &self,
        raw: RawStepTool,
        own: Option<&ToolboxName>,
        reader: &mut ConfigReader<'_>,
    ) -> Option<ToolId> {
        let RawStepTool { toolbox, server, tool, location } = self.split(raw, reader)?;
        if server.value == MACROS {
            let hint = "copy the steps of that macro".to_owned();
            reader.report_error(&location, "a macro cannot call another macro", Some(hint));
            return None;
        }
        let in_toolbox = match &toolbox {
            None => None,
            Some(wanted) => Some(self.toolbox(Some(wanted.clone()), reader)?),
        };
        let is_there = |toolbox: &&ToolboxConfig| {
            in_toolbox.as_ref().is_none_or(|wanted| *wanted == toolbox.name)
                && toolbox.server(&server.value).is_some()
        };
        let found: Vec<_> = self.toolboxes.iter().filter(is_there).collect();
        let has_it = |toolbox: &&&ToolboxConfig| {
            let include = toolbox.server(&server.value).and_then(|server| server.include.as_ref());
            include.is_none_or(|include| include.contains(&tool.value))
        };
        let at = found.iter().find(|toolbox| Some(&toolbox.name) == own);
        let at = at.or_else(|| found.iter().find(has_it)).or_else(|| found.first());
        if let Some(toolbox) = at {
            return Some(ToolId {
                toolbox: toolbox.name.clone(),
                server: ServerName::new(&server.value),
                tool: tool.value,
            });
        }
        let is_known = self.servers.contains(&server.value);
        if is_known && toolbox.is_none() {
            let message = format!("macro ignored: server `{}` is not available", server.value);
            reader.report_warning(&location, message, None);
            return None;
        }
        let inside = |t: &&ToolboxConfig| in_toolbox.as_ref().is_none_or(|w| *w == t.name);
        let known = self.toolboxes.iter().filter(inside).flat_map(|toolbox| &toolbox.servers);
        let known: Vec<_> = known.map(|server| server.name.as_str()).collect();
        let place = in_toolbox.map(|name| format!(" in toolbox `{name}`")).unwrap_or_default();
        let message = format!("no server `{}`{place}", server.value);
        let hint = did_you_mean(&server.value, &known).unwrap_or_else(|| expected(&known));
        reader.report_error(&server.location, message, Some(hint));
        None
    }

    /// Splits `server:tool`, unless the entry names the server separately.
    fn split(&self, raw: RawStepTool, reader: &mut ConfigReader<'_>) -> Option<RawStepTool> {
        if !raw.server.value.is_empty() {
            return Some(raw);
        }
        let text = &raw.tool.value;
        let known = self.servers.iter().filter_map(|server| {
            let tool = text.strip_prefix(server.as_str())?.strip_prefix(':')?;
            Some((server.as_str(), tool))
        });
        // Server and tool names may contain `:`, so prefer the longest known server name.
        let known = known.max_by_key(|(server, _)| server.len());
        let Some((server, tool)) = known.or_else(|| text.split_once(':')) else {
            let message = format!("expected `server:tool`, found `{text}`");
            let hint =
                "an object also works: `{\"toolbox\": …, \"server\": …, \"tool\": …}`".to_owned();
            reader.report_error(&raw.location, message, Some(hint));
            return None;
        };
        let at = |value: &str| Located { value: value.to_owned(), location: raw.location.clone() };
        let (server, tool) = (at(server), at(tool));
        if tool.value.is_empty() {
            reader.report_error(&raw.location, "expected a tool name after `:`", None);
            return None;
        }
        Some(RawStepTool { toolbox: raw.toolbox, server, tool, location: raw.location })
    }
}

fn expected(known: &[&str]) -> String {
    match known {
        [] => "none are configured".to_owned(),
        known => format!("expected {}", quoted_list(known, "or")),
    }
}

fn check_name(name: &Located<String>, what: &str, reader: &mut ConfigReader<'_>) {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if name.value.is_empty() || name.value.len() > 64 || !name.value.chars().all(is_legal) {
        let message = format!("invalid {what} name `{}`", name.value);
        let hint = "use up to 64 letters, digits, `_` and `-`".to_owned();
        reader.report_error(&name.location, message, Some(hint));
    }
}

impl StepScope<'_> {
    fn known_step(
        &self,
        wanted: &str,
        location: &SourceLocation,
        reader: &mut ConfigReader<'_>,
    ) -> Option<usize> {
        let found = self.names.iter().position(|name| name == wanted);
        if found.is_none() {
            let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
            let hint = did_you_mean(wanted, &names).unwrap_or_else(|| expected(&names));
            reader.report_error(location, format!("no step `{wanted}`"), Some(hint));
        }
        found
    }

    /// Checks that the referenced input or step exists, and returns the step's index.
    fn check_pointer(
        &self,
        Located { value, location: spot }: &Located<Pointer>,
        reader: &mut ConfigReader<'_>,
    ) -> Option<usize> {
        if let Some(step) = &value.step {
            return self.known_step(step, spot, reader);
        }
        if let Some(input) = value.path.first() {
            self.inputs.check(input, spot, reader);
        }
        None
    }
}

/// Returns a cycle of steps that wait for each other; the first step is repeated at the end.
fn find_cycle(steps: &[StepConfig]) -> Option<Vec<usize>> {
    fn walk(
        step: usize,
        steps: &[StepConfig],
        way: &mut Vec<usize>,
        done: &mut HashSet<usize>,
    ) -> Option<Vec<usize>> {
        if let Some(begin) = way.iter().position(|other| *other == step) {
            let mut circle = way[begin..].to_vec();
            circle.push(step);
            return Some(circle);
        }
        if !done.insert(step) {
            return None;
        }
        way.push(step);
        let found = steps[step].needs.iter().find_map(|need| walk(*need, steps, way, done));
        way.pop();
        found
    }
    let mut done = HashSet::new();
    (0..steps.len()).find_map(|step| walk(step, steps, &mut Vec::new(), &mut done))
}

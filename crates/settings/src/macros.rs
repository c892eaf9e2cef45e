//! Macros: tools composed of steps that call other tools (`macros`).
//!
//! The macros of a toolbox are exposed as the tools of a virtual server named [`MACROS`].

use std::fmt;

use mcp_workbench_names::ToolId;

/// Name of the virtual server for macros, and of the toolbox for macros that name no toolbox.
pub const MACROS: &str = "macros";

/// A tool composed of steps that call other tools.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MacroConfig {
    pub name: String,
    pub description: String,
    /// JSON Schema of the arguments, as JSON text.
    pub input_schema: String,
    /// In the order of the file. Never empty, and without dependency cycles.
    pub steps: Vec<StepConfig>,
    /// `None`: the result of the last step.
    pub result: Option<Template>,
}

/// A step of a macro: one tool call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StepConfig {
    pub name: String,
    /// The tool to call, by the name that its toolbox shows.
    pub tool: ToolId,
    /// `None`: the tool is called without arguments.
    pub arguments: Option<Template>,
    /// Indexes of the steps that must finish first.
    pub needs: Vec<usize>,
}

/// A template that builds a JSON value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Template {
    /// A constant, as JSON text.
    Value(String),
    /// The value at a pointer, or the default if it is missing.
    From(Pointer, Option<Box<Self>>),
    /// The concatenation of several values as text.
    Join(Vec<Self>),
    Object(Vec<(String, Self)>),
    Array(Vec<Self>),
}

/// A reference to an input or to the result of a step.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pointer {
    /// The step whose result is referenced, or `None` for the inputs.
    pub step: Option<String>,
    /// The keys from there to the value, unescaped.
    pub path: Vec<String>,
}

/// Formats the pointer as in the configuration.
impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.step {
            None => f.write_str("/inputs")?,
            Some(step) => write!(f, "/steps/{step}")?,
        }
        for key in &self.path {
            write!(f, "/{}", key.replace('~', "~0").replace('/', "~1"))?;
        }
        Ok(())
    }
}

impl Pointer {
    /// Parses `/inputs/…` or `/steps/<name>/…` as a JSON pointer (RFC 6901).
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let Some(rest) = text.strip_prefix('/') else {
            return Err("expected a JSON pointer, which starts with `/`");
        };
        let mut keys = rest.split('/').map(|key| {
            let is_escaped = key.split('~').skip(1).all(|part| part.starts_with(['0', '1']));
            let key = key.replace("~1", "/").replace("~0", "~");
            is_escaped.then_some(key).ok_or("invalid `~` in a JSON pointer: write `~0`")
        });
        let begin = keys.next().transpose()?;
        let step = match begin.as_deref() {
            Some("inputs") => None,
            Some("steps") => match keys.next().transpose()? {
                Some(step) if !step.is_empty() => Some(step),
                _ => return Err("expected a step name after `/steps/`"),
            },
            _ => return Err("expected `/inputs/…` or `/steps/<name>/…`"),
        };
        Ok(Self { step, path: keys.collect::<Result<_, _>>()? })
    }
}

//! Tools of ours that are made of steps over other tools (`macros`).
//!
//! They stand in their toolbox as the tools of a server that is called [`MACROS`] and is no process.

use std::fmt;

use crate::name::ToolId;

/// The name of the server that has the macros, and of the toolbox for macros that name none.
pub const MACROS: &str = "macros";

/// A tool that is made of steps over other tools.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MacroConfig {
    /// The key in the file.
    pub name: String,
    /// Its purpose, in the user's words.
    pub description: String,
    /// The JSON Schema of its arguments, as it is written.
    pub input_schema: String,
    /// Its steps, in the order of the file; never empty, and none waits for itself.
    pub steps: Vec<StepConfig>,
    /// The template of its result; `None`: its result is that of the last step.
    pub result: Option<Template>,
}

/// One step: a call of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StepConfig {
    /// The key in the file.
    pub name: String,
    /// The tool that is called, by the name that its toolbox shows.
    pub tool: ToolId,
    /// The template of its arguments; `None`: it gets none.
    pub arguments: Option<Template>,
    /// The steps that have to be done before, by their places in the macro.
    pub needs: Vec<usize>,
}

/// How a value is put together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Template {
    /// This JSON text.
    Value(String),
    /// The value that a pointer leads to, or the default where there is none.
    From(Pointer, Option<Box<Self>>),
    /// One text of several values.
    Join(Vec<Self>),
    /// An object of these members.
    Object(Vec<(String, Self)>),
    /// An array of these items.
    Array(Vec<Self>),
}

/// Where a value is found.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pointer {
    /// The step whose result it is in; `None`: it is in the inputs.
    pub step: Option<String>,
    /// The way from there, key by key.
    pub path: Vec<String>,
}

/// As it is written in the file.
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
    /// Reads a JSON pointer; the error says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let Some(rest) = text.strip_prefix('/') else {
            return Err("a JSON pointer begins with `/`");
        };
        let mut keys = rest.split('/').map(|key| {
            let is_escaped = key.split('~').skip(1).all(|part| part.starts_with(['0', '1']));
            let key = key.replace("~1", "/").replace("~0", "~");
            is_escaped.then_some(key).ok_or("in a JSON pointer `~` is written `~0`")
        });
        let begin = keys.next().transpose()?;
        let step = match begin.as_deref() {
            Some("inputs") => None,
            Some("steps") => match keys.next().transpose()? {
                Some(step) if !step.is_empty() => Some(step),
                _ => return Err("expected the name of a step after `/steps/`"),
            },
            _ => return Err("expected `/inputs/…` or `/steps/<name>/…`"),
        };
        Ok(Self { step, path: keys.collect::<Result<_, _>>()? })
    }
}

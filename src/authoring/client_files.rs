//! A table of MCP clients: which files they keep their servers in, on which platform, and how those
//! files are written.

use std::path::{Path, PathBuf};

use crate::authoring::client_files::programs::PROGRAMS;
use crate::config::env::EnvSource;
use crate::os::Platform;

mod programs;

/// A program that agents run in, which keeps MCP servers in a file of its own.
#[derive(Debug, PartialEq, Eq)]
pub struct ClientProgram {
    /// Its name in commands and as the name of a toolbox, such as `claude-code`.
    pub id: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// The syntax of its files.
    pub syntax: Syntax,
    /// The keys that lead from the top of a file to its servers.
    pub servers: &'static [&'static str],
    /// The unit of `timeout` in a server's block; `None`: nobody says.
    pub timeout: Option<Timeout>,
    /// `true` if `$NAME` is a variable in its files, as `${NAME}` is.
    pub has_bare_variables: bool,
    /// `true` if it runs the commands in values, such as `$(pass token)`, and takes what they print.
    pub runs_commands: bool,
    /// How its own files write a server that is started.
    pub entry: EntryForm,
    /// How they write a server over streamable HTTP, with headers; `None`: nobody says that it can.
    pub remote: Option<RemoteForm>,
    /// `true` if its servers stand in a list, each with its name.
    pub has_list: bool,
    /// Parts of paths that its files alone have, in lower case and with `/`.
    marks: &'static [&'static str],
    files: &'static [File],
}

/// How a client's file writes a server that is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryForm {
    /// `command` and `args`.
    Plain,
    /// `type: stdio` before them, as in VS Code (<https://code.visualstudio.com/docs/copilot/chat/mcp-servers>).
    Stdio,
    /// `source: custom` before them, which older versions of Zed insist on (<https://zed.dev/docs/ai/mcp>).
    Custom,
    /// `type: local`, and `tools` for those that may be used, as in Copilot CLI's `mcp-config.json`.
    Local,
    /// `type: local`, and one list for program and arguments (<https://opencode.ai/docs/mcp-servers>).
    Words,
    /// `cmd` and `args` with a name and a description (<https://block.github.io/goose/docs/getting-started/using-extensions>).
    Extension,
}

/// How a client's file writes a server over streamable HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteForm {
    /// `url` and `headers`, as in Cursor (<https://cursor.com/docs/context/mcp>).
    Plain,
    /// This `type` before them, as in Claude Code (<https://code.claude.com/docs/en/mcp>).
    Typed(&'static str),
    /// `httpUrl` and `headers`, as in Gemini CLI (<https://geminicli.com/docs/tools/mcp-server>).
    HttpUrl,
    /// `serverUrl` and `headers`, as in Windsurf (<https://docs.windsurf.com/windsurf/cascade/mcp>).
    ServerUrl,
    /// `url` and `http_headers`, as in Codex (<https://developers.openai.com/codex/mcp>).
    HttpHeaders,
    /// `type: http`, and `tools` for those that may be used, as in Copilot CLI's `mcp-config.json`.
    Tools,
    /// `type: remote` (<https://opencode.ai/docs/mcp-servers>).
    Remote,
    /// `type: streamable-http`, with the headers among options, as in Continue
    /// (<https://docs.continue.dev/reference>).
    Options,
    /// `uri`, with a name and a description, as in Goose.
    Extension,
}

/// The syntax of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    /// JSON, with comments and trailing commas where the client allows them.
    Json,
    /// TOML.
    Toml,
    /// YAML.
    Yaml,
}

/// The meaning of a number under `timeout`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// Seconds that a call may take.
    CallSeconds,
    /// Milliseconds that a call may take.
    CallMilliseconds,
    /// Milliseconds that the server may take to list its tools.
    StartMilliseconds,
}

/// Whom the servers of a file are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The user, in every folder.
    User,
    /// Whoever works in the folder that the file stands in.
    Project,
}

/// One place where a client may keep servers.
#[derive(Debug, PartialEq, Eq)]
struct File {
    base: Base,
    /// The way from there, with `/`.
    path: &'static str,
    /// The platforms that have it; empty: all.
    only: &'static [Platform],
    kind: Kind,
    /// `true` if its client has moved on to another file, and reads this one for old times' sake.
    is_old: bool,
}

/// Where the path of a file starts.
#[derive(Debug, PartialEq, Eq)]
enum Base {
    /// The user's home folder.
    Home,
    /// `$XDG_CONFIG_HOME`, or `~/.config`.
    Config,
    /// The folder for settings of desktop programs: `~/Library/Application Support`, `%APPDATA%`, or
    /// as [`Base::Config`].
    Application,
    /// `%LOCALAPPDATA%`.
    LocalApplication,
    /// The folder in this variable, or else this one in the user's home.
    Variable(&'static str, &'static str),
    /// The folder of a project.
    Project,
}

/// One file, or several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file.
    File,
    /// A folder; every file in it whose name ends in one of [`FOLDER_ENDINGS`] has servers.
    Folder,
}

/// How the names of files end that are read in a folder of such files.
pub const FOLDER_ENDINGS: [&str; 3] = ["yaml", "yml", "json"];

/// A place in the file system where a client keeps servers, if anything is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownFile {
    /// The client.
    pub program: &'static ClientProgram,
    /// Whom its servers are for.
    pub scope: Scope,
    /// Where it is.
    pub path: PathBuf,
    /// A file, or a folder of files.
    pub kind: Kind,
    /// `true` if servers are put there today, and into a file.
    pub takes_servers: bool,
}

/// Every place where a client may keep servers on a platform, each once, in the order of the table;
/// those of the user come before those of the project in `folder`.
pub fn known_files(platform: Platform, env: &dyn EnvSource, folder: &Path) -> Vec<KnownFile> {
    let mut known: Vec<KnownFile> = Vec::new();
    for scope in [Scope::User, Scope::Project] {
        for program in PROGRAMS {
            for file in program.files {
                let is_there = file.only.is_empty() || file.only.contains(&platform);
                if !is_there || file.scope() != scope {
                    continue;
                }
                let Some(base) = file.base.folder(platform, env, folder) else { continue };
                let path = file.path.split('/').fold(base, |path, part| path.join(part));
                if known.iter().all(|other| other.path != path) {
                    let takes_servers = file.kind == Kind::File && !file.is_old;
                    known.push(KnownFile { program, scope, path, kind: file.kind, takes_servers });
                }
            }
        }
    }
    known
}

impl ClientProgram {
    /// The client that keeps its servers in a file of this path, if the path tells.
    pub fn of(file: &str) -> Option<&'static Self> {
        let path = file.replace('\\', "/").to_lowercase();
        PROGRAMS.iter().find(|program| program.marks.iter().any(|mark| path.contains(mark)))
    }

    /// The client of this id.
    pub fn called(id: &str) -> Option<&'static Self> {
        PROGRAMS.iter().find(|program| program.id == id)
    }
}

/// All clients, in an order in which the first whose mark is in a path is the right one.
pub fn programs() -> &'static [ClientProgram] {
    PROGRAMS
}

impl File {
    fn scope(&self) -> Scope {
        if self.base == Base::Project { Scope::Project } else { Scope::User }
    }
}

impl Base {
    fn folder(&self, platform: Platform, env: &dyn EnvSource, project: &Path) -> Option<PathBuf> {
        let set = |name: &str| env.get(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let at_home = |path: &str| Some(env.home()?.join(path));
        let config = || set("XDG_CONFIG_HOME").or_else(|| at_home(".config"));
        match (self, platform) {
            (Self::Home, _) => env.home(),
            (Self::Application, Platform::MacOs) => at_home("Library/Application Support"),
            (Self::Application, Platform::Windows) => {
                set("APPDATA").or_else(|| at_home("AppData/Roaming"))
            }
            (Self::Config, _) | (Self::Application, Platform::Linux) => config(),
            (Self::LocalApplication, _) => set("LOCALAPPDATA").or_else(|| at_home("AppData/Local")),
            (Self::Variable(name, "."), _) => set(name).or_else(|| env.home()),
            (Self::Variable(name, instead), _) => set(name).or_else(|| at_home(instead)),
            (Self::Project, _) => Some(project.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests;

//! The table of MCP clients: the paths and formats of their server files on each platform.

use std::path::{Path, PathBuf};

use crate::authoring::client_files::programs::CLIENT_APPS;
use mcp_workbench_config::env::EnvSource;
use mcp_workbench_os::Platform;

mod programs;

/// A program that runs agents and has its own files for MCP servers.
#[derive(Debug, PartialEq, Eq)]
pub struct ClientApp {
    /// The name in commands, and the default name of a toolbox, such as `claude-code`.
    pub id: &'static str,
    pub title: &'static str,
    pub syntax: FileSyntax,
    /// The path of keys from the top of a file to its servers.
    pub servers: &'static [&'static str],
    /// The unit of `timeout` in a server's entry. `None` if unknown.
    pub timeout: Option<TimeoutUnit>,
    /// `true` if `$NAME` is a variable, like `${NAME}`.
    pub has_bare_variables: bool,
    /// `true` if the client runs commands in values, such as `$(pass token)`, and uses their
    /// output.
    pub runs_commands: bool,
    pub entry: EntryForm,
    /// The form of an entry for a streamable HTTP server with headers. `None` if support is
    /// unknown.
    pub remote: Option<RemoteForm>,
    pub env: EnvForm,
    /// `true` if the servers are a list of objects with a `name`.
    pub has_list: bool,
    /// Lower-case path fragments, with `/`, that identify this client's files.
    path_markers: &'static [&'static str],
    files: &'static [FileSpec],
}

/// How a client's file describes a stdio server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryForm {
    /// `command` and `args`.
    Plain,
    /// `type: stdio`, `command` and `args`, as in VS Code
    /// (<https://code.visualstudio.com/docs/copilot/chat/mcp-servers>).
    Stdio,
    /// Also `source: custom`, which older versions of Zed require (<https://zed.dev/docs/ai/mcp>).
    Custom,
    /// `type: local` and a `tools` allowlist, as in Copilot CLI's `mcp-config.json`.
    Local,
    /// `type: local`, with program and arguments in one list
    /// (<https://opencode.ai/docs/mcp-servers>).
    CommandList,
    /// Like `Plain`, with `alwaysLoadTools`: without it, Qwen Code hides the workbench's own tools
    /// behind its tool search.
    AlwaysLoaded,
    /// Like `Plain`, with `required`: without it, Codex leaves out a server that hasn't listed its
    /// tools after about a second.
    Required,
    /// `cmd` and `args`, with a name and a description
    /// (<https://block.github.io/goose/docs/getting-started/using-extensions>).
    Extension,
}

/// How an entry passes on variables of the client's environment. Some clients give their servers only
/// a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnvForm {
    /// Servers get all variables, or it is unknown how to pass them on.
    Inherited,
    /// A list of names under `env_vars`, as in Codex.
    Names,
    /// A reference under `env`, between these two texts.
    Reference(&'static str, &'static str),
}

/// How a client's file describes a server over streamable HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteForm {
    /// `url` and `headers`, as in Cursor (<https://cursor.com/docs/context/mcp>).
    Plain,
    /// This `type`, `url` and `headers`, as in Claude Code (<https://code.claude.com/docs/en/mcp>).
    Typed(&'static str),
    /// `httpUrl` and `headers`, as in Gemini CLI (<https://geminicli.com/docs/tools/mcp-server>).
    HttpUrl,
    /// Like `HttpUrl`, with `alwaysLoadTools`, as in Qwen Code.
    AlwaysLoadedHttpUrl,
    /// `serverUrl` and `headers`, as in Windsurf (<https://docs.windsurf.com/windsurf/cascade/mcp>).
    ServerUrl,
    /// `url` and `http_headers`, as in Codex (<https://developers.openai.com/codex/mcp>).
    HttpHeaders,
    /// `type: http` and a `tools` allowlist, as in Copilot CLI's `mcp-config.json`.
    Tools,
    /// `type: remote` (<https://opencode.ai/docs/mcp-servers>).
    Remote,
    /// `type: streamable-http`, with the headers under `requestOptions`, as in Continue
    /// (<https://docs.continue.dev/reference>).
    Options,
    /// `uri`, with a name and a description, as in Goose.
    Extension,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSyntax {
    /// JSON with comments and trailing commas, as far as the client allows them.
    Json,
    Toml,
    Yaml,
}

/// The unit and meaning of a number under `timeout`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeoutUnit {
    /// Seconds per call.
    CallSeconds,
    /// Milliseconds per call.
    CallMilliseconds,
    /// Milliseconds until the server has listed its tools.
    StartMilliseconds,
}

/// Who uses the servers of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileScope {
    /// The user, in every directory.
    User,
    /// Everyone who works in the project directory that contains the file.
    Project,
}

#[derive(Debug, PartialEq, Eq)]
struct FileSpec {
    base: BaseDir,
    /// The path below `base`, with `/`.
    path: &'static str,
    /// The platforms where the file exists; empty for all.
    only: &'static [Platform],
    kind: FileKind,
    /// `true` if the client has moved to another file and still reads this one.
    is_legacy: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum BaseDir {
    Home,
    /// `$XDG_CONFIG_HOME`, or `~/.config`.
    Config,
    /// The settings directory of desktop programs: `~/Library/Application Support` on macOS,
    /// `%APPDATA%` on Windows, and the same as [`BaseDir::Config`] on Linux.
    Application,
    /// `%LOCALAPPDATA%`.
    LocalApplication,
    /// The directory in this environment variable, or this directory below the user's home.
    Variable(&'static str, &'static str),
    Project,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    File,
    /// A directory. Each file in it with an extension from [`FOLDER_ENDINGS`] holds servers.
    Folder,
}

pub const FOLDER_ENDINGS: [&str; 3] = ["yaml", "yml", "json"];

/// A path where a client keeps servers, whether or not the file exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownFile {
    pub program: &'static ClientApp,
    pub scope: FileScope,
    pub path: PathBuf,
    pub kind: FileKind,
    /// `true` if servers can be added here: it is a file, and not a legacy one.
    pub takes_servers: bool,
}

/// Returns every path where a client may keep servers on `platform`, without duplicates. User files
/// come first, then the files of the project in `folder`, each in table order.
pub fn known_files(platform: Platform, env: &dyn EnvSource, folder: &Path) -> Vec<KnownFile> {
    let mut known: Vec<KnownFile> = Vec::new();
    for scope in [FileScope::User, FileScope::Project] {
        for program in CLIENT_APPS {
            for file in program.files {
                let is_there = file.only.is_empty() || file.only.contains(&platform);
                if !is_there || file.scope() != scope {
                    continue;
                }
                let Some(base) = file.base.folder(platform, env, folder) else { continue };
                let path = file.path.split('/').fold(base, |path, part| path.join(part));
                if known.iter().all(|other| other.path != path) {
                    let takes_servers = file.kind == FileKind::File && !file.is_legacy;
                    known.push(KnownFile { program, scope, path, kind: file.kind, takes_servers });
                }
            }
        }
    }
    known
}

impl ClientApp {
    /// Returns the client whose path marker occurs in `file`.
    pub fn from_path(file: &str) -> Option<&'static Self> {
        let path = file.replace('\\', "/").to_lowercase();
        CLIENT_APPS
            .iter()
            .find(|program| program.path_markers.iter().any(|mark| path.contains(mark)))
    }

    pub fn from_id(id: &str) -> Option<&'static Self> {
        CLIENT_APPS.iter().find(|program| program.id == id)
    }
}

/// Returns all clients. Earlier entries take precedence when a path has markers of several.
pub fn client_apps() -> &'static [ClientApp] {
    CLIENT_APPS
}

impl FileSpec {
    fn scope(&self) -> FileScope {
        if self.base == BaseDir::Project { FileScope::Project } else { FileScope::User }
    }
}

impl BaseDir {
    fn folder(&self, platform: Platform, env: &dyn EnvSource, project: &Path) -> Option<PathBuf> {
        let set = |name: &str| env.get(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let at_home = |path: &str| Some(env.home_dir()?.join(path));
        let config = || set("XDG_CONFIG_HOME").or_else(|| at_home(".config"));
        match (self, platform) {
            (Self::Home, _) => env.home_dir(),
            (Self::Application, Platform::MacOs) => at_home("Library/Application Support"),
            (Self::Application, Platform::Windows) => {
                set("APPDATA").or_else(|| at_home("AppData/Roaming"))
            }
            (Self::Config, _) | (Self::Application, Platform::Linux) => config(),
            (Self::LocalApplication, _) => set("LOCALAPPDATA").or_else(|| at_home("AppData/Local")),
            (Self::Variable(name, "."), _) => set(name).or_else(|| env.home_dir()),
            (Self::Variable(name, instead), _) => set(name).or_else(|| at_home(instead)),
            (Self::Project, _) => Some(project.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests;

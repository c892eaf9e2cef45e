//! A table of MCP clients: which files they keep their servers in, on which platform, and how those
//! files are written.

use std::path::{Path, PathBuf};

use crate::config::env::EnvSource;
use crate::os::Platform;

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
    /// Parts of paths that its files alone have, in lower case and with `/`.
    marks: &'static [&'static str],
    files: &'static [File],
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
                    known.push(KnownFile { program, scope, path, kind: file.kind });
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

const fn at(base: Base, path: &'static str) -> File {
    File { base, path, only: &[], kind: Kind::File }
}

const fn on(only: &'static [Platform], base: Base, path: &'static str) -> File {
    File { base, path, only, kind: Kind::File }
}

const fn folder(base: Base, path: &'static str) -> File {
    File { base, path, only: &[], kind: Kind::Folder }
}

const UNIX: &[Platform] = &[Platform::Linux, Platform::MacOs];
const WINDOWS: &[Platform] = &[Platform::Windows];

/// A client of which nothing is to be said: JSON with `mcpServers`.
const PLAIN: ClientProgram = ClientProgram {
    id: "",
    title: "",
    syntax: Syntax::Json,
    servers: &["mcpServers"],
    timeout: None,
    has_bare_variables: false,
    runs_commands: false,
    marks: &[],
    files: &[],
};

/// The clients. A path is looked up from above, so a mark that is part of another stands below it.
static PROGRAMS: &[ClientProgram] = &[
    ClientProgram {
        id: "claude-desktop",
        title: "Claude Desktop",
        marks: &["claude_desktop_config"],
        files: &[at(Base::Application, "Claude/claude_desktop_config.json")],
        ..PLAIN
    },
    ClientProgram {
        id: "cline",
        title: "Cline",
        timeout: Some(Timeout::CallSeconds),
        marks: &["cline_mcp_settings"],
        files: &[
            at(Base::Application, CLINE_IN_CODE),
            at(Base::Application, CLINE_IN_INSIDERS),
            at(Base::Application, CLINE_IN_CURSOR),
            at(Base::Application, CLINE_IN_CODIUM),
            at(Base::Variable("CLINE_DIR", ".cline"), "data/settings/cline_mcp_settings.json"),
        ],
        ..PLAIN
    },
    ClientProgram {
        id: "kilo-code",
        title: "Kilo Code",
        timeout: Some(Timeout::CallSeconds),
        marks: &["kilocode"],
        files: &[
            at(
                Base::Application,
                "Code/User/globalStorage/kilocode.kilo-code/settings/mcp_settings.json",
            ),
            at(Base::Project, ".kilocode/mcp.json"),
        ],
        ..PLAIN
    },
    ClientProgram {
        id: "roo",
        title: "Roo Code",
        timeout: Some(Timeout::CallSeconds),
        marks: &[".roo/", "roo-cline", "mcp_settings.json"],
        files: &[
            at(
                Base::Application,
                "Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json",
            ),
            at(Base::Project, ".roo/mcp.json"),
        ],
        ..PLAIN
    },
    ClientProgram {
        id: "windsurf",
        title: "Windsurf",
        marks: &["windsurf", ".codeium"],
        files: &[at(Base::Home, ".codeium/windsurf/mcp_config.json")],
        ..PLAIN
    },
    ClientProgram {
        id: "cursor",
        title: "Cursor",
        marks: &[".cursor"],
        files: &[at(Base::Home, ".cursor/mcp.json"), at(Base::Project, ".cursor/mcp.json")],
        ..PLAIN
    },
    ClientProgram {
        id: "antigravity",
        title: "Antigravity",
        marks: &["antigravity"],
        files: &[at(Base::Home, ".gemini/antigravity/mcp_config.json")],
        ..PLAIN
    },
    ClientProgram {
        id: "gemini",
        title: "Gemini CLI",
        timeout: Some(Timeout::CallMilliseconds),
        has_bare_variables: true,
        marks: &[".gemini"],
        files: &[
            at(Base::Home, ".gemini/settings.json"),
            at(Base::Project, ".gemini/settings.json"),
        ],
        ..PLAIN
    },
    ClientProgram {
        id: "qwen",
        title: "Qwen Code",
        timeout: Some(Timeout::CallMilliseconds),
        has_bare_variables: true,
        marks: &[".qwen/"],
        files: &[at(Base::Home, ".qwen/settings.json"), at(Base::Project, ".qwen/settings.json")],
        ..PLAIN
    },
    ClientProgram {
        id: "opencode",
        title: "opencode",
        servers: &["mcp"],
        timeout: Some(Timeout::StartMilliseconds),
        marks: &["opencode"],
        files: &[
            at(Base::Config, "opencode/opencode.json"),
            at(Base::Config, "opencode/opencode.jsonc"),
            at(Base::Project, "opencode.json"),
            at(Base::Project, "opencode.jsonc"),
        ],
        ..PLAIN
    },
    ClientProgram {
        id: "codex",
        title: "Codex",
        syntax: Syntax::Toml,
        servers: &["mcp_servers"],
        marks: &[".codex/", "codex/config.toml"],
        files: &[
            at(Base::Variable("CODEX_HOME", ".codex"), "config.toml"),
            at(Base::Project, ".codex/config.toml"),
        ],
        ..PLAIN
    },
    ClientProgram {
        id: "warp",
        title: "Warp",
        marks: &[".warp/"],
        files: &[at(Base::Home, ".warp/.mcp.json"), at(Base::Project, ".warp/.mcp.json")],
        ..PLAIN
    },
    ClientProgram {
        id: "claude-code",
        title: "Claude Code",
        marks: &[".claude.json", ".mcp.json", ".claude/"],
        files: &[
            at(Base::Variable("CLAUDE_CONFIG_DIR", "."), ".claude.json"),
            at(Base::Project, ".mcp.json"),
        ],
        ..PLAIN
    },
    ClientProgram {
        id: "zed",
        title: "Zed",
        servers: &["context_servers"],
        marks: &["zed/"],
        files: &[
            on(UNIX, Base::Config, "zed/settings.json"),
            on(WINDOWS, Base::Application, "Zed/settings.json"),
            at(Base::Project, ".zed/settings.json"),
        ],
        ..PLAIN
    },
    ClientProgram {
        id: "vscode",
        title: "VS Code",
        servers: &["servers"],
        marks: &[".vscode", "code/user", "code - insiders/user", "vscodium/user"],
        files: &[
            at(Base::Application, "Code/User/mcp.json"),
            at(Base::Application, "Code/User/settings.json"),
            at(Base::Application, "Code - Insiders/User/mcp.json"),
            at(Base::Application, "VSCodium/User/mcp.json"),
            at(Base::Project, ".vscode/mcp.json"),
        ],
        ..PLAIN
    },
    ClientProgram {
        id: "copilot-jetbrains",
        title: "Copilot for JetBrains",
        servers: &["servers"],
        marks: &["github-copilot/"],
        files: &[
            on(UNIX, Base::Config, "github-copilot/intellij/mcp.json"),
            on(WINDOWS, Base::LocalApplication, "github-copilot/intellij/mcp.json"),
        ],
        ..PLAIN
    },
    ClientProgram {
        id: "copilot",
        title: "Copilot CLI",
        marks: &[".copilot/", "mcp-config.json"],
        files: &[at(Base::Home, ".copilot/mcp-config.json")],
        ..PLAIN
    },
    ClientProgram {
        id: "continue",
        title: "Continue",
        syntax: Syntax::Yaml,
        marks: &[".continue/"],
        files: &[
            at(Base::Home, ".continue/config.yaml"),
            at(Base::Home, ".continue/config.json"),
            folder(Base::Home, ".continue/mcpServers"),
            folder(Base::Project, ".continue/mcpServers"),
        ],
        ..PLAIN
    },
    ClientProgram {
        id: "goose",
        title: "Goose",
        syntax: Syntax::Yaml,
        servers: &["extensions"],
        timeout: Some(Timeout::CallSeconds),
        marks: &["goose/"],
        files: &[
            on(UNIX, Base::Config, "goose/config.yaml"),
            on(WINDOWS, Base::Application, "Block/goose/config/config.yaml"),
        ],
        ..PLAIN
    },
    ClientProgram {
        id: "lm-studio",
        title: "LM Studio",
        marks: &["lmstudio/", "lm-studio/"],
        files: &[at(Base::Home, ".lmstudio/mcp.json"), at(Base::Home, ".cache/lm-studio/mcp.json")],
        ..PLAIN
    },
    ClientProgram {
        id: "kiro",
        title: "Kiro",
        timeout: Some(Timeout::CallMilliseconds),
        marks: &[".kiro/"],
        files: &[
            at(Base::Home, ".kiro/settings/mcp.json"),
            at(Base::Project, ".kiro/settings/mcp.json"),
        ],
        ..PLAIN
    },
    ClientProgram {
        id: "amp",
        title: "Amp",
        servers: &["amp.mcpServers"],
        marks: &["amp/settings.json"],
        files: &[
            at(Base::Config, "amp/settings.json"),
            at(Base::Config, "amp/settings.jsonc"),
            at(Base::Project, ".amp/settings.json"),
            at(Base::Project, ".amp/settings.jsonc"),
        ],
        ..PLAIN
    },
    ClientProgram {
        id: "amazon-q",
        title: "Amazon Q",
        timeout: Some(Timeout::CallMilliseconds),
        marks: &["amazonq/"],
        files: &[at(Base::Home, ".aws/amazonq/mcp.json"), at(Base::Project, ".amazonq/mcp.json")],
        ..PLAIN
    },
    ClientProgram {
        id: "factory",
        title: "Factory Droid",
        marks: &[".factory/"],
        files: &[at(Base::Home, ".factory/mcp.json"), at(Base::Project, ".factory/mcp.json")],
        ..PLAIN
    },
    ClientProgram {
        id: "junie",
        title: "Junie",
        marks: &[".junie/"],
        files: &[at(Base::Home, ".junie/mcp/mcp.json"), at(Base::Project, ".junie/mcp/mcp.json")],
        ..PLAIN
    },
    ClientProgram {
        id: "crush",
        title: "Crush",
        servers: &["mcp"],
        timeout: Some(Timeout::CallSeconds),
        has_bare_variables: true,
        runs_commands: true,
        marks: &["crush.json"],
        files: &[
            at(Base::Config, "crush/crush.json"),
            at(Base::Project, ".crush.json"),
            at(Base::Project, "crush.json"),
        ],
        ..PLAIN
    },
    ClientProgram {
        id: "trae",
        title: "Trae",
        marks: &[".trae/", "trae/user"],
        files: &[at(Base::Application, "Trae/User/mcp.json"), at(Base::Project, ".trae/mcp.json")],
        ..PLAIN
    },
];

const CLINE_IN_CODE: &str =
    "Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json";
const CLINE_IN_INSIDERS: &str =
    "Code - Insiders/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json";
const CLINE_IN_CURSOR: &str =
    "Cursor/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json";
const CLINE_IN_CODIUM: &str =
    "VSCodium/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json";

#[cfg(test)]
mod tests;

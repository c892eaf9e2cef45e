//! The table itself: every client, and the places of its files.
//!
//! Their own documentation is the source of each place, as far as it tells; the rest is what they
//! were seen to read.

use crate::authoring::client_files::{
    Base, ClientProgram, EntryForm, File, Kind, RemoteForm, Syntax, Timeout,
};
use crate::os::Platform;

const fn at(base: Base, path: &'static str) -> File {
    File { base, path, only: &[], kind: Kind::File, is_old: false }
}

const fn on(only: &'static [Platform], base: Base, path: &'static str) -> File {
    File { base, path, only, kind: Kind::File, is_old: false }
}

const fn folder(base: Base, path: &'static str) -> File {
    File { base, path, only: &[], kind: Kind::Folder, is_old: false }
}

const fn old(base: Base, path: &'static str) -> File {
    File { base, path, only: &[], kind: Kind::File, is_old: true }
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
    entry: EntryForm::Plain,
    remote: None,
    has_list: false,
    marks: &[],
    files: &[],
};

/// The clients. A path is looked up from above, so a mark that is part of another stands below it.
pub(super) static PROGRAMS: &[ClientProgram] = &[
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
        remote: Some(RemoteForm::Typed("streamableHttp")),
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
        remote: Some(RemoteForm::Typed("streamable-http")),
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
        remote: Some(RemoteForm::Typed("streamable-http")),
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
        remote: Some(RemoteForm::ServerUrl),
        marks: &["windsurf", ".codeium"],
        files: &[at(Base::Home, ".codeium/windsurf/mcp_config.json")],
        ..PLAIN
    },
    ClientProgram {
        id: "cursor",
        title: "Cursor",
        remote: Some(RemoteForm::Plain),
        marks: &[".cursor"],
        files: &[at(Base::Home, ".cursor/mcp.json"), at(Base::Project, ".cursor/mcp.json")],
        ..PLAIN
    },
    ClientProgram {
        id: "antigravity",
        title: "Antigravity",
        remote: Some(RemoteForm::ServerUrl),
        marks: &["antigravity"],
        files: &[at(Base::Home, ".gemini/antigravity/mcp_config.json")],
        ..PLAIN
    },
    ClientProgram {
        id: "gemini",
        title: "Gemini CLI",
        remote: Some(RemoteForm::HttpUrl),
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
        remote: Some(RemoteForm::HttpUrl),
        timeout: Some(Timeout::CallMilliseconds),
        has_bare_variables: true,
        marks: &[".qwen/"],
        files: &[at(Base::Home, ".qwen/settings.json"), at(Base::Project, ".qwen/settings.json")],
        ..PLAIN
    },
    ClientProgram {
        id: "opencode",
        title: "opencode",
        remote: Some(RemoteForm::Remote),
        entry: EntryForm::Words,
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
        remote: Some(RemoteForm::HttpHeaders),
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
        remote: Some(RemoteForm::Typed("http")),
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
        entry: EntryForm::Custom,
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
        remote: Some(RemoteForm::Typed("http")),
        entry: EntryForm::Stdio,
        servers: &["servers"],
        marks: &[".vscode", "code/user", "code - insiders/user", "vscodium/user"],
        files: &[
            at(Base::Application, "Code/User/mcp.json"),
            old(Base::Application, "Code/User/settings.json"),
            at(Base::Application, "Code - Insiders/User/mcp.json"),
            at(Base::Application, "VSCodium/User/mcp.json"),
            at(Base::Project, ".vscode/mcp.json"),
        ],
        ..PLAIN
    },
    ClientProgram {
        id: "copilot-jetbrains",
        title: "Copilot for JetBrains",
        entry: EntryForm::Stdio,
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
        remote: Some(RemoteForm::Tools),
        entry: EntryForm::Local,
        marks: &[".copilot/", "mcp-config.json"],
        files: &[at(Base::Home, ".copilot/mcp-config.json")],
        ..PLAIN
    },
    ClientProgram {
        id: "continue",
        title: "Continue",
        remote: Some(RemoteForm::Options),
        has_list: true,
        syntax: Syntax::Yaml,
        marks: &[".continue/"],
        files: &[
            at(Base::Home, ".continue/config.yaml"),
            old(Base::Home, ".continue/config.json"),
            folder(Base::Home, ".continue/mcpServers"),
            folder(Base::Project, ".continue/mcpServers"),
        ],
        ..PLAIN
    },
    ClientProgram {
        id: "goose",
        title: "Goose",
        remote: Some(RemoteForm::Extension),
        entry: EntryForm::Extension,
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
        remote: Some(RemoteForm::Plain),
        marks: &["lmstudio/", "lm-studio/"],
        files: &[at(Base::Home, ".lmstudio/mcp.json"), at(Base::Home, ".cache/lm-studio/mcp.json")],
        ..PLAIN
    },
    ClientProgram {
        id: "kiro",
        title: "Kiro",
        remote: Some(RemoteForm::Plain),
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
        remote: Some(RemoteForm::Plain),
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
        remote: Some(RemoteForm::Typed("http")),
        entry: EntryForm::Stdio,
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
        remote: Some(RemoteForm::Typed("http")),
        entry: EntryForm::Stdio,
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

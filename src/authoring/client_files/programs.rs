//! The table of clients and the paths of their files.
//!
//! The paths come from each client's documentation or, if it doesn't say, from observed behavior.

use crate::authoring::client_files::{
    BaseDir, ClientApp, EntryForm, EnvForm, FileKind, FileSpec, FileSyntax, RemoteForm, TimeoutUnit,
};
use mcp_workbench_os::Platform;

const fn at(base: BaseDir, path: &'static str) -> FileSpec {
    FileSpec { base, path, only: &[], kind: FileKind::File, is_legacy: false }
}

const fn on(only: &'static [Platform], base: BaseDir, path: &'static str) -> FileSpec {
    FileSpec { base, path, only, kind: FileKind::File, is_legacy: false }
}

const fn folder(base: BaseDir, path: &'static str) -> FileSpec {
    FileSpec { base, path, only: &[], kind: FileKind::Folder, is_legacy: false }
}

const fn old(base: BaseDir, path: &'static str) -> FileSpec {
    FileSpec { base, path, only: &[], kind: FileKind::File, is_legacy: true }
}

const UNIX: &[Platform] = &[Platform::Linux, Platform::MacOs];
const WINDOWS: &[Platform] = &[Platform::Windows];

/// Defaults: a client with JSON files and `mcpServers`.
const PLAIN: ClientApp = ClientApp {
    id: "",
    title: "",
    syntax: FileSyntax::Json,
    servers: &["mcpServers"],
    timeout: None,
    has_bare_variables: false,
    runs_commands: false,
    entry: EntryForm::Plain,
    remote: None,
    env: EnvForm::Inherited,
    has_list: false,
    path_markers: &[],
    files: &[],
};

/// All clients. The first entry with a matching marker wins, so a marker that contains another one
/// comes before it.
pub(super) static CLIENT_APPS: &[ClientApp] = &[
    ClientApp {
        id: "claude-desktop",
        title: "Claude Desktop",
        path_markers: &["claude_desktop_config"],
        files: &[at(BaseDir::Application, "Claude/claude_desktop_config.json")],
        ..PLAIN
    },
    ClientApp {
        id: "cline",
        title: "Cline",
        remote: Some(RemoteForm::Typed("streamableHttp")),
        timeout: Some(TimeoutUnit::CallSeconds),
        path_markers: &["cline_mcp_settings"],
        files: &[
            at(BaseDir::Application, CLINE_IN_CODE),
            at(BaseDir::Application, CLINE_IN_INSIDERS),
            at(BaseDir::Application, CLINE_IN_CURSOR),
            at(BaseDir::Application, CLINE_IN_CODIUM),
            at(BaseDir::Variable("CLINE_DIR", ".cline"), "data/settings/cline_mcp_settings.json"),
        ],
        ..PLAIN
    },
    ClientApp {
        id: "kilo-code",
        title: "Kilo Code",
        remote: Some(RemoteForm::Typed("streamable-http")),
        timeout: Some(TimeoutUnit::CallSeconds),
        path_markers: &["kilocode"],
        files: &[
            at(
                BaseDir::Application,
                "Code/User/globalStorage/kilocode.kilo-code/settings/mcp_settings.json",
            ),
            at(BaseDir::Project, ".kilocode/mcp.json"),
        ],
        ..PLAIN
    },
    ClientApp {
        id: "roo",
        title: "Roo Code",
        remote: Some(RemoteForm::Typed("streamable-http")),
        timeout: Some(TimeoutUnit::CallSeconds),
        env: EnvForm::Reference("${env:", "}"),
        path_markers: &[".roo/", "roo-cline", "mcp_settings.json"],
        files: &[
            at(
                BaseDir::Application,
                "Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json",
            ),
            at(BaseDir::Project, ".roo/mcp.json"),
        ],
        ..PLAIN
    },
    ClientApp {
        id: "windsurf",
        title: "Windsurf",
        remote: Some(RemoteForm::ServerUrl),
        env: EnvForm::Reference("${env:", "}"),
        path_markers: &["windsurf", ".codeium"],
        files: &[at(BaseDir::Home, ".codeium/windsurf/mcp_config.json")],
        ..PLAIN
    },
    ClientApp {
        id: "cursor",
        title: "Cursor",
        remote: Some(RemoteForm::Plain),
        env: EnvForm::Reference("${env:", "}"),
        path_markers: &[".cursor"],
        files: &[at(BaseDir::Home, ".cursor/mcp.json"), at(BaseDir::Project, ".cursor/mcp.json")],
        ..PLAIN
    },
    ClientApp {
        id: "antigravity",
        title: "Antigravity",
        remote: Some(RemoteForm::ServerUrl),
        path_markers: &["antigravity"],
        files: &[at(BaseDir::Home, ".gemini/antigravity/mcp_config.json")],
        ..PLAIN
    },
    ClientApp {
        id: "gemini",
        title: "Gemini CLI",
        remote: Some(RemoteForm::HttpUrl),
        timeout: Some(TimeoutUnit::CallMilliseconds),
        has_bare_variables: true,
        env: EnvForm::Reference("$", ""),
        path_markers: &[".gemini"],
        files: &[
            at(BaseDir::Home, ".gemini/settings.json"),
            at(BaseDir::Project, ".gemini/settings.json"),
        ],
        ..PLAIN
    },
    ClientApp {
        id: "qwen",
        title: "Qwen Code",
        remote: Some(RemoteForm::AlwaysLoadedHttpUrl),
        entry: EntryForm::AlwaysLoaded,
        timeout: Some(TimeoutUnit::CallMilliseconds),
        has_bare_variables: true,
        env: EnvForm::Reference("$", ""),
        path_markers: &[".qwen/"],
        files: &[
            at(BaseDir::Home, ".qwen/settings.json"),
            at(BaseDir::Project, ".qwen/settings.json"),
        ],
        ..PLAIN
    },
    ClientApp {
        id: "opencode",
        title: "opencode",
        remote: Some(RemoteForm::Remote),
        entry: EntryForm::CommandList,
        servers: &["mcp"],
        timeout: Some(TimeoutUnit::StartMilliseconds),
        path_markers: &["opencode"],
        files: &[
            at(BaseDir::Config, "opencode/opencode.json"),
            at(BaseDir::Config, "opencode/opencode.jsonc"),
            at(BaseDir::Project, "opencode.json"),
            at(BaseDir::Project, "opencode.jsonc"),
        ],
        ..PLAIN
    },
    ClientApp {
        id: "codex",
        title: "Codex",
        remote: Some(RemoteForm::HttpHeaders),
        syntax: FileSyntax::Toml,
        servers: &["mcp_servers"],
        entry: EntryForm::Required,
        env: EnvForm::Names,
        path_markers: &[".codex/", "codex/config.toml"],
        files: &[
            at(BaseDir::Variable("CODEX_HOME", ".codex"), "config.toml"),
            at(BaseDir::Project, ".codex/config.toml"),
        ],
        ..PLAIN
    },
    ClientApp {
        id: "warp",
        title: "Warp",
        path_markers: &[".warp/"],
        files: &[at(BaseDir::Home, ".warp/.mcp.json"), at(BaseDir::Project, ".warp/.mcp.json")],
        ..PLAIN
    },
    ClientApp {
        id: "claude-code",
        title: "Claude Code",
        remote: Some(RemoteForm::Typed("http")),
        path_markers: &[".claude.json", ".mcp.json", ".claude/"],
        files: &[
            at(BaseDir::Variable("CLAUDE_CONFIG_DIR", "."), ".claude.json"),
            at(BaseDir::Project, ".mcp.json"),
        ],
        ..PLAIN
    },
    ClientApp {
        id: "zed",
        title: "Zed",
        entry: EntryForm::Custom,
        servers: &["context_servers"],
        path_markers: &["zed/"],
        files: &[
            on(UNIX, BaseDir::Config, "zed/settings.json"),
            on(WINDOWS, BaseDir::Application, "Zed/settings.json"),
            at(BaseDir::Project, ".zed/settings.json"),
        ],
        ..PLAIN
    },
    ClientApp {
        id: "vscode",
        title: "VS Code",
        remote: Some(RemoteForm::Typed("http")),
        entry: EntryForm::Stdio,
        servers: &["servers"],
        path_markers: &[".vscode", "code/user", "code - insiders/user", "vscodium/user"],
        files: &[
            at(BaseDir::Application, "Code/User/mcp.json"),
            old(BaseDir::Application, "Code/User/settings.json"),
            at(BaseDir::Application, "Code - Insiders/User/mcp.json"),
            at(BaseDir::Application, "VSCodium/User/mcp.json"),
            at(BaseDir::Project, ".vscode/mcp.json"),
        ],
        ..PLAIN
    },
    ClientApp {
        id: "copilot-jetbrains",
        title: "Copilot for JetBrains",
        entry: EntryForm::Stdio,
        servers: &["servers"],
        path_markers: &["github-copilot/"],
        files: &[
            on(UNIX, BaseDir::Config, "github-copilot/intellij/mcp.json"),
            on(WINDOWS, BaseDir::LocalApplication, "github-copilot/intellij/mcp.json"),
        ],
        ..PLAIN
    },
    ClientApp {
        id: "copilot",
        title: "Copilot CLI",
        remote: Some(RemoteForm::Tools),
        entry: EntryForm::Local,
        path_markers: &[".copilot/", "mcp-config.json"],
        files: &[at(BaseDir::Home, ".copilot/mcp-config.json")],
        ..PLAIN
    },
    ClientApp {
        id: "continue",
        title: "Continue",
        remote: Some(RemoteForm::Options),
        has_list: true,
        syntax: FileSyntax::Yaml,
        path_markers: &[".continue/"],
        files: &[
            at(BaseDir::Home, ".continue/config.yaml"),
            old(BaseDir::Home, ".continue/config.json"),
            folder(BaseDir::Home, ".continue/mcpServers"),
            folder(BaseDir::Project, ".continue/mcpServers"),
        ],
        ..PLAIN
    },
    ClientApp {
        id: "goose",
        title: "Goose",
        remote: Some(RemoteForm::Extension),
        entry: EntryForm::Extension,
        syntax: FileSyntax::Yaml,
        servers: &["extensions"],
        timeout: Some(TimeoutUnit::CallSeconds),
        path_markers: &["goose/"],
        files: &[
            on(UNIX, BaseDir::Config, "goose/config.yaml"),
            on(WINDOWS, BaseDir::Application, "Block/goose/config/config.yaml"),
        ],
        ..PLAIN
    },
    ClientApp {
        id: "lm-studio",
        title: "LM Studio",
        remote: Some(RemoteForm::Plain),
        path_markers: &["lmstudio/", "lm-studio/"],
        files: &[
            at(BaseDir::Home, ".lmstudio/mcp.json"),
            at(BaseDir::Home, ".cache/lm-studio/mcp.json"),
        ],
        ..PLAIN
    },
    ClientApp {
        id: "kiro",
        title: "Kiro",
        remote: Some(RemoteForm::Plain),
        timeout: Some(TimeoutUnit::CallMilliseconds),
        path_markers: &[".kiro/"],
        files: &[
            at(BaseDir::Home, ".kiro/settings/mcp.json"),
            at(BaseDir::Project, ".kiro/settings/mcp.json"),
        ],
        ..PLAIN
    },
    ClientApp {
        id: "amp",
        title: "Amp",
        remote: Some(RemoteForm::Plain),
        servers: &["amp.mcpServers"],
        path_markers: &["amp/settings.json"],
        files: &[
            at(BaseDir::Config, "amp/settings.json"),
            at(BaseDir::Config, "amp/settings.jsonc"),
            at(BaseDir::Project, ".amp/settings.json"),
            at(BaseDir::Project, ".amp/settings.jsonc"),
        ],
        ..PLAIN
    },
    ClientApp {
        id: "amazon-q",
        title: "Amazon Q",
        timeout: Some(TimeoutUnit::CallMilliseconds),
        path_markers: &["amazonq/"],
        files: &[
            at(BaseDir::Home, ".aws/amazonq/mcp.json"),
            at(BaseDir::Project, ".amazonq/mcp.json"),
        ],
        ..PLAIN
    },
    ClientApp {
        id: "factory",
        title: "Factory Droid",
        remote: Some(RemoteForm::Typed("http")),
        entry: EntryForm::Stdio,
        path_markers: &[".factory/"],
        files: &[at(BaseDir::Home, ".factory/mcp.json"), at(BaseDir::Project, ".factory/mcp.json")],
        ..PLAIN
    },
    ClientApp {
        id: "junie",
        title: "Junie",
        path_markers: &[".junie/"],
        files: &[
            at(BaseDir::Home, ".junie/mcp/mcp.json"),
            at(BaseDir::Project, ".junie/mcp/mcp.json"),
        ],
        ..PLAIN
    },
    ClientApp {
        id: "crush",
        title: "Crush",
        remote: Some(RemoteForm::Typed("http")),
        entry: EntryForm::Stdio,
        servers: &["mcp"],
        timeout: Some(TimeoutUnit::CallSeconds),
        has_bare_variables: true,
        runs_commands: true,
        path_markers: &["crush.json"],
        files: &[
            at(BaseDir::Config, "crush/crush.json"),
            at(BaseDir::Project, ".crush.json"),
            at(BaseDir::Project, "crush.json"),
        ],
        ..PLAIN
    },
    ClientApp {
        id: "trae",
        title: "Trae",
        path_markers: &[".trae/", "trae/user"],
        files: &[
            at(BaseDir::Application, "Trae/User/mcp.json"),
            at(BaseDir::Project, ".trae/mcp.json"),
        ],
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

//! Derives a server's name from its command line: the package that `npx` or `uvx` runs, the module
//! after `python -m`, the image that `docker` runs, the path of a script, or the program itself.

use mcp_workbench_settings::Package;

/// Derives a server name, `server` if the command line is empty.
pub(crate) fn derive_server_name(line: &str) -> String {
    name_within(line, MAX_DEPTH).unwrap_or_else(|| "server".to_owned())
}

/// Maximum nesting of programs that run other programs.
const MAX_DEPTH: usize = 8;

fn name_within(line: &str, depth: usize) -> Option<String> {
    let unquoted = |word: &str| word.trim_matches(['"', '\'']).to_owned();
    let words =
        shlex::split(line).unwrap_or_else(|| line.split_whitespace().map(unquoted).collect());
    let mut commands: Vec<Vec<&str>> = vec![Vec::new()];
    for word in &words {
        let bare = word.trim_end_matches(';');
        if let Some(command) = commands.last_mut().filter(|_| !is_operator(bare)) {
            command.push(bare);
        }
        if bare.len() < word.len() || is_operator(bare) {
            commands.push(Vec::new());
        }
    }
    let mut folder = None;
    for command in &commands {
        if let ["cd", path, ..] = command.as_slice() {
            folder = Some(*path);
        } else if let Some(name) = of_command(command, depth) {
            return Some(or_folder(name, folder));
        }
    }
    None
}

fn is_operator(word: &str) -> bool {
    matches!(word, "" | "&&" | "||" | "|" | "&")
}

/// Falls back to the working directory's name if `name` is generic.
fn or_folder(name: String, folder: Option<&str>) -> String {
    if is_distinctive(&name) {
        return name;
    }
    folder.and_then(of_path).filter(|folder| is_distinctive(folder)).unwrap_or(name)
}

/// A program that runs another program.
struct Runner {
    names: &'static [&'static str],
    /// Words before the target, such as `run`.
    verbs: &'static [&'static str],
    /// Flags with a value that isn't the target.
    value_flags: &'static [&'static str],
    /// Flags whose value is the target.
    target_flags: &'static [&'static str],
    starts: TargetKind,
}

#[derive(Clone, Copy)]
enum TargetKind {
    Npm,
    Python,
    /// A script file or folder.
    Script,
    Image,
    /// A command line in one argument.
    Line,
    /// A command line in the remaining arguments.
    Command,
}

const RUNNERS: &[Runner] = &[
    Runner {
        names: &["npx", "bunx", "pnpx", "pnpm", "yarn", "npm", "bun"],
        verbs: &["exec", "dlx", "x", "run", "--"],
        value_flags: &["--registry", "--prefix", "-C", "--dir", "--cwd", "--cache", "--userconfig"],
        target_flags: &["-p", "--package"],
        starts: TargetKind::Npm,
    },
    Runner {
        names: &["uvx", "pipx"],
        verbs: &["run", "--"],
        value_flags: &[
            "--with",
            "--python",
            "-p",
            "--index",
            "--index-url",
            "--default-index",
            "--pip-args",
            "--directory",
            "--project",
            "--env-file",
        ],
        target_flags: &["--from", "--spec"],
        starts: TargetKind::Python,
    },
    Runner {
        names: &["uv", "poetry", "pdm", "hatch", "rye", "pixi", "mise", "xargs"],
        verbs: &["run", "tool", "--"],
        value_flags: &[
            "--directory",
            "--project",
            "--with",
            "--python",
            "-p",
            "--index",
            "--index-url",
            "--default-index",
            "--env-file",
            "--group",
            "--extra",
            "-C",
        ],
        target_flags: &["--from"],
        starts: TargetKind::Command,
    },
    Runner {
        names: &["python", "pypy", "py"],
        verbs: &[],
        value_flags: &["-W", "-X"],
        target_flags: &["-m"],
        starts: TargetKind::Script,
    },
    Runner {
        names: &["node", "deno", "tsx", "ts-node", "ruby", "perl", "php", "java", "dotnet", "go"],
        verbs: &["run", "exec"],
        value_flags: &["-r", "--require", "--import", "--loader", "--env-file", "-I", "--config"],
        target_flags: &["-jar", "--project"],
        starts: TargetKind::Script,
    },
    Runner {
        names: &["cargo"],
        verbs: &["run"],
        value_flags: &["--manifest-path", "--features", "-F", "--profile", "--target"],
        target_flags: &["-p", "--package", "--bin", "--example"],
        starts: TargetKind::Script,
    },
    Runner {
        names: &["docker", "podman", "nerdctl"],
        verbs: &["run", "container"],
        value_flags: &[],
        target_flags: &[],
        starts: TargetKind::Image,
    },
    Runner {
        names: &["sh", "bash", "zsh", "dash", "cmd", "pwsh", "powershell"],
        verbs: &[],
        value_flags: &["-o"],
        target_flags: &["-c", "-lc", "/c", "-Command"],
        starts: TargetKind::Line,
    },
    Runner {
        names: &["env", "exec", "nohup", "sudo", "nice", "time", "stdbuf", "timeout", "command"],
        verbs: &["--"],
        value_flags: &["-u", "-n", "-C"],
        target_flags: &["-S"],
        starts: TargetKind::Command,
    },
];

/// Shell builtins that only prepare the environment.
const PREPARING: &[&str] = &["export", "source", ".", "set", "unset", "ulimit", "umask"];

fn of_command(words: &[&str], depth: usize) -> Option<String> {
    let start = words.iter().position(|word| !is_assignment(word))?;
    let (program, rest) = words.get(start..)?.split_first()?;
    if PREPARING.contains(program) || depth == 0 {
        return None;
    }
    let itself = || of_path(program);
    let Some(runner) = runner(program) else { return itself() };
    runner.target_name(rest, depth).or_else(itself)
}

/// Finds the runner of a program, ignoring a version suffix as in `python3.11`.
fn runner(program: &str) -> Option<&'static Runner> {
    let called = stem(program.rsplit(['/', '\\']).next().unwrap_or(program));
    let bare = called.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    RUNNERS.iter().find(|runner| runner.names.contains(&called) || runner.names.contains(&bare))
}

impl Runner {
    /// Derives the name of the target from the runner's arguments.
    fn target_name(&self, words: &[&str], depth: usize) -> Option<String> {
        if matches!(self.starts, TargetKind::Image) {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            if let Some(image) = Package::of("docker", &words) {
                return of_image(&image.spec);
            }
        }
        let mut verbs = self.verbs;
        let mut folder = None;
        let mut at = 0;
        while let Some(word) = words.get(at) {
            let (flag, joined) = match word.split_once('=') {
                Some((flag, value)) if word.starts_with('-') => (flag, Some(value)),
                _ => (*word, None),
            };
            let value = || joined.or_else(|| words.get(at + 1).copied());
            if self.target_flags.contains(&flag) {
                return self.named(value()?, depth);
            }
            if matches!(flag, "--directory" | "--project" | "-C") {
                folder = value();
            }
            if self.value_flags.contains(&flag) {
                at += if joined.is_some() { 1 } else { 2 };
            } else if flag.starts_with('-') && *word != "-" || is_assignment(word) {
                at += 1;
            } else if verbs.contains(word) {
                at += 1;
                verbs = if matches!(*word, "tool" | "container") { verbs } else { &["--"] };
            } else if matches!(self.starts, TargetKind::Command) || runner(word).is_some() {
                let name = of_command(words.get(at..)?, depth - 1)?;
                return Some(or_folder(name, folder));
            } else {
                return self.named(word, depth).map(|name| or_folder(name, folder));
            }
        }
        None
    }

    fn named(&self, what: &str, depth: usize) -> Option<String> {
        match self.starts {
            TargetKind::Npm => of_npm(what),
            TargetKind::Python | TargetKind::Command if !is_path(what) => of_python(what),
            TargetKind::Image => of_image(what),
            TargetKind::Line => name_within(what, depth - 1),
            // `python -m package.module`.
            TargetKind::Script if !is_path(what) && stem(what) == what => {
                what.split('.').rev().find(|part| is_distinctive(part)).map(str::to_owned)
            }
            TargetKind::Python | TargetKind::Command | TargetKind::Script => of_path(what),
        }
    }
}

fn of_npm(package: &str) -> Option<String> {
    if is_path(package) && !package.starts_with('@') {
        return of_path(package);
    }
    let bare = match package.rsplit_once('@') {
        Some((bare, _)) if !bare.is_empty() => bare,
        _ => package,
    };
    let (scope, name) = bare.trim_start_matches('@').split_once('/').unwrap_or(("", bare));
    let name = stem(name);
    [name, scope, name]
        .into_iter()
        .find(|part| is_distinctive(part))
        .or(Some(name))
        .map(str::to_owned)
}

fn of_python(package: &str) -> Option<String> {
    let bare = package.split(['@', '[', '=', '<', '>', '~', '!', ' ']).next()?;
    (!bare.is_empty()).then(|| bare.to_owned())
}

fn of_image(image: &str) -> Option<String> {
    let image = image.split('@').next()?;
    let parts = image.rsplit('/').map(|part| part.split(':').next().unwrap_or(part));
    let first = parts.clone().next().filter(|part| !part.is_empty())?;
    let telling = parts.clone().find(|part| is_distinctive(part) && !part.contains('.'));
    Some(telling.unwrap_or(first).to_owned())
}

/// Returns the last distinctive component of a path or URL.
fn of_path(path: &str) -> Option<String> {
    let path = path.split_once("://").map_or(path, |(_, rest)| rest);
    let path = path.split(['#', '?']).next().unwrap_or(path);
    let path = path.split_once('@').map_or(path, |(before, _)| {
        // Drop a Git revision as in `repo@v1`, but keep the `@` of a package scope.
        if before.is_empty() || before.ends_with('/') { path } else { before }
    });
    let parts = || path.rsplit(['/', '\\']).map(stem).filter(|part| !part.is_empty());
    let telling = parts().find(|part| is_distinctive(part) && !part.starts_with('@'));
    let plain = || parts().find(|part| part.contains(char::is_alphanumeric));
    telling.or_else(plain).map(str::to_owned)
}

fn is_path(word: &str) -> bool {
    word.contains(['/', '\\'])
}

fn is_assignment(word: &str) -> bool {
    let is_name = |name: &str| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    word.split_once('=').is_some_and(|(name, _)| is_name(name))
}

fn stem(part: &str) -> &str {
    const ENDINGS: [&str; 15] = [
        ".js", ".mjs", ".cjs", ".ts", ".mts", ".py", ".sh", ".rb", ".php", ".jar", ".dll", ".exe",
        ".cmd", ".bat", ".git",
    ];
    ENDINGS.iter().find_map(|ending| part.strip_suffix(ending)).unwrap_or(part)
}

/// Returns `true` if a path component distinguishes one server from another.
fn is_distinctive(part: &str) -> bool {
    let is_version = |part: &str| {
        let digits = part.strip_prefix('v').unwrap_or(part);
        !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | '_'))
    };
    part.contains(char::is_alphanumeric)
        && !part.contains(['$', '{', '}'])
        && !is_version(part)
        && !GENERIC.contains(&part.to_lowercase().as_str())
}

/// Generic names: launchers, entry points, and standard directories.
const GENERIC: &[&str] = &[
    "node",
    "npx",
    "npm",
    "tsx",
    "bun",
    "deno",
    "run",
    "python",
    "python3",
    "uv",
    "sh",
    "bash",
    "env",
    "index",
    "main",
    "__main__",
    "__init__",
    "server",
    "mcp",
    "mcp-server",
    "mcp_server",
    "cli",
    "app",
    "start",
    "build",
    "dist",
    "out",
    "src",
    "bin",
    "lib",
    "libexec",
    "cmd",
    "scripts",
    "target",
    "release",
    "debug",
    "node_modules",
    ".bin",
    "site-packages",
    "versions",
    "current",
    ".venv",
    "venv",
    "usr",
    "local",
    "opt",
    "home",
    "users",
    "root",
    "var",
    "tmp",
    "etc",
    "share",
    "stdio",
    "latest",
    "go",
    "java",
    "docker",
    "library",
];

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn derives_name_from_package_script_or_image() {
        for (line, name) in [
            ("node /path/to/standalone-tool/index.js", "standalone-tool"),
            ("node /path/to/vecbook/build/index.js --stdio", "vecbook"),
            ("/usr/bin/node --import tsx /srv/notes/src/main.ts", "notes"),
            ("/usr/bin/env node /opt/mail/server.js", "mail"),
            ("/home/me/.pyenv/versions/3.11.7/bin/python -m mcp_server_time", "mcp_server_time"),
            ("/home/me/.pyenv/versions/3.11.7/bin/python3.11 -u /srv/weather/server.py", "weather"),
            ("python -m weather.server --port 1", "weather"),
            ("npx -y @upstash/context7-mcp@latest", "context7-mcp"),
            ("npx -y @playwright/mcp@0.0.30 --headless", "playwright"),
            ("npx --registry http://127.0.0.1:1 -y files-mcp /data", "files-mcp"),
            ("npx -y -p @scope/tools tools-server", "tools"),
            ("npm exec --yes -- @modelcontextprotocol/server-memory", "server-memory"),
            ("pnpm dlx github:owner/repo", "repo"),
            ("npx -y tsx /srv/mail/src/index.ts", "mail"),
            ("bun run ./servers/clock/index.ts", "clock"),
            ("uvx mcp-server-git --repository .", "mcp-server-git"),
            ("uvx --from git+https://example.com/owner/serena@v1 serena start", "serena"),
            ("uvx --python 3.12 markitdown-mcp==0.1.1", "markitdown-mcp"),
            ("uvx --with x mcp-proxy[cli]@latest", "mcp-proxy"),
            ("pipx run mcp-server-fetch", "mcp-server-fetch"),
            ("uv --directory /home/me/weather run server.py", "weather"),
            ("uv run --project x python -m notes", "notes"),
            ("uv tool run mcp-server-sqlite", "mcp-server-sqlite"),
            (
                "docker run -i --rm -e TOKEN -v /a:/b ghcr.io/github/github-mcp-server:1.2",
                "github-mcp-server",
            ),
            ("docker run --network=host mcp/fetch@sha256:00", "fetch"),
            ("docker run -i example.com/team/mcp-server", "team"),
            ("java -jar /opt/tools/atlas.jar", "atlas"),
            ("cargo run --release -p desk -- serve", "desk"),
            ("go run ./cmd/search", "search"),
            ("cd /srv/x && TOKEN=$T node build/index.js", "x"),
            ("sh -c 'cd a; exec npx -y kept-mcp'", "kept-mcp"),
            ("TOKEN=x /opt/atlas/bin/server --stdio", "atlas"),
            ("mcp-workbench builtin clock", "mcp-workbench"),
            ("./server.sh", "server"),
            ("/usr/bin/node", "node"),
            ("A=$B node", "node"),
            ("npx", "npx"),
            ("docker run", "docker"),
            ("'unclosed", "unclosed"),
            ("", "server"),
        ] {
            assert_eq!(derive_server_name(line), name, "{line}");
        }
    }

    #[test]
    fn nested_launchers_stop_at_the_depth_limit() {
        let line = format!("{} x", "env ".repeat(10_000));
        assert_eq!(derive_server_name(&line), "env");
        assert_eq!(derive_server_name(&"sh -c ".repeat(1_000)), "sh");
    }
}

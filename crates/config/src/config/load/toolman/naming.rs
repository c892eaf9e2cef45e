//! A name for a server that has none: what is telling in the command line that starts it.
//!
//! That is the package that `npx` or `uvx` runs, the module after `python -m`, the image that docker
//! runs, the file of a script, and else the program itself.

/// Returns a name for the server that a command line starts.
pub(crate) fn name_of(line: &str) -> String {
    name_within(line, MAX_DEPTH).unwrap_or_else(|| "server".to_owned())
}

/// How many programs that start others are looked through.
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

/// The name, or the folder in which it runs if the name says nothing.
fn or_folder(name: String, folder: Option<&str>) -> String {
    if is_telling(&name) {
        return name;
    }
    folder.and_then(of_path).filter(|folder| is_telling(folder)).unwrap_or(name)
}

/// A program that starts another, and how it is told which.
struct Runner {
    /// The names of the program.
    names: &'static [&'static str],
    /// Words that may stand before what is started, such as `run`.
    verbs: &'static [&'static str],
    /// Flags whose value is not what is started.
    valued: &'static [&'static str],
    /// Flags whose value says what is started.
    telling: &'static [&'static str],
    starts: Starts,
}

/// The kind of thing that a program starts.
#[derive(Clone, Copy)]
enum Starts {
    /// A package of npm.
    Npm,
    /// A package of Python.
    Python,
    /// A file, or a folder.
    Script,
    /// The image of a container.
    Image,
    /// A command line of its own, in one word.
    Line,
    /// A command line of its own, in the words that follow.
    Command,
}

const RUNNERS: &[Runner] = &[
    Runner {
        names: &["npx", "bunx", "pnpx", "pnpm", "yarn", "npm", "bun"],
        verbs: &["exec", "dlx", "x", "run", "--"],
        valued: &["--registry", "--prefix", "-C", "--dir", "--cwd", "--cache", "--userconfig"],
        telling: &["-p", "--package"],
        starts: Starts::Npm,
    },
    Runner {
        names: &["uvx", "pipx"],
        verbs: &["run", "--"],
        valued: &[
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
        telling: &["--from", "--spec"],
        starts: Starts::Python,
    },
    Runner {
        names: &["uv", "poetry", "pdm", "hatch", "rye", "pixi", "mise", "xargs"],
        verbs: &["run", "tool", "--"],
        valued: &[
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
        telling: &["--from"],
        starts: Starts::Command,
    },
    Runner {
        names: &["python", "pypy", "py"],
        verbs: &[],
        valued: &["-W", "-X"],
        telling: &["-m"],
        starts: Starts::Script,
    },
    Runner {
        names: &["node", "deno", "tsx", "ts-node", "ruby", "perl", "php", "java", "dotnet", "go"],
        verbs: &["run", "exec"],
        valued: &["-r", "--require", "--import", "--loader", "--env-file", "-I", "--config"],
        telling: &["-jar", "--project"],
        starts: Starts::Script,
    },
    Runner {
        names: &["cargo"],
        verbs: &["run"],
        valued: &["--manifest-path", "--features", "-F", "--profile", "--target"],
        telling: &["-p", "--package", "--bin", "--example"],
        starts: Starts::Script,
    },
    Runner {
        names: &["docker", "podman", "nerdctl"],
        verbs: &["run", "container"],
        valued: &[
            "-e",
            "--env",
            "--env-file",
            "-v",
            "--volume",
            "--mount",
            "--name",
            "--network",
            "--net",
            "-p",
            "--publish",
            "-w",
            "--workdir",
            "-u",
            "--user",
            "--platform",
            "--entrypoint",
            "--add-host",
            "--label",
            "-l",
            "--memory",
            "-m",
            "--cpus",
            "--pull",
            "--gpus",
            "-h",
            "--hostname",
        ],
        telling: &[],
        starts: Starts::Image,
    },
    Runner {
        names: &["sh", "bash", "zsh", "dash", "cmd", "pwsh", "powershell"],
        verbs: &[],
        valued: &["-o"],
        telling: &["-c", "-lc", "/c", "-Command"],
        starts: Starts::Line,
    },
    Runner {
        names: &["env", "exec", "nohup", "sudo", "nice", "time", "stdbuf", "timeout", "command"],
        verbs: &["--"],
        valued: &["-u", "-n", "-C"],
        telling: &["-S"],
        starts: Starts::Command,
    },
];

/// Words of a shell that start nothing.
const PREPARING: &[&str] = &["export", "source", ".", "set", "unset", "ulimit", "umask"];

fn of_command(words: &[&str], depth: usize) -> Option<String> {
    let start = words.iter().position(|word| !is_assignment(word))?;
    let (program, rest) = words.get(start..)?.split_first()?;
    if PREPARING.contains(program) || depth == 0 {
        return None;
    }
    let itself = || of_path(program);
    let Some(runner) = runner(program) else { return itself() };
    runner.started(rest, depth).or_else(itself)
}

/// The runner that a program is, whichever version of it.
fn runner(program: &str) -> Option<&'static Runner> {
    let called = stem(program.rsplit(['/', '\\']).next().unwrap_or(program));
    let bare = called.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    RUNNERS.iter().find(|runner| runner.names.contains(&called) || runner.names.contains(&bare))
}

impl Runner {
    /// The name of what it starts, by the words after its own name.
    fn started(&self, words: &[&str], depth: usize) -> Option<String> {
        let mut verbs = self.verbs;
        let mut folder = None;
        let mut at = 0;
        while let Some(word) = words.get(at) {
            let (flag, joined) = match word.split_once('=') {
                Some((flag, value)) if word.starts_with('-') => (flag, Some(value)),
                _ => (*word, None),
            };
            let value = || joined.or_else(|| words.get(at + 1).copied());
            if self.telling.contains(&flag) {
                return self.named(value()?, depth);
            }
            if matches!(flag, "--directory" | "--project" | "-C") {
                folder = value();
            }
            if self.valued.contains(&flag) {
                at += if joined.is_some() { 1 } else { 2 };
            } else if flag.starts_with('-') && *word != "-" || is_assignment(word) {
                at += 1;
            } else if verbs.contains(word) {
                at += 1;
                verbs = if matches!(*word, "tool" | "container") { verbs } else { &["--"] };
            } else if matches!(self.starts, Starts::Command) || runner(word).is_some() {
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
            Starts::Npm => of_npm(what),
            Starts::Python | Starts::Command if !is_path(what) => of_python(what),
            Starts::Image => of_image(what),
            Starts::Line => name_within(what, depth - 1),
            // `-m package.module`
            Starts::Script if !is_path(what) && stem(what) == what => {
                what.split('.').rev().find(|part| is_telling(part)).map(str::to_owned)
            }
            Starts::Python | Starts::Command | Starts::Script => of_path(what),
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
    [name, scope, name].into_iter().find(|part| is_telling(part)).or(Some(name)).map(str::to_owned)
}

fn of_python(package: &str) -> Option<String> {
    let bare = package.split(['@', '[', '=', '<', '>', '~', '!', ' ']).next()?;
    (!bare.is_empty()).then(|| bare.to_owned())
}

fn of_image(image: &str) -> Option<String> {
    let image = image.split('@').next()?;
    let parts = image.rsplit('/').map(|part| part.split(':').next().unwrap_or(part));
    let first = parts.clone().next().filter(|part| !part.is_empty())?;
    let telling = parts.clone().find(|part| is_telling(part) && !part.contains('.'));
    Some(telling.unwrap_or(first).to_owned())
}

/// The last part of a path, or of an address, that says something.
fn of_path(path: &str) -> Option<String> {
    let path = path.split_once("://").map_or(path, |(_, rest)| rest);
    let path = path.split(['#', '?']).next().unwrap_or(path);
    let path = path.split_once('@').map_or(path, |(before, _)| {
        // The version of what comes from a repository, but not the scope of a package.
        if before.is_empty() || before.ends_with('/') { path } else { before }
    });
    let parts = || path.rsplit(['/', '\\']).map(stem).filter(|part| !part.is_empty());
    let telling = parts().find(|part| is_telling(part) && !part.starts_with('@'));
    let plain = || parts().find(|part| part.contains(char::is_alphanumeric));
    telling.or_else(plain).map(str::to_owned)
}

fn is_path(word: &str) -> bool {
    word.contains(['/', '\\'])
}

/// Returns true for a word that sets a variable.
fn is_assignment(word: &str) -> bool {
    let is_name = |name: &str| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    word.split_once('=').is_some_and(|(name, _)| is_name(name))
}

/// A part of a path without the ending of a program.
fn stem(part: &str) -> &str {
    const ENDINGS: [&str; 15] = [
        ".js", ".mjs", ".cjs", ".ts", ".mts", ".py", ".sh", ".rb", ".php", ".jar", ".dll", ".exe",
        ".cmd", ".bat", ".git",
    ];
    ENDINGS.iter().find_map(|ending| part.strip_suffix(ending)).unwrap_or(part)
}

/// Returns true if a part of a path tells one server from another.
fn is_telling(part: &str) -> bool {
    let is_version = |part: &str| {
        let digits = part.strip_prefix('v').unwrap_or(part);
        !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | '_'))
    };
    part.contains(char::is_alphanumeric)
        && !part.contains(['$', '{', '}'])
        && !is_version(part)
        && !GENERIC.contains(&part.to_lowercase().as_str())
}

/// Names that say nothing: of programs that run others, of files that every program has, and of
/// folders that every machine has.
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
    fn a_name_is_made_of_what_is_telling() {
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
            assert_eq!(name_of(line), name, "{line}");
        }
    }

    #[test]
    fn a_line_that_starts_itself_over_and_over_has_a_name() {
        let line = format!("{} x", "env ".repeat(10_000));
        assert_eq!(name_of(&line), "env");
        assert_eq!(name_of(&"sh -c ".repeat(1_000)), "sh");
    }
}

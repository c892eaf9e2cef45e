//! Detects the package that a command line such as `npx -y a-server` would download and run.
//!
//! Only the arguments are inspected; no registry is queried.

mod runner_command;

pub use crate::package::runner_command::{RunnerCommand, UnusualCommand};

/// A package that a server is started from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Package {
    pub ecosystem: Ecosystem,
    /// The program that downloads it, such as `npx`.
    pub runner: &'static str,
    /// Name without version, such as `@scope/name` or `ghcr.io/owner/image`.
    pub name: String,
    pub requested: VersionRequest,
    /// The package argument as written.
    pub spec: String,
}

/// The registry of a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ecosystem {
    Npm,
    PyPi,
    /// Container images.
    Image,
}

/// The version that a command line requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum VersionRequest {
    /// Unspecified or `latest`.
    Latest,
    /// A range, or a tag that can move.
    Floating(String),
    /// An exact version. Registries don't let it be replaced, except that image tags can be.
    Version(String),
    /// The digest of an image.
    Digest(String),
    /// Not from the registry: a URL, a repository or a folder.
    NotFromRegistry(String),
}

impl Ecosystem {
    pub const ALL: [Self; 3] = [Self::Npm, Self::PyPi, Self::Image];

    /// Returns the name used in reports and files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Npm => "npm",
            Self::PyPi => "pypi",
            Self::Image => "image",
        }
    }
}

impl Package {
    /// Returns the package that `command` with `args` would download and run. `None` if it
    /// downloads none, or if the package can't be determined.
    pub fn of(command: &str, args: &[String]) -> Option<Self> {
        let words: Vec<&str> = args.iter().map(String::as_str).collect();
        match (program(command).as_str(), words.as_slice()) {
            // On Windows, entries start `.cmd` scripts through the shell.
            ("cmd", [first, inner, rest @ ..]) if first.eq_ignore_ascii_case("/c") => {
                let rest: Vec<String> = rest.iter().map(|&word| word.to_owned()).collect();
                Self::of(inner, &rest)
            }
            ("npx", words) => npm("npx", words),
            ("npm", ["exec" | "x", rest @ ..]) => npm("npm exec", rest),
            ("bunx", words) => npm("bunx", words),
            ("bun", ["x", rest @ ..]) => npm("bunx", rest),
            ("pnpx", words) => npm("pnpm dlx", words),
            ("pnpm", ["dlx", rest @ ..]) => npm("pnpm dlx", rest),
            ("yarn", ["dlx", rest @ ..]) => npm("yarn dlx", rest),
            ("uvx", words) => python("uvx", words, "--from"),
            ("uv", ["tool", "run", rest @ ..]) => python("uvx", rest, "--from"),
            ("pipx", ["run", rest @ ..]) => python("pipx run", rest, "--spec"),
            ("docker", words) => image("docker run", words),
            ("podman", words) => image("podman run", words),
            _ => None,
        }
    }

    /// Returns the package for the image of a container.
    pub fn of_image(spec: &str) -> Self {
        image_named("docker run", spec)
    }

    /// Returns `true` if the next start can run another version although the entry is unchanged.
    pub fn is_unpinned(&self) -> bool {
        matches!(self.requested, VersionRequest::Latest | VersionRequest::Floating(_))
    }

    /// Returns the replacement for [`spec`](Self::spec) that pins `version`.
    pub fn pinned(&self, version: &str) -> String {
        let Self { ecosystem, runner, name, spec, .. } = self;
        match ecosystem {
            Ecosystem::Npm => format!("{name}@{version}"),
            // Keep extras such as `[cli]`.
            Ecosystem::PyPi => {
                let end = spec.find(']').map_or(name.len(), |end| end + 1);
                let with_extras = spec.get(..end).filter(|s| s.starts_with(name.as_str()));
                let sign = if *runner == "uvx" && with_extras == Some(name) { "@" } else { "==" };
                format!("{}{sign}{version}", with_extras.unwrap_or(name))
            }
            Ecosystem::Image => format!("{name}:{version}"),
        }
    }
}

/// Returns the lowercase program name without its folder and Windows extension.
fn program(command: &str) -> String {
    let name = command.rsplit(['/', '\\']).next().unwrap_or(command).to_ascii_lowercase();
    let ends = [".exe", ".cmd", ".bat", ".ps1"];
    let end = ends.iter().find_map(|end| name.strip_suffix(end));
    end.map(str::to_owned).unwrap_or(name)
}

/// Options of npm runners whose value is the next word.
const NPM_VALUES: &[&str] = &[
    "--prefix",
    "--registry",
    "--cache",
    "--userconfig",
    "--loglevel",
    "--workspace",
    "-w",
    "--dir",
    "-C",
    "--script-shell",
    "--node-options",
];

fn npm(runner: &'static str, words: &[&str]) -> Option<Package> {
    let mut words = words.iter();
    let mut is_call = false;
    while let Some(&word) = words.next() {
        match word {
            "--" => return words.next().map(|spec| npm_named(runner, spec)),
            "-p" | "--package" => return words.next().map(|spec| npm_named(runner, spec)),
            "-c" | "--call" => {
                is_call = true;
                words.next()?;
            }
            word if NPM_VALUES.contains(&word) => {
                words.next()?;
            }
            word if word.starts_with('-') => {
                if let Some(spec) = word.strip_prefix("--package=") {
                    return Some(npm_named(runner, spec));
                }
            }
            // With `--call` the command is a shell line, so this word isn't a package.
            _ if is_call => return None,
            spec => return Some(npm_named(runner, spec)),
        }
    }
    None
}

fn npm_named(runner: &'static str, spec: &str) -> Package {
    let of = |name: &str, requested| Package {
        ecosystem: Ecosystem::Npm,
        runner,
        name: name.to_owned(),
        requested,
        spec: spec.to_owned(),
    };
    // Skip the first character: it can be the `@` of a scope.
    let at = spec.char_indices().skip(1).find(|(_, c)| *c == '@').map(|(at, _)| at);
    let (name, version) = at.map_or((spec, ""), |at| (&spec[..at], &spec[at + 1..]));
    let slashes = name.matches('/').count();
    let is_name = !name.starts_with(['.', '/', '~'])
        && !name.contains([':', '#', '\\'])
        && (slashes == 0 || slashes == 1 && name.starts_with('@'));
    if !is_name || version.contains([':', '/', '#']) {
        return of(name, VersionRequest::NotFromRegistry(spec.to_owned()));
    }
    of(
        name,
        match version {
            "" | "latest" | "*" | "x" => VersionRequest::Latest,
            version if is_exact(version.trim_start_matches(['=', 'v'])) => {
                VersionRequest::Version(version.trim_start_matches(['=', 'v']).to_owned())
            }
            version => VersionRequest::Floating(version.to_owned()),
        },
    )
}

/// Returns `true` for a complete semantic version, such as `1.2.3-rc.1`.
fn is_exact(version: &str) -> bool {
    let release = version.split(['-', '+']).next().unwrap_or_default();
    let numbers: Vec<&str> = release.split('.').collect();
    let is_number = |n: &&str| !n.is_empty() && n.bytes().all(|byte| byte.is_ascii_digit());
    numbers.len() == 3 && numbers.iter().all(is_number) && !version.contains([' ', '|', '*'])
}

/// Options of `uvx` and `pipx run` whose value is the next word.
const PYTHON_VALUES: &[&str] = &[
    "--with",
    "-w",
    "--with-editable",
    "--with-requirements",
    "--python",
    "-p",
    "--index",
    "--index-url",
    "-i",
    "--default-index",
    "--extra-index-url",
    "--find-links",
    "-f",
    "--constraints",
    "--constraint",
    "-c",
    "--build-constraints",
    "-b",
    "--overrides",
    "--env-file",
    "--directory",
    "--project",
    "--cache-dir",
    "--config-file",
    "--exclude-newer",
    "--index-strategy",
    "--keyring-provider",
    "--resolution",
    "--prerelease",
    "--color",
    "--link-mode",
    "--refresh-package",
    "--upgrade-package",
    "-P",
    "--reinstall-package",
    "--allow-insecure-host",
    "--python-platform",
    "--torch-backend",
    "--config-setting",
    "-C",
    "--pip-args",
    "--python-preference",
    "--no-binary-package",
    "--no-build-package",
];

fn python(runner: &'static str, words: &[&str], from: &str) -> Option<Package> {
    let mut words = words.iter();
    while let Some(&word) = words.next() {
        if word == from {
            return words.next().map(|spec| python_named(runner, spec));
        }
        if let Some(spec) = word.strip_prefix(from).and_then(|rest| rest.strip_prefix('=')) {
            return Some(python_named(runner, spec));
        }
        match word {
            "--" => return words.next().map(|spec| python_named(runner, spec)),
            word if PYTHON_VALUES.contains(&word) => {
                words.next()?;
            }
            word if word.starts_with('-') => {}
            spec => return Some(python_named(runner, spec)),
        }
    }
    None
}

fn python_named(runner: &'static str, spec: &str) -> Package {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let end = spec.find(|c| !is_part(c)).unwrap_or(spec.len());
    let (name, rest) = spec.split_at(end);
    let of = |requested| Package {
        ecosystem: Ecosystem::PyPi,
        runner,
        name: name.to_owned(),
        requested,
        spec: spec.to_owned(),
    };
    let is_name = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if !is_name || rest.contains("://") || rest.starts_with(['/', '\\', ':', '+']) {
        return of(VersionRequest::NotFromRegistry(spec.to_owned()));
    }
    // Extras and environment markers don't affect the version.
    let rest =
        rest.strip_prefix('[').and_then(|rest| Some(rest.split_once(']')?.1)).unwrap_or(rest);
    let rest = rest.split(';').next().unwrap_or_default().trim();
    let exact =
        rest.strip_prefix("===").or_else(|| rest.strip_prefix("==")).or(rest.strip_prefix('@'));
    of(match exact.map(str::trim) {
        Some("latest") => VersionRequest::Latest,
        Some(version) if !version.contains(['*', ',', ' ', '<', '>']) => {
            VersionRequest::Version(version.to_owned())
        }
        _ if rest.is_empty() => VersionRequest::Latest,
        _ => VersionRequest::Floating(rest.to_owned()),
    })
}

/// Options of `docker run` without a value. Any other option takes the next word.
const IMAGE_FLAGS: &[&str] = &[
    "--rm",
    "--init",
    "--privileged",
    "--read-only",
    "--interactive",
    "--tty",
    "--detach",
    "--no-healthcheck",
    "--oom-kill-disable",
    "--publish-all",
    "--quiet",
    "--sig-proxy",
    "--disable-content-trust",
    "--replace",
    "--no-hosts",
    "--debug",
    "--tls",
    "--tlsverify",
    "--http-proxy",
    "--remote",
];
/// Short options without a value.
const IMAGE_LETTERS: &str = "itdPqD";

fn image(runner: &'static str, words: &[&str]) -> Option<Package> {
    let mut words = words.iter();
    let mut runs = false;
    while let Some(&word) = words.next() {
        match word {
            // `docker container run` is the same command.
            "container" if !runs => {}
            "run" if !runs => runs = true,
            word if word.starts_with("--") => {
                if !word.contains('=') && !IMAGE_FLAGS.contains(&word) {
                    words.next()?;
                }
            }
            word if word.len() > 1 && word.starts_with('-') => {
                let mut letters = word.chars().skip(1).skip_while(|c| IMAGE_LETTERS.contains(*c));
                // An option with a value takes the rest of this word, or else the next word.
                if letters.next().is_some() && letters.next().is_none() {
                    words.next()?;
                }
            }
            spec if runs => return Some(image_named(runner, spec)),
            _ => return None,
        }
    }
    None
}

fn image_named(runner: &'static str, spec: &str) -> Package {
    let (tagged, digest) = spec.split_once('@').map_or((spec, None), |(a, b)| (a, Some(b)));
    // A colon before the last slash belongs to the port of the registry.
    let slash = tagged.rfind('/').map_or(0, |at| at + 1);
    let (name, tag) = match tagged[slash..].split_once(':') {
        Some((last, tag)) => (&tagged[..slash + last.len()], Some(tag)),
        None => (tagged, None),
    };
    let requested = match (digest, tag) {
        (Some(digest), _) => VersionRequest::Digest(digest.to_owned()),
        (None, None | Some("latest")) => VersionRequest::Latest,
        (None, Some(tag)) if tag.contains(|c: char| c.is_ascii_digit()) => {
            VersionRequest::Version(tag.to_owned())
        }
        (None, Some(tag)) => VersionRequest::Floating(tag.to_owned()),
    };
    let (name, spec) = (name.to_owned(), spec.to_owned());
    Package { ecosystem: Ecosystem::Image, runner, name, requested, spec }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn package(line: &str) -> Option<Package> {
        let mut words = line.split(' ').map(str::to_owned);
        let command = words.next()?;
        Package::of(&command, &words.collect::<Vec<_>>())
    }

    #[test]
    fn package_is_detected_from_the_command_line() {
        use VersionRequest::{Digest, Floating, Latest, NotFromRegistry, Version};
        let text = str::to_owned;
        for (line, name, requested) in [
            ("npx -y @a/b", "@a/b", Latest),
            ("npx -y @a/b@1.2.3 --port 1", "@a/b", Version(text("1.2.3"))),
            ("npx b@latest", "b", Latest),
            ("npx b@next", "b", Floating(text("next"))),
            ("npx b@^1.2.0", "b", Floating(text("^1.2.0"))),
            ("npx b@1.2", "b", Floating(text("1.2"))),
            ("npx b@1.0.0-rc.1", "b", Version(text("1.0.0-rc.1"))),
            ("npx --registry https://r.example.com -p c@2.0.0 b", "c", Version(text("2.0.0"))),
            ("npx --package=@a/c b", "@a/c", Latest),
            ("npx -- b", "b", Latest),
            ("npx github:a/b", "github:a/b", NotFromRegistry(text("github:a/b"))),
            ("npx ./b", "./b", NotFromRegistry(text("./b"))),
            ("npx a/b", "a/b", NotFromRegistry(text("a/b"))),
            ("/usr/bin/npx b@1.0.0", "b", Version(text("1.0.0"))),
            (r"cmd /c npx -y b", "b", Latest),
            (r"C:\node\npx.cmd -y b", "b", Latest),
            ("npm exec -- b@1.0.0", "b", Version(text("1.0.0"))),
            ("bunx --bun b", "b", Latest),
            ("pnpm dlx b@1.0.0", "b", Version(text("1.0.0"))),
            ("yarn dlx -p b c", "b", Latest),
            ("uvx b", "b", Latest),
            ("uvx b@1.2", "b", Version(text("1.2"))),
            ("uvx b@latest", "b", Latest),
            ("uvx --python 3.12 --from b[cli]==1.2 c", "b", Version(text("1.2"))),
            ("uvx --from b>=1,<2 c", "b", Floating(text(">=1,<2"))),
            ("uvx --from=b==1.* c", "b", Floating(text("==1.*"))),
            (
                "uvx --from git+https://example.com/b c",
                "git",
                NotFromRegistry(text("git+https://example.com/b")),
            ),
            ("uv tool run --with d b", "b", Latest),
            ("pipx run --spec b==1.0 c", "b", Version(text("1.0"))),
            ("pipx run b", "b", Latest),
            ("docker run -i --rm -e TOKEN a/b", "a/b", Latest),
            ("docker run -it --name x --rm=true a/b:1.2 stdio", "a/b", Version(text("1.2"))),
            ("docker run -eA=1 -v /a:/b r.example.com:5000/a/b", "r.example.com:5000/a/b", Latest),
            ("docker run b:latest", "b", Latest),
            ("docker run b:stable", "b", Floating(text("stable"))),
            ("podman run -i b:1@sha256:00", "b", Digest(text("sha256:00"))),
        ] {
            let package = package(line).unwrap_or_else(|| panic!("{line}"));
            assert_eq!((package.name.as_str(), &package.requested), (name, &requested), "{line}");
        }
    }

    #[test]
    fn commands_that_download_nothing_have_no_package() {
        for line in [
            "node server.js",
            "npx",
            "npx -c ls",
            "npx --registry",
            "uv run x",
            "pipx list",
            "docker ps",
            "docker",
            "docker run",
            "docker run -e",
            "docker compose up",
            "npm start",
            "python -m b",
            "cmd /c dir",
        ] {
            assert_eq!(package(line), None, "{line}");
        }
    }

    #[test]
    fn pinned_spec_follows_the_runner_syntax() {
        for (line, pinned) in [
            ("npx -y @a/b@latest", "@a/b@7"),
            ("uvx b", "b@7"),
            ("uvx --from b[cli] c", "b[cli]==7"),
            ("pipx run b", "b==7"),
            ("docker run b", "b:7"),
        ] {
            assert_eq!(package(line).unwrap().pinned("7"), pinned, "{line}");
        }
    }
}

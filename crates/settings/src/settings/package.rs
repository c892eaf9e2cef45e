//! Packages: what a command line such as `npx -y a-server` would fetch and run, told from its words alone.

/// A package that a launch runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// The registry that has it.
    pub ecosystem: Ecosystem,
    /// The program that fetches it, such as `npx`.
    pub runner: &'static str,
    /// Its name there, without a version, such as `@scope/name` or `ghcr.io/owner/image`.
    pub name: String,
    /// The version that is asked for.
    pub wanted: Wanted,
    /// The words of the argument that names it, as they are written.
    pub spec: String,
}

/// Where packages come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ecosystem {
    /// Packages of npm.
    Npm,
    /// Packages of `PyPI`.
    PyPi,
    /// Images of containers.
    Image,
}

/// The version that a command line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Nothing is said, or `latest`: whatever is newest.
    Newest,
    /// A range, or a tag that can be moved: whatever fits.
    Moving(String),
    /// This version. A registry keeps what it has once published under it; of an image it is a tag.
    Version(String),
    /// These bytes: the digest of an image.
    Digest(String),
    /// No package of the registry: an address, a repository or a folder.
    Elsewhere(String),
}

impl Ecosystem {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Npm, Self::PyPi, Self::Image];

    /// Returns the word for it in reports and files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Npm => "npm",
            Self::PyPi => "pypi",
            Self::Image => "image",
        }
    }
}

impl Package {
    /// Returns the package that a program with these arguments would fetch and run; `None` if it fetches
    /// none, or which one cannot be told.
    pub fn of(command: &str, args: &[String]) -> Option<Self> {
        let words: Vec<&str> = args.iter().map(String::as_str).collect();
        match (program(command).as_str(), words.as_slice()) {
            // Windows starts scripts of this kind through its shell.
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

    /// Returns the package that an image is, as a container's entry names it.
    pub fn of_image(spec: &str) -> Self {
        image_named("docker run", spec)
    }

    /// Returns `true` if another version may start next time although nobody has changed the entry.
    pub fn is_loose(&self) -> bool {
        matches!(self.wanted, Wanted::Newest | Wanted::Moving(_))
    }

    /// Returns the argument to write for [`spec`](Self::spec), so that this version and no other starts.
    pub fn pinned(&self, version: &str) -> String {
        let Self { ecosystem, runner, name, spec, .. } = self;
        match ecosystem {
            Ecosystem::Npm => format!("{name}@{version}"),
            // Extras stay.
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

/// Returns the name of a program, without its folder and what Windows adds.
fn program(command: &str) -> String {
    let name = command.rsplit(['/', '\\']).next().unwrap_or(command).to_ascii_lowercase();
    let ends = [".exe", ".cmd", ".bat", ".ps1"];
    let end = ends.iter().find_map(|end| name.strip_suffix(end));
    end.map(str::to_owned).unwrap_or(name)
}

/// The options of runners of npm's packages that have a value in the next word.
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
            // A command line is run, and this word belongs to it.
            _ if is_call => return None,
            spec => return Some(npm_named(runner, spec)),
        }
    }
    None
}

fn npm_named(runner: &'static str, spec: &str) -> Package {
    let of = |name: &str, wanted| Package {
        ecosystem: Ecosystem::Npm,
        runner,
        name: name.to_owned(),
        wanted,
        spec: spec.to_owned(),
    };
    // The first character may be the one of a scope.
    let at = spec.char_indices().skip(1).find(|(_, c)| *c == '@').map(|(at, _)| at);
    let (name, version) = at.map_or((spec, ""), |at| (&spec[..at], &spec[at + 1..]));
    let slashes = name.matches('/').count();
    let is_name = !name.starts_with(['.', '/', '~'])
        && !name.contains([':', '#', '\\'])
        && (slashes == 0 || slashes == 1 && name.starts_with('@'));
    if !is_name || version.contains([':', '/', '#']) {
        return of(name, Wanted::Elsewhere(spec.to_owned()));
    }
    of(
        name,
        match version {
            "" | "latest" | "*" | "x" => Wanted::Newest,
            version if is_exact(version.trim_start_matches(['=', 'v'])) => {
                Wanted::Version(version.trim_start_matches(['=', 'v']).to_owned())
            }
            version => Wanted::Moving(version.to_owned()),
        },
    )
}

/// Returns `true` for a whole semantic version, such as `1.2.3-rc.1`.
fn is_exact(version: &str) -> bool {
    let release = version.split(['-', '+']).next().unwrap_or_default();
    let numbers: Vec<&str> = release.split('.').collect();
    let is_number = |n: &&str| !n.is_empty() && n.bytes().all(|byte| byte.is_ascii_digit());
    numbers.len() == 3 && numbers.iter().all(is_number) && !version.contains([' ', '|', '*'])
}

/// The options of `uvx` and `pipx run` that have a value in the next word.
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
    let of = |wanted| Package {
        ecosystem: Ecosystem::PyPi,
        runner,
        name: name.to_owned(),
        wanted,
        spec: spec.to_owned(),
    };
    let is_name = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if !is_name || rest.contains("://") || rest.starts_with(['/', '\\', ':', '+']) {
        return of(Wanted::Elsewhere(spec.to_owned()));
    }
    // What is extra, and on what machines, says nothing about the version.
    let rest =
        rest.strip_prefix('[').and_then(|rest| Some(rest.split_once(']')?.1)).unwrap_or(rest);
    let rest = rest.split(';').next().unwrap_or_default().trim();
    let exact =
        rest.strip_prefix("===").or_else(|| rest.strip_prefix("==")).or(rest.strip_prefix('@'));
    of(match exact.map(str::trim) {
        Some("latest") => Wanted::Newest,
        Some(version) if !version.contains(['*', ',', ' ', '<', '>']) => {
            Wanted::Version(version.to_owned())
        }
        _ if rest.is_empty() => Wanted::Newest,
        _ => Wanted::Moving(rest.to_owned()),
    })
}

/// The options of `docker run` that have no value in the next word.
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
/// The letters of such options.
const IMAGE_LETTERS: &str = "itdPqD";

fn image(runner: &'static str, words: &[&str]) -> Option<Package> {
    let mut words = words.iter();
    let mut runs = false;
    while let Some(&word) = words.next() {
        match word {
            // `container run` is the same.
            "container" if !runs => {}
            "run" if !runs => runs = true,
            word if word.starts_with("--") => {
                if !word.contains('=') && !IMAGE_FLAGS.contains(&word) {
                    words.next()?;
                }
            }
            word if word.len() > 1 && word.starts_with('-') => {
                let mut letters = word.chars().skip(1).skip_while(|c| IMAGE_LETTERS.contains(*c));
                // A letter with a value has it in the same word, or in the next.
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
    // A colon before a slash is that of a port.
    let slash = tagged.rfind('/').map_or(0, |at| at + 1);
    let (name, tag) = match tagged[slash..].split_once(':') {
        Some((last, tag)) => (&tagged[..slash + last.len()], Some(tag)),
        None => (tagged, None),
    };
    let wanted = match (digest, tag) {
        (Some(digest), _) => Wanted::Digest(digest.to_owned()),
        (None, None | Some("latest")) => Wanted::Newest,
        (None, Some(tag)) if tag.contains(|c: char| c.is_ascii_digit()) => {
            Wanted::Version(tag.to_owned())
        }
        (None, Some(tag)) => Wanted::Moving(tag.to_owned()),
    };
    let (name, spec) = (name.to_owned(), spec.to_owned());
    Package { ecosystem: Ecosystem::Image, runner, name, wanted, spec }
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
    fn a_package_is_told_from_the_words_of_a_command() {
        use Wanted::{Digest, Elsewhere, Moving, Newest, Version};
        let text = str::to_owned;
        for (line, name, wanted) in [
            ("npx -y @a/b", "@a/b", Newest),
            ("npx -y @a/b@1.2.3 --port 1", "@a/b", Version(text("1.2.3"))),
            ("npx b@latest", "b", Newest),
            ("npx b@next", "b", Moving(text("next"))),
            ("npx b@^1.2.0", "b", Moving(text("^1.2.0"))),
            ("npx b@1.2", "b", Moving(text("1.2"))),
            ("npx b@1.0.0-rc.1", "b", Version(text("1.0.0-rc.1"))),
            ("npx --registry https://r.example.com -p c@2.0.0 b", "c", Version(text("2.0.0"))),
            ("npx --package=@a/c b", "@a/c", Newest),
            ("npx -- b", "b", Newest),
            ("npx github:a/b", "github:a/b", Elsewhere(text("github:a/b"))),
            ("npx ./b", "./b", Elsewhere(text("./b"))),
            ("npx a/b", "a/b", Elsewhere(text("a/b"))),
            ("/usr/bin/npx b@1.0.0", "b", Version(text("1.0.0"))),
            (r"cmd /c npx -y b", "b", Newest),
            (r"C:\node\npx.cmd -y b", "b", Newest),
            ("npm exec -- b@1.0.0", "b", Version(text("1.0.0"))),
            ("bunx --bun b", "b", Newest),
            ("pnpm dlx b@1.0.0", "b", Version(text("1.0.0"))),
            ("yarn dlx -p b c", "b", Newest),
            ("uvx b", "b", Newest),
            ("uvx b@1.2", "b", Version(text("1.2"))),
            ("uvx b@latest", "b", Newest),
            ("uvx --python 3.12 --from b[cli]==1.2 c", "b", Version(text("1.2"))),
            ("uvx --from b>=1,<2 c", "b", Moving(text(">=1,<2"))),
            ("uvx --from=b==1.* c", "b", Moving(text("==1.*"))),
            (
                "uvx --from git+https://example.com/b c",
                "git",
                Elsewhere(text("git+https://example.com/b")),
            ),
            ("uv tool run --with d b", "b", Newest),
            ("pipx run --spec b==1.0 c", "b", Version(text("1.0"))),
            ("pipx run b", "b", Newest),
            ("docker run -i --rm -e TOKEN a/b", "a/b", Newest),
            ("docker run -it --name x --rm=true a/b:1.2 stdio", "a/b", Version(text("1.2"))),
            ("docker run -eA=1 -v /a:/b r.example.com:5000/a/b", "r.example.com:5000/a/b", Newest),
            ("docker run b:latest", "b", Newest),
            ("docker run b:stable", "b", Moving(text("stable"))),
            ("podman run -i b:1@sha256:00", "b", Digest(text("sha256:00"))),
        ] {
            let package = package(line).unwrap_or_else(|| panic!("{line}"));
            assert_eq!((package.name.as_str(), &package.wanted), (name, &wanted), "{line}");
        }
    }

    #[test]
    fn a_command_that_fetches_nothing_has_no_package() {
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
    fn the_pinned_form_can_be_written_as_it_is() {
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

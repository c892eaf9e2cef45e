//! Recognizes the plain commands of package runners, whose program can be started directly.
//!
//! [`Package::of`] guesses the package of any command line, for reports. Here a guess isn't enough:
//! a command with an option that isn't known to be harmless is [`UnusualCommand`].

use std::path::Path;

use crate::package::{Ecosystem, Package, VersionRequest, npm_named, program, python_named};

/// A command of `npx` or `uvx`, with each word accounted for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunnerCommand {
    pub package: Package,
    /// The program of the package to run; `None` if the runner chooses it.
    pub executable: Option<String>,
    /// The words before the package that decide which versions are installed, as for
    /// `uvx --python 3.12`.
    pub options: Vec<String>,
    /// The arguments of the program.
    pub args: Vec<String>,
}

/// Why a package runner's command can't be replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusualCommand(pub String);

/// Options of `uvx` that only affect which packages are installed, with their value in the next
/// word. uv resolves them itself.
const UV_RESOLUTION: &[&str] = &[
    "--with",
    "-w",
    "--python",
    "-p",
    "--index",
    "--index-url",
    "-i",
    "--default-index",
    "--extra-index-url",
    "--index-strategy",
    "--keyring-provider",
    "--prerelease",
    "--resolution",
    "--exclude-newer",
    "--python-preference",
];

/// Options of `uvx` without a value and without an effect on the program.
const UV_FLAGS: &[&str] = &["-q", "--quiet", "--no-progress", "--offline", "--native-tls"];

impl RunnerCommand {
    /// Parses a command. Returns `None` if the command isn't `npx`, `uvx` or `uv tool run`.
    ///
    /// # Errors
    ///
    /// Fails if a word isn't known, or if the package isn't from a registry.
    pub fn parse(command: &str, args: &[String]) -> Option<Result<Self, UnusualCommand>> {
        let words: Vec<&str> = args.iter().map(String::as_str).collect();
        match (program(command).as_str(), words.as_slice()) {
            ("npx", words) => Some(npx(words)),
            ("uvx", words) => Some(uvx(words, Vec::new())),
            ("uv", ["tool", "run", rest @ ..]) => {
                Some(uvx(rest, vec!["tool".to_owned(), "run".to_owned()]))
            }
            _ => None,
        }
    }

    /// Returns `true` if the command requests exactly one version, which never changes.
    pub fn is_pinned(&self) -> bool {
        matches!(self.package.requested, VersionRequest::Version(_))
    }
}

fn unusual<T>(reason: impl Into<String>) -> Result<T, UnusualCommand> {
    Err(UnusualCommand(reason.into()))
}

fn unknown_option<T>(runner: &str, word: &str) -> Result<T, UnusualCommand> {
    // A value could be secret.
    let name = word.split_once('=').map_or(word, |(name, _)| name);
    unusual(format!("`{runner}` has the option `{name}`"))
}

fn npx(words: &[&str]) -> Result<RunnerCommand, UnusualCommand> {
    let (mut words, mut spec) = (words.iter().copied(), None);
    let program = loop {
        let Some(word) = words.next() else { return unusual("`npx` has no package") };
        let named = match word {
            "-y" | "--yes" | "-q" | "--quiet" => continue,
            "-p" | "--package" => words.next(),
            word => match word.strip_prefix("--package=") {
                Some(named) => Some(named),
                None if word.starts_with('-') => return unknown_option("npx", word),
                None => break word,
            },
        };
        if spec.is_some() {
            return unusual("`npx` has several packages");
        }
        let Some(named) = named else { return unusual("`--package` has no value") };
        spec = Some(named);
    };
    let args: Vec<String> = words.map(str::to_owned).collect();
    if args.first().is_some_and(|first| first == "--") {
        return unusual("`npx` has `--` after the package");
    }
    let package = registry_package(npm_named("npx", spec.unwrap_or(program)))?;
    let executable = spec.map(|_| program.to_owned());
    Ok(RunnerCommand { package, executable, options: Vec::new(), args })
}

fn uvx(words: &[&str], mut options: Vec<String>) -> Result<RunnerCommand, UnusualCommand> {
    let (mut words, mut from) = (words.iter().copied(), None);
    let target = loop {
        let Some(word) = words.next() else { return unusual("`uvx` has no package") };
        let (name, attached) = match word.split_once('=') {
            Some((name, value)) if name.starts_with("--") => (name, Some(value)),
            _ => (word, None),
        };
        let is_from = name == "--from";
        if is_from || UV_RESOLUTION.contains(&name) {
            let Some(value) = attached.or_else(|| words.next()) else {
                return unusual(format!("`{name}` has no value"));
            };
            if is_from {
                from = Some(value);
                continue;
            }
            if matches!(name, "--with" | "-w") {
                registry_package(python_named("uvx", value))?;
            }
            options.extend([name.to_owned(), value.to_owned()]);
        } else if UV_FLAGS.contains(&word) {
            // Not passed on: only the installed packages matter.
        } else if word.starts_with('-') {
            return unknown_option("uvx", word);
        } else {
            break word;
        }
    };
    let package = registry_package(python_named("uvx", from.unwrap_or(target)))?;
    // `uvx python` runs the interpreter, and `uvx script.py` is an error.
    if from.is_none()
        && (package.name.starts_with("python")
            || Path::new(&package.name).extension().is_some_and(|end| end == "py"))
    {
        return unusual(format!("`{}` isn't the program of a package", package.name));
    }
    let executable = from.map_or_else(|| package.name.clone(), |_| target.to_owned());
    let args = words.map(str::to_owned).collect();
    Ok(RunnerCommand { package, executable: Some(executable), options, args })
}

/// Rejects packages that are not from a registry, and names that could lead out of a folder.
fn registry_package(package: Package) -> Result<Package, UnusualCommand> {
    let Package { ecosystem, name, spec, requested, .. } = &package;
    let is_name_char = |c: char| c.is_ascii_alphanumeric() || "-_.~".contains(c);
    let mut parts = name.strip_prefix('@').unwrap_or(name).split('/');
    let is_name =
        parts.all(|part| !part.trim_matches('.').is_empty() && part.chars().all(is_name_char));
    if matches!(requested, VersionRequest::NotFromRegistry(_)) || !is_name {
        return unusual(format!("`{spec}` isn't a package of a registry"));
    }
    if *ecosystem == Ecosystem::PyPi && spec.contains([';', '@']) && spec.contains(' ') {
        return unusual(format!("`{spec}` isn't a plain requirement"));
    }
    Ok(package)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn parse(line: &str) -> Option<Result<RunnerCommand, String>> {
        let mut words = line.split(' ').map(str::to_owned);
        let command = words.next()?;
        let parsed = RunnerCommand::parse(&command, &words.collect::<Vec<_>>())?;
        Some(parsed.map_err(|UnusualCommand(reason)| reason))
    }

    #[test]
    fn plain_commands_are_understood() {
        for (line, name, executable, options, args) in [
            ("npx a", "a", None, "", ""),
            ("/usr/bin/npx -y @a/b@1.2.3 --port 1", "@a/b", None, "", "--port 1"),
            ("npx --yes --package @a/b@1.2.3 run x -y", "@a/b", Some("run"), "", "x -y"),
            ("npx -y --package=c d", "c", Some("d"), "", ""),
            ("uvx b==1.2 serve", "b", Some("b"), "", "serve"),
            ("uvx b@latest", "b", Some("b"), "", ""),
            ("uvx --from b[cli]>=1,<2 c -q", "b", Some("c"), "", "-q"),
            ("uvx --python=3.12 -q --from=b c", "b", Some("c"), "--python 3.12", ""),
            ("uv tool run --with d b", "b", Some("b"), "tool run --with d", ""),
        ] {
            let found = parse(line).unwrap_or_else(|| panic!("{line}")).unwrap();
            let (with, own) = (found.options.join(" "), found.args.join(" "));
            assert_eq!(
                (found.package.name.as_str(), found.executable.as_deref(), &*with, &*own),
                (name, executable, options, args),
                "{line}"
            );
        }
    }

    #[test]
    fn unusual_commands_are_left_to_the_runner() {
        for (line, reason) in [
            ("npx", "`npx` has no package"),
            ("npx -y", "`npx` has no package"),
            ("npx -c ls", "`npx` has the option `-c`"),
            (
                "npx --registry=https://user:password@example.com b",
                "`npx` has the option `--registry`",
            ),
            ("npx -y -- b", "`npx` has the option `--`"),
            ("npx b -- c", "`npx` has `--` after the package"),
            ("npx -p a -p b c", "`npx` has several packages"),
            ("npx -p", "`--package` has no value"),
            ("npx -p a", "`npx` has no package"),
            ("npx github:a/b", "`github:a/b` isn't a package of a registry"),
            ("npx ./b", "`./b` isn't a package of a registry"),
            ("npx ..", "`..` isn't a package of a registry"),
            ("npx @a/..", "`@a/..` isn't a package of a registry"),
            ("npx b@file:../c", "`b@file:../c` isn't a package of a registry"),
            ("npx b@npm:c", "`b@npm:c` isn't a package of a registry"),
            ("uvx", "`uvx` has no package"),
            ("uvx --from", "`--from` has no value"),
            ("uvx --isolated b", "`uvx` has the option `--isolated`"),
            ("uvx --env-file=.env b", "`uvx` has the option `--env-file`"),
            ("uvx --with ./d b", "`./d` isn't a package of a registry"),
            (
                "uvx --from git+https://example.com/b c",
                "`git+https://example.com/b` isn't a package of a registry",
            ),
            ("uvx python", "`python` isn't the program of a package"),
            ("uvx python3.12 -m b", "`python3.12` isn't the program of a package"),
            ("uvx server.py", "`server.py` isn't the program of a package"),
        ] {
            assert_eq!(parse(line), Some(Err(reason.to_owned())), "{line}");
        }
    }

    #[test]
    fn other_programs_are_no_package_runners() {
        for line in ["node server.js", "docker run b", "uv run b", "npm exec b", "cmd /c npx b"] {
            assert_eq!(parse(line), None, "{line}");
        }
    }
}

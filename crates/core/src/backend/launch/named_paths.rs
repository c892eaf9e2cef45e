//! The paths that a server's entry names in its arguments and variables.

use std::path::{Path, PathBuf, is_separator};

use mcp_workbench_settings::StdioLaunch;

/// Programs whose first argument, other than options, is a package.
const PACKAGE_RUNNERS: &[&str] = &["bunx", "npx", "pnpx", "uvx"];

/// Programs that run a package after one of these words.
const PACKAGE_COMMANDS: &[(&str, &[&str])] = &[
    ("bun", &["x"]),
    ("npm", &["exec", "x"]),
    ("pipx", &["run"]),
    ("pnpm", &["dlx", "exec"]),
    ("uv", &["tool"]),
    ("yarn", &["dlx", "exec"]),
];

/// Programs whose arguments are images, mounts and programs in an image.
const ENGINES: &[&str] = &["docker", "podman"];

/// Returns the arguments that are paths, each as written and made absolute. The paths may be
/// missing.
pub fn in_arguments(launch: &StdioLaunch) -> impl Iterator<Item = (&str, PathBuf)> {
    let for_runner = package_arguments(launch);
    launch.args.iter().enumerate().filter_map(move |(index, argument)| {
        // As in `--root=/srv`.
        let value = argument.strip_prefix('-').and_then(|option| option.split_once('='));
        let text = value.map_or(argument.as_str(), |(_, value)| value);
        let is_path = is_explicit_path(text) || (index >= for_runner && is_relative_path(text));
        is_path.then(|| (text, launch.cwd.join(text)))
    })
}

/// Returns the variables that contain paths, each with a path made absolute. The paths may be
/// missing.
pub fn in_variables(launch: &StdioLaunch) -> impl Iterator<Item = (&str, PathBuf)> {
    launch.env.iter().flat_map(|(name, value)| {
        let texts = std::env::split_paths(value).filter(|path| {
            path.to_str().is_some_and(|text| is_explicit_path(text) || is_relative_path(text))
        });
        texts.map(|path| (name.as_str(), launch.cwd.join(path)))
    })
}

fn is_explicit_path(text: &str) -> bool {
    let mut words = text.split(is_separator);
    Path::new(text).is_absolute() || matches!(words.next(), Some("." | ".."))
}

/// Returns `true` for `data/notes`, and `false` for `@scope/name`, `github:owner/name` and URLs.
fn is_relative_path(text: &str) -> bool {
    let Some((first, _)) = text.split_once(is_separator) else { return false };
    !first.is_empty() && !first.contains(':') && !first.starts_with(['@', '~', '-'])
}

/// Returns the number of arguments up to the package that a runner starts, `owner/name` for
/// example. Those after it are for the server.
fn package_arguments(launch: &StdioLaunch) -> usize {
    let program = Path::new(&launch.command).file_stem().and_then(|name| name.to_str());
    let program = program.unwrap_or_default();
    let all = &launch.args;
    if ENGINES.contains(&program) {
        return all.len();
    }
    let first = all.first().map_or("", String::as_str);
    let is_command = |(name, words): &&(&str, &[&str])| *name == program && words.contains(&first);
    let words = match PACKAGE_COMMANDS.iter().find(is_command) {
        Some(("uv", _)) => 2,
        Some(_) => 1,
        None if PACKAGE_RUNNERS.contains(&program) => 0,
        None => return 0,
    };
    let package = all.iter().skip(words).position(|argument| !argument.starts_with('-'));
    package.map_or(all.len(), |index| words + index + 1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use pretty_assertions::assert_eq;

    use super::*;

    fn launch(command: &str, args: &[&str], env: &[(&str, &str)]) -> StdioLaunch {
        StdioLaunch {
            command: command.to_owned(),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            env: env
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            secret_refs: BTreeMap::new(),
            cwd: "/work".into(),
            inherit_env: false,
            withheld: [].into(),
            has_own_folder: false,
            sandbox: None,
            starts_directly: true,
        }
    }

    fn arguments(command: &str, args: &[&str]) -> Vec<String> {
        let launch = launch(command, args, &[]);
        in_arguments(&launch).map(|(text, _)| text.to_owned()).collect()
    }

    #[test]
    fn explicit_paths_count_for_every_program() {
        let all = ["/srv", "./data", "../data", ".", "..", "--root=/x", "-d=./y"];
        let paths = ["/srv", "./data", "../data", ".", "..", "/x", "./y"];
        for program in ["server", "npx", "/usr/bin/docker"] {
            assert_eq!(arguments(program, &all), paths, "{program}");
        }
    }

    #[test]
    fn packages_urls_and_words_are_not_paths() {
        for (program, args) in [
            ("npx", &["-y", "@scope/name"][..]),
            ("npx", &["-y", "owner/name"]),
            ("npx", &["--package=owner/name", "server"]),
            ("/usr/local/bin/npx", &["github:owner/name"]),
            ("pnpm", &["dlx", "owner/name"]),
            ("npm", &["exec", "--", "owner/name"]),
            ("uvx", &["owner/name"]),
            ("uv", &["tool", "run", "owner/name"]),
            ("docker", &["run", "-i", "--rm", "owner/image", "a/b"]),
            ("server", &["https://example.com/mcp", "--url=http://x/y", "git+https://x/y"]),
            ("server", &["@scope/name", "~/notes", "word", "", "--flag", "-x/y", "data:text/html"]),
        ] {
            assert_eq!(arguments(program, args), Vec::<String>::new(), "{program} {args:?}");
        }
    }

    #[test]
    fn relative_paths_count_after_the_package() {
        for (program, args) in [
            ("npx", &["-y", "@scope/name", "docs/notes"][..]),
            ("uv", &["run", "docs/notes"]),
            ("python3", &["docs/notes"]),
            ("server", &["--root=docs/notes"]),
        ] {
            assert_eq!(arguments(program, args), ["docs/notes"], "{program}");
        }
    }

    #[test]
    fn variables_name_several_paths() {
        let env = [("A", "/x:./y:z"), ("B", "https://example.com/x"), ("C", "word")];
        let launch = launch("server", &[], &env);
        let all: Vec<_> = in_variables(&launch).collect();
        // The part of a URL after the colon looks like a path. It doesn't exist.
        let expected = [("A", "/x"), ("A", "/work/./y"), ("B", "//example.com/x")];
        assert_eq!(all, expected.map(|(name, path)| (name, PathBuf::from(path))));
    }
}

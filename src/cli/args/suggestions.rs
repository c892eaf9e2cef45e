//! Suggestions for commands of other programs, and for renamed flags and environment variables.

use clap::Command;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::cli::files::pasted::is_pasted;
use crate::cli::output::{CommandError, quote_for_shell};

/// Wrong commands, each with a command to suggest and its purpose.
const COMMANDS: &[(&str, &str, &str)] = &[
    ("run", "serve", "start the server"),
    ("run", "task", "run a task described in words"),
    ("start", "serve", "start the server"),
    ("login", "auth login", "sign in to a server"),
    ("logout", "auth logout", "sign out of a server"),
    ("init", "setup", "configure your MCP clients"),
    ("install", "setup", "configure your MCP clients"),
    ("uninstall", "setup undo", "restore your clients' files"),
    ("undo", "setup undo", "restore your clients' files"),
    ("doctor", "check --connect", "test the configuration and its servers"),
    ("validate", "check --connect", "test the configuration and its servers"),
    ("test", "check --connect", "test the configuration and its servers"),
    ("page", "dashboard", "open the dashboard in a browser"),
    ("ui", "dashboard", "open the dashboard in a browser"),
    ("status", "ps", "list running servers"),
    ("status", "setup status", "show which clients are set up"),
    ("tools", "list", "list tools"),
    ("ls", "list", "list tools"),
    ("rm", "remove", "remove a server"),
    ("delete", "remove", "remove a server"),
    ("mute", "top", "pause and resume servers"),
    ("pause", "top", "pause and resume servers"),
];

/// Old flags and their replacements.
const FLAGS: &[(&str, &str)] = &[
    ("--mode", "'--tool-mode'"),
    ("--for", "'--agent'"),
    ("--grace", "'--shutdown-timeout' with a unit, such as '10s'"),
    ("--service-type", "'--project-type'"),
];

/// Old environment variables and their replacements.
const VARIABLES: &[(&str, &str)] = &[
    ("WORKBENCH_MODE", "WORKBENCH_TOOL_MODE"),
    ("MCP_WORKBENCH_AGENT", "WORKBENCH_AGENT"),
    ("MCP_WORKBENCH_CACHE", "WORKBENCH_CACHE_DIR"),
];

/// Replaces clap's guesses with the suggestions of the tables. `words` is the command line.
pub(crate) fn add_suggestions(error: &mut clap::Error, program: &Command, words: &[String]) {
    let tips = match error.kind() {
        ErrorKind::InvalidSubcommand => match error.get(ContextKind::InvalidSubcommand) {
            Some(ContextValue::String(word)) if is_top_level(program, words, word) => {
                command_tips(word)
            }
            _ => Vec::new(),
        },
        ErrorKind::UnknownArgument => match error.get(ContextKind::InvalidArg) {
            Some(ContextValue::String(flag)) => flag_tip(flag)
                .or_else(|| command_tip(words))
                .or_else(|| argument_tip(words, flag))
                .into_iter()
                .collect(),
            _ => Vec::new(),
        },
        _ => Vec::new(),
    };
    if tips.is_empty() {
        return;
    }
    error.remove(ContextKind::SuggestedSubcommand);
    error.remove(ContextKind::SuggestedArg);
    let tips = tips.into_iter().map(StyledStr::from).collect();
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
}

/// Fails if a renamed environment variable is set: ignoring `MCP_WORKBENCH_AGENT`, for example,
/// would apply another agent's rules.
pub(crate) fn reject_renamed_variables(
    get: impl Fn(&str) -> Option<String>,
) -> Result<(), CommandError> {
    for (old, new) in VARIABLES {
        if get(old).is_some_and(|value| !value.is_empty()) {
            let problem = format!("the environment variable `{old}` was renamed to `{new}`");
            return Err(CommandError::usage(problem).with_hint(format!("set `{new}` instead")));
        }
    }
    Ok(())
}

/// Returns `true` unless a known command precedes the word.
fn is_top_level(program: &Command, words: &[String], word: &str) -> bool {
    let mut before = words.iter().take_while(|other| *other != word);
    before.all(|other| program.find_subcommand(other).is_none())
}

fn command_tips(word: &str) -> Vec<String> {
    let tips = COMMANDS.iter().filter(|(wrong, ..)| *wrong == word);
    tips.map(|(_, command, purpose)| format!("to {purpose}, use '{command}'")).collect()
}

fn flag_tip(flag: &str) -> Option<String> {
    let name = flag.split('=').next().unwrap_or(flag);
    let (old, new) = FLAGS.iter().find(|(old, _)| *old == name)?;
    Some(format!("'{old}' was replaced by {new}"))
}

/// Returns the command line of `add` with `--` before the server's command, if that is missing.
fn command_tip(words: &[String]) -> Option<String> {
    const WITH_VALUE: [&str; 8] =
        ["--toolbox", "-t", "--description", "--env", "-e", "--header", "-H", "--config"];
    if words.first().is_none_or(|word| word != "add") {
        return None;
    }
    let mut positional = Vec::new();
    let mut rest = words.iter().enumerate().skip(1);
    while let Some((place, word)) = rest.next() {
        if WITH_VALUE.contains(&word.as_str()) {
            rest.next();
        } else if !word.starts_with('-') {
            positional.push(place);
        }
    }
    let [_, command, ..] = positional[..] else { return None };
    let is_entry = |word: &String| word.contains("://") || is_pasted(word);
    if words.get(command).is_none_or(is_entry) {
        return None;
    }
    let mut line: Vec<String> =
        words.iter().map(|word| quote_for_shell(word).into_owned()).collect();
    line.insert(command, "--".to_owned());
    Some(format!(
        "put `--` before the server's command: '{} {}'",
        crate::cli::runtime::PROGRAM_NAME,
        line.join(" ")
    ))
}

/// Returns the tip for an argument of a tool that is written as a flag, and for a server after
/// `check`.
fn argument_tip(words: &[String], flag: &str) -> Option<String> {
    let is_command = |name: &str| words.iter().any(|word| word == name);
    if !flag.starts_with('-') {
        let names_server = is_command("check") && !is_command("catalog");
        return names_server
            .then(|| format!("to test only this server, use 'check --connect {flag}'"));
    }
    let name = flag.trim_start_matches('-').split('=').next()?;
    if name.is_empty() || !(is_command("call") || is_command("task")) {
        return None;
    }
    let is_flag = |word: &&String| word.as_str() == flag || word.starts_with(&format!("{flag}="));
    let at = words.iter().position(|word| is_flag(&word))?;
    let value = match words[at].split_once('=') {
        Some((_, value)) => value,
        None => words.get(at + 1).filter(|next| !next.starts_with('-')).map_or("VALUE", |v| v),
    };
    Some(format!("to pass it to the tool, use '{name}={value}'"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn suggests_commands_by_purpose() {
        assert_eq!(
            command_tips("run"),
            ["to start the server, use 'serve'", "to run a task described in words, use 'task'"]
        );
        assert_eq!(command_tips("ui"), ["to open the dashboard in a browser, use 'dashboard'"]);
        assert_eq!(command_tips("serv"), [""; 0]);
    }

    #[test]
    fn suggests_new_flags() {
        let tip = flag_tip("--mode=direct");
        assert_eq!(tip.as_deref(), Some("'--mode' was replaced by '--tool-mode'"));
        assert_eq!(flag_tip("--tool-mode"), None);
    }

    #[test]
    fn flags_after_a_tool_are_written_as_pairs() {
        let tip = |line: &str, flag: &str| {
            let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
            argument_tip(&words, flag)
        };
        let pair = |text: &str| Some(format!("to pass it to the tool, use '{text}'"));
        assert_eq!(tip("call a:b --timezone UTC", "--timezone"), pair("timezone=UTC"));
        assert_eq!(tip("call a:b --zone=UTC", "--zone"), pair("zone=UTC"));
        assert_eq!(tip("task now --all --json", "--all"), pair("all=VALUE"));
        assert_eq!(tip("call a:b -z", "-z"), pair("z=VALUE"));
        assert_eq!(tip("list --timezone UTC", "--timezone"), None);
        let tip = tip("check time", "time");
        assert_eq!(tip.unwrap(), "to test only this server, use 'check --connect time'");
    }

    #[test]
    fn only_top_level_words_are_commands() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let program = Cli::command();
        assert!(is_top_level(&program, &words("-c x.json ls"), "ls"));
        assert!(!is_top_level(&program, &words("cache ls"), "ls"));
    }

    #[test]
    fn suggested_commands_and_flags_exist_and_wrong_ones_do_not() {
        let mut program = Cli::command();
        program.build();
        for (wrong, line, _) in COMMANDS {
            assert!(program.find_subcommand(wrong).is_none(), "{wrong}");
            let mut command = &program;
            for word in line.split(' ').filter(|word| !word.starts_with('-')) {
                command = command.find_subcommand(word).expect(line);
            }
        }
        let mut flags = Vec::new();
        let mut commands = vec![&program];
        while let Some(command) = commands.pop() {
            flags.extend(command.get_arguments().filter_map(clap::Arg::get_long));
            commands.extend(command.get_subcommands());
        }
        for (old, new) in FLAGS {
            assert!(!flags.contains(&&old[2..]), "{old}");
            let new = new.split('\'').nth(1).expect(new);
            assert!(flags.contains(&&new[2..]), "{new}");
        }
    }

    #[test]
    fn renamed_variables_are_errors_unless_empty() {
        let with = |name: &'static str, value: &'static str| {
            reject_renamed_variables(move |other| (other == name).then(|| value.to_owned()))
        };
        assert!(with("MCP_WORKBENCH_AGENT", "").is_ok());
        assert!(with("WORKBENCH_AGENT", "ann").is_ok());
        let error = with("MCP_WORKBENCH_AGENT", "ann").unwrap_err().to_string();
        assert_eq!(
            error,
            "error: the environment variable `MCP_WORKBENCH_AGENT` was renamed to \
             `WORKBENCH_AGENT`\n\nhint: set `WORKBENCH_AGENT` instead"
        );
    }

    #[test]
    fn suggests_two_dashes_before_the_command_of_a_server() {
        let tip = |line: &str| {
            let words: Vec<String> = line.split('|').map(str::to_owned).collect();
            command_tip(&words)
        };
        let said = |line: &str| {
            Some(format!("put `--` before the server's command: 'mcp-workbench {line}'"))
        };
        for (line, wanted) in [
            ("add|time|uvx|mcp-server-time", said("add time -- uvx mcp-server-time")),
            ("add|x|-t|dev|npx|-y|p|a b", said("add x -t dev -- npx -y p 'a b'")),
            ("add|x|--env|A=$B|sh", said("add x --env 'A=$B' -- sh")),
            ("add|docs|https://a/b|c", None),
            ("add|x|--unknown", None),
            ("list|a|b|c", None),
        ] {
            assert_eq!(tip(line), wanted, "{line}");
        }
    }
}

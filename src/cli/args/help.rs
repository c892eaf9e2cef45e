//! Top-level help: commands in groups, in a short and a long form.

use std::fmt::Write;

use clap::{Arg, ArgAction, Command};

const TEMPLATE: &str = "\
{about-with-newline}
{usage-heading} {usage}

{before-help}{options}{after-help}";

struct CommandGroup {
    name: &'static str,
    commands: &'static [&'static str],
    /// `true` if the short help lists only the names.
    is_brief: bool,
}

const GROUPS: &[CommandGroup] = &[
    CommandGroup {
        name: "Serve",
        commands: &["serve", "expose", "connect", "reload"],
        is_brief: false,
    },
    CommandGroup {
        name: "Call tools",
        commands: &["list", "search", "call", "task", "skill"],
        is_brief: false,
    },
    CommandGroup { name: "Set up", commands: &["setup", "import", "demo"], is_brief: false },
    CommandGroup {
        name: "Configure",
        commands: &["add", "remove", "check", "catalog", "tailor", "schema"],
        is_brief: true,
    },
    CommandGroup {
        name: "Monitor",
        commands: &["top", "ps", "logs", "stats", "dashboard"],
        is_brief: true,
    },
    CommandGroup {
        name: "Control access",
        commands: &["auth", "token", "policy", "explain", "trust", "lock", "approvals"],
        is_brief: true,
    },
    CommandGroup {
        name: "Other",
        commands: &["cache", "completions", "man", "builtin", "help"],
        is_brief: true,
    },
];

/// Summary of `task` in the short help, where its own doesn't fit.
const SHORT_TASK: &str = "Run a task described in words";

/// Replaces clap's command list with the groups.
pub(crate) fn with_groups(command: Command) -> Command {
    let (short, long) = (short(&command), long(&command));
    let version = Arg::new("version")
        .short('V')
        .long("version")
        .help("Print version")
        .action(ArgAction::Version)
        .hide_short_help(true);
    command
        .help_template(TEMPLATE)
        .before_help(short)
        .before_long_help(long)
        .disable_version_flag(true)
        .arg(version)
}

fn short(command: &Command) -> String {
    let mut lines = Vec::new();
    for CommandGroup { name, commands, is_brief } in GROUPS {
        if *is_brief {
            lines.push(format!("{name:<16}{}", commands.join(", ")));
            continue;
        }
        for (index, command_name) in commands.iter().enumerate() {
            let name = if index == 0 { name } else { "" };
            let about = match *command_name {
                "task" => SHORT_TASK.to_owned(),
                other => about(command, other),
            };
            lines.push(format!("{name:<16}{command_name:<9}{about}"));
        }
    }
    lines.join("\n")
}

fn long(command: &Command) -> String {
    let mut text = String::new();
    for CommandGroup { name, commands, .. } in GROUPS {
        // Writing to a `String` can't fail.
        _ = write!(text, "{}{name}:", if text.is_empty() { "" } else { "\n\n" });
        for command_name in *commands {
            _ = write!(text, "\n  {command_name:<13}{}", about(command, command_name));
        }
    }
    text.push_str("\n\nOptions:");
    text
}

/// clap adds `help` only when it parses.
fn about(command: &Command, name: &str) -> String {
    let about = command.find_subcommand(name).and_then(Command::get_about);
    about.map_or_else(|| "Print help for a command".to_owned(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory;
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn every_command_is_in_one_group() {
        let grouped = GROUPS.iter().flat_map(|group| group.commands).copied();
        let grouped: Vec<_> = grouped.filter(|name| *name != "help").collect();
        let command = Cli::command();
        let all = command.get_subcommands().filter(|command| !command.is_hide_set());
        let all: BTreeSet<_> = all.map(Command::get_name).collect();
        assert_eq!(grouped.iter().copied().collect::<BTreeSet<_>>(), all);
        assert_eq!(grouped.len(), all.len(), "a command is in two groups");
    }

    #[test]
    fn summaries_are_short() {
        let program = Cli::command();
        let mut commands = vec![&program];
        while let Some(command) = commands.pop() {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            assert!((1..=65).contains(&about.len()), "{}: {about}", command.get_name());
            commands.extend(command.get_subcommands());
        }
    }
}

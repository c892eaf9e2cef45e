//! Top-level help: commands in groups, in a short and a long form.

use std::fmt::Write;

use clap::{Arg, ArgAction, Command};

const TEMPLATE: &str = "\
{about-with-newline}
{usage-heading} {usage}

{before-help}{options}{after-help}";

/// Limit in bytes of a command's own summary. Longer ones are replaced by the line in `GROUPS`.
const MAX_ABOUT: usize = 65;

struct CommandGroup {
    name: &'static str,
    commands: &'static [(&'static str, &'static str)],
    /// `true` if the short help lists only the names.
    is_brief: bool,
}

const GROUPS: &[CommandGroup] = &[
    CommandGroup {
        name: "Use",
        commands: &[
            ("serve", "Serve the toolboxes to agents; what happens without a command"),
            ("list", "List the tools of a toolbox, or of all"),
            ("search", "Find tools by what is wanted of them"),
            ("call", "Call one tool and print its answer"),
            ("run", "Do one task with the tool that fits it"),
        ],
        is_brief: false,
    },
    CommandGroup {
        name: "Set up",
        commands: &[
            ("setup", "Put the workbench into your clients, and take it out again"),
            ("add", "Add a server to the configuration"),
            ("remove", "Take a server out of the configuration"),
            ("check", "Check the configuration, and with --connect its servers"),
            ("demo", "Show what an agent sees, without any configuration"),
        ],
        is_brief: false,
    },
    CommandGroup {
        name: "Look",
        commands: &[
            ("top", "Watch servers, calls and failures live, with keys to act"),
            ("logs", "Show what servers and workbenches log"),
            ("stats", "Fold the audit: what is used, what never, what fails"),
            ("explain", "Say why an agent may use a tool or not"),
        ],
        is_brief: false,
    },
    CommandGroup {
        name: "Author",
        commands: &[
            ("import", "Add the servers of other clients to the configuration"),
            ("auth", "Sign in at servers over HTTP, sign out, and see how it stands"),
            ("token", "Make a token for an agent"),
            ("expose", "Serve one server over HTTP, as it is"),
            ("connect", "Connect a client to the service of all clients, on stdio"),
            ("policy", "Compare who may use what"),
            ("reload", "Have what is served follow the configuration as it is now"),
            ("catalog", "Make and compare a folder with a file for each tool"),
            ("tailor", "Write the configuration for one task"),
        ],
        is_brief: true,
    },
    CommandGroup {
        name: "More",
        commands: &[
            ("cache", "See, renew or remove what is kept of servers' listings"),
            ("lock", "Keep what servers say of their tools in a file to review"),
            ("page", "Show what runs in a browser, and act there"),
            ("ps", "Show which servers run, for whom and since when"),
            ("schema", "Print the JSON Schema of the configuration"),
            ("completions", "Print completions for a shell"),
            ("man", "Print the manual page, or write all of them"),
            ("builtin", "Run one of the small servers that the executable carries"),
            ("help", "Print the help of a command"),
        ],
        is_brief: true,
    },
];

/// Replaces clap's command list with the groups.
pub(crate) fn with_groups(command: Command) -> Command {
    let (short, long) = (short(), long(&command));
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

fn short() -> String {
    let mut lines = Vec::new();
    for CommandGroup { name, commands, is_brief } in GROUPS {
        if *is_brief {
            let names: Vec<_> = commands.iter().map(|(command, _)| *command).collect();
            lines.push(format!("{name:<8}{}", names.join(", ")));
            continue;
        }
        for (index, (command, says)) in commands.iter().enumerate() {
            let name = if index == 0 { name } else { "" };
            lines.push(format!("{name:<8}{command:<9}{says}"));
        }
    }
    lines.join("\n")
}

fn long(command: &Command) -> String {
    let mut text = String::new();
    for CommandGroup { name, commands, .. } in GROUPS {
        // Writing to a `String` can't fail.
        _ = write!(text, "{}{name}:", if text.is_empty() { "" } else { "\n\n" });
        for (command_name, brief) in *commands {
            let about = command.find_subcommand(command_name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).filter(|about| about.len() <= MAX_ABOUT);
            let about = about.as_deref().unwrap_or(brief);
            _ = write!(text, "\n  {command_name:<13}{about}");
        }
    }
    text.push_str("\n\nOptions:");
    text
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
        let grouped = GROUPS.iter().flat_map(|group| group.commands);
        let grouped: Vec<_> = grouped.map(|(name, _)| *name).filter(|n| *n != "help").collect();
        let command = Cli::command();
        let all = command.get_subcommands().filter(|command| !command.is_hide_set());
        let all: BTreeSet<_> = all.map(Command::get_name).collect();
        assert_eq!(grouped.iter().copied().collect::<BTreeSet<_>>(), all);
        assert_eq!(grouped.len(), all.len(), "one is in two groups");
    }
}

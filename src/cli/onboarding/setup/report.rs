//! The text output of `setup`: the plan and the outcome.

use crate::authoring::service::ServiceManager;
use crate::cli::onboarding::proposal_report::{finding_text, proposal_table};
use crate::cli::onboarding::setup::apply::ApplyOutcome;
use crate::cli::onboarding::setup::client_plan::ClientPlan;
use crate::cli::onboarding::setup::plan::SetupPlan;
use crate::cli::onboarding::setup::service_plan::ServicePlan;
use crate::cli::onboarding::setup::startup_size::StartupSizes;
use crate::cli::onboarding::setup::state_dir;
use crate::cli::output::{Align, Table, escape_to_line, format_count, number};

pub(super) fn plan(plan: &SetupPlan) -> String {
    let mut sections = Vec::new();
    if plan.clients.iter().any(|client| client.new_text().is_some()) {
        let intro =
            "Each client gets one entry, `workbench`, instead of the servers that it replaces:";
        sections.push(intro.to_owned());
    }
    sections.push(clients(plan).to_string());
    let file = plan.config.location.display_path.display();
    if !plan.imported.added.is_empty() {
        let place = if plan.config.before.is_some() { "added to" } else { "in the new" };
        sections.push(format!(
            "Toolboxes {place} `{file}`:\n\n{}",
            proposal_table(&plan.imported.proposed)
        ));
    }
    if plan.secrets.new_count > 0 {
        let name = plan.secrets.path.file_name().unwrap_or_default();
        let path = plan.config.location.display_path.with_file_name(name);
        let verb = if plan.secrets.new_count == 1 { "moves" } else { "move" };
        sections.push(format!(
            "{} {verb} to `{}` (readable only by you)",
            format_count(plan.secrets.new_count, "secret"),
            path.display()
        ));
    }
    sections.extend(plan.shared.as_ref().map(shared));
    if let Some(file) = plan.new_audit_log() {
        sections.push(format!(
            "Calls are recorded in `{}` (readable only by you) for `mcp-workbench stats`",
            escape_to_line(&file)
        ));
    }
    if let Some(model) = &plan.without_code_mode {
        sections.push(format!(
            "Codex uses the model `{}`, which has no code mode, so `clients.codex-mcp-client` in \
             `{file}` sets `hasCodeMode` to `false`",
            escape_to_line(model)
        ));
    }
    if !plan.imported.rules.is_empty() {
        let lines: Vec<String> =
            plan.imported.rules.iter().map(|line| format!("  {}", escape_to_line(line))).collect();
        sections.push(format!("Rules of your clients:\n{}", lines.join("\n")));
    }
    let stay: Vec<String> =
        plan.clients.iter().flat_map(skipped_lines).chain(untouched(plan)).collect();
    if !stay.is_empty() {
        sections.push(format!("Unchanged:\n{}", stay.join("\n")));
    }
    if !plan.imported.remarks.is_empty() {
        let remarks: Vec<String> = plan.imported.remarks.iter().map(finding_text).collect();
        sections.push(remarks.join("\n"));
    }
    if !plan.has_servers {
        sections.push(
            "nothing was changed: these clients have no server that the workbench can start\n\
             hint: run `mcp-workbench add --user NAME -- COMMAND` to add a server, then run setup \
             again"
                .to_owned(),
        );
    } else if plan.is_empty() {
        let is_complete =
            plan.unreadable.is_empty() && plan.clients.iter().all(|c| c.change.is_ok());
        let clients = if is_complete { "all clients are" } else { "the other clients are" };
        sections.push(format!("nothing to do: {clients} up to date"));
    } else {
        sections.push(format!(
            "Backup: the original files are saved in `{}`\n\
             Undo: `mcp-workbench setup undo` restores them",
            state_dir::shown_backup_folder()
        ));
    }
    sections.join("\n\n")
}

fn shared(shared: &ServicePlan) -> String {
    let url = shared.service.url();
    let name = &shared.service.name;
    let manager = match shared.service.manager {
        ServiceManager::Systemd => "systemd",
        ServiceManager::Launchd => "launchd",
        ServiceManager::TaskScheduler => "Task Scheduler",
        ServiceManager::Unmanaged => {
            return format!(
                "All clients share one background service at {url}. This system has no service \
                 manager, so clients run `mcp-workbench connect`, which starts the service when \
                 needed."
            );
        }
    };
    let clients = if shared.variables.is_empty() {
        "Clients without HTTP support run `mcp-workbench connect`.".to_owned()
    } else {
        let names = escape_to_line(&shared.variables.join("`, `"));
        format!(
            "Clients run `mcp-workbench connect`, but do not share servers yet: the configuration \
             reads `{names}` from each client's environment. To share servers, set `{names}` in \
             the secrets file next to the configuration."
        )
    };
    format!(
        "All clients share one background service at {url}, run by {manager} as `{name}`. {clients}"
    )
}

fn clients(plan: &SetupPlan) -> Table {
    let mut table = Table::left(["Client", "File", "Workbench", "Replaces"]);
    for client in &plan.clients {
        let (starts, taken) = match &client.change {
            Err(_) => ("skipped", String::new()),
            Ok(changed) => {
                let taken: Vec<&str> = changed.removed.iter().map(|t| t.name.as_str()).collect();
                (client.entry_change(), taken.join(", "))
            }
        };
        table.row([
            client.file.program.title.to_owned(),
            escape_to_line(&client.file.shown),
            starts.to_owned(),
            escape_to_line(&taken),
        ]);
    }
    table
}

fn skipped_lines(client: &ClientPlan) -> Vec<String> {
    let title = client.file.program.title;
    // Servers with the same reason share a line.
    let mut lines: Vec<(&str, Vec<String>)> = Vec::new();
    for (name, why) in &client.skipped {
        let name = format!("`{}`", escape_to_line(name));
        match lines.iter_mut().find(|(other, _)| other == why) {
            Some((_, names)) => names.push(name),
            None => lines.push((why, vec![name])),
        }
    }
    let line = |(why, names): (&str, Vec<String>)| {
        format!("  {} ({title}): {}", names.join(", "), escape_to_line(why))
    };
    lines.into_iter().map(line).collect()
}

fn untouched(plan: &SetupPlan) -> impl Iterator<Item = String> {
    let unchanged = plan.clients.iter().filter_map(|client| {
        let why = client.change.as_ref().err()?;
        Some((client.file.program.title, client.file.shown.as_str(), why.as_str()))
    });
    let unreadable = plan.unreadable.iter().map(|(title, file, why)| (*title, &**file, &**why));
    let all = unchanged.chain(unreadable);
    all.map(|(title, file, why)| {
        format!("  `{}` ({title}): {}", escape_to_line(file), escape_to_line(why))
    })
}

/// Shows each line of a reason on a line of its own.
fn indented(why: &str) -> String {
    let lines: Vec<String> = why.lines().map(escape_to_line).collect();
    lines.join("\n  ")
}

/// `starts` has the size of the definitions that each client now reads at startup, by client ID, or
/// the error of measuring it. Clients that keep them out of their model's context have none.
pub(super) fn outcome_text(
    plan: &SetupPlan,
    done: &ApplyOutcome,
    starts: Result<&StartupSizes, &String>,
    is_locked: bool,
) -> String {
    let mut sections = Vec::new();
    let written = format_count(done.written.len(), "client");
    let verb = if done.written.len() == 1 { "uses" } else { "use" };
    sections.push(if done.written.is_empty() && done.failed.is_empty() {
        "done".to_owned()
    } else {
        format!("done: {written} now {verb} the workbench")
    });
    if let Some(file) = plan.new_audit_log() {
        sections.push(format!("calls are recorded in `{}`", escape_to_line(&file)));
    }
    for (place, why) in &done.failed {
        let Some(client) = plan.clients.get(*place) else { continue };
        let file = escape_to_line(&client.file.shown);
        let title = client.file.program.title;
        sections.push(format!(
            "error: {title} is unchanged: cannot write `{file}`\n  {}",
            indented(why)
        ));
    }
    match starts {
        Ok(starts) => sections.extend(savings(plan, done, starts)),
        Err(why) => sections
            .push(format!("warning: a test start of the workbench failed:\n  {}", indented(why))),
    }
    let config = plan.config.location.display_path.display();
    let mut hints = vec![
        "hint: restart your clients to apply the change".to_owned(),
        format!("hint: agents choose toolboxes by description: review them in `{config}`"),
        format!(
            "hint: run `mcp-workbench setup undo` to undo everything; the original files are in \
             `{}`",
            state_dir::shown_backup_folder()
        ),
    ];
    if !is_locked {
        let lock =
            "hint: run `mcp-workbench lock` to record the servers' tool definitions for review";
        hints.insert(2, lock.to_owned());
    }
    sections.push(hints.join("\n"));
    sections.join("\n\n")
}

fn savings(plan: &SetupPlan, done: &ApplyOutcome, starts: &StartupSizes) -> Option<String> {
    let size = |client: &ClientPlan| starts.get(client.file.program.id).copied().flatten();
    let now = |client: &ClientPlan| size(client).unwrap_or_default();
    let mut table = Table::new([
        ("Client", Align::Left),
        ("Tokens before", Align::Right),
        ("Tokens now", Align::Right),
    ]);
    let written = done.written.iter().filter_map(|place| plan.clients.get(*place));
    let with_servers: Vec<&ClientPlan> =
        written.filter(|client| client.size.bytes() > 0 && size(client).is_some()).collect();
    for client in &with_servers {
        table.row([
            client.file.program.title.to_owned(),
            number(client.size.tokens()),
            number(now(client).tokens()),
        ]);
    }
    let sizes = with_servers
        .iter()
        .map(|client| (client.file.program.title, client.size.tokens(), now(client).tokens()));
    let remark = costs_more(sizes);
    let estimate = (!with_servers.is_empty()).then(|| {
        format!(
            "{table}\n\nEstimated tokens that a client reads at the start of each session. Before: \
             the tool definitions of the replaced servers. Now: the workbench's own definitions \
             and instructions.{remark}"
        )
    });
    let written = done.written.iter().filter_map(|place| plan.clients.get(*place));
    let hidden = written.filter(|client| client.size.bytes() > 0 && size(client).is_none());
    let mut hidden: Vec<&str> = hidden.map(|client| client.file.program.title).collect();
    hidden.dedup();
    let hidden = joined(&hidden).map(|titles| {
        format!("Tool definitions stay out of the model's context in {titles}, as before.")
    });
    let sections: Vec<String> = estimate.into_iter().chain(hidden).collect();
    (!sections.is_empty()).then(|| sections.join("\n\n"))
}

/// Names the clients that read more tokens now than before. Takes the title and both numbers.
fn costs_more<'a>(clients: impl Iterator<Item = (&'a str, usize, usize)>) -> String {
    let mut dear: Vec<&str> =
        clients.filter(|(_, before, now)| before < now).map(|(title, _, _)| title).collect();
    dear.dedup();
    let Some(titles) = joined(&dear) else { return String::new() };
    format!(
        " With this few tools it costs more than it saves in {titles}; it pays off from a few \
         dozen tools."
    )
}

/// Joins titles as in a sentence. `None` if there are none.
fn joined(titles: &[&str]) -> Option<String> {
    let (last, first) = titles.split_last()?;
    if first.is_empty() {
        return Some((*last).to_owned());
    }
    Some(format!("{} and {last}", first.join(", ")))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn only_clients_that_read_more_than_before_are_named() {
        let remark = |sizes: &[(&'static str, usize, usize)]| costs_more(sizes.iter().copied());
        assert_eq!(remark(&[]), "");
        assert_eq!(remark(&[("Codex", 700, 700), ("Cursor", 900, 700)]), "");
        for (sizes, titles) in [
            (vec![("Codex", 90, 700), ("Cursor", 900, 700)], "Codex;"),
            (vec![("Codex", 90, 700), ("Cursor", 80, 700)], "Codex and Cursor;"),
            (vec![("Codex", 9, 70), ("Zed", 8, 70), ("Goose", 7, 70)], "Codex, Zed and Goose;"),
            (vec![("Cline", 9, 70), ("Cline", 8, 70)], "Cline;"),
        ] {
            let remark = remark(&sizes);
            assert!(remark.contains(&format!(" in {titles}")), "{remark}");
        }
    }

    #[test]
    fn each_line_of_a_reason_is_shown_as_a_line() {
        assert_eq!(
            indented("closed\nerror: 1 \u{1b}[31m"),
            r"closed|  error: 1 \x1b[31m".replace('|', "\n")
        );
    }
}

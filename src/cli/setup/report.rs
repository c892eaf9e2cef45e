//! The text output of `setup`: the plan and the outcome.

use crate::authoring::service::ServiceManager;
use crate::cli::import::report::{proposal, shown};
use crate::cli::print::escape_to_line;
use crate::cli::setup::apply::ApplyOutcome;
use crate::cli::setup::plan::{ClientPlan, SetupPlan};
use crate::cli::setup::service_plan::ServicePlan;
use crate::cli::table::{Align, Table};
use crate::cli::units::{ContextSize, format_count, number};

pub(super) fn plan(plan: &SetupPlan) -> String {
    let mut sections = vec![clients(plan).to_string()];
    let file = plan.target.display_path.display();
    if !plan.added.is_empty() {
        let made = if plan.config_before.is_some() { "added to" } else { "of the new" };
        sections.push(format!("Toolboxes {made} `{file}`:\n\n{}", proposal(&plan.proposed)));
    }
    if plan.new_secrets > 0 {
        let name = plan.secrets.0.file_name().unwrap_or_default().display();
        let verb = if plan.new_secrets == 1 { "goes" } else { "go" };
        sections.push(format!(
            "{} of theirs {verb} into `{name}` beside it, which nobody else can read",
            format_count(plan.new_secrets, "secret")
        ));
    }
    sections.extend(plan.shared.as_ref().map(shared));
    let stay: Vec<String> =
        plan.clients.iter().flat_map(skipped_lines).chain(untouched(plan)).collect();
    if !stay.is_empty() {
        sections.push(format!("Left as they are:\n{}", stay.join("\n")));
    }
    if !plan.remarks.is_empty() {
        let remarks: Vec<String> = plan.remarks.iter().map(shown).collect();
        sections.push(remarks.join("\n"));
    }
    if plan.is_empty() {
        sections.push("nothing is to be done: the workbench has all that it can have".to_owned());
    }
    sections.join("\n\n")
}

fn shared(shared: &ServicePlan) -> String {
    let url = shared.service.url();
    let name = &shared.service.name;
    let by = match shared.service.manager {
        ServiceManager::Systemd => format!("systemd starts it as `{name}`"),
        ServiceManager::Launchd => format!("launchd starts it as `{name}`"),
        ServiceManager::TaskScheduler => format!("the task scheduler starts it as `{name}`"),
        ServiceManager::Unmanaged => {
            return format!(
                "One workbench for all of them, at {url}: nobody starts services of yours here, so each \
                 client gets the command `connect`, which starts it when it is wanted"
            );
        }
    };
    let how = if shared.variables.is_empty() {
        "a client that speaks no HTTP gets the command `connect`".to_owned()
    } else {
        let names = escape_to_line(&shared.variables.join("`, `"));
        format!(
            "each client gets the command `connect`, and serves itself, for the configuration takes \
             `{names}` from its environment: put that into the file of secrets beside it to share servers"
        )
    };
    format!("One workbench for all of them, at {url}: {by}, and {how}")
}

fn clients(plan: &SetupPlan) -> Table {
    let mut table = Table::new([
        ("Client", Align::Left),
        ("File", Align::Left),
        ("Workbench", Align::Left),
        ("In place of", Align::Left),
    ]);
    for client in &plan.clients {
        let (starts, taken) = match &client.change {
            Err(_) => ("no, see below", String::new()),
            Ok(changed) => {
                let taken: Vec<&str> = changed.removed.iter().map(|t| t.name.as_str()).collect();
                let is_new = client.new_text().is_some();
                (if is_new { "yes" } else { "already" }, taken.join(", "))
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
    let line = |(name, why): &(String, String)| {
        format!("  `{}` of {title}: {}", escape_to_line(name), escape_to_line(why))
    };
    client.skipped.iter().map(line).collect()
}

fn untouched(plan: &SetupPlan) -> impl Iterator<Item = String> {
    let unchanged = plan.clients.iter().filter_map(|client| {
        let why = client.change.as_ref().err()?;
        Some((client.file.program.title, client.file.shown.as_str(), why.as_str()))
    });
    let unreadable = plan.unreadable.iter().map(|(title, file, why)| (*title, &**file, &**why));
    let all = unchanged.chain(unreadable);
    all.map(|(title, file, why)| {
        format!("  `{}` of {title}: {}", escape_to_line(file), escape_to_line(why))
    })
}

/// `start` is the size of the definitions that each client now reads at startup, or the error of
/// measuring it.
pub(super) fn outcome_text(
    plan: &SetupPlan,
    done: &ApplyOutcome,
    start: Result<&ContextSize, &String>,
    is_locked: bool,
) -> String {
    let mut sections = Vec::new();
    let written = format_count(done.written.len(), "client");
    let verb = if done.written.len() == 1 { "starts" } else { "start" };
    sections.push(format!("done: {written} {verb} the workbench now"));
    for (place, why) in &done.failed {
        let Some(client) = plan.clients.get(*place) else { continue };
        let file = escape_to_line(&client.file.shown);
        let title = client.file.program.title;
        sections.push(format!(
            "error: {title} is as it was, for `{file}` could not be written\n  {}",
            escape_to_line(why)
        ));
    }
    match start {
        Ok(start) => sections.extend(savings(plan, done, *start)),
        Err(why) => sections
            .push(format!("warning: the workbench was tried and failed: {}", escape_to_line(why))),
    }
    let mut hints = vec![
        "hint: restart your clients, so that they start it",
        "hint: agents choose a toolbox by its description, so read it over in the file",
        "hint: `mcp-workbench setup undo` takes all of it back",
    ];
    if !is_locked {
        hints.insert(
            2,
            "hint: `mcp-workbench lock` keeps what servers say of their tools in a file to review",
        );
    }
    sections.push(hints.join("\n"));
    sections.join("\n\n")
}

fn savings(plan: &SetupPlan, done: &ApplyOutcome, start: ContextSize) -> Option<String> {
    let mut table = Table::new([
        ("Client", Align::Left),
        ("Tokens before", Align::Right),
        ("Now", Align::Right),
    ]);
    let written = done.written.iter().filter_map(|place| plan.clients.get(*place));
    let with_servers: Vec<&ClientPlan> = written.filter(|client| client.size.bytes() > 0).collect();
    for client in &with_servers {
        table.row([
            client.file.program.title.to_owned(),
            number(client.size.tokens()),
            number(start.tokens()),
        ]);
    }
    let is_dear = with_servers.iter().any(|client| client.size.bytes() < start.bytes());
    let remark = if is_dear {
        ". With so few tools it costs more than it saves: it pays from some dozen tools on"
    } else {
        ""
    };
    (!with_servers.is_empty()).then(|| {
        format!(
            "{table}\n\nat the start of each session: before, the definitions of all tools of the servers that \
             were taken over; now, the workbench's own and its instructions{remark}"
        )
    })
}

//! The report on a setup to people: the plan, and the outcome.

use crate::authoring::service::Manager;
use crate::cli::import::report::{proposal, shown};
use crate::cli::print::printable;
use crate::cli::setup::carry::Done;
use crate::cli::setup::plan::{Client, Plan};
use crate::cli::setup::shared::Shared;
use crate::cli::size::{Size, count, number};
use crate::cli::table::{Align, Table};

/// The plan.
pub(super) fn plan(plan: &Plan) -> String {
    let mut sections = vec![clients(plan).to_string()];
    let file = plan.target.shown.display();
    if !plan.added.is_empty() {
        let made = if plan.config_before.is_some() { "added to" } else { "of the new" };
        sections.push(format!("Toolboxes {made} `{file}`:\n\n{}", proposal(&plan.proposed)));
    }
    if plan.new_secrets > 0 {
        let name = plan.secrets.0.file_name().unwrap_or_default().display();
        let verb = if plan.new_secrets == 1 { "goes" } else { "go" };
        sections.push(format!(
            "{} of theirs {verb} into `{name}` beside it, which nobody else can read",
            count(plan.new_secrets, "secret")
        ));
    }
    sections.extend(plan.shared.as_ref().map(shared));
    let stay: Vec<String> = plan.clients.iter().flat_map(staying).chain(untouched(plan)).collect();
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

/// The service that all clients are to share.
fn shared(shared: &Shared) -> String {
    let url = shared.service.url();
    let name = &shared.service.name;
    let by = match shared.service.manager {
        Manager::Systemd => format!("systemd starts it as `{name}`"),
        Manager::Launchd => format!("launchd starts it as `{name}`"),
        Manager::Tasks => format!("the task scheduler starts it as `{name}`"),
        Manager::Nobody => {
            return format!(
                "One workbench for all of them, at {url}: nobody starts services of yours here, so each \
                 client gets the command `connect`, which starts it when it is wanted"
            );
        }
    };
    let how = if shared.variables.is_empty() {
        "a client that speaks no HTTP gets the command `connect`".to_owned()
    } else {
        let names = printable(&shared.variables.join("`, `"));
        format!(
            "each client gets the command `connect`, and serves itself, for the configuration takes \
             `{names}` from its environment: put that into the file of secrets beside it to share servers"
        )
    };
    format!("One workbench for all of them, at {url}: {by}, and {how}")
}

/// A line for each client: the servers that our entry stands in place of.
fn clients(plan: &Plan) -> Table {
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
                let taken: Vec<&str> = changed.taken.iter().map(|t| t.name.as_str()).collect();
                let is_new = client.new_text().is_some();
                (if is_new { "yes" } else { "already" }, taken.join(", "))
            }
        };
        table.row([
            client.file.program.title.to_owned(),
            printable(&client.file.shown),
            starts.to_owned(),
            printable(&taken),
        ]);
    }
    table
}

/// Servers that stay with a client.
fn staying(client: &Client) -> Vec<String> {
    let title = client.file.program.title;
    let line = |(name, why): &(String, String)| {
        format!("  `{}` of {title}: {}", printable(name), printable(why))
    };
    client.left.iter().map(line).collect()
}

/// Files that are not touched.
fn untouched(plan: &Plan) -> impl Iterator<Item = String> {
    let unchanged = plan.clients.iter().filter_map(|client| {
        let why = client.change.as_ref().err()?;
        Some((client.file.program.title, client.file.shown.as_str(), why.as_str()))
    });
    let unreadable = plan.unreadable.iter().map(|(title, file, why)| (*title, &**file, &**why));
    let all = unchanged.chain(unreadable);
    all.map(|(title, file, why)| format!("  `{}` of {title}: {}", printable(file), printable(why)))
}

/// The outcome, and what it saves; `start` is the size of what each client reads at the start now.
pub(super) fn done(
    plan: &Plan,
    done: &Done,
    start: Result<&Size, &String>,
    is_locked: bool,
) -> String {
    let mut sections = Vec::new();
    let written = count(done.written.len(), "client");
    let verb = if done.written.len() == 1 { "starts" } else { "start" };
    sections.push(format!("done: {written} {verb} the workbench now"));
    for (place, why) in &done.failed {
        let Some(client) = plan.clients.get(*place) else { continue };
        let file = printable(&client.file.shown);
        let title = client.file.program.title;
        sections.push(format!(
            "error: {title} is as it was, for `{file}` could not be written\n  {}",
            printable(why)
        ));
    }
    match start {
        Ok(start) => sections.extend(savings(plan, done, *start)),
        Err(why) => sections
            .push(format!("warning: the workbench was tried and failed: {}", printable(why))),
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

/// The sizes of what each client read at the start for its servers, and reads now.
fn savings(plan: &Plan, done: &Done, start: Size) -> Option<String> {
    let mut table = Table::new([
        ("Client", Align::Left),
        ("Tokens before", Align::Right),
        ("Now", Align::Right),
    ]);
    let written = done.written.iter().filter_map(|place| plan.clients.get(*place));
    let with_servers: Vec<&Client> = written.filter(|client| client.size.bytes() > 0).collect();
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

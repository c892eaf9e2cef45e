//! The tables of `check`.

use crate::cli::configuring::check::report::{CheckStatus, ServerRow};
use crate::cli::output::{Align, ContextSize, Table, format_count, number};

pub(super) fn configured_table(servers: &[ServerRow]) -> Table {
    let mut table = Table::left(["Toolbox", "Server", "Command", "Status"]);
    for server in servers {
        table.row([
            server.toolbox.clone(),
            server.server.clone(),
            server.command.clone().unwrap_or_default(),
            server.status.to_string(),
        ]);
    }
    table
}

pub(super) fn started_table(servers: &[ServerRow]) -> Table {
    let mut table = Table::new([
        ("Toolbox", Align::Left),
        ("Server", Align::Left),
        ("Tools", Align::Right),
        ("Bytes", Align::Right),
        ("Tokens", Align::Right),
        ("Startup (ms)", Align::Right),
        ("Status", Align::Left),
    ]);
    for server in servers {
        let size = |of: fn(ContextSize) -> usize| server.size.map(|size| number(of(size)));
        table.row([
            server.toolbox.clone(),
            server.server.clone(),
            server.tools.map(number).unwrap_or_default(),
            size(ContextSize::bytes).unwrap_or_default(),
            size(ContextSize::tokens).unwrap_or_default(),
            server.start_ms.map(|ms| ms.to_string()).unwrap_or_default(),
            server.status.to_string(),
        ]);
    }
    table
}

pub(super) fn summary(servers: &[ServerRow]) -> String {
    let started = servers.iter().filter(|server| server.status == CheckStatus::Started);
    let wanted = servers.iter().filter(|server| server.status != CheckStatus::Disabled);
    format!(
        "{} of {} started: {} ({})",
        number(started.clone().count()),
        format_count(wanted.count(), "server"),
        format_count(started.clone().filter_map(|server| server.tools).sum(), "tool"),
        started.filter_map(|server| server.size).sum::<ContextSize>(),
    )
}

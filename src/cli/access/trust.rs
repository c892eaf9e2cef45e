//! `trust`: lets the servers of a project file start, after showing them.

mod summary;

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;

use crate::cli::access::trust::summary::{RecordingEnv, summary};
use crate::cli::args::GlobalArgs;
use crate::cli::files::project_files::{PROJECT_FILE, ProjectFiles, TrustRecord, TrustRecords};
use crate::cli::onboarding::prompt::{confirm, is_interactive};
use crate::cli::output::{CommandError, Table, format_count, print, unified_diff};
use crate::cli::runtime::current_folder;
use crate::cli::servers::running_workbenches::{request_reload, running_workbenches};
use mcp_workbench_config::env::{EnvSource, ProcessEnv};
use mcp_workbench_config::{ConfigReport, ProjectState, TakenNames, parse_project};
use mcp_workbench_core::backend::watchdog::LAUNCH_ID_VAR;

const EXAMPLES: &str = "\
Examples:
  mcp-workbench trust               Review and trust the project of this folder
  mcp-workbench trust --list        List the project files that you trust
  mcp-workbench trust --remove      Forget that you trusted it";

/// Review the servers of a project and let them start
///
/// Shows `.mcp-workbench.json` of the current folder or repository, and what its servers would run,
/// and asks whether to trust it. Until then, and again after each change of the file, its servers
/// don't start. Its rules always apply: they only narrow your own.
///
/// Needs a terminal: only you can trust a project, not a script or an agent.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Folder of the project [default: the current folder]
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
    /// List the trusted project files
    #[arg(long, conflicts_with_all = ["folder", "remove"])]
    list: bool,
    /// Stop trusting the project file, and forget its rules
    #[arg(long)]
    remove: bool,
    /// Print JSON
    #[arg(long, requires = "list")]
    json: bool,
}

pub(crate) fn run(global: &GlobalArgs, args: &Args) -> Result<ExitCode, CommandError> {
    let records = TrustRecords::of_user(&ProcessEnv).ok_or_else(|| {
        CommandError::usage("cannot locate the state folder").with_hint("set `HOME`")
    })?;
    if args.list {
        return list(&records, args.json);
    }
    check_terminal(args.remove)?;
    let folder = match args.folder.as_ref().or(global.project.as_ref()) {
        Some(folder) => std::path::absolute(folder).map_err(CommandError::internal)?,
        None => current_folder()?,
    };
    if args.remove { remove(global, &records, &folder) } else { trust(global, &records, &folder) }
}

/// An agent may be able to run commands as this user, so there is no `--yes`.
fn check_terminal(removes: bool) -> Result<(), CommandError> {
    let verb = if removes { "stop trusting" } else { "trust" };
    if ProcessEnv.get(LAUNCH_ID_VAR).is_some() {
        let message = format!("a server of the workbench can't {verb} a project");
        return Err(CommandError::usage(message)
            .with_hint("run `mcp-workbench trust` in a terminal of your own"));
    }
    if is_interactive() && io::stdout().is_terminal() {
        return Ok(());
    }
    let message = format!("only a person at a terminal can {verb} a project");
    Err(CommandError::usage(message).with_hint("run `mcp-workbench trust` in a terminal"))
}

fn trust(
    global: &GlobalArgs,
    records: &TrustRecords,
    folder: &Path,
) -> Result<ExitCode, CommandError> {
    let files = ProjectFiles::around(folder, &ProcessEnv);
    // Read once: exactly the bytes shown are trusted.
    let Some((path, text)) = files.current().map_err(CommandError::config)? else {
        let message = format!("no project file for `{}`", folder.display());
        let hint = format!("create `{PROJECT_FILE}` in it, or in the root of its repository");
        return Err(CommandError::usage(message).with_hint(hint));
    };
    let before = records.read(&path).ok().flatten();
    let record = TrustRecord::new(&path, text);
    if before.as_ref().is_some_and(|before| before.text == record.text) {
        print::prose(&format!("you already trust `{}`", record.path))?;
        reload_running(global, &path)?;
        return Ok(ExitCode::SUCCESS);
    }
    let own = GlobalArgs { no_project: true, project: None, ..global.clone() };
    let taken = own.try_read()?.map(|own| TakenNames::of(&own.config, &own.disabled));
    let env = RecordingEnv::default();
    let (project, findings) = parse_project(
        &record.text,
        &record.path,
        path.parent().unwrap_or(Path::new("/")),
        &taken.unwrap_or_default(),
        Some(&env),
    )
    .map_err(CommandError::invalid_config)?;
    print::prose(&format!("`{}` ({})\n", record.path, record.digest))?;
    match &before {
        Some(before) => {
            let titles = ["as trusted", "now"];
            print::text_unredacted(&unified_diff(&before.text, &record.text, titles))?;
        }
        None => print::text_unredacted(&record.text.trim_end())?,
    }
    print::text_unredacted(&format!("\n{}", summary(&project, &env)))?;
    if !findings.is_empty() {
        print::note(&format!("\n{}", ConfigReport { file: record.path.clone(), findings }));
    }
    let question = "Trust this file?";
    let is_trusted = confirm(question, io::stdin().lock(), io::stderr().lock());
    if !is_trusted.map_err(CommandError::internal)? {
        print::note(&"not trusted; nothing changed");
        return Ok(ExitCode::FAILURE);
    }
    records.write(&path, &record)?;
    print::prose(&format!("trusted `{}`", record.path))?;
    reload_running(global, &path)?;
    Ok(ExitCode::SUCCESS)
}

fn remove(
    global: &GlobalArgs,
    records: &TrustRecords,
    folder: &Path,
) -> Result<ExitCode, CommandError> {
    // The file or its folder may be gone.
    let mut paths = ProjectFiles::around(folder, &ProcessEnv).candidates();
    paths.push(folder.join(PROJECT_FILE));
    let all = records.all()?;
    let is_known =
        |path: &&PathBuf| all.iter().any(|record| *record.path == path.to_string_lossy());
    let Some(path) = paths.iter().find(is_known) else {
        let message = format!("you don't trust a project file for `{}`", folder.display());
        return Err(CommandError::usage(message)
            .with_hint("run `mcp-workbench trust --list` to see those that you trust"));
    };
    let question = format!(
        "Forget `{}`? Its servers won't start, and its rules as trusted end.",
        path.display()
    );
    let is_sure = confirm(&question, io::stdin().lock(), io::stderr().lock());
    if !is_sure.map_err(CommandError::internal)? {
        print::note(&"nothing changed");
        return Ok(ExitCode::FAILURE);
    }
    records.remove(path)?;
    print::prose(&format!("no longer trusted: `{}`", path.display()))?;
    reload_running(global, path)?;
    Ok(ExitCode::SUCCESS)
}

/// Asks the workbenches of the project to reload, so that they start or stop its servers.
fn reload_running(global: &GlobalArgs, path: &Path) -> Result<(), CommandError> {
    let mut serving = running_workbenches(global)?;
    serving.retain(|record| record.project_files.iter().any(|file| file == path));
    // Another waiting change may be an agent's.
    let (waiting, ready): (Vec<_>, Vec<_>) =
        serving.into_iter().partition(|record| record.has_pending_changes);
    let asked = request_reload(&ready)?;
    let asked = asked.iter().filter(|asked| asked.is_ok()).count();
    if asked > 0 {
        let verb = if asked == 1 { "reloads" } else { "reload" };
        let count = format_count(asked, "running workbench");
        print::prose(&format!("{count} of the project {verb} it now"))?;
    }
    let rest = waiting.len() + ready.len() - asked;
    if rest > 0 {
        print::note(&format!(
            "hint: {} of the project waits with configuration changes; run `mcp-workbench reload` to \
             apply all of them",
            format_count(rest, "running workbench")
        ));
    }
    Ok(())
}

#[derive(Serialize)]
struct TrustRow {
    file: String,
    digest: String,
    /// `trusted`, `changed`, `gone` or `unreadable`.
    state: &'static str,
}

fn list(records: &TrustRecords, is_json: bool) -> Result<ExitCode, CommandError> {
    let rows = records.all()?.into_iter().map(|record| {
        let text = ProjectFiles::read_one(Path::new(&record.path));
        let state = match text {
            Ok(Some(text)) if text == record.text => ProjectState::Trusted.as_str(),
            Ok(Some(_)) => ProjectState::Changed.as_str(),
            Ok(None) => ProjectState::Gone.as_str(),
            Err(_) => "unreadable",
        };
        TrustRow { file: record.path, digest: record.digest, state }
    });
    let rows: Vec<TrustRow> = rows.collect();
    if is_json {
        print::json(&rows)?;
    } else if rows.is_empty() {
        print::note(&"no trusted project files");
    } else {
        let mut table = Table::left(["File", "State", "Digest"]);
        for row in &rows {
            let digest: String = row.digest.chars().take(19).collect();
            table.row([row.file.clone(), row.state.to_owned(), digest]);
        }
        print::prose(&table)?;
    }
    Ok(ExitCode::SUCCESS)
}

//! The configuration as the admin interface sees it: redacted, checked, and with a patch that
//! removes unused tools.

use crate::cli::args::GlobalArgs;
use crate::cli::diagnostics::config_remarks;
use crate::cli::monitoring::unused_tools::{UnusedTool, build_patch, is_patched};
use crate::cli::output::{CommandError, print, redact};
use mcp_workbench_config::{LoadError, Severity};
use mcp_workbench_names::untrusted_text;
use mcp_workbench_os::read_input_text;
use mcp_workbench_serve::admin::{ConfigFinding, ConfigSource, UnusedServerTools};

pub(crate) fn admin_config(global: &GlobalArgs, file: &str) -> ConfigSource {
    let (of_patch, of_findings) = (global.clone(), global.clone());
    ConfigSource {
        config: file.to_owned(),
        patch: Box::new(move |idle| patch(&of_patch, idle).map_err(|error| error.to_string())),
        findings: Box::new(move || findings(&of_findings).map_err(|error| error.to_string())),
    }
}

/// Returns the patch that filters out unused tools, or an empty text if it would change nothing or
/// the file can't be patched.
fn patch(global: &GlobalArgs, idle: &[UnusedServerTools]) -> Result<String, CommandError> {
    let unused: Vec<_> = idle
        .iter()
        .flat_map(|server| {
            server.tools.iter().map(|(tool, own_name)| UnusedTool {
                toolbox: server.toolbox.clone(),
                server: server.server.clone(),
                tool: tool.clone(),
                own_name: own_name.clone(),
                bytes: 0,
            })
        })
        .collect();
    let shown = idle.iter().map(|idle| (idle.toolbox.clone(), idle.server.clone(), idle.shown));
    let shown: Vec<_> = shown.collect();
    let loaded = global.read()?;
    if !is_patched(&loaded) {
        return Ok(String::new());
    }
    let fragment = build_patch(global, &loaded, &unused, &shown)?;
    fragment.map_or_else(|| Ok(String::new()), |fragment| print::pretty_json(&fragment))
}

/// Returns the redacted text of the configuration and its findings. The text is `None` for a
/// catalog folder or an invalid configuration.
fn findings(global: &GlobalArgs) -> Result<(Option<String>, Vec<ConfigFinding>), CommandError> {
    let found = match global.try_read()? {
        Ok(loaded) => {
            let mut found = loaded.findings;
            found.extend(config_remarks::findings(global, &loaded.config)?);
            found
        }
        // An invalid configuration doesn't tell which of its values are secret.
        Err(LoadError::Invalid(report)) => {
            return Ok((None, report.findings.iter().map(finding).collect()));
        }
        Err(error) => return Err(CommandError::config(error)),
    };
    let file = global.source_file()?;
    let text = file.filter(|file| file.is_file()).and_then(|file| read_input_text(&file).ok());
    let text = text.map(|text| redact(&text).into_owned());
    Ok((text, found.iter().map(finding).collect()))
}

fn finding(found: &mcp_workbench_config::Finding) -> ConfigFinding {
    let severity = match found.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let path = match &found.file {
        Some(file) => format!("{file}: {}", found.path).trim_end_matches([':', ' ']).to_owned(),
        None => found.path.clone(),
    };
    let shown = |text: &str| untrusted_text::clean_lines(&redact(text));
    ConfigFinding {
        severity: severity.to_owned(),
        path: shown(&path),
        line: found.position.map(|(line, _)| line),
        message: shown(&found.message),
        hint: found.hint.as_deref().map(shown),
    }
}

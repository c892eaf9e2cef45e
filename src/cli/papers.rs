//! The configuration as the desk of a workbench has it: looked through, and with a patch made for it.

use serde_json::Value;

use crate::cli::error::Error;
use crate::cli::hidden::without_secrets;
use crate::cli::stats::{Unused, fragment_of};
use crate::cli::{Global, remarks};
use crate::config::{self, LoadError, Severity};
use crate::desk::{Finding, Idle, Papers};
use crate::name::seen;

/// The papers of a workbench that serves this file, as the user named it.
pub(crate) fn papers(global: &Global, file: &str) -> Papers {
    let (of_patch, of_findings) = (global.clone(), global.clone());
    Papers {
        config: file.to_owned(),
        patch: Box::new(move |idle| patch(&of_patch, idle).map_err(|error| error.to_string())),
        findings: Box::new(move || findings(&of_findings).map_err(|error| error.to_string())),
    }
}

/// The patch that leaves out what nobody has used, in the words of the file; empty if nothing is left
/// out or the file cannot be patched.
fn patch(global: &Global, idle: &[Idle]) -> Result<String, Error> {
    let unused: Vec<_> = idle
        .iter()
        .flat_map(|server| {
            server.tools.iter().map(|(tool, own_name)| Unused {
                toolbox: server.toolbox.clone(),
                server: server.server.clone(),
                tool: tool.clone(),
                own_name: own_name.clone(),
                bytes: 0,
            })
        })
        .collect();
    let shown = idle.iter().map(|idle| (idle.toolbox.clone(), idle.server.clone(), idle.shown));
    let loaded = global.read()?.map_err(Error::config)?;
    let fragment: Option<Value> = fragment_of(global, &loaded, unused, shown.collect())?;
    let text = fragment.map(|fragment| serde_json::to_string_pretty(&fragment));
    Ok(text.transpose().map_err(Error::internal)?.unwrap_or_default())
}

/// The text of the file without secrets, if it is one file and they are known; and what is found in it.
fn findings(global: &Global) -> Result<(Option<String>, Vec<Finding>), Error> {
    let found = match global.read()? {
        Ok(loaded) => {
            let mut found = loaded.warnings;
            found.extend(remarks::findings(global, &loaded.config)?);
            found
        }
        // Which of its values are secrets is not known then.
        Err(LoadError::Invalid(report)) => {
            return Ok((None, report.findings.iter().map(finding).collect()));
        }
        Err(error) => return Err(Error::config(error)),
    };
    let file = global.own_file()?;
    let text =
        file.filter(|file| file.is_file()).and_then(|file| std::fs::read_to_string(file).ok());
    let text = text.map(|text| without_secrets(&text).into_owned());
    Ok((text, found.iter().map(finding).collect()))
}

fn finding(found: &config::Finding) -> Finding {
    let severity = match found.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let shown = |text: &str| seen::lines(&without_secrets(text));
    Finding {
        severity: severity.to_owned(),
        path: shown(&found.path),
        line: found.position.map(|(line, _)| line),
        message: shown(&found.message),
        hint: found.hint.as_deref().map(shown),
    }
}

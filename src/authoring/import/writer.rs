//! Writes servers and settings into the text of a configuration. Comments and formatting are
//! preserved.

use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};
use serde_json::Value;

use crate::authoring::import::SourceFile;
use crate::authoring::import::entry::ImportedEntry;
use crate::authoring::import::top_level::json_to_cst;
use mcp_workbench_config::syntax::document::{self, Node, line_columns};
use mcp_workbench_config::syntax::finding::{ConfigReport, Finding, Severity};

pub(super) const EMPTY: &str = "{\n}\n";

pub(super) fn extend(
    existing: &SourceFile,
    additions: Vec<Addition>,
) -> Result<String, ConfigReport> {
    let text = document::strip_bom(&existing.text);
    let mark = &existing.text[..existing.text.len() - text.len()];
    let refused = |path: &str| not_extendable(existing, path);
    let root = CstRootNode::parse(text, &document::jsonc_options())
        .ok()
        .and_then(|root| Some((root.object_value()?, root)));
    let Some((object, root)) = root else {
        return Err(refused(""));
    };
    for addition in additions {
        match addition {
            Addition::Server { name, block } => {
                object_in(&object, "mcpServers")
                    .ok_or_else(|| refused("mcpServers"))?
                    .append(&name, block.into_value());
            }
            Addition::ToToolbox { toolbox, name, block } => {
                let servers = object_in(&object, "toolboxes")
                    .and_then(|toolboxes| toolboxes.object_value(&toolbox))
                    .and_then(|toolbox| object_in(&toolbox, "mcpServers"));
                servers
                    .ok_or_else(|| refused(&format!("toolboxes.{toolbox}")))?
                    .append(&name, block.into_value());
            }
            Addition::Category { name, category } => {
                object_in(&object, "categories")
                    .ok_or_else(|| refused("categories"))?
                    .append(&name, json_to_cst(category));
            }
            Addition::ActiveToolsets(globs) => {
                let array = object.array_value_or_create("activeToolsets");
                let array = array.ok_or_else(|| refused("activeToolsets"))?;
                for glob in globs {
                    array.append(glob.into());
                }
            }
            Addition::Confirmations(patterns) => {
                let spellings = ["dangerous_tools", "dangerousTools"];
                let key = spellings.iter().find(|key| object.get(key).is_some());
                let key = key.copied().unwrap_or("dangerousTools");
                let array = object.array_value_or_create(key);
                let array = array.ok_or_else(|| refused("dangerousTools"))?;
                let there: Vec<String> = array.elements().iter().map(ToString::to_string).collect();
                for pattern in patterns {
                    if !there.contains(&Value::from(pattern.as_str()).to_string()) {
                        array.append(pattern.into());
                    }
                }
            }
            Addition::Setting(key, value) => _ = object.append(&key, json_to_cst(value)),
            Addition::Mode(mode) => _ = object.insert(0, "toolMode", mode.into()),
            Addition::Toolbox { name, description, namespace } => {
                let mut toolbox = vec![("description".to_owned(), description.into())];
                toolbox.extend(namespace.map(|text| ("namespace".to_owned(), text.into())));
                object_in(&object, "toolboxes")
                    .ok_or_else(|| refused("toolboxes"))?
                    .append(&name, CstInputValue::Object(toolbox));
            }
        }
    }
    Ok(format!("{mark}{root}"))
}

/// Returns the object under `key`, which is created if needed. Returns `None` if `key` has another
/// value.
fn object_in(object: &CstObject, key: &str) -> Option<CstObject> {
    object.object_value_or_create(key)
}

/// Returns an error if the configuration cannot be extended safely.
pub(super) fn check(existing: &SourceFile) -> Result<(), ConfigReport> {
    let text = document::strip_bom(&existing.text);
    let refuse = |finding| ConfigReport { file: existing.file.clone(), findings: vec![finding] };
    let tree = document::parse_jsonc(text).map_err(refuse)?;
    if tree.as_object().is_none() {
        return Err(not_extendable(existing, ""));
    }
    match document::find_duplicate_keys(&Node::root(&tree)).into_iter().next() {
        None => Ok(()),
        Some((location, _)) => Err(refuse(Finding {
            severity: Severity::Error,
            file: None,
            position: line_columns(text, &[location.offset]).first().copied(),
            path: location.path(),
            message: "duplicate key".to_owned(),
            hint: Some("remove one of them before importing".to_owned()),
        })),
    }
}

fn not_extendable(existing: &SourceFile, path: &str) -> ConfigReport {
    ConfigReport {
        file: existing.file.clone(),
        findings: vec![Finding {
            severity: Severity::Error,
            file: None,
            path: path.to_owned(),
            position: None,
            message: "expected an object to add servers to".to_owned(),
            hint: Some("fix the configuration before importing".to_owned()),
        }],
    }
}

pub(super) enum Addition {
    /// A toolbox without servers.
    Toolbox {
        name: String,
        description: String,
        namespace: Option<String>,
    },
    ToToolbox {
        toolbox: String,
        name: String,
        block: ImportedEntry,
    },
    /// A server in the top-level `mcpServers`.
    Server {
        name: String,
        block: ImportedEntry,
    },
    Category {
        name: String,
        category: Value,
    },
    /// Globs to append to `activeToolsets`.
    ActiveToolsets(Vec<String>),
    /// Patterns to append to `dangerousTools`.
    Confirmations(Vec<String>),
    Mode(String),
    Setting(String, Value),
}

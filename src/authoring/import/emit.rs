//! Writing servers into the text of a configuration, its comments and formatting kept.

use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};
use serde_json::Value;

use crate::authoring::import::Source;
use crate::authoring::import::block::Block;
use crate::authoring::import::category::written;
use crate::config::syntax::document::{self, Node, positions};
use crate::config::syntax::finding::{Finding, Report, Severity};

/// A configuration that has nothing in it yet.
pub(super) const EMPTY: &str = "{\n}\n";

/// Writes the additions into a configuration.
pub(super) fn extend(existing: &Source, additions: Vec<Addition>) -> Result<String, Report> {
    let text = document::without_mark(&existing.text);
    let mark = &existing.text[..existing.text.len() - text.len()];
    let refused = |path: &str| not_extendable(existing, path);
    let root = CstRootNode::parse(text, &document::syntax())
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
                    .append(&name, written(category));
            }
            Addition::Active(globs) => {
                let array = object.array_value_or_create("activeToolsets");
                let array = array.ok_or_else(|| refused("activeToolsets"))?;
                for glob in globs {
                    array.append(glob.into());
                }
            }
            Addition::Setting(key, value) => _ = object.append(&key, written(value)),
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

/// The object under `key`, made if there is none; none if something else stands there.
fn object_in(object: &CstObject, key: &str) -> Option<CstObject> {
    object.object_value_or_create(key)
}

/// Returns the faults of a configuration that is to be extended, as an error.
pub(super) fn check(existing: &Source) -> Result<(), Report> {
    let text = document::without_mark(&existing.text);
    let refuse = |finding| Report { file: existing.file.clone(), findings: vec![finding] };
    let tree = document::parse(text).map_err(refuse)?;
    if tree.as_object().is_none() {
        return Err(not_extendable(existing, ""));
    }
    match document::duplicates(&Node::root(&tree)).into_iter().next() {
        None => Ok(()),
        Some((spot, _)) => Err(refuse(Finding {
            severity: Severity::Error,
            file: None,
            position: positions(text, &[spot.offset]).first().copied(),
            path: spot.path(),
            message: "this key is written twice".to_owned(),
            hint: Some("remove one of the two before importing".to_owned()),
        })),
    }
}

fn not_extendable(existing: &Source, path: &str) -> Report {
    Report {
        file: existing.file.clone(),
        findings: vec![Finding {
            severity: Severity::Error,
            file: None,
            path: path.to_owned(),
            position: None,
            message: "expected an object to add servers to".to_owned(),
            hint: Some("correct the configuration before importing".to_owned()),
        }],
    }
}

/// One change to the text of a configuration.
pub(super) enum Addition {
    /// A toolbox, with no servers yet.
    Toolbox { name: String, description: String, namespace: Option<String> },
    /// A server in a toolbox that is there.
    ToToolbox { toolbox: String, name: String, block: Block },
    /// A server under the top-level `mcpServers`.
    Server { name: String, block: Block },
    /// A category.
    Category { name: String, category: Value },
    /// The names of what is active from the start.
    Active(Vec<String>),
    /// How toolboxes are presented.
    Mode(String),
    /// Another setting at the top.
    Setting(String, Value),
}

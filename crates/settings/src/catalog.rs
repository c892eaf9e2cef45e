//! A validated catalog: a folder of categories, services and tools.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};

use crate::catalog::file_names::usual;
use mcp_workbench_names::ServerRef;

pub mod file_names;

/// The contents of a catalog folder.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CatalogFolder {
    /// Absolute path.
    pub folder: PathBuf,
    /// Sorted by name.
    pub categories: Vec<CatalogCategory>,
    /// Reads tool files on demand.
    pub reader: ToolReader,
}

impl CatalogFolder {
    /// Removes tools rejected by `keeps`, and services and categories that become empty.
    pub fn retain(&mut self, keeps: impl Fn(&ServerRef, &str) -> bool) {
        for category in &mut self.categories {
            for service in &mut category.services {
                let at = &service.at;
                service.tools.retain(|tool| keeps(at, tool));
            }
            category.services.retain(|service| !service.tools.is_empty());
        }
        self.categories.retain(|category| !category.services.is_empty());
    }
}

/// A folder of services.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CatalogCategory {
    pub name: String,
    /// From `_category.yaml`; empty without one.
    pub description: String,
    /// Sorted by name; never empty.
    pub services: Vec<CatalogService>,
}

/// A folder of tools of one server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CatalogService {
    pub name: String,
    /// From `_service.yaml`; empty without one.
    pub description: String,
    pub at: ServerRef,
    /// Tool names, derived from the file names; never empty.
    pub tools: Vec<String>,
    /// Path of the folder, relative to the catalog.
    pub path: String,
    /// File names by tool, for files whose name isn't the usual one.
    pub spelled: BTreeMap<String, String>,
}

impl CatalogService {
    /// Returns the path of a tool's file, relative to the catalog.
    pub fn file(&self, tool: &str) -> String {
        match self.spelled.get(tool) {
            Some(file) => format!("{}/{file}", self.path),
            None => format!("{}/{}", self.path, usual(tool)),
        }
    }
}

/// The contents of a tool file.
#[derive(Clone, Debug, PartialEq)]
pub struct CatalogTool {
    /// The tool's name on its server.
    pub name: String,
    pub description: String,
    /// JSON Schema of the arguments.
    pub schema: serde_json::Value,
}

/// Reads the file of one tool. The arguments are the catalog's folder, the
/// [path](CatalogService::file) of the file and the tool's name; the error describes the problem
/// with the file.
///
/// The loader of the catalog supplies it, so that other code needn't know the file format.
#[derive(Clone, Copy, Debug)]
pub struct ToolReader(pub fn(&Path, &str, &str) -> Result<CatalogTool, String>);

impl PartialEq for ToolReader {
    /// Always `true`: catalogs are compared by their contents.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for ToolReader {}

impl Hash for ToolReader {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

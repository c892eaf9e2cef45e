//! A catalog: a folder of categories, services and tools, once it has been checked.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::name::ServerRef;
use crate::settings::catalog::spelling::usual;

pub mod spelling;

/// The content of a catalog's folder, by the names of the folders and files in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Catalog {
    /// The folder; absolute.
    pub folder: PathBuf,
    /// The categories, by name.
    pub categories: Vec<CatalogCategory>,
    /// Reads the files of its tools, each when it is wanted.
    pub reader: ToolReader,
}

impl Catalog {
    /// Removes tools for which `keeps` is false, and services and categories that are then empty.
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogCategory {
    /// The name of the folder.
    pub name: String,
    /// Its description (`_category.yaml`); empty if there is none.
    pub description: String,
    /// Its services, by name; never empty.
    pub services: Vec<CatalogService>,
}

/// A folder of tools, all of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogService {
    /// The name of the folder.
    pub name: String,
    /// Its description (`_service.yaml`); empty if there is none.
    pub description: String,
    /// The server that has the tools.
    pub at: ServerRef,
    /// The names of its tools, which are those of the files; never empty.
    pub tools: Vec<String>,
    /// Where the files are, from the folder of the catalog on.
    pub path: String,
    /// The files of tools whose file has an unusual name, by tool.
    pub spelled: BTreeMap<String, String>,
}

impl CatalogService {
    /// Returns the file of a tool, from the folder of the catalog on.
    pub fn file(&self, tool: &str) -> String {
        match self.spelled.get(tool) {
            Some(file) => format!("{}/{file}", self.path),
            None => format!("{}/{}", self.path, usual(tool)),
        }
    }
}

/// The content of a tool's file.
#[derive(Clone, Debug, PartialEq)]
pub struct CatalogTool {
    /// The server's name for it.
    pub name: String,
    /// Its description.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub schema: serde_json::Value,
}

/// The function that reads the file of one tool, given the catalog's folder, the
/// [file](CatalogService::file) and the tool's name; the error says what is wrong with the file.
///
/// It comes with the catalog from whoever has read that, so that nobody else knows what files look
/// like.
#[derive(Clone, Copy, Debug)]
pub struct ToolReader(pub fn(&Path, &str, &str) -> Result<CatalogTool, String>);

impl PartialEq for ToolReader {
    /// Returns `true`: catalogs differ in what they hold, not in how it is read.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for ToolReader {}

//! What is in the folder of a catalog, once it has been checked.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::config::catalog::spelling::usual;
use crate::name::ServerRef;

pub(crate) mod spelling;

/// A catalog: what is in its folder, by the names of the folders and files in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Catalog {
    /// The folder; absolute.
    pub folder: PathBuf,
    /// The categories, by name.
    pub categories: Vec<CatalogCategory>,
}

impl Catalog {
    /// Takes out the tools that are not to be kept, and services and categories without any.
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
    /// What the folder is called.
    pub name: String,
    /// What is in it (`_category.yaml`); empty if nobody said.
    pub description: String,
    /// Its services, by name; never empty.
    pub services: Vec<CatalogService>,
}

/// A folder of tools, all of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogService {
    /// What the folder is called.
    pub name: String,
    /// What it is for (`_service.yaml`); empty if nobody said.
    pub description: String,
    /// The server that has the tools.
    pub at: ServerRef,
    /// The names of its tools, which are those of the files; never empty.
    pub tools: Vec<String>,
    /// Where the files are, from the folder of the catalog on.
    pub path: String,
    /// The files of those tools that have others than is usual.
    pub spelled: BTreeMap<String, String>,
}

impl CatalogService {
    /// The file of a tool, from the folder of the catalog on.
    pub fn file(&self, tool: &str) -> String {
        match self.spelled.get(tool) {
            Some(file) => format!("{}/{file}", self.path),
            None => format!("{}/{}", self.path, usual(tool)),
        }
    }
}

/// What the file of a tool says of it.
#[derive(Clone, Debug, PartialEq)]
pub struct CatalogTool {
    /// The server's name for it.
    pub name: String,
    /// What it does.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub schema: serde_json::Value,
}

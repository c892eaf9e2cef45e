//! Tool definitions from the files of the catalog folder, read on demand and cached until the file
//! changes.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use foldhash::HashMap;
use parking_lot::Mutex;
use serde_json::json;
use tokio::task::spawn_blocking;

use crate::catalog::{Definition, ToolDefinition};
use mcp_workbench_settings::{CatalogFolder, Config};
use mcp_workbench_wire::json::RawJson;

/// A tool in a catalog file.
#[derive(Clone, Debug)]
pub struct ToolFile {
    /// Path relative to the catalog folder.
    pub file: String,
    pub tool: String,
}

#[derive(Clone, Default)]
pub(crate) struct ToolFiles(Arc<Mutex<KnownFiles>>);

type KnownFiles = HashMap<String, (Stamp, Arc<ToolDefinition>)>;

/// Modification time and length, which change when the file does.
type Stamp = (SystemTime, u64);

impl ToolFiles {
    pub(crate) async fn read_all(
        &self,
        config: &Arc<Config>,
        wanted: Vec<ToolFile>,
    ) -> Vec<Result<Arc<ToolDefinition>, String>> {
        let (config, files) = (Arc::clone(config), self.clone());
        let reading = spawn_blocking(move || {
            let catalog = config.navigator.catalog.as_ref()?;
            Some(wanted.into_iter().map(|filed| files.read(catalog, filed)).collect())
        });
        // Only a panic or the end of the runtime gets here.
        reading.await.ok().flatten().unwrap_or_default()
    }

    fn read(
        &self,
        catalog: &CatalogFolder,
        filed: ToolFile,
    ) -> Result<Arc<ToolDefinition>, String> {
        // Taken before reading, so that a write in between is noticed next time.
        let stamp = stamp(&catalog.folder.join(&filed.file));
        let kept = || self.0.lock();
        if let (Some(stamp), Some((then, definition))) = (stamp, kept().get(&filed.file))
            && stamp == *then
        {
            return Ok(Arc::clone(definition));
        }
        let definition = Arc::new(definition(catalog, &filed)?);
        if let Some(stamp) = stamp {
            kept().insert(filed.file, (stamp, Arc::clone(&definition)));
        }
        Ok(definition)
    }
}

fn stamp(file: &Path) -> Option<Stamp> {
    let file = fs::metadata(file).ok()?;
    Some((file.modified().ok()?, file.len()))
}

fn definition(catalog: &CatalogFolder, filed: &ToolFile) -> Result<ToolDefinition, String> {
    let read = (catalog.reader.0)(&catalog.folder, &filed.file, &filed.tool)?;
    ToolDefinition::parse(RawJson::encode(&json!({
        "name": read.name,
        "description": read.description,
        "inputSchema": read.schema,
    })))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pretty_assertions::assert_eq;

    use super::*;
    use mcp_workbench_config::read_catalog_tool;
    use mcp_workbench_settings::ToolReader;

    // invariant: catalog-degrades
    #[test]
    fn a_file_is_read_once_until_it_has_changed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("send.yaml");
        let write = |text: &str, seconds: u64| {
            fs::write(&file, text).unwrap();
            let when = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            fs::File::options().write(true).open(&file).unwrap().set_modified(when).unwrap();
        };
        let files = ToolFiles::default();
        let filed = || ToolFile { file: "send.yaml".to_owned(), tool: "send".to_owned() };
        let catalog = CatalogFolder {
            folder: folder.path().to_owned(),
            categories: Vec::new(),
            reader: ToolReader(|folder, file, tool| {
                read_catalog_tool(folder, file, tool)
                    .map_err(|report| report.without_label().to_string())
            }),
        };
        let read = |files: &ToolFiles| files.read(&catalog, filed());
        let about = |files: &ToolFiles| read(files).unwrap().description.clone().unwrap();
        write("description: Sends", 1);
        let first = read(&files).unwrap();
        assert!(Arc::ptr_eq(&first, &read(&files).unwrap()), "the cached texts are reused");
        assert_eq!(about(&files), "Sends");
        write("description: Posts", 2);
        assert_eq!(about(&files), "Posts", "a newer file is read again");
        write("description: Mails it", 2);
        assert_eq!(about(&files), "Mails it", "a longer file is read again");
        write("parameters: [", 3);
        assert!(read(&files).is_err());
        fs::remove_file(&file).unwrap();
        assert!(read(&files).is_err());
    }
}

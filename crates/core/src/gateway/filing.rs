//! Tools as the files of the catalog folder have them: read when wanted, on a thread of its own,
//! and kept until a file has changed.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use foldhash::HashMap;
use serde_json::json;
use tokio::task::spawn_blocking;

use crate::catalog::{Definition, ToolDefinition};
use crate::gateway::Gateway;
use crate::raw::Raw;
use crate::settings::Catalog;

/// The file of a tool.
#[derive(Clone, Debug)]
pub struct Filed {
    /// Where it is, from the folder of the catalog on.
    pub file: String,
    /// The server's name for the tool.
    pub tool: String,
}

/// The definitions that were read of files, and how each file was then.
#[derive(Default)]
pub(crate) struct Files(Mutex<HashMap<String, (Stamp, Arc<ToolDefinition>)>>);

/// The time at which a file was written, and its length: one is another when it has changed.
type Stamp = (SystemTime, u64);

impl Gateway {
    /// Returns what the files of some tools say, as a server would say it, or what is wrong with them;
    /// in their order.
    pub async fn filed(&self, wanted: Vec<Filed>) -> Vec<Result<Arc<ToolDefinition>, String>> {
        let (config, files) = (Arc::clone(&self.config), Arc::clone(&self.files));
        let reading = spawn_blocking(move || {
            let catalog = config.navigator.catalog.as_ref()?;
            Some(wanted.into_iter().map(|filed| files.read(catalog, filed)).collect())
        });
        // Where it is lost, the runtime ends or it panicked; there are no tools then.
        reading.await.ok().flatten().unwrap_or_default()
    }
}

impl Files {
    fn read(&self, catalog: &Catalog, filed: Filed) -> Result<Arc<ToolDefinition>, String> {
        // Before it is read: what is written meanwhile is seen the next time.
        let stamp = stamp(&catalog.folder.join(&filed.file));
        let kept = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
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

/// How a file is now, unless it is gone.
fn stamp(file: &Path) -> Option<Stamp> {
    let file = fs::metadata(file).ok()?;
    Some((file.modified().ok()?, file.len()))
}

fn definition(catalog: &Catalog, filed: &Filed) -> Result<ToolDefinition, String> {
    let read = (catalog.reader.0)(&catalog.folder, &filed.file, &filed.tool)?;
    ToolDefinition::parse(Raw::encode(&json!({
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
    use crate::config::read_catalog_tool;
    use crate::settings::ToolReader;

    #[test]
    fn a_file_is_read_once_until_it_has_changed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("send.yaml");
        let write = |text: &str, seconds: u64| {
            fs::write(&file, text).unwrap();
            let when = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            fs::File::options().write(true).open(&file).unwrap().set_modified(when).unwrap();
        };
        let files = Files::default();
        let filed = || Filed { file: "send.yaml".to_owned(), tool: "send".to_owned() };
        let catalog = Catalog {
            folder: folder.path().to_owned(),
            categories: Vec::new(),
            reader: ToolReader(|folder, file, tool| {
                read_catalog_tool(folder, file, tool).map_err(|report| report.body().to_string())
            }),
        };
        let read = |files: &Files| files.read(&catalog, filed());
        let about = |files: &Files| read(files).unwrap().description.clone().unwrap();
        write("description: Sends", 1);
        let first = read(&files).unwrap();
        assert!(Arc::ptr_eq(&first, &read(&files).unwrap()), "it is kept");
        assert_eq!(about(&files), "Sends");
        write("description: Posts", 2);
        assert_eq!(about(&files), "Posts", "it is younger");
        write("description: Mails it", 2);
        assert_eq!(about(&files), "Mails it", "it is longer");
        write("parameters: [", 3);
        assert!(read(&files).is_err());
        fs::remove_file(&file).unwrap();
        assert!(read(&files).is_err());
    }
}

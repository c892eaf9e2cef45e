//! The skills extension: two skills, one of them with a subfolder.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::request::Request;
use crate::wire::{Answer, Fault};

const MARKDOWN: &str = "text/markdown";
const DIRECTORY: &str = "inode/directory";

struct File {
    uri: &'static str,
    text: &'static str,
}

/// `files` starts with `SKILL.md`.
struct Skill {
    folder: &'static str,
    name: &'static str,
    description: &'static str,
    files: &'static [File],
}

const SKILLS: [Skill; 2] = [
    Skill {
        folder: "skill://greeting-cards",
        name: "greeting-cards",
        description: "Write greeting cards that fit the occasion",
        files: &[
            File {
                uri: "skill://greeting-cards/SKILL.md",
                text: "---\nname: greeting-cards\ndescription: Write greeting cards that fit the occasion\n---\n\nAsk for the occasion, then read references/TONE.md.\n",
            },
            File {
                uri: "skill://greeting-cards/references/TONE.md",
                text: "Be warm at weddings and brief at funerals.\n",
            },
        ],
    },
    Skill {
        folder: "skill://unit-conversion",
        name: "unit-conversion",
        description: "Convert between units of measurement",
        files: &[File {
            uri: "skill://unit-conversion/SKILL.md",
            text: "---\nname: unit-conversion\ndescription: Convert between units of measurement\n---\n\nSay which units you have used.\n",
        }],
    },
];

impl Skill {
    fn uri(&self) -> &'static str {
        self.files[0].uri
    }

    fn entry(&self) -> Value {
        let files = self.files.iter().map(|file| {
            let digest = format!("sha256:{}", hex::encode(Sha256::digest(file.text)));
            json!({ "uri": file.uri, "digest": digest, "size": file.text.len() })
        });
        json!({
            "uri": self.uri(),
            "frontmatter": { "name": self.name, "description": self.description },
            "resources": files.collect::<Vec<_>>(),
        })
    }

    fn resource(&self) -> Value {
        json!({
            "uri": self.uri(),
            "name": self.name,
            "description": self.description,
            "mimeType": MARKDOWN,
        })
    }
}

pub(crate) fn resources() -> Vec<Value> {
    SKILLS.iter().map(Skill::resource).collect()
}

pub(crate) fn file(uri: &str) -> Option<Value> {
    let file = SKILLS.iter().flat_map(|skill| skill.files).find(|file| file.uri == uri)?;
    Some(json!({ "uri": uri, "mimeType": MARKDOWN, "text": file.text }))
}

/// Lists one skill per page, so that clients have to paginate.
pub(crate) fn list(request: &Request) -> Answer {
    let page = match &request.params["cursor"] {
        Value::Null => Some(0),
        cursor => cursor.as_str().and_then(|cursor| cursor.parse::<usize>().ok()),
    };
    let at = page.filter(|page| *page < SKILLS.len());
    let at = at.ok_or_else(|| Fault::invalid_params("Invalid cursor"))?;
    let mut result = json!({ "skills": [SKILLS[at].entry()] });
    if at + 1 < SKILLS.len() {
        result["nextCursor"] = (at + 1).to_string().into();
    }
    Ok(result)
}

pub(crate) fn get(request: &Request) -> Answer {
    let uri = request.text("uri")?;
    let skill = SKILLS.iter().find(|skill| skill.uri() == uri);
    let skill = skill.ok_or_else(|| Fault::no_resource(uri, true))?;
    Ok(json!({ "skill": skill.entry() }))
}

pub(crate) fn read_directory(request: &Request) -> Answer {
    let folder = request.text("uri")?.trim_end_matches('/');
    let mut children: Vec<Value> = Vec::new();
    for skill in SKILLS.iter().filter(|skill| is_within(folder, skill.folder)) {
        for file in skill.files {
            let Some(path) = below(folder, file.uri) else { continue };
            let (name, is_folder) = match path.split_once('/') {
                Some((name, _)) => (name, true),
                None => (path, false),
            };
            let child = if file.uri == skill.uri() {
                skill.resource()
            } else {
                let mime_type = if is_folder { DIRECTORY } else { MARKDOWN };
                json!({ "uri": format!("{folder}/{name}"), "name": name, "mimeType": mime_type })
            };
            if !children.contains(&child) {
                children.push(child);
            }
        }
    }
    if children.is_empty() {
        return Err(Fault::no_resource(folder, true));
    }
    Ok(json!({ "resources": children }))
}

fn is_within(folder: &str, root: &str) -> bool {
    folder == root || below(root, folder).is_some()
}

fn below<'a>(folder: &str, uri: &'a str) -> Option<&'a str> {
    uri.strip_prefix(folder)?.strip_prefix('/')
}

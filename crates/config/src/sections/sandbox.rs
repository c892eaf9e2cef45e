//! The `sandbox` and `container` settings, which confine a server's process.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::PathBuf;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::syntax::document::{Node, SourceLocation};
use crate::syntax::paths::{PathResolver, expand_tilde, resolve_path};
use crate::syntax::reader::{ConfigReader, Located, did_you_mean};
use crate::syntax::section::{FromNode, SectionSpec, section};
use mcp_workbench_settings::{Confinement, Container, Sandbox};

const WORDS: [&str; 2] = ["off", WORKSPACE];
const WORKSPACE: &str = "workspace";

/// The value of `sandbox`.
pub enum RawSandbox {
    /// A keyword, not validated yet.
    Word(Located<String>),
    /// The default sandbox, with additional access.
    Object(Box<RawSandboxObject>),
}

section! {
    /// Access of a sandboxed server in addition to its program, its configured `cwd` and the paths
    /// in its arguments.
    #[schemars(rename = "Sandbox")]
    pub struct RawSandboxObject {
        /// Files and folders that the server may read and execute.
        "read" as pub read: Vec<Located<String>>,

        /// Files and folders that the server may also change.
        "write" as pub write: Vec<Located<String>>,

        /// Allows network access, including addresses of this machine.
        #[schemars(extend("default" = true))]
        "network" as pub network: Located<bool>,

        /// Allows connections to Unix sockets, such as those of Docker or the desktop, which can
        /// act outside of the sandbox.
        #[schemars(extend("default" = false))]
        "unixSockets" as pub unix_sockets: Located<bool>,
    }
}

/// The value of `container`.
pub enum RawContainer {
    Image(Located<String>),
    Object(Box<RawContainerObject>, SourceLocation),
}

section! {
    /// Container for a server. It contains the configured `cwd` and the paths in the arguments.
    #[schemars(rename = "Container")]
    pub struct RawContainerObject {
        /// Container image. Its `ENTRYPOINT` and `CMD` are not used.
        #[schemars(required, extend("examples" = ["node:22-slim", "python:3.13-slim"]))]
        "image" as pub image: Located<String>,

        /// Container engine: a name on `PATH`, or a path. Default: `docker`, or `podman` if
        /// `docker` is missing.
        #[schemars(extend("examples" = ["podman"]))]
        "engine" as pub engine: Located<String>,

        /// Files and folders to mount for reading and executing.
        "read" as pub read: Vec<Located<String>>,

        /// Files and folders to mount for changes, too.
        "write" as pub write: Vec<Located<String>>,

        /// Allows network access.
        #[schemars(extend("default" = true))]
        "network" as pub network: Located<bool>,
    }
}

/// Checks `sandbox` and `container`. Returns `None` if neither is set, so that the file-wide
/// default applies.
pub(crate) fn check_confinement(
    sandbox: Option<RawSandbox>,
    container: Option<RawContainer>,
    paths: &PathResolver<'_>,
    reader: &mut ConfigReader<'_>,
) -> Option<Sandbox> {
    let sandbox = sandbox.map(|raw| raw.checked(paths, reader));
    let Some(container) = container else { return sandbox };
    let location = match &container {
        RawContainer::Image(image) => image.location.clone(),
        RawContainer::Object(_, location) => location.clone(),
    };
    if matches!(sandbox, Some(Sandbox::Process(_))) {
        let message = "expected a `sandbox` or a `container`, found both";
        reader.report_error(&location, message, Some("remove one of them".to_owned()));
    }
    container.checked(&location, paths, reader).map(|it| Sandbox::Container(Box::new(it)))
}

fn such_as() -> String {
    "write an image name such as `node:22-slim`".to_owned()
}

fn resolve_paths(all: Option<Vec<Located<String>>>, paths: &PathResolver<'_>) -> BTreeSet<PathBuf> {
    all.into_iter().flatten().map(|path| resolve_path(&path.value, paths)).collect()
}

impl RawContainer {
    fn checked(
        self,
        location: &SourceLocation,
        paths: &PathResolver<'_>,
        reader: &mut ConfigReader<'_>,
    ) -> Option<Container> {
        let object = match self {
            Self::Image(image) => RawContainerObject { image: Some(image), ..Default::default() },
            Self::Object(object, _) => *object,
        };
        let RawContainerObject { image, engine, read, write, network } = object;
        let Some(image) = image else {
            if !reader.has_error_under(location, "image") {
                reader.report_error(location, "expected an `image`", Some(such_as()));
            }
            return None;
        };
        // A leading `-` would be parsed as an option of the container engine.
        if image.value.trim().is_empty() || image.value.starts_with('-') {
            let message = format!("expected an image name, found `{}`", image.value);
            reader.report_error(&image.location, message, Some(such_as()));
            return None;
        }
        Some(Container {
            image: image.value,
            engine: engine.map(|engine| expand_tilde(&engine.value, paths)),
            read: resolve_paths(read, paths),
            write: resolve_paths(write, paths),
            has_network: network.is_none_or(|network| network.value),
        })
    }
}

impl FromNode for RawContainer {
    const SECTION: Option<&'static SectionSpec> = RawContainerObject::SECTION;

    fn from_node(node: &Node<'_>, reader: &mut ConfigReader<'_>) -> Option<Self> {
        if node.value.as_string_lit().is_some() {
            return reader.read_string(node).map(Self::Image);
        }
        let object = RawContainerObject::from_node(node, reader)?;
        Some(Self::Object(Box::new(object), node.location.clone()))
    }
}

impl JsonSchema for RawContainer {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "ContainerSetting".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let object = generator.subschema_for::<RawContainerObject>();
        json_schema!({ "anyOf": [{ "type": "string" }, object] })
    }
}

impl RawSandbox {
    pub(crate) fn checked(
        self,
        paths: &PathResolver<'_>,
        reader: &mut ConfigReader<'_>,
    ) -> Sandbox {
        let object = match self {
            Self::Word(word) if word.value == WORKSPACE => {
                return Sandbox::Process(Confinement::default());
            }
            Self::Word(word) => {
                if word.value != "off" {
                    let message = format!("expected `off` or `workspace`, found `{}`", word.value);
                    reader.report_error(&word.location, message, did_you_mean(&word.value, &WORDS));
                }
                return Sandbox::Off;
            }
            Self::Object(object) => *object,
        };
        let RawSandboxObject { read, write, network, unix_sockets } = object;
        Sandbox::Process(Confinement {
            read: resolve_paths(read, paths),
            write: resolve_paths(write, paths),
            has_network: network.is_none_or(|network| network.value),
            has_unix_sockets: unix_sockets.is_some_and(|sockets| sockets.value),
        })
    }
}

impl FromNode for RawSandbox {
    const SECTION: Option<&'static SectionSpec> = RawSandboxObject::SECTION;

    fn from_node(node: &Node<'_>, reader: &mut ConfigReader<'_>) -> Option<Self> {
        if node.value.as_string_lit().is_some() {
            return reader.read_string(node).map(Self::Word);
        }
        RawSandboxObject::from_node(node, reader).map(|object| Self::Object(Box::new(object)))
    }
}

impl JsonSchema for RawSandbox {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "SandboxSetting".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let object = generator.subschema_for::<RawSandboxObject>();
        json_schema!({ "anyOf": [{ "enum": WORDS }, object] })
    }
}

//! The confinement of a server: a word or what it may reach besides (`sandbox`), or the container that it
//! runs in (`container`).

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::PathBuf;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::config::syntax::document::{Node, Spot};
use crate::config::syntax::places::{Places, located_path, with_home};
use crate::config::syntax::reader::{Located, Reader, did_you_mean};
use crate::config::syntax::section::{FromNode, Section, section};
use crate::settings::{Confinement, Container, Sandbox};

/// The words for a sandbox.
const WORDS: [&str; 2] = ["off", WORKSPACE];
/// The word for a sandbox with nothing besides.
const WORKSPACE: &str = "workspace";

/// The confinement of a server: `off`, `workspace`, or an object, which is `workspace` and what it says.
pub enum RawSandbox {
    /// A word, known or not.
    Word(Located<String>),
    /// The things that it may reach besides.
    Object(Box<RawSandboxObject>),
}

section! {
    /// The things that a confined server may reach beside its program, the `cwd` that its entry names, and
    /// what its arguments name.
    #[schemars(rename = "Sandbox")]
    pub struct RawSandboxObject {
        /// Files and folders that it may read and execute.
        "read" as pub read: Vec<Located<String>>,

        /// Files and folders that it may change, too.
        "write" as pub write: Vec<Located<String>>,

        /// Lets it use the network, which includes the addresses of this machine itself.
        #[schemars(extend("default" = true))]
        "network" as pub network: Located<bool>,

        /// Lets it connect to sockets in the file system, such as those of Docker and of the desktop,
        /// which do things on its behalf outside the sandbox.
        #[schemars(extend("default" = false))]
        "unixSockets" as pub unix_sockets: Located<bool>,
    }
}

/// The container of a server: the image alone, or an object.
pub enum RawContainer {
    /// The image.
    Image(Located<String>),
    /// The image, and what is put into the container.
    Object(Box<RawContainerObject>, Spot),
}

section! {
    /// The container that a server runs in, with the `cwd` that its entry names, and what its arguments
    /// name.
    #[schemars(rename = "Container")]
    pub struct RawContainerObject {
        /// The image, as the engine calls it. Its `ENTRYPOINT` and `CMD` are not used.
        #[schemars(required, extend("examples" = ["node:22-slim", "python:3.13-slim"]))]
        "image" as pub image: Located<String>,

        /// The engine: a name to find on `PATH`, or a path. By default `docker`, or `podman` where there
        /// is no `docker`.
        #[schemars(extend("examples" = ["podman"]))]
        "engine" as pub engine: Located<String>,

        /// Files and folders that are put into the container, to be read and executed.
        "read" as pub read: Vec<Located<String>>,

        /// Files and folders that are put into the container, to be changed, too.
        "write" as pub write: Vec<Located<String>>,

        /// Lets the server use the network.
        #[schemars(extend("default" = true))]
        "network" as pub network: Located<bool>,
    }
}

/// Checks how a server is confined: by its `sandbox` or its `container`; none if its entry does not say.
pub(crate) fn checked(
    sandbox: Option<RawSandbox>,
    container: Option<RawContainer>,
    places: &Places<'_>,
    reader: &mut Reader<'_>,
) -> Option<Sandbox> {
    let sandbox = sandbox.map(|raw| raw.checked(places, reader));
    let Some(container) = container else { return sandbox };
    let spot = match &container {
        RawContainer::Image(image) => image.spot.clone(),
        RawContainer::Object(_, spot) => spot.clone(),
    };
    if matches!(sandbox, Some(Sandbox::On(_))) {
        let message = "expected a `sandbox` or a `container`, found both";
        reader.error(&spot, message, Some("remove one of them".to_owned()));
    }
    container.checked(&spot, places, reader).map(|it| Sandbox::In(Box::new(it)))
}

fn such_as() -> String {
    "such as `node:22-slim`".to_owned()
}

fn located(all: Option<Vec<Located<String>>>, places: &Places<'_>) -> BTreeSet<PathBuf> {
    all.into_iter().flatten().map(|path| located_path(&path.value, places)).collect()
}

impl RawContainer {
    fn checked(
        self,
        spot: &Spot,
        places: &Places<'_>,
        reader: &mut Reader<'_>,
    ) -> Option<Container> {
        let object = match self {
            Self::Image(image) => RawContainerObject { image: Some(image), ..Default::default() },
            Self::Object(object, _) => *object,
        };
        let RawContainerObject { image, engine, read, write, network } = object;
        let Some(image) = image else {
            if !reader.has_error_under(spot, "image") {
                reader.error(spot, "expected an `image`", Some(such_as()));
            }
            return None;
        };
        // The engine would take it for an option.
        if image.value.trim().is_empty() || image.value.starts_with('-') {
            let message = format!("expected the name of an image, found `{}`", image.value);
            reader.error(&image.spot, message, Some(such_as()));
            return None;
        }
        Some(Container {
            image: image.value,
            engine: engine.map(|engine| with_home(&engine.value, places)),
            read: located(read, places),
            write: located(write, places),
            has_network: network.is_none_or(|network| network.value),
        })
    }
}

impl FromNode for RawContainer {
    const SECTION: Option<&'static Section> = RawContainerObject::SECTION;

    fn from_node(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        if node.value.as_string_lit().is_some() {
            return reader.string(node).map(Self::Image);
        }
        let object = RawContainerObject::from_node(node, reader)?;
        Some(Self::Object(Box::new(object), node.spot.clone()))
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
    /// Checks the words and paths.
    pub(crate) fn checked(self, places: &Places<'_>, reader: &mut Reader<'_>) -> Sandbox {
        let object = match self {
            Self::Word(word) if word.value == WORKSPACE => {
                return Sandbox::On(Confinement::default());
            }
            Self::Word(word) => {
                if word.value != "off" {
                    let message = format!("expected `off` or `workspace`, found `{}`", word.value);
                    reader.error(&word.spot, message, did_you_mean(&word.value, &WORDS));
                }
                return Sandbox::Off;
            }
            Self::Object(object) => *object,
        };
        let RawSandboxObject { read, write, network, unix_sockets } = object;
        Sandbox::On(Confinement {
            read: located(read, places),
            write: located(write, places),
            has_network: network.is_none_or(|network| network.value),
            has_unix_sockets: unix_sockets.is_some_and(|sockets| sockets.value),
        })
    }
}

impl FromNode for RawSandbox {
    const SECTION: Option<&'static Section> = RawSandboxObject::SECTION;

    fn from_node(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        if node.value.as_string_lit().is_some() {
            return reader.string(node).map(Self::Word);
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

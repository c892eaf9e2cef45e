//! The first answer to an agent, in either era, with our name and our capabilities.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rmcp::model::ProtocolVersion;
use serde_json::{Map, Value, json};

use crate::backend::Outcome;
use crate::exposure::{Exposure, ServerIntroduction, Surface};
use crate::frontend::asked::{Asked, unknown};
use crate::frontend::session::Session;
use crate::gateway::Crowded;
use crate::raw::Raw;
use crate::state::{Introduction, Program};
use crate::wire::code::{INTERNAL_ERROR, INVALID_PARAMS};
use crate::wire::incoming::error_object;

/// The answer to whom there is no room for.
pub(crate) fn crowded(error: Crowded) -> Outcome {
    Outcome::Error(error_object(INTERNAL_ERROR, &error.to_string(), None))
}

/// Begins a session (2025-11-25 and older, basic/lifecycle). No server is waited for.
pub(crate) async fn initialize(session: &Arc<Session>, asked: &Asked) -> Result<Outcome, Outcome> {
    let requested = asked.text("protocolVersion")?;
    let capabilities = asked.param("capabilities").filter(|c| c.members().is_some());
    let capabilities = capabilities.ok_or_else(|| {
        let message = "`capabilities` is missing, or is no object";
        Outcome::Error(error_object(INVALID_PARAMS, message, None))
    })?;
    let client: Program =
        asked.param("clientInfo").and_then(|client| client.parse().ok()).unwrap_or_default();
    tracing::info!(
        client = client.name,
        version = client.version,
        protocol = requested,
        "an agent has connected"
    );
    let known = ProtocolVersion::KNOWN_VERSIONS.iter();
    let version = known
        .filter(|version| version.has_initialize())
        .find(|version| version.as_str() == requested)
        .unwrap_or(&ProtocolVersion::LATEST_WITH_INITIALIZE);
    let introduction = Introduction {
        capabilities: capabilities.detached(),
        client: client.clone(),
        protocol: version.as_str().to_owned(),
    };
    session.introduce(introduction).map_err(crowded)?;
    session.save().await;
    let exposure = session.exposure(&asked.meta);
    if exposure.falls_back() {
        tracing::info!(
            client = client.name,
            "this client does not follow changes of its tool list, so that stays as it is"
        );
    }
    let longest = session.app().max_name_length();
    if exposure.profile().name_limit.is_some_and(|limit| limit < longest) {
        tracing::warn!(
            client = client.name,
            "this client does not take names as long as `maxToolNameLength` allows ({longest})"
        );
    }
    let everything = exposure.starts_everything();
    let presence = session.presence(&asked.meta);
    if let Some(introduced) = exposure.introduction(&presence, false).await {
        let ServerIntroduction { capabilities, instructions, .. } =
            introduced.map_err(|why| unstarted(&why))?;
        session.start_new(&exposure, &BTreeSet::new(), &presence);
        let mut result = Members::from([
            ("protocolVersion", json!(version)),
            ("capabilities", json!(capabilities)),
            ("serverInfo", ourselves()),
        ]);
        result.extend(instructions.map(|text| ("instructions", json!(text))));
        return Ok(Outcome::Result(Raw::encode(&result)));
    }
    if everything {
        // What servers said of themselves when they last ran is known at once.
        exposure.gateway().recalled().await;
    }
    let instructions = exposure.instructions(Surface::Changing);
    if everything {
        session.start_new(&exposure, &BTreeSet::new(), &presence);
    }
    Ok(Outcome::Result(Raw::encode(&json!({
        "protocolVersion": version,
        "capabilities": legacy_capabilities(),
        "serverInfo": ourselves(),
        "instructions": instructions,
    }))))
}

/// Says what we are (2026-07-28, server/discover). Where lists change as toolboxes are opened, the
/// modern revision would not allow it; so it is not offered over a stream, and clients of both eras
/// go on to `initialize`. Over HTTP the era is decided before: they are shown a constant list.
pub(crate) async fn discover(session: &Session, asked: &Asked) -> Result<Outcome, Outcome> {
    let exposure = session.exposure(&asked.meta);
    if exposure.changes_lists() && session.can_be_told() {
        return Ok(unknown(&asked.method));
    }
    let presence = session.presence(&asked.meta);
    let introduced = exposure.introduction(&presence, true).await;
    let (capabilities, instructions) = if let Some(introduced) = introduced {
        let ServerIntroduction { capabilities, is_legacy, instructions } =
            introduced.map_err(|why| unstarted(&why))?;
        if is_legacy {
            // A session ties requests together, as such a server expects it, and nothing has to be
            // translated. Who asks for something else without one is answered all the same.
            return Ok(unknown(&asked.method));
        }
        (json!(capabilities), instructions)
    } else {
        exposure.start_everything(&presence).await;
        (modern_capabilities(&exposure), Some(exposure.instructions(Surface::Constant)))
    };
    let mut result = Members::from([
        ("resultType", json!("complete")),
        ("supportedVersions", json!(ProtocolVersion::KNOWN_VERSIONS)),
        ("capabilities", capabilities),
        ("ttlMs", json!(0)),
        ("cacheScope", json!("private")),
        ("_meta", json!({"io.modelcontextprotocol/serverInfo": ourselves()})),
    ]);
    result.extend(instructions.map(|text| ("instructions", json!(text))));
    Ok(Outcome::Result(Raw::encode(&result)))
}

/// The members of a result.
type Members = BTreeMap<&'static str, Value>;

/// The answer where the one server that is served cannot be started.
fn unstarted(why: &str) -> Outcome {
    Outcome::Error(error_object(INTERNAL_ERROR, why, None))
}

/// Our name and version.
pub(crate) fn ourselves() -> Value {
    json!({"name": "mcp-workbench", "title": "MCP Workbench", "version": env!("CARGO_PKG_VERSION")})
}

/// Everything that servers may have: which of it they do shows when they are started.
fn legacy_capabilities() -> Value {
    json!({
        "tools": {"listChanged": true},
        "resources": {"listChanged": true, "subscribe": true},
        "prompts": {"listChanged": true},
        "completions": {},
        "logging": {},
        "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}},
    })
}

/// Our capabilities for modern agents, with the extensions of running servers.
fn modern_capabilities(exposure: &Exposure) -> Value {
    let gateway = exposure.gateway();
    let snapshot = gateway.snapshot();
    let toolboxes = exposure.shown(Surface::Constant, &BTreeSet::new());
    let mut extensions = Map::new();
    for toolbox in toolboxes {
        for (_, abilities) in snapshot.view(&toolbox).abilities() {
            let spoken = abilities.extensions.as_ref().and_then(|e| e.parse::<Map<_, _>>().ok());
            for (name, settings) in spoken.into_iter().flatten() {
                extensions.entry(name).or_insert(settings);
            }
        }
    }
    let mut capabilities = json!({
        "tools": {"listChanged": true},
        "resources": {"listChanged": true, "subscribe": true},
        "prompts": {"listChanged": true},
        "completions": {},
        "logging": {},
    });
    if !extensions.is_empty() {
        capabilities["extensions"] = extensions.into();
    }
    capabilities
}

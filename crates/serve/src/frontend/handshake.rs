//! The handshake: `initialize` for older revisions, `server/discover` for the modern one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rmcp::model::ProtocolVersion;
use serde_json::{Map, Value, json};

use crate::exposure::{Exposure, InitializeInfo, ListMutability, apps, startup};
use crate::frontend::request::{AgentRequest, method_not_found};
use crate::frontend::session::AgentSession;
use mcp_workbench_core::backend::RpcOutcome;
use mcp_workbench_core::gateway::{APPS_NAME, GatewayLimitError, is_own_extension};
use mcp_workbench_core::state::{ClientInfo, ClientIntroduction};
use mcp_workbench_names::ServerRef;
use mcp_workbench_wire::code::{INTERNAL_ERROR, INVALID_PARAMS};
use mcp_workbench_wire::incoming::error_object;
use mcp_workbench_wire::json::RawJson;

pub(crate) fn over_capacity(error: GatewayLimitError) -> RpcOutcome {
    RpcOutcome::Error(error_object(INTERNAL_ERROR, &error.to_string(), None))
}

/// MCP 2025-11-25 and older, basic/lifecycle. Only passthrough mode waits for a server.
pub(crate) async fn initialize(
    session: &Arc<AgentSession>,
    request: &AgentRequest,
) -> Result<RpcOutcome, RpcOutcome> {
    let requested = request.string_param("protocolVersion")?;
    let capabilities = request.param("capabilities").filter(|c| c.members().is_some());
    let capabilities = capabilities.ok_or_else(|| {
        let message = "`capabilities` is missing or not an object";
        RpcOutcome::Error(error_object(INVALID_PARAMS, message, None))
    })?;
    let client: ClientInfo =
        request.param("clientInfo").and_then(|client| client.parse().ok()).unwrap_or_default();
    tracing::info!(
        client = client.name,
        version = client.version,
        protocol = requested,
        "agent connected"
    );
    let known = ProtocolVersion::KNOWN_VERSIONS.iter();
    let version = known
        .filter(|version| version.has_initialize())
        .find(|version| version.as_str() == requested)
        .unwrap_or(&ProtocolVersion::LATEST_WITH_INITIALIZE);
    let introduction = ClientIntroduction {
        capabilities: capabilities.to_detached(),
        client: client.clone(),
        protocol: version.as_str().to_owned(),
    };
    session.initialize(introduction).map_err(over_capacity)?;
    session.save().await;
    let exposure = session.exposure(&request.meta);
    if exposure.is_fallback() {
        tracing::info!(
            client = client.name,
            "this client ignores tool list changes, so its tool list stays fixed"
        );
    }
    let longest = session.app().max_name_length();
    if exposure.profile().name_limit.is_some_and(|limit| limit < longest) {
        tracing::warn!(
            client = client.name,
            "this client rejects names as long as `maxToolNameLength` allows ({longest})"
        );
    }
    let everything = exposure.starts_all_servers();
    let agent = session.presence(&request.meta);
    if let Some(introduced) = exposure.introduction(&agent, false).await {
        let InitializeInfo { capabilities, instructions, .. } =
            introduced.map_err(|why| unstarted(&why))?;
        session.start_unlisted_servers(&exposure, &BTreeSet::new(), &agent);
        let mut result = Members::from([
            ("protocolVersion", json!(version)),
            ("capabilities", json!(capabilities)),
            ("serverInfo", server_info()),
        ]);
        result.extend(instructions.map(|text| ("instructions", json!(text))));
        return Ok(RpcOutcome::Result(RawJson::encode(&result)));
    }
    if everything {
        // Stored instructions of servers are available without starting them.
        exposure.gateway().views().wait_for_stored_listings().await;
    }
    let instructions = exposure.instructions(ListMutability::Mutable);
    if everything {
        session.start_unlisted_servers(&exposure, &BTreeSet::new(), &agent);
    }
    let mut result = Members::from([
        ("protocolVersion", json!(version)),
        ("capabilities", legacy_capabilities()),
        ("serverInfo", server_info()),
    ]);
    if !instructions.is_empty() {
        result.insert("instructions", json!(instructions));
    }
    Ok(RpcOutcome::Result(RawJson::encode(&result)))
}

/// Answers `server/discover` (MCP 2026-07-28). The modern revision forbids lists that change as
/// toolboxes are opened. If the mode needs such lists, the method is unknown over a stream, and
/// clients of both eras fall back to `initialize`. Over HTTP the era is already settled, and lists
/// are fixed.
pub(crate) async fn discover(
    session: &AgentSession,
    request: &AgentRequest,
) -> Result<RpcOutcome, RpcOutcome> {
    let exposure = session.exposure(&request.meta);
    if exposure.notifies_list_changes() && session.can_notify() {
        return Ok(method_not_found(&request.method));
    }
    let agent = session.presence(&request.meta);
    let introduced = exposure.introduction(&agent, true).await;
    let (capabilities, instructions) = if let Some(introduced) = introduced {
        let InitializeInfo { capabilities, is_legacy, instructions } =
            introduced.map_err(|why| unstarted(&why))?;
        if is_legacy {
            // A legacy server expects a session that connects requests, and with a session nothing
            // needs translation. Requests without one are still answered.
            return Ok(method_not_found(&request.method));
        }
        (json!(capabilities), instructions)
    } else {
        startup::ensure_started(&exposure, &agent).await;
        apps::wait_for_apps(&exposure).await;
        let instructions = exposure.instructions(ListMutability::Fixed);
        (modern_capabilities(&exposure), Some(instructions).filter(|text| !text.is_empty()))
    };
    let mut result = Members::from([
        ("resultType", json!("complete")),
        ("supportedVersions", json!(ProtocolVersion::KNOWN_VERSIONS)),
        ("capabilities", capabilities),
        ("ttlMs", json!(0)),
        ("cacheScope", json!("private")),
        ("_meta", json!({"io.modelcontextprotocol/serverInfo": server_info()})),
    ]);
    result.extend(instructions.map(|text| ("instructions", json!(text))));
    Ok(RpcOutcome::Result(RawJson::encode(&result)))
}

type Members = BTreeMap<&'static str, Value>;

fn unstarted(why: &str) -> RpcOutcome {
    RpcOutcome::Error(error_object(INTERNAL_ERROR, why, None))
}

pub(crate) fn server_info() -> Value {
    json!({"name": "mcp-workbench", "title": "MCP Workbench", "version": env!("CARGO_PKG_VERSION")})
}

/// All capabilities that servers can have. The actual ones are known once servers have started.
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

fn modern_capabilities(exposure: &Exposure) -> Value {
    let gateway = exposure.gateway();
    let snapshot = gateway.snapshot();
    let toolboxes = exposure.visible_toolboxes(ListMutability::Fixed, &BTreeSet::new());
    let (mut extensions, mut ambiguous) = (Map::new(), BTreeSet::new());
    for toolbox in toolboxes {
        for (server, abilities) in snapshot.view(&toolbox).abilities() {
            let at = ServerRef { toolbox: toolbox.clone(), server: server.clone() };
            for (name, settings) in gateway.scope().usable_extensions(&at, abilities) {
                if extensions.insert(name.to_string(), json!(settings)).is_some() {
                    ambiguous.insert(name);
                }
            }
        }
    }
    // Methods of an extension that several servers offer can be ambiguous.
    extensions.retain(|name, _| is_own_extension(name) || !ambiguous.contains(&**name));
    if apps::has_apps(exposure) {
        extensions.entry(APPS_NAME).or_insert_with(|| json!({}));
    }
    let mut capabilities = json!({
        "tools": {"listChanged": true},
        "resources": {"listChanged": true, "subscribe": true},
        "prompts": {"listChanged": true},
        "completions": {},
    });
    // Deprecated, so it is declared only if a server logs, or is unknown until it starts.
    let may_log = gateway.config().toolboxes.iter().any(|toolbox| {
        let view = snapshot.view(&toolbox.name);
        let known: Vec<_> = view.abilities().collect();
        known.len() < toolbox.servers.len()
            || known.iter().any(|(_, abilities)| abilities.logging.is_some())
    });
    if may_log {
        capabilities["logging"] = json!({});
    }
    if !extensions.is_empty() {
        capabilities["extensions"] = extensions.into();
    }
    capabilities
}

//! Keys that stand in the wrong place, for whoever refuses them.

/// Where a key belongs that is often written in the wrong place.
pub(crate) fn belongs_elsewhere(key: &str) -> Option<String> {
    let place = match key {
        "toolMode"
        | "maxToolNameLength"
        | "http"
        | "toolboxes"
        | "categories"
        | "macros"
        | "activeToolsets"
        | "auth"
        | "audit"
        | "telemetry"
        | "agentPolicies"
        | "agent_policies"
        | "exposedTools"
        | "exposed_tools"
        | "defaultPolicy"
        | "default_policy"
        | "dangerousTools"
        | "dangerous_tools"
        | "requireConfirmation"
        | "require_confirmation" => "the top level",
        "limits" | "cache" => "the top level, or a server",
        "maxListingBytes" | "maxMessageBytes" | "maxResultBytes" | "perAgent" | "perServer"
        | "maxWaitMs" | "confirmTimeoutMs" => "the top-level `limits`",
        "allowedHosts" | "allowedOrigins" | "maxSessions" | "sessionIdleMs" | "maxConnections"
        | "maxHeaderBytes" | "headTimeoutMs" | "bodyTimeoutMs" => "`http`",
        "tokens" | "jwt" | "anonymous" => "`auth`",
        "issuer" | "audience" | "jwksUrl" | "agentClaim" | "requiredScopes" | "leewaySeconds" => {
            "`jwt`, in `auth`"
        }
        "callsPerMinute" | "concurrentCalls" => "`limits`",
        "ttlMs" | "maxBytes" => "`cache`",
        "allowUnknownTools"
        | "allow_unknown_tools"
        | "allowUnknownServers"
        | "allow_unknown_servers" => "`defaultPolicy`",
        "allowedServers" | "allowed_servers" | "toolOverrides" | "tool_overrides" => {
            "an agent, under `agentPolicies`"
        }
        "description" | "namespace" => "a toolbox, or a server",
        "command" | "args" | "env" | "cwd" | "url" | "headers" | "toolFilters" | "transport"
        | "disabled" | "startupTimeoutMs" | "callTimeoutMs" | "idleTimeoutMs" | "inheritEnv"
        | "shared" | "eager" | "isolation" | "protocol" | "roots" | "showServer" => {
            "a server, under `mcpServers`"
        }
        "includeNames" => "`tools`, in a category",
        "overrides" => "a server, or `tools` in a category",
        "servers" | "context_servers" | "mcp" => {
            return Some("did you mean `mcpServers`?".to_owned());
        }
        "tools" => {
            return Some(
                "tools are chosen by `toolFilters`, in a server under `mcpServers`".to_owned(),
            );
        }
        "inputs" => {
            return Some(
                "nobody is asked for input here: write `${NAME}` and set that variable".to_owned(),
            );
        }
        _ => return None,
    };
    Some(format!("`{key}` belongs in {place}"))
}

//! The statement that the holder of the approval key signs to approve a call.

use ring::signature::{ED25519, UnparsedPublicKey};

use mcp_workbench_core::gateway::PendingCall;
use mcp_workbench_settings::ApprovalKey;

/// Keeps a signature from meaning anything else, even if the key is used elsewhere.
const DOMAIN: &str = "mcp-workbench: approve this call (v1)";

/// Returns the bytes to sign: everything that the user was shown, and the ID, which names one call
/// of one workbench. A signature for one call is thus worth nothing for another, even if a program
/// that pretends to be a workbench has shown it.
pub fn approval_statement(call: &PendingCall) -> Vec<u8> {
    let PendingCall {
        id,
        agent,
        client,
        toolbox,
        server,
        tool,
        reason,
        arguments,
        since: _,
        until: _,
    } = call;
    let has_agent = if agent.is_some() { "1" } else { "0" };
    let agent = agent.as_deref().unwrap_or_default();
    let parts = [DOMAIN, id, has_agent, agent, client, toolbox, server, tool, reason, arguments];
    let mut statement = Vec::new();
    for part in parts {
        statement.extend_from_slice(&(part.len() as u64).to_be_bytes());
        statement.extend_from_slice(part.as_bytes());
    }
    statement
}

/// Returns `true` if `signature`, in hex, is the key's signature of this call's approval.
pub(crate) fn is_signed(call: &PendingCall, key: &ApprovalKey, signature: &str) -> bool {
    let Ok(signature) = hex::decode(signature) else { return false };
    let key = UnparsedPublicKey::new(&ED25519, key.public);
    key.verify(&approval_statement(call), &signature).is_ok()
}

#[cfg(test)]
mod tests {
    use ring::signature::{Ed25519KeyPair, KeyPair};

    use super::*;

    // invariant: agent-cannot-approve
    #[test]
    fn signature_is_valid_only_for_the_call_that_was_shown() {
        let pair = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
        let public = pair.public_key().as_ref().try_into().unwrap();
        let key = ApprovalKey { salt: [0; 16], public };
        let call = PendingCall {
            id: "1".to_owned(),
            agent: Some("ann".to_owned()),
            client: "codex".to_owned(),
            toolbox: "dev".to_owned(),
            server: "files".to_owned(),
            tool: "delete".to_owned(),
            reason: "it is dangerous".to_owned(),
            arguments: "{}".to_owned(),
            ..PendingCall::default()
        };
        let signature = hex::encode(pair.sign(&approval_statement(&call)));
        assert!(is_signed(&call, &key, &signature));
        let changes: [fn(&mut PendingCall); 9] = [
            |call| call.id = "2".to_owned(),
            |call| call.agent = Some("eve".to_owned()),
            |call| call.agent = None,
            |call| call.client.clear(),
            |call| call.toolbox = "prod".to_owned(),
            |call| call.server = "other".to_owned(),
            |call| call.tool = "delete_all".to_owned(),
            |call| call.arguments = r#"{"path":"/"}"#.to_owned(),
            // Moves a character from one field to the next.
            |call| (call.server, call.tool) = ("file".to_owned(), "sdelete".to_owned()),
        ];
        for (number, change) in changes.into_iter().enumerate() {
            let mut other = call.clone();
            change(&mut other);
            assert!(!is_signed(&other, &key, &signature), "{number}");
        }
        for wrong in ["", "zz", &"0".repeat(128), &signature[2..]] {
            assert!(!is_signed(&call, &key, wrong), "{wrong}");
        }
        let other = Ed25519KeyPair::from_seed_unchecked(&[8; 32]).unwrap();
        let other = hex::encode(other.sign(&approval_statement(&call)));
        assert!(!is_signed(&call, &key, &other));
    }
}

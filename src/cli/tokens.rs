//! Random tokens.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::cli::output::CommandError;

/// Lets secret scanners recognize access tokens.
const PREFIX: &str = "mcpw_";

pub(crate) fn random_token() -> Result<String, CommandError> {
    let mut random = [0; 32];
    getrandom::fill(&mut random).map_err(CommandError::internal)?;
    Ok(URL_SAFE_NO_PAD.encode(random))
}

/// Generates an access token for an agent.
pub(crate) fn generate_token() -> Result<String, CommandError> {
    Ok(format!("{PREFIX}{}", random_token()?))
}

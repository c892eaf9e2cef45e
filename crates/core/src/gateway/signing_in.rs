//! Signing in at servers on behalf of whoever looks through a gateway.

use std::sync::Arc;

use url::Url;

use crate::gateway::Gateway;
use crate::gateway::gateways::Gateways;
use crate::login::{Back, Failure, Pending};
use crate::name::ServerRef;

impl Gateway {
    /// Begins a sign-in at a server for whoever looks through this gateway, or joins the one that is
    /// waited for.
    ///
    /// # Errors
    ///
    /// When one does not sign in there, or how to cannot be found out.
    pub async fn sign_in(&self, at: &ServerRef, back: Back) -> Result<Arc<Pending>, Failure> {
        let login = self.at(&at.toolbox, &at.server).and_then(|server| server.spec().reach.login());
        let login = login.ok_or_else(|| Failure {
            reason: "nobody signs in at this server".to_owned(),
            hint: "see what its entry says of `headers` and `oauth`".to_owned(),
        })?;
        self.pool.sign_in(login, back).await
    }
}

impl Gateways {
    /// Hands on where a browser came back to after a sign-in. Returns the words that it is to show.
    ///
    /// # Errors
    ///
    /// When nobody waits for it, or no token is given for it.
    pub async fn returned(&self, address: &Url) -> Result<String, Failure> {
        let none = || Failure {
            reason: "nobody signs in here".to_owned(),
            hint: "run `mcp-workbench auth login` where the workbench runs".to_owned(),
        };
        self.pool().logins().ok_or_else(none)?.returned(address).await
    }
}

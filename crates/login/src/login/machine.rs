//! Tokens that are got without anybody: by the client itself, the workload, or a company's identity provider.

use std::sync::Arc;

use crate::login::assertion::{self, Assertion};
use crate::login::discovery::{Found, discover};
use crate::login::pkce;
use crate::login::record::{Authority, Client, Kind, Method, Record, Token, union};
use crate::login::register::{check_issuer, registered};
use crate::login::sign_in::Login;
use crate::login::token::{self, Fields, Granted, Refusal};
use crate::settings::{Grant, IdentityProvider};

const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const TOKEN_EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";
const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";
/// The longest token that is read from a file, in bytes.
const LONGEST_FILE: u64 = 64 * 1024;

/// Why there is no token.
pub(crate) struct Failed {
    pub(crate) why: String,
    /// `true` if only a change of the configuration, or a person, can help.
    pub(crate) is_final: bool,
}

impl Failed {
    fn for_ever(why: impl Into<String>) -> Self {
        Self { why: why.into(), is_final: true }
    }
}

impl From<Refusal> for Failed {
    fn from(refusal: Refusal) -> Self {
        let is_final = matches!(refusal, Refusal::Final { .. });
        Self { why: format!("no token is given: {refusal}"), is_final }
    }
}

/// Gets a token the way that the entry says, and makes the record of it.
pub(crate) async fn obtain(login: &Arc<Login>, before: Option<&Record>) -> Result<Record, Failed> {
    let place = &login.place;
    let found = discover(login.http(), place, login.challenge().as_deref()).await;
    let found = found.map_err(|failure| Failed { why: failure.reason, is_final: false })?;
    let Found { authority, resource, scopes } = found;
    check_issuer(place, before, &authority).map_err(|failure| Failed::for_ever(failure.reason))?;
    let client = registered(place, &authority, None).unwrap_or_else(anonymous);
    let wanted = before.map(|before| before.wanted.as_slice()).unwrap_or_default();
    let asked = union(&[wanted, place.oauth.scopes.as_ref().unwrap_or(&scopes)]);
    let resource_asked = Found::resource_for(place, resource.as_deref());
    let granted = ask(login, &authority, &client, &asked, resource_asked.as_deref()).await?;
    let who = (place.server.as_str(), &place.url, place.account.as_deref());
    let mut record = Record::new(who, authority, resource, client);
    record.scopes = granted.scopes(&asked);
    record.login = before.map(|before| before.login).unwrap_or_default();
    record.token = Some(Token::new(granted.access_token, granted.expires_in));
    Ok(record)
}

/// Nobody: the assertion alone says who asks.
fn anonymous() -> Client {
    Client {
        id: String::new(),
        secret: None,
        secret_expires: None,
        method: Method::None,
        redirect_uri: None,
        kind: Kind::Registered,
        is_refused: false,
    }
}

async fn ask(
    login: &Login,
    authority: &Authority,
    client: &Client,
    scopes: &[String],
    resource: Option<&str>,
) -> Result<Granted, Failed> {
    let scope = scopes.join(" ");
    let mut fields: Fields<'_> = Vec::new();
    fields.extend(resource.map(|resource| ("resource", resource)));
    if !scope.is_empty() {
        fields.push(("scope", &scope));
    }
    let (http, endpoint) = (login.http(), &authority.token_endpoint);
    let granted = match &login.place.oauth.grant {
        Grant::Browser | Grant::Device => return Err(Failed::for_ever("a person has to sign in")),
        Grant::Client => {
            fields.insert(0, ("grant_type", "client_credentials"));
            token::ask(http, endpoint, client, None, fields).await
        }
        Grant::SignedClient { key, algorithm, key_id } => {
            let assertion = Assertion {
                client: &client.id,
                audience: &authority.issuer,
                id: &pkce::unguessable().map_err(Failed::for_ever)?,
            };
            let signed = assertion::sign(&assertion, key, algorithm, key_id.as_deref());
            let signed = signed.map_err(Failed::for_ever)?;
            fields.insert(0, ("grant_type", "client_credentials"));
            token::ask(http, endpoint, client, Some(&signed), fields).await
        }
        Grant::Workload { token_file } => {
            let assertion = read(token_file).await?;
            fields.splice(0..0, [("grant_type", JWT_BEARER), ("assertion", assertion.as_str())]);
            token::ask(http, endpoint, client, None, fields).await
        }
        Grant::Enterprise(provider) => {
            let assertion = exchange(login, provider, authority, resource, &scope).await?;
            // The assertion names the resource and the scopes.
            let fields = vec![("grant_type", JWT_BEARER), ("assertion", assertion.as_str())];
            token::ask(http, endpoint, client, None, fields).await
        }
    };
    Ok(granted?)
}

/// Reads the token of a workload, which others renew.
async fn read(file: &std::path::Path) -> Result<String, Failed> {
    let path = file.to_owned();
    let read = tokio::task::spawn_blocking(move || {
        use std::io::Read;
        let mut text = String::new();
        std::fs::File::open(path)?.take(LONGEST_FILE).read_to_string(&mut text).map(|_| text)
    });
    let read = read.await.map_err(std::io::Error::other).and_then(|read| read);
    let text = read.map_err(|error| Failed {
        why: format!("the token in `{}` cannot be read: {error}", file.display()),
        is_final: false,
    })?;
    Ok(text.trim().to_owned())
}

/// Exchanges the company's token for an assertion to the server's authorization server (RFC 8693, ID-JAG).
async fn exchange(
    login: &Login,
    provider: &IdentityProvider,
    authority: &Authority,
    resource: Option<&str>,
    scope: &str,
) -> Result<String, Failed> {
    let IdentityProvider { token_endpoint, client_id, client_secret, id_token } = provider;
    let client = Client {
        id: client_id.clone(),
        secret: client_secret.clone(),
        method: if client_secret.is_some() { Method::ClientSecretPost } else { Method::None },
        ..anonymous()
    };
    let mut fields = vec![
        ("grant_type", TOKEN_EXCHANGE),
        ("requested_token_type", ID_JAG),
        ("audience", authority.issuer.as_str()),
        ("subject_token", id_token.as_str()),
        ("subject_token_type", ID_TOKEN),
    ];
    fields.extend(resource.map(|resource| ("resource", resource)));
    if !scope.is_empty() {
        fields.push(("scope", scope));
    }
    // The provider is named by the entry, not by the server.
    let http = crate::login::http::Http::new(token_endpoint);
    let granted =
        token::ask(&http, token_endpoint, &client, None, fields).await.map_err(|refusal| {
            let Failed { why, is_final } = refusal.into();
            Failed {
                why: format!("the identity provider of {}: {why}", login.place.server),
                is_final,
            }
        })?;
    match granted.issued_token_type.as_deref() {
        Some(ID_JAG) | None => Ok(granted.access_token),
        Some(_) => Err(Failed::for_ever("the identity provider gives another kind of token")),
    }
}

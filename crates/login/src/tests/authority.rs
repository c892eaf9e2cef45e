//! An authorization server and a resource server that trusts it, with switches for faults and
//! variants.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use axum::extract::{Path, RawQuery, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio_util::task::TaskTracker;
use url::{Url, form_urlencoded};

use crate::pkce;

pub(crate) type Fields = HashMap<String, String>;

/// Deviations from the default behavior.
#[derive(Clone)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches")]
pub(crate) struct Switches {
    /// The `iss` of authorization responses, or `None` to omit it.
    pub(crate) iss: Option<String>,
    pub(crate) says_iss: bool,
    /// Overrides the `state` of authorization responses.
    pub(crate) state: Option<String>,
    /// The `error` of authorization responses.
    pub(crate) error: Option<&'static str>,
    /// An error status for the token endpoint.
    pub(crate) token_status: Option<u16>,
    /// Lifetime of tokens, in seconds.
    pub(crate) lifetime: u64,
    /// The authentication method of clients.
    pub(crate) method: &'static str,
    /// The authorization server in the resource metadata.
    pub(crate) named: Option<String>,
    pub(crate) pkce: Value,
    pub(crate) refuses_resource: bool,
    /// `true` to send errors with status 200.
    pub(crate) refuses_well: bool,
    /// `true` to reject token requests with an error that repeats their fields.
    pub(crate) repeats: bool,
    /// `true` to publish no metadata (MCP 2025-03-26).
    pub(crate) is_old: bool,
    /// `true` once the device code is approved.
    pub(crate) has_agreed: bool,
    /// `true` to redirect requests for metadata without end.
    pub(crate) redirects: bool,
    /// `true` to publish no metadata of the authorization server.
    pub(crate) is_unknown: bool,
    /// `true` to answer requests for metadata late, without any.
    pub(crate) is_slow: bool,
    /// `true` to name no scope in challenges.
    pub(crate) is_terse: bool,
    /// Overrides the issuer.
    pub(crate) issuer: Option<String>,
    /// Overrides members of the metadata. Members that are `null` are removed.
    pub(crate) metadata: Value,
    /// Overrides members of the resource metadata.
    pub(crate) resource: Value,
    /// Overrides members of token responses.
    pub(crate) granted: Value,
    /// Overrides members of device authorization responses.
    pub(crate) device: Value,
    /// Runs before each token response.
    pub(crate) meanwhile: Option<Arc<dyn Fn() + Send + Sync>>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) registrations: Vec<Value>,
    pub(crate) authorizations: Vec<Fields>,
    pub(crate) tokens: Vec<Fields>,
    pub(crate) refused: usize,
    pub(crate) revoked: Vec<String>,
    /// All requests.
    pub(crate) requests: usize,
}

#[derive(Default)]
struct Books {
    count: usize,
    /// Codes with their authorization requests.
    codes: HashMap<String, Fields>,
    /// Valid refresh tokens with their families.
    refresh: HashMap<String, String>,
    /// Families with a reused refresh token.
    dead: HashSet<String>,
    used: HashMap<String, String>,
    seen: Seen,
}

/// Both servers on one port.
#[derive(Clone)]
pub(crate) struct Authority {
    pub(crate) origin: String,
    switches: Arc<Mutex<Switches>>,
    books: Arc<Mutex<Books>>,
}

impl Authority {
    pub(crate) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let switches = Switches {
            iss: Some(origin.clone()),
            says_iss: true,
            state: None,
            error: None,
            token_status: None,
            lifetime: 3600,
            method: "none",
            named: None,
            pkce: json!(["S256"]),
            refuses_resource: false,
            refuses_well: false,
            repeats: false,
            is_old: false,
            has_agreed: false,
            redirects: false,
            is_unknown: false,
            is_slow: false,
            is_terse: false,
            issuer: None,
            metadata: Value::Null,
            resource: Value::Null,
            granted: Value::Null,
            device: Value::Null,
            meanwhile: None,
        };
        let own = Self { origin, switches: Arc::new(Mutex::new(switches)), books: Arc::default() };
        let app = Router::new()
            .route("/mcp", post(mcp).get(mcp))
            .route("/.well-known/oauth-protected-resource/mcp", get(resource))
            .route("/.well-known/oauth-authorization-server", get(metadata))
            .route("/register", post(register))
            .route("/authorize", get(authorize))
            .route("/token", post(token))
            .route("/device", post(device))
            .route("/revoke", post(revoke))
            .route("/again/{number}", get(again))
            .layer(from_fn_with_state(own.clone(), count))
            .with_state(own.clone());
        TaskTracker::new().spawn(async move { axum::serve(listener, app).await });
        own
    }

    pub(crate) fn url(&self) -> Url {
        Url::parse(&format!("{}/mcp", self.origin)).unwrap()
    }

    pub(crate) fn set(&self, change: impl FnOnce(&mut Switches)) {
        change(&mut self.switches.lock());
    }

    pub(crate) fn seen(&self) -> Seen {
        self.books().seen.clone()
    }

    /// Counts the token requests with this grant type.
    pub(crate) fn asked(&self, grant: &str) -> usize {
        self.seen().tokens.iter().filter(|fields| fields["grant_type"] == grant).count()
    }

    /// Invalidates all refresh tokens.
    pub(crate) fn revoke_all(&self) {
        self.books().refresh.clear();
    }

    fn switches(&self) -> Switches {
        self.switches.lock().clone()
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock()
    }
}

async fn count(State(own): State<Authority>, request: Request, next: Next) -> Response {
    own.books().seen.requests += 1;
    next.run(request).await
}

/// Redirects again and again, within the origin.
async fn again(Path(number): Path<usize>) -> Response {
    let location = format!("/again/{}", number + 1);
    (StatusCode::TEMPORARY_REDIRECT, [("location", location)]).into_response()
}

/// Replaces members of `value`, and removes those that are `null`.
fn change(value: &mut Value, changes: &Value) {
    let Some(members) = value.as_object_mut() else { return };
    for (name, value) in changes.as_object().into_iter().flatten() {
        members.insert(name.clone(), value.clone());
    }
    members.retain(|_, value| !value.is_null());
}

fn read(form: &str) -> Fields {
    form_urlencoded::parse(form.as_bytes()).into_owned().collect()
}

fn refuse(authority: &Authority, code: &str) -> Response {
    authority.books().seen.refused += 1;
    let is_well = authority.switches().refuses_well;
    let status = if is_well { StatusCode::OK } else { StatusCode::BAD_REQUEST };
    (status, Json(json!({ "error": code, "error_description": "because" }))).into_response()
}

async fn mcp(State(own): State<Authority>) -> Response {
    let origin = &own.origin;
    let challenge = if own.switches().is_old {
        "Bearer".to_owned()
    } else {
        let place = format!("{origin}/.well-known/oauth-protected-resource/mcp");
        let scope = if own.switches().is_terse { "" } else { ", scope=\"read\"" };
        format!("Bearer resource_metadata=\"{place}\"{scope}")
    };
    (StatusCode::UNAUTHORIZED, [("www-authenticate", challenge)]).into_response()
}

async fn resource(State(own): State<Authority>) -> Response {
    let switches = own.switches();
    if switches.is_slow {
        // The clock of the test is paused.
        tokio::time::sleep(std::time::Duration::from_secs(20)).await;
        return StatusCode::NOT_FOUND.into_response();
    }
    if switches.redirects {
        return again(Path(0)).await;
    }
    if switches.is_old {
        return StatusCode::NOT_FOUND.into_response();
    }
    let server = switches.named.unwrap_or_else(|| own.origin.clone());
    let resource = format!("{}/mcp", own.origin);
    let mut metadata = json!({ "resource": resource, "authorization_servers": [server] });
    change(&mut metadata, &switches.resource);
    Json(metadata).into_response()
}

async fn metadata(State(own): State<Authority>) -> Response {
    let (origin, switches) = (&own.origin, own.switches());
    if switches.redirects {
        return again(Path(0)).await;
    }
    if switches.is_old || switches.is_unknown {
        return StatusCode::NOT_FOUND.into_response();
    }
    let mut metadata = json!({
        "issuer": switches.issuer.as_ref().unwrap_or(origin),
        "authorization_endpoint": format!("{origin}/authorize"),
        "token_endpoint": format!("{origin}/token"),
        "registration_endpoint": format!("{origin}/register"),
        "revocation_endpoint": format!("{origin}/revoke"),
        "device_authorization_endpoint": format!("{origin}/device"),
        "token_endpoint_auth_methods_supported": [switches.method],
        "authorization_response_iss_parameter_supported": switches.says_iss,
    });
    if !switches.pkce.is_null() {
        metadata["code_challenge_methods_supported"] = switches.pkce;
    }
    change(&mut metadata, &switches.metadata);
    Json(metadata).into_response()
}

async fn register(State(own): State<Authority>, Json(asked): Json<Value>) -> Response {
    let method = own.switches().method;
    let mut books = own.books();
    books.seen.registrations.push(asked);
    let id = format!("client-{}", books.seen.registrations.len());
    let mut answer = json!({ "client_id": id, "token_endpoint_auth_method": method });
    if method != "none" {
        answer["client_secret"] = json!(format!("secret of {id}/+%"));
        answer["client_secret_expires_at"] = json!(0);
    }
    (StatusCode::CREATED, Json(answer)).into_response()
}

async fn authorize(State(own): State<Authority>, RawQuery(asked): RawQuery) -> Response {
    let asked = read(&asked.unwrap_or_default());
    let switches = own.switches();
    let mut books = own.books();
    books.seen.authorizations.push(asked.clone());
    books.count += 1;
    let code = format!("code-{}", books.count);
    let mut back = Url::parse(&asked["redirect_uri"]).unwrap();
    {
        let mut query = back.query_pairs_mut();
        match switches.error {
            Some(error) => query.append_pair("error", error),
            None => query.append_pair("code", &code),
        };
        query.append_pair("state", switches.state.as_ref().unwrap_or(&asked["state"]));
        if let Some(iss) = &switches.iss {
            query.append_pair("iss", iss);
        }
    }
    books.codes.insert(code, asked);
    (StatusCode::FOUND, [("location", back.to_string())]).into_response()
}

/// Returns the client ID if the client is authenticated.
fn client(own: &Authority, headers: &HeaderMap, fields: &Fields) -> Option<String> {
    let secret = |id: &str| format!("secret of {id}/+%");
    match own.switches().method {
        "client_secret_basic" => {
            use base64::Engine;
            let basic = headers.get("authorization")?.to_str().ok()?.strip_prefix("Basic ")?;
            let pair = base64::engine::general_purpose::STANDARD.decode(basic).ok()?;
            let pair = String::from_utf8(pair).ok()?;
            let (id, said) = pair.split_once(':')?;
            let said = form_urlencoded::parse(said.as_bytes()).next()?.0.into_owned();
            (said == secret(id) && !fields.contains_key("client_secret")).then(|| id.to_owned())
        }
        "client_secret_post" => {
            let id = fields.get("client_id")?;
            (fields.get("client_secret") == Some(&secret(id))).then(|| id.clone())
        }
        // A signed assertion identifies the client.
        _ => fields.get("client_id").or_else(|| fields.get("assertion")).cloned(),
    }
}

async fn token(State(own): State<Authority>, headers: HeaderMap, form: String) -> Response {
    let fields = read(&form);
    let switches = own.switches();
    own.books().seen.tokens.push(fields.clone());
    if let Some(meanwhile) = &switches.meanwhile {
        meanwhile();
    }
    if let Some(status) = switches.token_status {
        return StatusCode::from_u16(status).unwrap().into_response();
    }
    if switches.repeats {
        let mut sent: Vec<_> = fields.iter().map(|(key, value)| format!("{key}={value}")).collect();
        sent.sort();
        let error = json!({ "error": "invalid_grant", "error_description": sent.join(" ") });
        return (StatusCode::BAD_REQUEST, Json(error)).into_response();
    }
    let Some(client) = client(&own, &headers, &fields) else {
        return refuse(&own, "invalid_client");
    };
    if switches.refuses_resource && fields.contains_key("resource") {
        return refuse(&own, "invalid_target");
    }
    let family = match fields["grant_type"].as_str() {
        "authorization_code" => {
            let asked = own.books().codes.remove(&fields["code"]);
            let is_right = asked.is_some_and(|asked| {
                asked["code_challenge"] == pkce::challenge(&fields["code_verifier"])
                    && asked["redirect_uri"] == fields["redirect_uri"]
                    && asked["client_id"] == client
                    && asked.get("resource") == fields.get("resource")
            });
            if !is_right {
                return refuse(&own, "invalid_grant");
            }
            format!("family of {}", fields["code"])
        }
        "refresh_token" => {
            let mut books = own.books();
            let token = &fields["refresh_token"];
            if let Some(family) = books.used.get(token).cloned() {
                // Reuse means that the token was stolen.
                books.dead.insert(family);
            }
            match books.refresh.remove(token) {
                Some(family) if !books.dead.contains(&family) => {
                    books.used.insert(token.clone(), family.clone());
                    family
                }
                _ => {
                    drop(books);
                    return refuse(&own, "invalid_grant");
                }
            }
        }
        "urn:ietf:params:oauth:grant-type:device_code" if !switches.has_agreed => {
            return refuse(&own, "authorization_pending");
        }
        "urn:ietf:params:oauth:grant-type:device_code" => "family of the device".to_owned(),
        _ => "alone".to_owned(),
    };
    let mut books = own.books();
    books.count += 1;
    let (access, refresh) = (format!("access-{}", books.count), format!("refresh-{}", books.count));
    let mut answer =
        json!({ "access_token": access, "token_type": "bearer", "expires_in": switches.lifetime });
    if family != "alone" {
        books.refresh.insert(refresh.clone(), family);
        answer["refresh_token"] = json!(refresh);
    }
    change(&mut answer, &switches.granted);
    Json(answer).into_response()
}

async fn device(State(own): State<Authority>) -> Response {
    let mut answer = json!({
        "device_code": "device-code",
        "user_code": "WDJB-MJHT",
        "verification_uri": format!("{}/activate", own.origin),
        "expires_in": 600,
        "interval": 1,
    });
    change(&mut answer, &own.switches().device);
    Json(answer).into_response()
}

async fn revoke(State(own): State<Authority>, form: String) -> StatusCode {
    let fields = read(&form);
    own.books().seen.revoked.push(fields["token"].clone());
    StatusCode::OK
}

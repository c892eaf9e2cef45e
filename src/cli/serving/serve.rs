//! `serve`: serves the toolboxes over stdio or HTTP.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use url::Url;

use crate::admin::socket;
use crate::app::{self, MemoryReclaimer, ReloadSource, ServeOptions, ValueRefresh};
use crate::backend::PoolOptions;
use crate::cli::access::access_diff;
use crate::cli::args::duration;
use crate::cli::args::global::GlobalArgs;
use crate::cli::diagnostics::config_remarks::RemarkLogger;
use crate::cli::output::error::CommandError;
use crate::cli::output::print;
use crate::cli::output::troubleshooting::Symptom;
use crate::cli::runtime::{PROGRAM_NAME, block_on, block_on_workers, pool_options};
use crate::cli::servers::value_sources::ValueCache;
use crate::cli::serving::admin_config::admin_config;
use crate::config::env::{EnvSource, ProcessEnv};
use crate::config::{ConfigReport, Finding, LoadError, LoadedConfig, otlp_traces_url};
use crate::frontend::http::{DefaultAccess, DrainTimeouts, TlsCertificates};
use crate::redis_store::RedisTarget;
use crate::settings::{AnonymousPolicy, Config, StoreUrl, TlsConfig};
use crate::telemetry::Telemetry;
use crate::telemetry::process_registry::{ProcessFiles, ProcessRecord};

/// Standard environment variables of OpenTelemetry.
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const TRACES_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
const SERVICE_NAME: &str = "OTEL_SERVICE_NAME";
const DISABLED: &str = "OTEL_SDK_DISABLED";
/// The default of `--shutdown-timeout`.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);
/// Serializes every stored record and reads it back, if set. The value names a member that session
/// records lose.
#[cfg(feature = "test-fakes")]
const REHEARSAL: &str = "WORKBENCH_REHEARSAL";

const EXAMPLES: &str = "\
Examples:
  mcp-workbench serve -c ~/workbench-config.json
  mcp-workbench serve --http 127.0.0.1:8000
  mcp-workbench serve --http 0.0.0.0:8000      (requires `auth`)
  mcp-workbench serve --http 0.0.0.0:8443 --tls-cert tls.crt --tls-key tls.key
  claude mcp add workbench -- mcp-workbench serve -c ~/workbench-config.json
  claude mcp add --transport http workbench http://127.0.0.1:8000/mcp
  claude mcp add --transport http files http://127.0.0.1:8000/mcp/files

HTTP paths:
  /mcp              All toolboxes
  /mcp/<toolbox>    One toolbox
  /health           Liveness
  /ready            Readiness
  /metrics          Prometheus metrics
  /                 The dashboard";

/// Serve your toolboxes over stdio (default) or HTTP
///
/// Over stdio, serves one client until it closes stdin. This is also what `mcp-workbench` does
/// without a command. Over HTTP, serves many clients until SIGTERM or SIGINT.
#[derive(Debug, Default, clap::Args)]
#[command(after_long_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "independent flags")]
pub(crate) struct Args {
    /// Listen for HTTP on this address, e.g. 127.0.0.1:8000
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    http: Option<SocketAddr>,
    /// Time for running calls to finish after SIGTERM or SIGINT (HTTP), or after the client closes
    /// stdin [default: 10s]
    // Without a default of clap, because `mcp-workbench` without a command has no arguments.
    #[arg(long, value_name = "DURATION")]
    #[arg(value_parser = duration::parse, hide_short_help = true)]
    shutdown_timeout: Option<Duration>,
    /// Time to keep accepting requests after the signal while /ready already reports 503, so that
    /// load balancers notice
    #[arg(long, value_name = "DURATION", default_value = "0s", requires = "http")]
    #[arg(value_parser = duration::parse, hide_short_help = true)]
    drain_delay: Duration,
    /// Refuse to start if any server entry is invalid
    #[arg(long)]
    strict: bool,
    #[arg(
        help = "Export a trace span per call to this OpenTelemetry collector, e.g. \
                http://127.0.0.1:4318",
        long,
        value_name = "URL",
        value_parser = otlp_traces_url
    )]
    otlp: Option<Url>,
    /// Hide this workbench from `ps`, `logs`, `top` and `dashboard`
    #[arg(long)]
    unlisted: bool,
    /// Let all agents use the logins of `auth login`, unless `oauth.account` of a server is `agent`
    #[arg(long, requires = "http", hide_short_help = true)]
    shared_logins: bool,
    /// Accept unauthenticated clients on any address
    #[arg(long, requires = "http")]
    insecure_no_auth: bool,
    /// TLS certificate (PEM)
    #[arg(long, value_name = "FILE", requires_all = ["http", "tls_key"])]
    tls_cert: Option<PathBuf>,
    /// Private key of the TLS certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    #[arg(
        help = "Share sessions with other workbenches through Redis or Valkey, e.g. \
                redis://127.0.0.1:6379",
        long,
        value_name = "URL",
        value_parser = StoreUrl::parse,
        requires = "http",
        hide_short_help = true
    )]
    shared_store: Option<StoreUrl>,
}

impl Args {
    /// Returns the process files for `ps`, `logs` and `top`, or `None` if this workbench is hidden.
    pub(crate) fn run_files(&self, global: &GlobalArgs) -> Option<ProcessFiles> {
        if self.unlisted || global.embedded_config {
            return None;
        }
        let mut random = [0; 4];
        getrandom::fill(&mut random).ok()?;
        Some(ProcessFiles::new(
            &global.resolve_cache_dir().ok()?,
            &format!("{:08x}", u32::from_ne_bytes(random)),
        ))
    }
}

/// `said` is `--shared-store`, which overrides the configuration.
fn shared_store(
    config: &Config,
    said: Option<&StoreUrl>,
) -> Result<Option<RedisTarget>, CommandError> {
    let mut shared = config.shared_store.clone();
    shared.url = said.cloned().or(shared.url);
    if let Some(url) = shared.url.as_ref().filter(|url| !url.is_encrypted() && !url.is_local()) {
        tracing::warn!("the connection to the shared store {url} is not encrypted: use rediss://");
    }
    RedisTarget::new(&shared).map_err(|unusable| CommandError::usage(unusable.to_string()))
}

/// Serves until stdin closes, or over HTTP until a signal arrives.
pub(crate) fn run(
    global: &GlobalArgs,
    args: &Args,
    files: Option<&ProcessFiles>,
) -> Result<ExitCode, CommandError> {
    #[cfg(feature = "test-fakes")]
    if let Some(without) = ProcessEnv.get(REHEARSAL) {
        crate::state::round_trip::begin(without);
    }
    let values = Arc::<ValueCache>::default();
    let loaded = global
        .read_with_values(&values.source(ValueRefresh::All))?
        .map_err(CommandError::config)?;
    let source = global.config_source(values)?;
    serve_loaded(global, args, files, loaded, source)
}

/// `source` reads the configuration again for a reload.
pub(crate) fn serve_loaded(
    global: &GlobalArgs,
    args: &Args,
    files: Option<&ProcessFiles>,
    loaded: LoadedConfig,
    source: Option<ReloadSource>,
) -> Result<ExitCode, CommandError> {
    let mut loaded =
        if args.strict { reject_broken(loaded).map_err(CommandError::config)? } else { loaded };
    let own_tls = tls_files(args).map_err(CommandError::internal)?;
    override_tls_files(&mut loaded.config, own_tls.as_ref());
    if let Some(report) = loaded.report() {
        print::note(&report);
    }
    tracing::info!("using configuration `{}`", loaded.file);
    let broken = loaded.broken_servers();
    if !broken.is_empty() {
        tracing::warn!("not serving `{}`: {WHY_WITHOUT}", broken.join("`, `"));
    }
    let source = source.map(|source| if args.strict { strict_source(source) } else { source });
    let source = source.map(|source| tls_override_source(source, own_tls));
    let listening =
        files.and_then(|files| socket::listen(&global.socket_folders(), files.run_id()));
    let (socket, path) = listening.unzip();
    let settling = MemoryReclaimer::default();
    let options = options(global, args, &loaded, files.map(|files| (files, path)), &settling)?;
    let remarks = RemarkLogger::new(global);
    remarks.log_new_in_background(&loaded.config);
    let own = global.clone();
    let difference = move |old: &Config, new: &Config| {
        access_diff::describe_diff(&own, old, new).unwrap_or_else(|error| error.to_string())
    };
    let source = source.map(|source| ReloadSource {
        on_applied: Box::new(move |config| remarks.log_new_in_background(config)),
        describe_diff: Box::new(difference),
        ..source
    });
    let papers = admin_config(global, &loaded.file);
    let shutdown_timeout = args.shutdown_timeout.unwrap_or(SHUTDOWN_TIMEOUT);
    if let Some(address) = args.http {
        let grace = DrainTimeouts { delay: args.drain_delay, drain: shutdown_timeout };
        let is_open = address.ip().is_loopback() || args.insecure_no_auth;
        if let Some(reason) = open_access_reason(&loaded.config, is_open) {
            return Err(CommandError::usage(format!(
                "{address} is reachable from other machines, and {reason}"
            ))
            .with_hint(AUTH_HINT));
        }
        let tls = loaded.config.http.tls.as_ref().map(read_tls).transpose()?;
        if !address.ip().is_loopback() && tls.is_none() {
            tracing::warn!(
                "traffic to {address} is not encrypted, including tokens: configure `http.tls`, or use \
                 a proxy with TLS"
            );
        }
        let shared = shared_store(&loaded.config, args.shared_store.as_ref())?;
        let default_access =
            DefaultAccess { agent: global.caller().agent, serves_anonymous: is_open };
        let source = source.map(|source| authenticated_source(source, is_open));
        let served = ServeOptions {
            config: loaded.config,
            config_source: source,
            admin_config: papers,
            shared_store: shared,
            admin_socket: socket,
            memory_reclaimer: settling,
        };
        block_on_workers(async {
            let listener = TcpListener::bind(address).await.map_err(|error| {
                CommandError::failed(format!("failed to listen on {address}"))
                    .because(&error)
                    .with_link(Symptom::PortInUse)
            })?;
            let served = app::serve_http(served, options, listener, default_access, grace, tls);
            Box::pin(served).await.map_err(CommandError::internal)
        })??;
        return Ok(ExitCode::SUCCESS);
    }
    if std::io::stdin().is_terminal() {
        print::note(
            &"serving MCP over stdio, waiting for a client on stdin (press Ctrl-C to stop)\n\
              hint: clients start this command themselves; run `mcp-workbench setup` to configure them",
        );
    }
    let served = ServeOptions {
        config: loaded.config,
        config_source: source,
        admin_config: papers,
        shared_store: None,
        admin_socket: socket,
        memory_reclaimer: settling,
    };
    block_on(app::serve_stdio(served, options, global.caller(), shutdown_timeout))?
        .map_err(CommandError::internal)?;
    Ok(ExitCode::SUCCESS)
}

fn tls_files(args: &Args) -> std::io::Result<Option<[PathBuf; 2]>> {
    let (Some(cert), Some(key)) = (&args.tls_cert, &args.tls_key) else { return Ok(None) };
    Ok(Some([std::path::absolute(cert)?, std::path::absolute(key)?]))
}

/// Applies `--tls-cert` and `--tls-key` over the configuration, and keeps its client CA.
fn override_tls_files(config: &mut Config, files: Option<&[PathBuf; 2]>) {
    if let Some([cert, key]) = files.cloned() {
        let client_ca = config.http.tls.take().and_then(|tls| tls.client_ca);
        config.http.tls = Some(TlsConfig { cert, key, client_ca });
    }
}

fn tls_override_source(source: ReloadSource, files: Option<[PathBuf; 2]>) -> ReloadSource {
    let ReloadSource { load: read, .. } = source;
    let read = move |renewal| {
        let mut loaded = read(renewal)?;
        override_tls_files(&mut loaded.config, files.as_ref());
        Ok(loaded)
    };
    ReloadSource { load: Box::new(read), ..source }
}

fn read_tls(files: &TlsConfig) -> Result<TlsCertificates, CommandError> {
    TlsCertificates::load(files).map_err(|error| {
        CommandError::usage("failed to load the certificates of `http.tls`")
            .with_cause(&error.to_string())
            .with_hint(error.hint())
    })
}

/// Builds the options of the server pool. Traces go to the collector of `--otlp`, or else of the
/// configuration, or else of the environment.
fn options(
    global: &GlobalArgs,
    args: &Args,
    loaded: &LoadedConfig,
    files: Option<(&ProcessFiles, Option<PathBuf>)>,
    settling: &MemoryReclaimer,
) -> Result<PoolOptions, CommandError> {
    let config = &loaded.config;
    let options = PoolOptions { shares_logins: args.shared_logins, ..pool_options(Some(global)) };
    let mut observer = Telemetry::default();
    if args.http.is_none() {
        // Metrics are only readable over HTTP.
        observer = observer.without_metrics();
    }
    let collector = match args.otlp.clone().or_else(|| config.telemetry.otlp.clone()) {
        Some(address) => Some(address),
        None => otlp_endpoint(&ProcessEnv).map_err(|error| {
            CommandError::usage("invalid URL of the OpenTelemetry collector").with_cause(&error)
        })?,
    };
    if let Some(address) = collector {
        let service = ProcessEnv.get(SERVICE_NAME).filter(|name| !name.is_empty());
        observer = observer
            .with_otlp_exporter(&address, service.as_deref().unwrap_or(PROGRAM_NAME))
            .map_err(|error| {
                CommandError::failed("failed to set up the export to the OpenTelemetry collector")
                    .with_cause(&error)
            })?;
    }
    if let Some((files, socket)) = files {
        let record = ProcessRecord {
            socket,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            config: loaded.file.clone(),
            at: "stdio".to_owned(),
            mode: config.mode.as_str().to_owned(),
            ..ProcessRecord::default()
        };
        // Serving continues if these files can't be written.
        observer = observer.with_process_registry(files, record);
    }
    let observer = observer.with_listener(Arc::new(settling.clone()));
    Ok(PoolOptions { observer: Arc::new(observer), ..options })
}

fn otlp_endpoint(env: &impl EnvSource) -> Result<Option<Url>, String> {
    let said = |name| env.get(name).filter(|value| !value.is_empty());
    if said(DISABLED).is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        return Ok(None);
    }
    let address = said(TRACES_ENDPOINT).map(|address| {
        Url::parse(&address).map_err(|_| format!("expected an http URL, found `{address}`"))
    });
    let address = address.or_else(|| said(ENDPOINT).map(|address| otlp_traces_url(&address)));
    address.transpose()
}

/// Hint for an address that would accept unauthenticated clients.
const AUTH_HINT: &str = "create access tokens with `mcp-workbench token <agent>` and add them to \
                         `auth.tokens`, or listen on 127.0.0.1 (`--insecure-no-auth` accepts \
                         unauthenticated clients)";

/// Returns why unauthenticated clients would be served, or `None` if they are rejected or `is_open`
/// allows them.
fn open_access_reason(config: &Config, is_open: bool) -> Option<&'static str> {
    if is_open {
        return None;
    }
    match config.auth.as_ref().map(|auth| &auth.anonymous) {
        // Clients without a certificate are rejected.
        None if config.http.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some()) => None,
        None => Some("the configuration requires no authentication"),
        Some(AnonymousPolicy::Nameless | AnonymousPolicy::Named(_)) => {
            Some("`auth.anonymous` accepts requests without a token")
        }
        Some(AnonymousPolicy::Refused) => None,
    }
}

const WHY_WITHOUT: &str = "invalid entry (run `mcp-workbench check` to see why)";

fn reject_broken(loaded: LoadedConfig) -> Result<LoadedConfig, LoadError> {
    match loaded.report() {
        Some(report) if loaded.has_errors() => Err(LoadError::Invalid(report)),
        _ => Ok(loaded),
    }
}

fn strict_source(source: ReloadSource) -> ReloadSource {
    let ReloadSource { load: read, .. } = source;
    ReloadSource { load: Box::new(move |renewal| reject_broken(read(renewal)?)), ..source }
}

/// Rejects reloads that would let unauthenticated clients in.
fn authenticated_source(source: ReloadSource, is_open: bool) -> ReloadSource {
    let ReloadSource { load: read, .. } = source;
    let read = move |renewal| {
        let loaded = read(renewal)?;
        let Some(reason) = open_access_reason(&loaded.config, is_open) else { return Ok(loaded) };
        let message = format!("the workbench is reachable from other machines, and {reason}");
        let finding = Finding::error("auth", message, AUTH_HINT);
        Err(LoadError::Invalid(ConfigReport { file: loaded.file, findings: vec![finding] }))
    };
    ReloadSource { load: Box::new(read), ..source }
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let expected = |_| "expected an address and a port, such as 127.0.0.1:8000".to_owned();
    text.parse().map_err(expected)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn reads_the_otlp_endpoint_from_the_environment() {
        let of = |variables: &[(&str, &str)]| {
            let env: BTreeMap<String, String> =
                variables.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            otlp_endpoint(&env).map(|url| url.map(String::from))
        };
        assert_eq!(of(&[]), Ok(None));
        assert_eq!(of(&[(ENDPOINT, "")]), Ok(None));
        assert_eq!(of(&[(ENDPOINT, "http://a:1")]), Ok(Some("http://a:1/v1/traces".to_owned())));
        let both = [(ENDPOINT, "http://a:1"), (TRACES_ENDPOINT, "http://b:2/x")];
        assert_eq!(of(&both), Ok(Some("http://b:2/x".to_owned())));
        assert_eq!(of(&[(ENDPOINT, "http://a:1"), (DISABLED, "true")]), Ok(None));
        assert!(of(&[(ENDPOINT, "a:1")]).is_err());
    }
}

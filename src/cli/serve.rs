//! `serve`: serves the toolboxes to an agent.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use url::Url;

use crate::app::{self, Renewal, Served, Settling, Source};
use crate::backend::PoolOptions;
use crate::cli::error::Error;
use crate::cli::papers::papers;
use crate::cli::remarks::RemarkLog;
use crate::cli::values::Kept;
use crate::cli::{Global, NAME, block_on, block_on_workers, policy, pool_options, print};
use crate::config::env::{EnvSource, ProcessEnv};
use crate::config::{Finding, LoadError, Loaded, Report, Severity, otlp_address};
use crate::desk::socket;
use crate::frontend::http::{Door, Grace, Tls};
use crate::observe::Observer;
use crate::observe::running::{Files, Told};
use crate::settings::{Anonymous, Config, StoreUrl, TlsConfig};
use crate::shared::Address;

/// Variables that OpenTelemetry has given a meaning.
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const TRACES_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
const SERVICE_NAME: &str = "OTEL_SERVICE_NAME";
const DISABLED: &str = "OTEL_SDK_DISABLED";
/// Has tests go through the text of every record, if it is set.
#[cfg(feature = "test-fakes")]
const REHEARSAL: &str = "WORKBENCH_REHEARSAL";

const EXAMPLES: &str = "\
Examples:
  mcp-workbench serve --config ~/workbench-config.json
  mcp-workbench serve --http 127.0.0.1:8000
  mcp-workbench serve --http 0.0.0.0:8000      (needs `auth` in the configuration)
  mcp-workbench serve --http 0.0.0.0:8443 --tls-cert tls.crt --tls-key tls.key
  claude mcp add workbench -- mcp-workbench serve --config ~/workbench-config.json
  claude mcp add --transport http workbench http://127.0.0.1:8000/mcp
  claude mcp add --transport http files http://127.0.0.1:8000/mcp/files

Over HTTP /mcp serves everything, /mcp/<toolbox> one toolbox alone; /health says whether the program
is alive, /ready whether agents can be served, /metrics what has been done; / is a page for a browser.";

/// Serve the toolboxes to agents, over stdio (the default) or HTTP
#[derive(Debug, Default, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Serve over HTTP at this address, such as 127.0.0.1:8000
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    http: Option<SocketAddr>,
    /// How long calls that are under way when SIGTERM or SIGINT comes may still take, over HTTP
    #[arg(long, value_name = "SECONDS", default_value_t = 10, requires = "http")]
    #[arg(value_parser = clap::value_parser!(u64).range(..=3600))]
    grace: u64,
    /// How long requests are still taken after that signal, while /ready says already that this ends: as long as
    /// a proxy takes to notice
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 0,
        requires = "http",
        hide_short_help = true
    )]
    #[arg(value_parser = clap::value_parser!(u64).range(..=3600))]
    drain_delay: u64,
    /// Refuse a configuration in which the entry of any server is wrong, in place of serving the rest
    #[arg(long)]
    strict: bool,
    #[arg(
        help = "Tell an OpenTelemetry collector of every call, such as http://127.0.0.1:4318",
        long,
        value_name = "ADDRESS",
        value_parser = otlp_address
    )]
    otlp: Option<Url>,
    /// Write no files for `ps` and `logs`, and let `top` not look
    #[arg(long)]
    unlisted: bool,
    /// Serve whoever can reach the address of --http, without asking who that is
    #[arg(long, requires = "http")]
    insecure_no_auth: bool,
    /// Encrypt with this certificate, in PEM
    #[arg(long, value_name = "FILE", requires_all = ["http", "tls_key"])]
    tls_cert: Option<PathBuf>,
    /// The private key of that certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Share agents' sessions with other workbenches in this store on Redis or Valkey, such as `redis://127.0.0.1:6379`
    #[arg(long, value_name = "URL", value_parser = StoreUrl::parse, requires = "http", hide_short_help = true)]
    shared_store: Option<StoreUrl>,
}

impl Args {
    /// The files in which others are told what runs here; `None`: nobody is told.
    pub(crate) fn files(&self, global: &Global) -> Option<Files> {
        if self.unlisted || global.embedded_config {
            return None;
        }
        let mut random = [0; 4];
        getrandom::fill(&mut random).ok()?;
        Some(Files::new(&global.cache().ok()?, &format!("{:08x}", u32::from_ne_bytes(random))))
    }
}

/// The address of the store that agents' state is in, of the command line or the file.
fn shared_store(config: &Config, said: Option<&StoreUrl>) -> Result<Option<Address>, Error> {
    let mut shared = config.shared.clone();
    shared.url = said.cloned().or(shared.url);
    if let Some(url) = shared.url.as_ref().filter(|url| !url.is_encrypted() && !url.is_local()) {
        tracing::warn!("what goes to the shared store {url} is not encrypted: use rediss://");
    }
    Address::new(&shared).map_err(|unusable| Error::wrong(unusable.to_string()))
}

/// Serves until the agent leaves, or over HTTP until a signal comes.
pub(crate) fn run(global: &Global, args: &Args, files: Option<&Files>) -> Result<ExitCode, Error> {
    #[cfg(feature = "test-fakes")]
    if let Some(without) = ProcessEnv.get(REHEARSAL) {
        crate::state::rehearsal::begin(without);
    }
    let values = Arc::<Kept>::default();
    let loaded = global.read_with(&values.asking(Renewal::All))?.map_err(Error::config)?;
    let source = global.source(values)?;
    run_as(global, args, files, loaded, source)
}

/// Serves a configuration that has been read, and can be read again from `source`.
pub(crate) fn run_as(
    global: &Global,
    args: &Args,
    files: Option<&Files>,
    loaded: Loaded,
    source: Option<Source>,
) -> Result<ExitCode, Error> {
    let mut loaded = if args.strict { strictly(loaded).map_err(Error::config)? } else { loaded };
    let own_tls = tls_files(args).map_err(Error::internal)?;
    encrypt(&mut loaded.config, own_tls.as_ref());
    if let Some(report) = loaded.report() {
        print::note(&report);
    }
    tracing::info!("the configuration is that of `{}`", loaded.file);
    let broken = loaded.broken();
    if !broken.is_empty() {
        tracing::warn!("served without `{}`: {WHY_WITHOUT}", broken.join("`, `"));
    }
    let source = source.map(|source| if args.strict { strict(source) } else { source });
    let source = source.map(|source| encrypted(source, own_tls));
    let listening = files.and_then(|files| socket::listen(&global.socket_folders(), files.run()));
    let (socket, path) = listening.unzip();
    let settling = Settling::default();
    let options = options(global, args, &loaded, files.map(|files| (files, path)), &settling)?;
    let remarks = RemarkLog::new(global);
    remarks.look(&loaded.config);
    let own = global.clone();
    let difference = move |old: &Config, new: &Config| {
        policy::difference(&own, old, new).unwrap_or_else(|error| error.to_string())
    };
    let source = source.map(|source| Source {
        served: Box::new(move |config| remarks.look(config)),
        difference: Box::new(difference),
        ..source
    });
    let papers = papers(global, &loaded.file);
    if let Some(address) = args.http {
        let [delay, time] = [args.drain_delay, args.grace].map(Duration::from_secs);
        let grace = Grace { delay, time };
        let is_open = address.ip().is_loopback() || args.insecure_no_auth;
        if let Some(reason) = exposed(&loaded.config, is_open) {
            return Err(Error::wrong(format!("{address} can be reached by others, and {reason}"))
                .hint(SAFE));
        }
        let tls = loaded.config.http.tls.as_ref().map(read_tls).transpose()?;
        if !address.ip().is_loopback() && tls.is_none() {
            tracing::warn!(
                "what goes over {address} is not encrypted, tokens included: give `http.tls` a \
                 certificate, or put a proxy with TLS in front of it"
            );
        }
        let shared = shared_store(&loaded.config, args.shared_store.as_ref())?;
        let door = Door { agent: global.caller().agent, is_open };
        let source = source.map(|source| guarded(source, is_open));
        let served = Served { config: loaded.config, source, papers, shared, socket, settling };
        block_on_workers(async {
            let listener = TcpListener::bind(address).await.map_err(|error| {
                Error::failed(format!("cannot listen at {address}")).because(&error.to_string())
            })?;
            let served = app::serve_http(served, options, listener, door, grace, tls);
            Box::pin(served).await.map_err(Error::internal)
        })??;
        return Ok(ExitCode::SUCCESS);
    }
    if std::io::stdin().is_terminal() {
        print::note(
            &"serving MCP on standard input, as a client would use it; Ctrl-C ends it\n\
              hint: `mcp-workbench demo` shows what an agent sees",
        );
    }
    let served = Served { config: loaded.config, source, papers, shared: None, socket, settling };
    block_on(app::serve_stdio(served, options, global.caller()))?.map_err(Error::internal)?;
    Ok(ExitCode::SUCCESS)
}

/// The files for TLS that the command line names.
fn tls_files(args: &Args) -> std::io::Result<Option<[PathBuf; 2]>> {
    let (Some(cert), Some(key)) = (&args.tls_cert, &args.tls_key) else { return Ok(None) };
    Ok(Some([std::path::absolute(cert)?, std::path::absolute(key)?]))
}

/// Has a configuration encrypt with the files of the command line, if it names any.
fn encrypt(config: &mut Config, files: Option<&[PathBuf; 2]>) {
    if let Some([cert, key]) = files.cloned() {
        let client_ca = config.http.tls.take().and_then(|tls| tls.client_ca);
        config.http.tls = Some(TlsConfig { cert, key, client_ca });
    }
}

/// A source whose configurations encrypt with the files of the command line, if it names any.
fn encrypted(source: Source, files: Option<[PathBuf; 2]>) -> Source {
    let Source { read, .. } = source;
    let read = move |renewal| {
        let mut loaded = read(renewal)?;
        encrypt(&mut loaded.config, files.as_ref());
        Ok(loaded)
    };
    Source { read: Box::new(read), ..source }
}

/// Reads the certificates to serve with.
fn read_tls(files: &TlsConfig) -> Result<Tls, Error> {
    Tls::load(files).map_err(|error| {
        Error::wrong("nothing can be encrypted as `http.tls` says")
            .because(&error.to_string())
            .hint(error.hint())
    })
}

/// The options that servers are started with, and the collector that is told of calls: the one that
/// the command line names, else the file, else the environment.
fn options(
    global: &Global,
    args: &Args,
    loaded: &Loaded,
    files: Option<(&Files, Option<PathBuf>)>,
    settling: &Settling,
) -> Result<PoolOptions, Error> {
    let config = &loaded.config;
    let options = pool_options(Some(global));
    let mut observer = Observer::default();
    if args.http.is_none() {
        // The figures are asked for over HTTP.
        observer = observer.uncounted();
    }
    let collector = match args.otlp.clone().or_else(|| config.telemetry.otlp.clone()) {
        Some(address) => Some(address),
        None => otlp_of(&ProcessEnv).map_err(|error| {
            Error::wrong("the address of the collector is wrong").because(&error)
        })?,
    };
    if let Some(address) = collector {
        let service = ProcessEnv.get(SERVICE_NAME).filter(|name| !name.is_empty());
        observer =
            observer.exporting(&address, service.as_deref().unwrap_or(NAME)).map_err(|error| {
                Error::failed("calls cannot be told to a collector").because(&error)
            })?;
    }
    if let Some((files, socket)) = files {
        let told = Told {
            socket,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            config: loaded.file.clone(),
            at: "stdio".to_owned(),
            mode: config.mode.as_str().to_owned(),
            ..Told::default()
        };
        // Serving does not depend on it.
        observer = observer.telling(files, told);
    }
    let observer = observer.heard_by(Arc::new(settling.clone()));
    Ok(PoolOptions { observer: Arc::new(observer), ..options })
}

/// The address of the collector that the environment names, as OpenTelemetry reads it.
fn otlp_of(env: &impl EnvSource) -> Result<Option<Url>, String> {
    let said = |name| env.get(name).filter(|value| !value.is_empty());
    if said(DISABLED).is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        return Ok(None);
    }
    let address = said(TRACES_ENDPOINT).map(|address| {
        Url::parse(&address).map_err(|_| format!("expected an http address, found `{address}`"))
    });
    let address = address.or_else(|| said(ENDPOINT).map(|address| otlp_address(&address)));
    address.transpose()
}

/// Advice on how to serve nobody whom nobody knows.
const SAFE: &str = "give agents tokens (`mcp-workbench token <agent>`, and its entry in \
                    `auth.tokens`), or listen at 127.0.0.1; `--insecure-no-auth` serves whoever comes";

/// Why everybody would be served who comes to an address that is not open to everybody.
fn exposed(config: &Config, is_open: bool) -> Option<&'static str> {
    if is_open {
        return None;
    }
    match config.auth.as_ref().map(|auth| &auth.anonymous) {
        // Who has no certificate is refused.
        None if config.http.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some()) => None,
        None => Some("the configuration asks nobody for a token"),
        Some(Anonymous::Nameless | Anonymous::Named(_)) => {
            Some("`auth.anonymous` serves those who have no token")
        }
        Some(Anonymous::Refused) => None,
    }
}

/// The reason that the log gives for servers that are left out.
const WHY_WITHOUT: &str = "something is wrong with the entry; `mcp-workbench check` says what";

/// The configuration, if nothing is wrong with any of its servers.
fn strictly(loaded: Loaded) -> Result<Loaded, LoadError> {
    match loaded.report() {
        Some(report) if loaded.has_errors() => Err(LoadError::Invalid(report)),
        _ => Ok(loaded),
    }
}

/// A source that gives no configuration in which anything is wrong.
fn strict(source: Source) -> Source {
    let Source { read, .. } = source;
    Source { read: Box::new(move |renewal| strictly(read(renewal)?)), ..source }
}

/// A source that gives no configuration which would serve everybody.
fn guarded(source: Source, is_open: bool) -> Source {
    let Source { read, .. } = source;
    let read = move |renewal| {
        let loaded = read(renewal)?;
        let Some(reason) = exposed(&loaded.config, is_open) else { return Ok(loaded) };
        let finding = Finding {
            severity: Severity::Error,
            file: None,
            path: "auth".to_owned(),
            position: None,
            message: format!("others can reach us, and {reason}"),
            hint: Some(SAFE.to_owned()),
        };
        Err(LoadError::Invalid(Report { file: loaded.file, findings: vec![finding] }))
    };
    Source { read: Box::new(read), ..source }
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
    fn the_environment_names_a_collector_as_opentelemetry_says() {
        let of = |variables: &[(&str, &str)]| {
            let env: BTreeMap<String, String> =
                variables.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            otlp_of(&env).map(|url| url.map(String::from))
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

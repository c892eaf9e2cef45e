//! Serves a loaded configuration, for `serve` and `expose`.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;

use crate::app::{self, MemoryReclaimer, ReloadSource, ServeOptions};
use crate::cli::access::access_diff;
use crate::cli::args::GlobalArgs;
use crate::cli::diagnostics::config_remarks::RemarkLogger;
use crate::cli::files::project_files::ProjectFiles;
use crate::cli::gateways::pool_options;
use crate::cli::output::{CommandError, Symptom, print};
use crate::cli::runtime::{PROGRAM_NAME, block_on, block_on_workers};
use crate::cli::serving::admin_config::admin_config;
use crate::cli::serving::desktop_notification::DesktopNotifier;
use crate::cli::serving::otlp::{SERVICE_NAME, otlp_endpoint};
use crate::cli::serving::reload_source::{
    self, AUTH_HINT, open_access_reason, override_tls_files, reject_broken, reject_open_access,
};
use crate::cli::serving::serving_args::ServingArgs;
use crate::cli::tool_commands::command_service;
use mcp_workbench_config::LoadedConfig;
use mcp_workbench_config::env::{EnvSource, ProcessEnv};
use mcp_workbench_core::backend::{PoolOptions, ServedAgents};
use mcp_workbench_core::telemetry::Telemetry;
use mcp_workbench_core::telemetry::process_registry::{ProcessFiles, ProcessRecord};
use mcp_workbench_http::{DefaultAccess, DrainTimeouts, TlsCertificates};
use mcp_workbench_redis::RedisTarget;
use mcp_workbench_serve::admin::socket;
use mcp_workbench_settings::{Config, StoreUrl, TlsConfig};

/// The default of `--shutdown-timeout`.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

const WHY_WITHOUT: &str = "invalid entry (run `mcp-workbench check` to see why)";

/// `source` reads the configuration again for a reload.
pub(crate) fn serve_loaded(
    global: &GlobalArgs,
    args: &ServingArgs,
    files: Option<&ProcessFiles>,
    loaded: LoadedConfig,
    source: Option<ReloadSource>,
) -> Result<ExitCode, CommandError> {
    let mut loaded =
        if args.strict { reject_broken(loaded).map_err(CommandError::config)? } else { loaded };
    let own_tls = args.tls_files().map_err(CommandError::internal)?;
    override_tls_files(&mut loaded.config, own_tls.as_ref());
    if let Some(report) = loaded.report() {
        print::note(&report);
    }
    log_files(&loaded);
    let broken = loaded.broken_servers();
    if !broken.is_empty() {
        tracing::warn!("not serving `{}`: {WHY_WITHOUT}", broken.join("`, `"));
    }
    let is_strict = args.strict;
    let source = source.map(|source| {
        reload_source::and_then(source, move |loaded| {
            let mut loaded = if is_strict { reject_broken(loaded)? } else { loaded };
            override_tls_files(&mut loaded.config, own_tls.as_ref());
            Ok(loaded)
        })
    });
    let listening =
        files.and_then(|files| socket::listen(&global.socket_folders(), files.run_id()));
    let (socket, path) = listening.unzip();
    let shutdown_timeout = args.shutdown_timeout.unwrap_or(SHUTDOWN_TIMEOUT);
    let commands = command_service(path.as_deref(), shutdown_timeout);
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
        let source = source.map(|source| {
            reload_source::and_then(source, move |loaded| reject_open_access(loaded, is_open))
        });
        let served = ServeOptions {
            config: loaded.config,
            config_source: source,
            admin_config: papers,
            shared_store: shared,
            admin_socket: socket,
            commands,
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
        commands,
        memory_reclaimer: settling,
    };
    block_on(app::serve_stdio(served, options, global.caller(), shutdown_timeout))?
        .map_err(CommandError::internal)?;
    Ok(ExitCode::SUCCESS)
}

fn log_files(loaded: &LoadedConfig) {
    tracing::info!("using configuration `{}`", loaded.file);
    let Some(project) = &loaded.project else { return };
    match project.finding() {
        None => tracing::info!("using project file `{}`", project.file),
        Some(finding) => tracing::warn!("project file `{}`: {}", project.file, finding.message),
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
    args: &ServingArgs,
    loaded: &LoadedConfig,
    files: Option<(&ProcessFiles, Option<PathBuf>)>,
    settling: &MemoryReclaimer,
) -> Result<PoolOptions, CommandError> {
    let config = &loaded.config;
    let options = PoolOptions {
        agents: ServedAgents { share_logins: args.shared_logins, ..ServedAgents::default() },
        ..pool_options(Some(global))
    };
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
            file: global.source_file()?,
            at: "stdio".to_owned(),
            mode: config.mode.as_str().to_owned(),
            project_files: global
                .project_files()?
                .iter()
                .flat_map(ProjectFiles::candidates)
                .collect(),
            ..ProcessRecord::default()
        };
        // Serving continues if these files can't be written.
        observer = observer.with_process_registry(files, record);
    }
    if let Some(notifier) = DesktopNotifier::new().filter(|_| config.approvals.notifies) {
        observer = observer.with_listener(Arc::new(notifier));
    }
    let observer = observer.with_listener(Arc::new(settling.clone()));
    Ok(PoolOptions { observer: Arc::new(observer), ..options })
}

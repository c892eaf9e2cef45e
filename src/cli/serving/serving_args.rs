//! The options of `serve` and `expose`.

use std::io;
use std::net::SocketAddr;
use std::path::{self, PathBuf};
use std::time::Duration;

use url::Url;

use crate::cli::args::{GlobalArgs, duration};
use mcp_workbench_config::otlp_traces_url;
use mcp_workbench_core::telemetry::process_registry::ProcessFiles;
use mcp_workbench_settings::StoreUrl;

// Without a doc comment, which would replace the description of the commands.
#[derive(Debug, Default, clap::Args)]
#[group(skip)]
#[expect(clippy::struct_excessive_bools, reason = "independent flags")]
pub(crate) struct ServingArgs {
    /// Listen for HTTP on this address, e.g. 127.0.0.1:8000
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub(crate) http: Option<SocketAddr>,
    /// Time for running calls to finish after SIGTERM or SIGINT (HTTP), or after the client closes
    /// stdin [default: 10s]
    // Without a default of clap, because `mcp-workbench` without a command has no arguments.
    #[arg(long, value_name = "DURATION")]
    #[arg(value_parser = duration::parse, hide_short_help = true)]
    pub(crate) shutdown_timeout: Option<Duration>,
    /// Time to keep accepting requests after the signal while /ready already reports 503, so that
    /// load balancers notice
    #[arg(long, value_name = "DURATION", default_value = "0s", requires = "http")]
    #[arg(value_parser = duration::parse, hide_short_help = true)]
    pub(crate) drain_delay: Duration,
    /// Refuse to start if any server entry is invalid
    #[arg(long)]
    pub(crate) strict: bool,
    #[arg(
        help = "Export a trace span per call to this OpenTelemetry collector, e.g. \
                http://127.0.0.1:4318",
        long,
        value_name = "URL",
        value_parser = otlp_traces_url
    )]
    pub(crate) otlp: Option<Url>,
    /// Hide this workbench from `ps`, `logs`, `top` and `dashboard`
    #[arg(long)]
    pub(crate) unlisted: bool,
    /// Let all agents use the logins of `auth login`, unless `oauth.account` of a server is `agent`
    #[arg(long, requires = "http", hide_short_help = true)]
    pub(crate) shared_logins: bool,
    /// Accept unauthenticated clients on any address
    #[arg(long, requires = "http")]
    pub(crate) insecure_no_auth: bool,
    #[command(flatten)]
    tls: TlsArgs,
    #[arg(
        help = "Share sessions with other workbenches through Redis or Valkey, e.g. \
                redis://127.0.0.1:6379",
        long,
        value_name = "URL",
        value_parser = StoreUrl::parse,
        requires = "http",
        hide_short_help = true
    )]
    pub(crate) shared_store: Option<StoreUrl>,
}

#[derive(Debug, Default, clap::Args)]
#[group(skip)]
struct TlsArgs {
    /// TLS certificate (PEM)
    #[arg(long, value_name = "FILE", requires_all = ["http", "tls_key"])]
    tls_cert: Option<PathBuf>,
    /// Private key of the TLS certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
}

impl ServingArgs {
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

    /// Returns the absolute paths of `--tls-cert` and `--tls-key`.
    pub(crate) fn tls_files(&self) -> io::Result<Option<[PathBuf; 2]>> {
        let TlsArgs { tls_cert: Some(cert), tls_key: Some(key) } = &self.tls else {
            return Ok(None);
        };
        Ok(Some([path::absolute(cert)?, path::absolute(key)?]))
    }
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let expected = |_| "expected an address and a port, such as 127.0.0.1:8000".to_owned();
    text.parse().map_err(expected)
}

//! Records how servers are launched, without secrets and identical on every machine.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;

use crate::cli::access::locking::server_names::names;
use crate::cli::args::GlobalArgs;
use crate::cli::output::CommandError;
use mcp_workbench_config::env::{EnvSource, ProcessEnv};
use mcp_workbench_core::telemetry::Redactor;
use mcp_workbench_settings::{Config, Launch};
use mcp_workbench_wire::json::RawJson;

const PATH: &str = "<path>";
/// Limit in bytes on URL path segments. Longer ones may be secrets and are replaced by `…`.
const MAX_STEP: usize = 24;

/// An environment that expands every variable to its own `${…}` reference.
struct PlaceholderEnv;

impl EnvSource for PlaceholderEnv {
    fn get(&self, name: &str) -> Option<String> {
        Some(format!("${{{name}}}"))
    }

    fn vars(&self) -> Vec<(OsString, OsString)> {
        Vec::new()
    }

    fn home_dir(&self) -> Option<PathBuf> {
        ProcessEnv.home_dir()
    }
}

/// Returns the launch of each server as JSON, by its name in the lock.
pub(crate) fn launch_records(
    global: &GlobalArgs,
    config: &Config,
) -> Result<BTreeMap<String, Arc<str>>, CommandError> {
    // Values of variables may be secret or specific to this machine, so references are recorded. If
    // the configuration is invalid without the values, they are expanded and known secrets
    // redacted.
    let written = global.read_with_env(&PlaceholderEnv)?.ok().map(|loaded| loaded.config);
    let (secrets, folder) = (Redactor::from_config(config), global.config_file()?);
    let folder = if folder.is_dir() {
        folder
    } else {
        folder.parent().map(Path::to_owned).unwrap_or_default()
    };
    let launch = |(at, name): (mcp_workbench_names::ServerRef, String)| {
        let find = |config: &Config| {
            let server = config.toolbox(at.toolbox.as_str())?.server(at.server.as_str())?;
            let is_broken = matches!(server.launch, Launch::Broken { .. });
            (!is_broken).then(|| redacted_launch(&server.launch, &secrets, &folder))
        };
        let text = written.as_ref().and_then(find).or_else(|| find(config));
        (name, text.unwrap_or_else(|| "{}".into()))
    };
    Ok(names(config).into_iter().map(launch).collect())
}

fn redacted_launch(launch: &Launch, secrets: &Redactor, folder: &Path) -> Arc<str> {
    let value = match launch {
        Launch::Stdio(launch) => {
            let program = Path::new(&launch.command).file_name().map(OsStr::to_string_lossy);
            let mut args = Vec::new();
            let mut is_secret = false;
            for arg in &launch.args {
                args.push(if is_secret {
                    "***".to_owned()
                } else {
                    argument(arg, secrets, folder)
                });
                is_secret = arg.starts_with('-') && !arg.contains('=') && names_secret(arg);
            }
            json!({"command": program.unwrap_or_default(), "args": args})
        }
        Launch::Http(launch) => {
            let step = |step: &str| if step.len() > MAX_STEP { "…" } else { step }.to_owned();
            let steps: Vec<_> = launch.url.path().split('/').map(step).collect();
            let origin = launch.url.origin().ascii_serialization();
            json!({"url": secrets.redact(&format!("{origin}{}", steps.join("/")))})
        }
        Launch::Unsupported { .. } | Launch::Broken { .. } | Launch::Macros(_) => json!({}),
    };
    let text = RawJson::encode(&value).canonical(usize::MAX).unwrap_or_default();
    String::from_utf8(text).unwrap_or_default().into()
}

/// Returns `true` if the argument after this flag is probably a secret.
fn names_secret(flag: &str) -> bool {
    let flag = flag.to_ascii_lowercase();
    ["token", "secret", "password", "passwd", "key", "auth", "credential", "header"]
        .iter()
        .any(|word| flag.contains(word))
}

fn argument(arg: &str, secrets: &Redactor, folder: &Path) -> String {
    let (flag, value) = match arg.split_once('=') {
        Some((flag, value)) if flag.starts_with('-') => (format!("{flag}="), value),
        _ => (String::new(), arg),
    };
    if !flag.is_empty() && names_secret(&flag) {
        return format!("{flag}***");
    }
    let path = Path::new(value);
    let value = match path.strip_prefix(folder) {
        Ok(inside) if inside.as_os_str().is_empty() => ".".to_owned(),
        Ok(inside) => format!("./{}", inside.display()),
        Err(_) if path.is_absolute() => PATH.to_owned(),
        Err(_) => value.to_owned(),
    };
    let shown = secrets.redact(&value).into_owned();
    // A URL with credentials or a query is reduced to its origin.
    let shown = url::Url::parse(&shown)
        .ok()
        .filter(|url| {
            url.has_host()
                && (!url.username().is_empty() || url.password().is_some() || url.query().is_some())
        })
        .map_or(shown, |url| origin(&url));
    format!("{flag}{shown}")
}

/// Returns scheme, host and port. The origin of a database URL is opaque and prints as `null`.
fn origin(url: &url::Url) -> String {
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{}{port}", url.scheme(), url.host_str().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn launch_record_has_no_local_paths_and_no_secrets() {
        let secrets = Redactor::from_environment([("API_TOKEN", "s3cr3t-value")]);
        let folder = Path::new("/home/ann/project");
        for (arg, expected) in [
            ("-y", "-y"),
            ("@scope/server@1.2.3", "@scope/server@1.2.3"),
            ("/home/ann/project", "."),
            ("/home/ann/project/src", "./src"),
            ("/opt/data", "<path>"),
            ("--root=/opt/data", "--root=<path>"),
            ("--token=abc", "--token=***"),
            ("x s3cr3t-value", "x ***"),
            ("postgres://ann:pw@db:5432/x", "postgres://db:5432"),
            ("--db=mongodb+srv://ann:pw@[::1]/x", "--db=mongodb+srv://[::1]"),
            ("redis://db?password=pw", "redis://db"),
            ("https://ann:pw@db/x", "https://db"),
            ("https://db/x?token=1", "https://db"),
        ] {
            let told = argument(arg, &secrets, folder);
            assert!(!told.contains("pw") && !told.contains("s3cr3t"), "{told}");
            assert_eq!(told, expected, "{arg}");
        }
    }
}

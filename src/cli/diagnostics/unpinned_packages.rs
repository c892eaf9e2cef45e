//! Servers whose entry names a package without a version, so that the code they run can change.

use crate::cli::servers::package_identity::identify;
use mcp_workbench_config::Finding;
use mcp_workbench_config::env::{EnvSource, ProcessEnv};
use mcp_workbench_settings::{Config, Ecosystem, Launch, Package, StdioLaunch};

/// Returns one remark on all unpinned servers, with the text to write instead if there is one
/// server or if `has_details`.
pub(crate) fn findings(config: &Config, has_details: bool) -> Option<Finding> {
    let servers = config.toolboxes.iter().flat_map(|toolbox| {
        toolbox.servers.iter().filter_map(move |server| {
            let Launch::Stdio(launch) = &server.launch else { return None };
            let loose = UnpinnedPackage::of(launch, &ProcessEnv)?;
            Some((toolbox.name.to_string(), server.name.to_string(), loose))
        })
    });
    let servers: Vec<_> = servers.collect();
    remark(&servers, has_details)
}

/// One remark covers all, since a file that starts without versions has many such entries.
fn remark(servers: &[(String, String, UnpinnedPackage)], has_details: bool) -> Option<Finding> {
    let (first, others) = servers.split_first()?;
    let (toolbox, server, loose) = first;
    if others.is_empty() {
        let Package { runner, name, spec, .. } = &loose.package;
        let path = format!("toolboxes.{toolbox}.mcpServers.{server}");
        let message = format!(
            "`{runner} {spec}` does not pin a version of `{name}`, so its code can change at any \
             time"
        );
        return Some(Finding::warning(path, message, Some(loose.pin_advice())));
    }
    let message = format!(
        "{} servers do not pin a version of their package, so their code can change at any time",
        servers.len()
    );
    if !has_details {
        let hint = "use `--details` to list them".to_owned();
        return Some(Finding::warning("toolboxes".to_owned(), message, Some(hint)));
    }
    let each: Vec<String> = servers
        .iter()
        .map(|(toolbox, server, loose)| format!("in `{toolbox}/{server}`, {}", loose.pin_advice()))
        .collect();
    Some(Finding::warning("toolboxes".to_owned(), message, Some(each.join("; "))))
}

struct UnpinnedPackage {
    package: Package,
    /// `None` if it can't be determined.
    installed_version: Option<String>,
}

impl UnpinnedPackage {
    fn of(launch: &StdioLaunch, env: &dyn EnvSource) -> Option<Self> {
        let package = match launch.container() {
            Some(container) => Package::of_image(&container.image),
            None => Package::of(&launch.command, &launch.args)?,
        };
        let here = || identify(launch, env).and_then(|identity| identity.version);
        package.is_unpinned().then(|| Self { installed_version: here(), package })
    }

    fn pin_advice(&self) -> String {
        let Package { ecosystem, name, spec, .. } = &self.package;
        match (&self.installed_version, ecosystem) {
            (Some(version), _) => {
                let pinned = self.package.pinned(version);
                format!("replace `{spec}` with `{pinned}` (the installed version)")
            }
            (None, Ecosystem::Image) => {
                format!("replace `{spec}` with `{name}@sha256:…` (a digest that you trust)")
            }
            (None, _) => format!("replace `{spec}` with `{}`", self.package.pinned("VERSION")),
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn loose(server: &str, command: &str, args: &[&str], here: Option<&str>) -> Entry {
        let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
        let package = Package::of(command, &args).unwrap();
        let loose = UnpinnedPackage { package, installed_version: here.map(str::to_owned) };
        ("dev".to_owned(), server.to_owned(), loose)
    }

    type Entry = (String, String, UnpinnedPackage);

    fn told(servers: &[Entry]) -> Option<(String, String, String)> {
        let finding = remark(servers, true)?;
        Some((finding.path, finding.message, finding.hint.unwrap()))
    }

    #[test]
    fn one_unpinned_server_is_reported_at_its_entry() {
        let a = loose("a", "npx", &["-y", "a-server"], Some("1.2.0"));
        let (path, message, hint) = told(&[a]).unwrap();
        assert_eq!(path, "toolboxes.dev.mcpServers.a");
        assert_eq!(
            message,
            "`npx a-server` does not pin a version of `a-server`, so its code can change at any \
             time"
        );
        assert_eq!(hint, "replace `a-server` with `a-server@1.2.0` (the installed version)");
    }

    #[test]
    fn several_entries_are_one_remark() {
        let servers = [
            loose("a", "npx", &["-y", "a-server@latest"], Some("1.2.0")),
            loose("b", "uvx", &["b-server"], None),
            loose("c", "docker", &["run", "-i", "--rm", "o/c"], None),
        ];
        let (path, message, hint) = told(&servers).unwrap();
        assert_eq!(path, "toolboxes");
        assert_eq!(
            message,
            "3 servers do not pin a version of their package, so their code can change at any time"
        );
        assert_eq!(
            hint,
            "in `dev/a`, replace `a-server@latest` with `a-server@1.2.0` (the installed version); \
             in `dev/b`, replace `b-server` with `b-server@VERSION`; \
             in `dev/c`, replace `o/c` with `o/c@sha256:…` (a digest that you trust)"
        );
    }

    #[test]
    fn several_entries_are_one_short_remark_without_details() {
        let servers = [loose("a", "npx", &["a"], None), loose("b", "uvx", &["b"], None)];
        let finding = remark(&servers, false).unwrap();
        assert_eq!(finding.hint.as_deref(), Some("use `--details` to list them"));
        assert!(finding.message.starts_with("2 servers do not pin"), "{}", finding.message);
    }

    #[test]
    fn no_remark_without_unpinned_servers() {
        assert_eq!(told(&[]), None);
    }
}

//! Servers as the user names them: `server` or `toolbox/server`.

use mcp_workbench_settings::Config;

/// Returns `true` if `wanted` is the server's name, alone or after its toolbox.
pub(crate) fn is_named(toolbox: &str, server: &str, wanted: &str) -> bool {
    let after_toolbox = || wanted.strip_prefix(toolbox)?.strip_prefix('/');
    wanted == server || after_toolbox() == Some(server)
}

/// Returns both names of each server.
pub(crate) fn all_names(config: &Config) -> Vec<String> {
    let names = config.servers().flat_map(|(toolbox, server)| {
        [server.name.to_string(), format!("{}/{}", toolbox.name, server.name)]
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_is_named_alone_or_after_its_toolbox() {
        assert!(is_named("a", "x/y", "x/y"));
        assert!(is_named("a", "x/y", "a/x/y"));
        for wanted in ["y", "a", "a/", "ax/y", "b/x/y", ""] {
            assert!(!is_named("a", "x/y", wanted), "{wanted}");
        }
    }
}

//! Checks that platform-specific code stays in one crate.

use crate::tidy::rules::Rule;
use crate::tidy::text::{OS, Source, files, program, read};

fn manifests() -> Vec<Source> {
    let mut manifests = files("crates", "toml");
    manifests.push(Source::new("Cargo.toml", &read("Cargo.toml")));
    manifests
}

// invariant: one-place-for-choices
#[test]
fn only_os_crate_distinguishes_platforms() {
    let mut sources = program();
    sources.extend(manifests());
    Rule {
        pattern: concat!(
            r"\bcfg(_attr)?!?\s*\(.*\b(unix|windows|target_\w+)\b|\bcfg_select!",
            // Attributes that span several lines.
            r"|\btarget_(os|family|env|arch|vendor)\b",
            r"|^\s*((all|any|not)\()*(unix|windows)\)*,?$",
            r"|\bos::(unix|windows|linux|macos|fd)\b|\b(signal|net)::(unix|windows)\b",
            r"|\bconsts::(OS|FAMILY)\b",
        ),
        only_in: &[OS],
        rejects: &[
            "#[cfg(unix)]",
            "#[cfg(all(feature = \"a\", not(windows)))]",
            "#[cfg_attr(target_os = \"macos\", path = \"a.rs\")]",
            "#[cfg(any(\n    windows,\n    feature = \"a\",\n))]",
            "#[cfg(all(\n    not(unix),\n    feature = \"a\",\n))]",
            "if cfg!(windows) { f() }",
            "let a = cfg_select! { unix => 1, _ => 2 };",
            "use std::os::unix::fs::PermissionsExt;",
            "tokio::signal::unix::signal(kind)",
            "std::env::consts::OS",
            "[target.'cfg(unix)'.dependencies]",
        ],
        accepts: &[
            "#[cfg(feature = \"unix\")]",
            "#[cfg(test)]\nmod tests { #[cfg(unix)] fn f() {} }",
            "// cfg(windows)",
            "list.windows(2)",
            "use mcp_workbench_os::Platform;",
        ],
    }
    .check_in(&sources);
}

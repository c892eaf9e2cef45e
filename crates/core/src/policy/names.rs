//! Lists of tools as the file writes them (names, globs, `server:tool`, exposed names), made ready
//! for the tools of one server in one toolbox.

use std::cell::OnceCell;

use foldhash::HashSet;
use globset::{Glob, GlobSet, GlobSetBuilder};

use crate::name::{self, ExposedName, ServerRef, ToolId};

/// A list of tools, for one server.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// `true` if every name is in it.
    has_all: bool,
    /// Its server's own names for them.
    exact: HashSet<String>,
    /// The patterns among them, as globs.
    globs: GlobSet,
    /// Globs over `server:tool`.
    qualified: GlobSet,
    /// Names that they may be registered under.
    exposed: HashSet<String>,
    /// The patterns among exposed names, as globs.
    exposed_globs: GlobSet,
    /// The answer for every tool where the list cannot be compiled.
    is_broken: bool,
}

/// A list that could not be compiled. Whoever wants to allow by it must not, and whoever wants to
/// forbid must.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken;

/// One tool, with the names that lists may have for it.
pub(crate) struct Candidate<'a> {
    id: &'a ToolId,
    /// The configuration's own name for it, in place of its server's.
    shown: Option<&'a str>,
    name_limit: usize,
    exposed: OnceCell<ExposedName>,
}

impl<'a> Candidate<'a> {
    /// The tool of this id, which has its server's own name for it.
    pub(crate) fn new(id: &'a ToolId, shown: Option<&'a str>, name_limit: usize) -> Self {
        Self { id, shown, name_limit, exposed: OnceCell::new() }
    }

    /// Which tool it is.
    pub(crate) fn id(&self) -> &'a ToolId {
        self.id
    }

    fn exposed(&self) -> &str {
        let exposed = self.exposed.get_or_init(|| match self.shown {
            None => ExposedName::registered(self.id, self.name_limit),
            Some(shown) => {
                let shown = ToolId { tool: shown.to_owned(), ..self.id.clone() };
                ExposedName::registered(&shown, self.name_limit)
            }
        });
        exposed.as_str()
    }
}

impl Names {
    /// The list with everything in it.
    pub(crate) fn all() -> Self {
        Self { has_all: true, ..Self::default() }
    }

    /// Makes a list ready for this server, where the list allows something and these servers are all
    /// there are: what means another of them is no name of this one's own, for a server could call its
    /// tools so.
    pub(crate) fn allowing(patterns: &[String], at: &ServerRef, all: &[ServerRef]) -> Self {
        Self::of(patterns, at, |pattern| {
            let mut others = all.iter().filter(|other| *other != at);
            others.any(|other| means_another(pattern, at, other))
        })
    }

    /// Makes a list ready for this server, whose tools may have any name.
    pub(crate) fn new(patterns: &[String], at: &ServerRef) -> Self {
        Self::of(patterns, at, |_| false)
    }

    fn of(patterns: &[String], at: &ServerRef, is_others: impl Fn(&str) -> bool) -> Self {
        let mut names = Self::default();
        let mut globs = GlobSetBuilder::new();
        let mut qualified = GlobSetBuilder::new();
        let mut exposed = GlobSetBuilder::new();
        for pattern in patterns {
            let own =
                pattern.strip_prefix(at.server.as_str()).and_then(|rest| rest.strip_prefix(':'));
            names.has_all |= pattern == "*" || own == Some("*");
            let is_own = !is_others(pattern);
            names.exact.extend(own.map(str::to_owned));
            // A tool may be called what looks like a glob.
            names.exact.extend(is_own.then(|| pattern.clone()));
            if !is_glob(pattern) {
                if name::may_belong_to(pattern, &at.toolbox, &at.server) {
                    names.exposed.insert(pattern.clone());
                }
                continue;
            }
            if let Some(own) = own {
                names.is_broken |= add(&mut globs, own).is_err();
            } else if pattern.contains(':') {
                names.is_broken |= add(&mut qualified, pattern).is_err();
            }
            names.is_broken |= if is_own {
                add(&mut globs, pattern).is_err()
            } else {
                Glob::new(pattern).is_err()
            };
            // `*` matches anything; without what separates its parts no exposed name is meant.
            if pattern.contains("__") {
                names.is_broken |= add(&mut exposed, pattern).is_err();
            }
        }
        match (globs.build(), qualified.build(), exposed.build()) {
            (Ok(globs), Ok(qualified), Ok(exposed)) => {
                (names.globs, names.qualified, names.exposed_globs) = (globs, qualified, exposed);
            }
            _ => names.is_broken = true,
        }
        names
    }

    /// Returns `true` if a tool is in it.
    pub(crate) fn has(&self, tool: &Candidate<'_>) -> Result<bool, Broken> {
        if self.is_broken {
            return Err(Broken);
        }
        let own = tool.id.tool.as_str();
        Ok(self.has_all
            || self.exact.contains(own)
            || (!self.globs.is_empty() && self.globs.is_match(own))
            || (!self.qualified.is_empty()
                && self.qualified.is_match(format!("{}:{own}", tool.id.server)))
            || (!self.exposed.is_empty() && self.exposed.contains(tool.exposed()))
            || (!self.exposed_globs.is_empty() && self.exposed_globs.is_match(tool.exposed())))
    }

    /// Returns `true` if a glob is in it as it is written, or every tool of the server is.
    pub(crate) fn has_pattern(&self, glob: &str) -> bool {
        !self.is_broken && (self.has_all || self.exact.contains(glob))
    }

    /// Returns `true` if every tool of the server is in it.
    pub(crate) fn has_all(&self) -> bool {
        self.has_all
    }
}

/// Returns `true` if a pattern names tools of another server, by `server:tool` or by the beginning of
/// registered names, and not of this one.
fn means_another(pattern: &str, at: &ServerRef, other: &ServerRef) -> bool {
    let is_before = |text: &str, server: &str| {
        text.strip_prefix(server).is_some_and(|rest| rest.starts_with(':'))
    };
    if let Some((before, _)) = pattern.split_once(':') {
        if is_before(pattern, at.server.as_str()) {
            return false;
        }
        let matches = |before: &str| {
            let glob = is_glob(before).then(|| Glob::new(before).ok()).flatten();
            glob.is_some_and(|glob| glob.compile_matcher().is_match(other.server.as_str()))
        };
        if is_before(pattern, other.server.as_str()) || matches(before) {
            return true;
        }
    }
    if pattern.matches("__").count() < 2 {
        return false;
    }
    let begins_as = |at: &ServerRef| {
        let head = pattern.split(['*', '?', '[', '{', '\\']).next().unwrap_or_default();
        let prefix = format!("{}__{}__", at.toolbox, at.server);
        let may_go_on = is_glob(pattern) && !head.is_empty() && prefix.starts_with(head);
        may_go_on || name::may_belong_to(head, &at.toolbox, &at.server)
    };
    !begins_as(at) && begins_as(other)
}

fn is_glob(pattern: &str) -> bool {
    pattern.contains(['*', '?', '[', ']', '{', '}', '\\'])
}

fn add(set: &mut GlobSetBuilder, pattern: &str) -> Result<(), globset::Error> {
    set.add(Glob::new(pattern)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::name::{ServerName, ToolboxName};

    use super::*;

    fn has(patterns: &[&str], tool: &str, shown: Option<&str>) -> Result<bool, Broken> {
        let at = ServerRef { toolbox: ToolboxName::new("dev"), server: ServerName::new("github") };
        let patterns: Vec<String> = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
        let id =
            ToolId { toolbox: at.toolbox.clone(), server: at.server.clone(), tool: tool.into() };
        Names::new(&patterns, &at).has(&Candidate::new(&id, shown, 48))
    }

    #[test]
    fn a_tool_is_in_a_list_by_any_of_its_names() {
        for pattern in [
            "get_file",
            "get_*",
            "*",
            "github:get_file",
            "github:get_*",
            "github:*",
            "git*:get_*",
            "*:get_file",
            "{github:get,fs:read}_file",
            "dev__github__get_file",
            "dev__*__get_file",
            "dev__github__*",
        ] {
            assert_eq!(has(&["other", pattern], "get_file", None), Ok(true), "{pattern}");
        }
        for pattern in [
            "get",
            "Get_file",
            "get_files",
            "gitlab:get_file",
            "git*",
            "dev*",
            "github",
            "github*",
            "dev__fs__get_file",
            "work__github__*",
            "",
        ] {
            assert_eq!(has(&[pattern], "get_file", None), Ok(false), "{pattern}");
        }
        assert_eq!(has(&[], "get_file", None), Ok(false));
    }

    #[test]
    fn what_is_allowed_of_one_server_is_not_anothers_who_calls_its_tools_so() {
        let at = |server: &str| ServerRef {
            toolbox: ToolboxName::new("dev"),
            server: ServerName::new(server),
        };
        let all = [at("evil"), at("bank")];
        let allows = |pattern: &str, tool: &str| {
            let id = ToolId {
                toolbox: all[0].toolbox.clone(),
                server: all[0].server.clone(),
                tool: tool.into(),
            };
            Names::allowing(&[pattern.to_owned()], &all[0], &all)
                .has(&Candidate::new(&id, None, 48))
        };
        for pattern in ["bank:pay", "bank:*", "b?nk:pay", "{bank,x}:pay"] {
            assert_eq!(allows(pattern, "bank:pay"), Ok(false), "{pattern}");
        }
        for pattern in ["dev__bank__pay", "dev__bank__*", "dev__ba*__pay"] {
            assert_eq!(allows(pattern, "dev__bank__pay"), Ok(false), "{pattern}");
        }
        for (pattern, tool) in [
            ("*", "bank:pay"),
            ("evil:bank:pay", "bank:pay"),
            ("pay", "pay"),
            ("a:b", "a:b"),
            ("a__b__c", "a__b__c"),
            ("dev__evil__*", "pay"),
            ("dev__*", "pay"),
        ] {
            assert_eq!(allows(pattern, tool), Ok(true), "{pattern}");
        }
    }

    #[test]
    fn a_tool_that_is_called_otherwise_is_registered_so_too() {
        assert_eq!(has(&["dev__github__file"], "get_file", Some("file")), Ok(true));
        assert_eq!(has(&["dev__github__get_file"], "get_file", Some("file")), Ok(false));
        assert_eq!(has(&["get_file"], "get_file", Some("file")), Ok(true));
    }

    #[test]
    fn a_name_that_ends_in_a_hash_means_its_tool() {
        let long = "a_name_that_is_far_too_long_to_be_registered_as_it_is";
        let id = ToolId {
            toolbox: ToolboxName::new("dev"),
            server: ServerName::new("github"),
            tool: long.to_owned(),
        };
        let exposed = ExposedName::registered(&id, 48).to_string();
        assert_eq!(has(&[&exposed], long, None), Ok(true), "{exposed}");
        assert_eq!(has(&[&exposed], "get_file", None), Ok(false));
    }

    #[test]
    fn what_cannot_be_compiled_is_said_to_be_so() {
        assert_eq!(has(&["get_["], "get_file", None), Err(Broken));
        assert_eq!(has(&["ok", "{a"], "ok", None), Err(Broken));
    }
}

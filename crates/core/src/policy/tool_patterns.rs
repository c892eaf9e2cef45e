//! Compiles tool lists of the configuration (names, globs, `server:tool`, exposed names) for the
//! tools of one server in one toolbox. `@readOnly` and the other annotations match all tools for
//! which their server claims it; `!` before one matches all others.

use std::cell::OnceCell;

use foldhash::HashSet;
use globset::{Glob, GlobSet, GlobSetBuilder};

use mcp_workbench_names::{ExposedName, ServerRef, ToolId};
use mcp_workbench_settings::{ToolAnnotation, ToolAnnotations};

#[derive(Debug, Default)]
pub(crate) struct ToolPatternSet {
    has_all: bool,
    /// The server's own names.
    exact: HashSet<String>,
    /// Globs over the server's own names.
    globs: GlobSet,
    /// Globs over `server:tool`.
    qualified: GlobSet,
    /// Names under which tools are exposed to clients.
    exposed: HashSet<String>,
    /// Globs over exposed names.
    exposed_globs: GlobSet,
    /// Annotations, with `true` if a tool must have them and `false` if it must not.
    annotations: Vec<(ToolAnnotation, bool)>,
    /// `true` if a pattern does not compile. Every lookup then fails.
    is_broken: bool,
}

/// A list that does not compile. Fail closed: an allowlist then allows nothing, a denylist denies
/// everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PatternSetError;

/// A tool with all the names that a list can use for it.
pub(crate) struct Candidate<'a> {
    id: &'a ToolId,
    /// The configured name, if it replaces the server's own.
    shown: Option<&'a str>,
    name_limit: usize,
    /// The exposed name, and the one that earlier versions used.
    exposed: OnceCell<[ExposedName; 2]>,
    annotations: ToolAnnotations,
}

impl<'a> Candidate<'a> {
    /// `id` contains the server's own name, `shown` the configured one.
    pub(crate) fn new(
        id: &'a ToolId,
        shown: Option<&'a str>,
        name_limit: usize,
        annotations: ToolAnnotations,
    ) -> Self {
        Self { id, shown, name_limit, exposed: OnceCell::new(), annotations }
    }

    pub(crate) fn id(&self) -> &'a ToolId {
        self.id
    }

    fn exposed(&self) -> &[ExposedName; 2] {
        self.exposed.get_or_init(|| {
            let of = |id: &ToolId| {
                let limit = self.name_limit;
                [ExposedName::registered(id, limit), ExposedName::registered_before(id, limit)]
            };
            match self.shown {
                None => of(self.id),
                Some(shown) => of(&ToolId { tool: shown.to_owned(), ..self.id.clone() }),
            }
        })
    }
}

impl ToolPatternSet {
    /// The list that contains every tool.
    pub(crate) fn all() -> Self {
        Self { has_all: true, ..Self::default() }
    }

    /// Compiles an allowlist for the tools of `at`; `all` are the configured servers. A pattern
    /// that refers to another server never matches a tool of this one. A server could otherwise
    /// gain another server's permissions by naming a tool `other:tool`.
    pub(crate) fn allowing(patterns: &[String], at: &ServerRef, all: &[ServerRef]) -> Self {
        Self::of(patterns, at, |pattern| {
            let mut others = all.iter().filter(|other| *other != at);
            others.any(|other| names_other_server(pattern, at, other))
        })
    }

    /// Compiles a list without that check, as for denylists and conditions.
    pub(crate) fn new(patterns: &[String], at: &ServerRef) -> Self {
        Self::of(patterns, at, |_| false)
    }

    fn of(patterns: &[String], at: &ServerRef, is_others: impl Fn(&str) -> bool) -> Self {
        let mut names = Self::default();
        let mut globs = GlobSetBuilder::new();
        let mut qualified = GlobSetBuilder::new();
        let mut exposed = GlobSetBuilder::new();
        for pattern in patterns {
            if let Some(AnnotationPattern { server, annotation, is_wanted }) =
                AnnotationPattern::parse(pattern)
            {
                // Never a name: a server could call a tool `@readOnly`.
                if server.is_none_or(|server| is_server(server, at.server.as_str())) {
                    names.annotations.push((annotation, is_wanted));
                }
                continue;
            }
            let own =
                pattern.strip_prefix(at.server.as_str()).and_then(|rest| rest.strip_prefix(':'));
            names.has_all |= pattern == "*" || own == Some("*");
            let is_own = !is_others(pattern);
            names.exact.extend(own.map(str::to_owned));
            // Tool names can look like globs, so each pattern is also an exact name.
            names.exact.extend(is_own.then(|| pattern.clone()));
            if !is_glob(pattern) {
                if mcp_workbench_names::may_belong_to(pattern, &at.toolbox, &at.server) {
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
            // Exposed names contain `__`; a glob without it doesn't refer to one.
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

    pub(crate) fn has(&self, tool: &Candidate<'_>) -> Result<bool, PatternSetError> {
        if self.is_broken {
            return Err(PatternSetError);
        }
        let own = tool.id.tool.as_str();
        Ok(self.has_all
            || self.exact.contains(own)
            || (!self.globs.is_empty() && self.globs.is_match(own))
            || (!self.qualified.is_empty()
                && self.qualified.is_match(format!("{}:{own}", tool.id.server)))
            || (!self.exposed.is_empty()
                && tool.exposed().iter().any(|name| self.exposed.contains(name.as_str())))
            || (!self.exposed_globs.is_empty()
                && tool.exposed().iter().any(|name| self.exposed_globs.is_match(name.as_str())))
            || self
                .annotations
                .iter()
                .any(|(annotation, is_wanted)| tool.annotations.has(*annotation) == *is_wanted))
    }

    pub(crate) fn uses_annotations(&self) -> bool {
        !self.annotations.is_empty()
    }

    /// Returns `true` if the list has this very glob, or contains every tool of the server.
    pub(crate) fn has_pattern(&self, glob: &str) -> bool {
        !self.is_broken && (self.has_all || self.exact.contains(glob))
    }

    pub(crate) fn has_all(&self) -> bool {
        self.has_all
    }
}

/// A pattern such as `@readOnly`, `!@readOnly` or `server:@readOnly`.
pub(crate) struct AnnotationPattern<'a> {
    /// A server name or a glob; `None` is any server.
    server: Option<&'a str>,
    annotation: ToolAnnotation,
    is_wanted: bool,
}

impl<'a> AnnotationPattern<'a> {
    pub(crate) fn parse(pattern: &'a str) -> Option<Self> {
        let (is_wanted, pattern) = match pattern.strip_prefix('!') {
            Some(rest) => (false, rest),
            None => (true, pattern),
        };
        let (server, word) = match pattern.rsplit_once(':') {
            Some((server, word)) => (Some(server), word),
            None => (None, pattern),
        };
        let annotation = ToolAnnotation::from_pattern(word)?;
        Some(Self { server, annotation, is_wanted })
    }

    /// Like `parse`, for lists that belong to a server.
    pub(crate) fn of_one_server(pattern: &'a str) -> Option<(ToolAnnotation, bool)> {
        let Self { server, annotation, is_wanted } = AnnotationPattern::parse(pattern)?;
        server.is_none().then_some((annotation, is_wanted))
    }
}

fn is_server(pattern: &str, server: &str) -> bool {
    pattern == server
        || Glob::new(pattern).is_ok_and(|glob| glob.compile_matcher().is_match(server))
}

/// Returns `true` if the pattern refers to tools of `other`, as `server:tool` or by a prefix of
/// exposed names, and not to tools of `at`.
fn names_other_server(pattern: &str, at: &ServerRef, other: &ServerRef) -> bool {
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
        may_go_on || mcp_workbench_names::may_belong_to(head, &at.toolbox, &at.server)
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
    use mcp_workbench_names::{ServerName, ToolboxName};

    use super::*;

    fn candidate<'a>(id: &'a ToolId, shown: Option<&'a str>) -> Candidate<'a> {
        Candidate::new(id, shown, 48, ToolAnnotations::default())
    }

    #[test]
    fn annotations_match_by_the_claims_of_the_server() {
        let at = ServerRef { toolbox: ToolboxName::new("dev"), server: ServerName::new("github") };
        let has = |pattern: &str, tool: &str, claims: &[ToolAnnotation]| {
            let id = ToolId {
                toolbox: at.toolbox.clone(),
                server: at.server.clone(),
                tool: tool.to_owned(),
            };
            let claims = claims.iter().fold(ToolAnnotations::default(), |all, one| all.with(*one));
            let patterns = [pattern.to_owned()];
            let found = [
                ToolPatternSet::new(&patterns, &at),
                ToolPatternSet::allowing(&patterns, &at, std::slice::from_ref(&at)),
            ]
            .map(|names| names.has(&Candidate::new(&id, None, 48, claims)));
            assert_eq!(found[0], found[1], "{pattern}");
            found[0]
        };
        let read = [ToolAnnotation::ReadOnly];
        let wipe = [ToolAnnotation::Destructive, ToolAnnotation::OpenWorld];
        for pattern in
            ["@readOnly", "@readOnlyHint", "github:@readOnly", "*:@read_only", "!@openWorld"]
        {
            assert_eq!(has(pattern, "get", &read), Ok(true), "{pattern}");
            assert_eq!(has(pattern, "wipe", &wipe), Ok(false), "{pattern}");
        }
        for pattern in ["gitlab:@readOnly", "git:@readOnly", "@read", "!gitlab:@openWorld"] {
            assert_eq!(has(pattern, "get", &read), Ok(false), "{pattern}");
        }
        assert_eq!(has("!@readOnly", "get", &[]), Ok(true), "no claim");
        // A tool can't pass by its name.
        assert_eq!(has("@readOnly", "@readOnly", &wipe), Ok(false));
        assert_eq!(has("github:@readOnly", "github:@readOnly", &[]), Ok(false));
    }

    fn has(patterns: &[&str], tool: &str, shown: Option<&str>) -> Result<bool, PatternSetError> {
        let at = ServerRef { toolbox: ToolboxName::new("dev"), server: ServerName::new("github") };
        let patterns: Vec<String> = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
        let id =
            ToolId { toolbox: at.toolbox.clone(), server: at.server.clone(), tool: tool.into() };
        ToolPatternSet::new(&patterns, &at).has(&candidate(&id, shown))
    }

    #[test]
    fn shortened_tools_match_their_current_and_their_former_names() {
        let at = ServerRef {
            toolbox: ToolboxName::new("data-and-cloud"),
            server: ServerName::new("warehouse-postgres"),
        };
        let id = ToolId {
            toolbox: at.toolbox.clone(),
            server: at.server.clone(),
            tool: "describe_all_tables".to_owned(),
        };
        let now = ExposedName::registered(&id, 48);
        let before = ExposedName::registered_before(&id, 48);
        assert_ne!(now, before);
        let other = ServerRef { server: ServerName::new("other"), ..at.clone() };
        for pattern in [now.as_str(), before.as_str(), "data-and-cloud__warehouse-postgres__*"] {
            let patterns = [pattern.to_owned()];
            let denying = ToolPatternSet::new(&patterns, &at);
            let all = [at.clone(), other.clone()];
            let allowing = ToolPatternSet::allowing(&patterns, &at, &all);
            for names in [denying, allowing] {
                assert_eq!(names.has(&candidate(&id, None)), Ok(true), "{pattern}");
            }
        }
    }

    #[test]
    fn matches_a_tool_by_any_of_its_names() {
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
    fn an_allow_rule_for_one_server_never_matches_another_servers_tools() {
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
            ToolPatternSet::allowing(&[pattern.to_owned()], &all[0], &all)
                .has(&candidate(&id, None))
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
    fn matches_a_renamed_tool_by_its_new_exposed_name() {
        assert_eq!(has(&["dev__github__file"], "get_file", Some("file")), Ok(true));
        assert_eq!(has(&["dev__github__get_file"], "get_file", Some("file")), Ok(false));
        assert_eq!(has(&["get_file"], "get_file", Some("file")), Ok(true));
    }

    #[test]
    fn matches_a_shortened_exposed_name() {
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
    fn returns_an_error_for_invalid_globs() {
        assert_eq!(has(&["get_["], "get_file", None), Err(PatternSetError));
        assert_eq!(has(&["ok", "{a"], "ok", None), Err(PatternSetError));
    }
}

use pretty_assertions::assert_eq;

use super::*;

fn id(toolbox: &str, server: &str, tool: &str) -> ToolId {
    ToolId {
        toolbox: ToolboxName::new(toolbox),
        server: ServerName::new(server),
        tool: tool.to_owned(),
    }
}

fn registered(toolbox: &str, server: &str, tool: &str) -> String {
    ExposedName::registered(&id(toolbox, server, tool), 48).as_str().to_owned()
}

#[test]
fn plain_identities_are_not_hashed() {
    assert_eq!(registered("dev", "files", "read_file"), "dev__files__read_file");
    assert_eq!(registered("dev", "git-hub", "_private"), "dev__git-hub___private");
    assert_eq!(registered("dev", "files", "a__b"), "dev__files__a__b");
}

#[test]
fn names_beyond_the_limit_are_hashed() {
    let tool = "t".repeat(48 - "dev__files__".len());
    assert_eq!(registered("dev", "files", &tool), format!("dev__files__{tool}"));

    let longer = registered("dev", "files", &format!("{tool}t"));
    assert_eq!(longer.len(), 48);
    assert!(longer.starts_with("dev__files__ttt"), "{longer}");
    assert_eq!(longer.matches('t').count(), 27, "{longer}");
    assert_ne!(longer, registered("dev", "files", &format!("{tool}u")));
}

// invariant: names-lead-to-owner
#[test]
fn shortened_names_keep_the_name_of_the_tool() {
    let (toolbox, server) = ("data-and-cloud-and-more", "postgres-of-the-warehouse-team");
    let tools = ["query", "list_tables", "describe_table_columns", "query_a", &"x".repeat(200)];
    let names = tools.map(|tool| registered(toolbox, server, tool));
    let readable = names.each_ref().map(|name| &name[..name.len() - 9]);
    assert_eq!(
        readable,
        [
            "data-and-cloud-and-more__postgre__query",
            "data-and-cloud-and-more__p__list_tables",
            "data-and-cloud-__describe_table_columns",
            "data-and-cloud-and-more__postg__query_a",
            "data-and-clo__xxxxxxxxxxxxxxxxxxxxxxxxx",
        ]
    );
    let distinct: std::collections::HashSet<_> = names.iter().collect();
    assert_eq!(distinct.len(), names.len());
    for name in &names {
        assert_eq!(name.len(), 48);
        assert!(may_belong_to(name, &ToolboxName::new(toolbox), &ServerName::new(server)));
        assert!(!may_belong_to(name, &ToolboxName::new("other"), &ServerName::new(server)));
    }
}

#[test]
fn names_of_every_limit_and_length_keep_both_parts() {
    for limit in MIN_NAME_LIMIT..=128 {
        for length in [1, 5, 14, 40, 200] {
            let id = id(&"b".repeat(length), &"s".repeat(length), &"t".repeat(length));
            for name in [
                ExposedName::registered(&id, limit),
                ExposedName::registered_before(&id, limit),
                ExposedName::namespaced(id.toolbox.as_str(), &id, limit),
                ExposedName::namespaced("", &id, limit),
            ] {
                assert!(name.as_str().len() <= limit, "{name}");
            }
            let name = ExposedName::registered(&id, limit);
            assert!(name.as_str().starts_with('b') && name.as_str().contains("_t"), "{name}");
        }
    }
}

#[test]
fn former_names_keep_toolbox_and_server() {
    let long = id("data-and-cloud", "postgres-of-the-warehouse", "describe_table");
    let before = ExposedName::registered_before(&long, 48);
    let now = ExposedName::registered(&long, 48);
    assert!(before.as_str().starts_with("data-and-cloud__postgres-of-the-warehou_"), "{before}");
    assert_eq!(before.as_str().rsplit('_').next(), now.as_str().rsplit('_').next());
    for unchanged in [id("dev", "files", "read_file"), id("dev", "api", "get.x")] {
        assert_eq!(
            ExposedName::registered_before(&unchanged, 48),
            ExposedName::registered(&unchanged, 48)
        );
    }
}

// invariant: names-lead-to-owner
#[test]
fn ambiguous_separators_never_collide() {
    let same_text = [
        id("a__b", "c", "d"),
        id("a", "b__c", "d"),
        id("a", "b", "c__d"),
        id("a_", "_b", "c__d"),
        id("a", "__b", "c__d"),
    ];
    let names: std::collections::HashSet<_> =
        same_text.iter().map(|id| ExposedName::registered(id, 48)).collect();
    assert_eq!(names.len(), same_text.len());
}

// invariant: names-lead-to-owner
#[test]
fn replaced_characters_never_collide() {
    let names: std::collections::HashSet<_> =
        ["get.x", "get/x", "get x", "get_x", "get:x", "gét_x"]
            .iter()
            .map(|tool| registered("dev", "api", tool))
            .collect();
    assert_eq!(names.len(), 6);
    assert!(names.contains("dev__api__get_x"));
    assert!(names.iter().all(|name| name.len() <= 48 && name.chars().all(is_legal_char)));
}

#[test]
fn minimum_limit_keeps_the_hash() {
    let name = ExposedName::registered(&id("toolbox", "server", "tool"), MIN_NAME_LIMIT);
    assert_eq!(name.as_str().len(), MIN_NAME_LIMIT);
    assert!(name.as_str().starts_with("t__tool_"), "{name}");
}

#[test]
fn table_resolves_only_inserted_names() {
    let mut table = NameTable::default();
    let odd = id("dev", "api", "get.x");
    let name = ExposedName::registered(&odd, 48);
    table.insert(name.clone(), odd.clone());
    table.insert(name.clone(), id("dev", "api", "other"));
    assert_eq!(table.resolve(name.as_str()), Some(&odd));
    assert_eq!(table.resolve("dev__api__get_x"), None);
    assert_eq!(table.names().count(), 1);
}

// invariant: names-lead-to-owner
#[test]
fn table_resolves_qualified_names_of_hashed_tools() {
    let mut table = NameTable::default();
    let long = "x".repeat(60);
    for (server, tool) in [("api", long.as_str()), ("api", "get.x"), ("a__b", "c")] {
        let id = id("dev", server, tool);
        table.insert(ExposedName::registered(&id, 48), id);
    }
    let meant = |name: &str| table.resolve(name).map(|id| id.tool.as_str());
    assert_eq!(meant(&format!("dev__api__{long}")), Some(long.as_str()));
    assert_eq!(meant("dev__api__get.x"), Some("get.x"));
    assert_eq!(meant("dev__a__b__c"), None, "that is server `a`, tool `b__c`");
}

#[test]
fn namespace_schemes_are_valid_and_distinct() {
    for (namespace, scheme) in [
        ("", ""),
        ("pjpd", "pjpd+"),
        ("my_Notes", "my-notes+"),
        ("v1.2", "v1.2+"),
        ("7zip", "x-7zip+"),
    ] {
        assert_eq!(scheme_of_namespace(namespace), scheme);
    }
    let schemes = ["a b", "a+b", "ä", "ö", "a/b", ":"].map(scheme_of_namespace);
    for (index, scheme) in schemes.iter().enumerate() {
        let is_legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
        let name = scheme.strip_suffix('+').unwrap();
        assert!(name.chars().all(is_legal) && name.starts_with(char::is_alphabetic), "{scheme}");
        assert!(!schemes[..index].contains(scheme), "two namespaces have the scheme {scheme}");
    }
}

#[test]
fn may_belong_to_matches_the_server_prefix() {
    let (dev, files) = (ToolboxName::new("dev"), ServerName::new("files"));
    assert!(may_belong_to("dev__files__read_file", &dev, &files));
    assert!(may_belong_to(&registered("dev", "files", &"x".repeat(90)), &dev, &files));
    assert!(!may_belong_to("dev__other__read_file", &dev, &files));
    assert!(!may_belong_to("read_file", &dev, &files));
    assert!(!may_belong_to("", &dev, &files));
    assert!(!may_belong_to("dev_something", &dev, &files), "an invented name");
    let spaced = ToolboxName::new("my box");
    assert!(may_belong_to("my box__files__read.file", &spaced, &files), "a full name");

    let long = ToolboxName::new("b".repeat(60));
    let cut =
        ExposedName::registered(&ToolId { toolbox: long.clone(), ..id("", "files", "x") }, 48);
    assert!(may_belong_to(cut.as_str(), &long, &files));
}

#[test]
fn suggestions_come_best_first() {
    let known = ["github", "gitlab", "files", "memory"];
    assert_eq!(nearest("githb", known, 3), ["github", "gitlab"]);
    assert_eq!(nearest("file", known, 3), ["files"]);
    assert!(nearest("zzz", known, 3).is_empty());
}

#[test]
fn tools_cannot_claim_names_of_other_servers() {
    for (victim, attacker) in [
        (id("box", "evil__x", "pay"), "evil"),
        (id("box", "evil  x", "pay"), "evil"),
        (id("box", "evil_", "_pay"), "evil"),
        (id("box", "evil__with_a_name_that_is_far_too_long_for_it", "pay"), "evil"),
        (id("box__evil", "x", "pay"), "evil"),
    ] {
        let taken = ExposedName::registered(&victim, 48);
        let tool = taken.as_str().strip_prefix(&format!("box__{attacker}__")).expect("a prefix");
        let claims = id("box", attacker, tool);
        let registered = ExposedName::registered(&claims, 48);
        assert_ne!(registered, taken);
        let mut table = NameTable::default();
        table.insert(registered.clone(), claims.clone());
        assert_eq!(table.resolve(taken.as_str()), None, "even if it is not listed");
        table.insert(taken.clone(), victim.clone());
        assert_eq!(table.resolve(taken.as_str()), Some(&victim));
        assert_eq!(table.resolve(registered.as_str()), Some(&claims));
    }
    assert_eq!(registered("dev", "api", "report_20240101"), "dev__api__report_20240101");
}

#[test]
fn names_shared_by_two_servers_resolve_to_neither() {
    let (bank, evil) = (id("dev", "bank", "pay"), id("dev", "evil", "found_by_trying"));
    let name = ExposedName::registered(&bank, 48);
    let mut table = NameTable::default();
    table.insert(name.clone(), evil);
    table.insert(name.clone(), bank);
    assert_eq!(table.resolve(name.as_str()), None);
}

#[test]
fn names_that_differ_in_blanks_look_different() {
    let names = ["run", " run", "run ", "  run", "r un", "r  un", "run\u{200b}", "run\u{a0}", " "];
    let shown = names
        .map(|name| if is_listable_name(name) { name.to_owned() } else { to_listable_name(name) });
    assert_eq!(shown[0], "run");
    assert_eq!(shown[4], "r un", "single spaces stay");
    let mut seen: Vec<String> =
        shown.iter().map(|name| name.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert!(seen.iter().all(|name| !name.is_empty()), "{seen:?}");
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), names.len(), "{seen:?}");
}

use super::*;

fn twin(has_prefixed_twin: bool) -> ToolTraits {
    ToolTraits { has_prefixed_twin, ..ToolTraits::default() }
}

#[test]
fn filters_accept_annotations_and_exceptions_from_them() {
    let allows = |patterns: &[&str], tool: &str, claims: &[ToolAnnotation]| {
        let patterns: Vec<_> = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
        let claims = claims.iter().fold(ToolAnnotations::default(), |all, one| all.with(*one));
        ToolFilter::new(&patterns).allows_annotated(tool, claims)
    };
    let read = [ToolAnnotation::ReadOnly];
    assert!(allows(&["@readOnly"], "get", &read) && !allows(&["@readOnly"], "put", &[]));
    assert!(allows(&["@readOnly", "put"], "put", &[]));
    assert!(!allows(&["@readOnly", "!get_secret"], "get_secret", &read));
    let unlike = ["!@destructive"];
    assert!(
        !allows(&unlike, "wipe", &[ToolAnnotation::Destructive]) && allows(&unlike, "put", &[])
    );
    assert!(!allows(&["@readOnly"], "@readOnly", &[]), "a tool can't pass by its name");
}

fn passes(patterns: &[&str], tool: &str) -> bool {
    let patterns: Vec<_> = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
    ToolFilter::new(&patterns).allows(tool)
}

#[test]
fn filters_accept_exact_names_globs_and_exceptions() {
    assert!(passes(&[], "anything"));
    assert!(passes(&["*"], "any/thing.at-all"));
    assert!(passes(&["read_file"], "read_file"));
    assert!(!passes(&["read_file"], "read_files"));
    assert!(!passes(&["read_file"], "Read_file"));
    assert!(passes(&["read_*", "list"], "read_me"));
    assert!(passes(&["{get,list}_?"], "get_x"));
    assert!(!passes(&["read_*", "!read_secret*"], "read_secrets"));
    assert!(passes(&["!write_*"], "read"), "a filter of exceptions allows everything else");
    assert!(!passes(&["!write_*"], "write_file"));
    assert!(!passes(&["*", "!*"], "read"));
    assert!(passes(&["odd[name"], "odd[name"), "an invalid glob matches literally");
}

#[test]
fn prefers_an_exact_name_over_the_prefixed_form() {
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    let rules = |include: &[&str], off: &[&str]| ServerEntryFilter {
        filter: ToolFilter::new(&["!secret".to_owned()]),
        include: Some(names(include)),
        off: names(off),
        prefix: "mcp__s__".to_owned(),
    };
    let some = rules(&["a", "mcp__s__b", "secret"], &[]);
    assert!(some.pass("a", twin(false)).is_ok() && some.pass("a", twin(true)).is_ok());
    assert!(some.pass("b", twin(false)).is_ok() && some.pass("b", twin(true)).is_err());
    assert!(some.pass("mcp__s__b", twin(false)).is_ok());
    assert!(some.pass("c", twin(false)).is_err() && some.pass("secret", twin(false)).is_err());
    let off = rules(&["a", "b"], &["mcp__s__a"]);
    assert!(
        off.pass("a", twin(false)).is_err()
            && off.pass("a", twin(true)).is_ok()
            && off.pass("b", twin(false)).is_ok()
    );
}

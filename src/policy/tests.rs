use super::*;

fn passes(patterns: &[&str], tool: &str) -> bool {
    let patterns: Vec<_> = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
    ToolFilter::new(&patterns).allows(tool)
}

#[test]
fn filters_take_exact_names_globs_and_exceptions() {
    assert!(passes(&[], "anything"));
    assert!(passes(&["*"], "any/thing.at-all"));
    assert!(passes(&["read_file"], "read_file"));
    assert!(!passes(&["read_file"], "read_files"));
    assert!(!passes(&["read_file"], "Read_file"));
    assert!(passes(&["read_*", "list"], "read_me"));
    assert!(passes(&["{get,list}_?"], "get_x"));
    assert!(!passes(&["read_*", "!read_secret*"], "read_secrets"));
    assert!(passes(&["!write_*"], "read"), "exceptions alone mean all but");
    assert!(!passes(&["!write_*"], "write_file"));
    assert!(!passes(&["*", "!*"], "read"));
    assert!(passes(&["odd[name"], "odd[name"), "a name that is no glob means itself");
}

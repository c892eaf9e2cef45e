//! `demo`: the whole of it, in an empty folder.

use pretty_assertions::assert_eq;

use crate::support::Bench;

#[test]
fn the_demo_shows_what_an_agent_sees() {
    let bench = Bench::new();
    let output = bench.run_bare(["demo"]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
    let mut settings = bench.settings();
    settings.add_filter(
        r#""time":"\[TIME\]","unix":\d+,"weekday":"\w+""#,
        r#""time":"[TIME]","unix":[UNIX],"weekday":"[DAY]""#,
    );
    settings.bind(|| insta::assert_snapshot!(output.stdout));
}

//! `demo` in an empty folder.

use pretty_assertions::assert_eq;

use crate::support::TestEnvironment;

#[test]
fn demo_prints_a_sample_session() {
    let bench = TestEnvironment::new();
    let output = bench.run_bare(["demo"]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
    let mut settings = bench.settings();
    settings.add_filter(
        r#""time":"\[TIME\]","unix":\d+,"weekday":"\w+""#,
        r#""time":"[TIME]","unix":[UNIX],"weekday":"[DAY]""#,
    );
    settings.bind(|| insta::assert_snapshot!(output.stdout));
}

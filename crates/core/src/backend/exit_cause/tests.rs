use pretty_assertions::assert_eq;

use super::*;

fn tail(env: &[(&str, &str)]) -> StderrTail {
    StderrTail::new(Arc::new(Redactor::from_environment(env.iter().copied())))
}

// invariant: no-secrets-in-records
#[tokio::test]
async fn stderr_tail_has_the_last_lines_redacted() {
    let tail = tail(&[
        ("API_KEY", "hunter22"),
        ("OLD_API_KEY", "hunter2"),
        ("MODE", "reading"),
        ("TOKEN", "x"),
        ("PWD", "/folder"),
    ]);
    let lines: Vec<_> = (1..=20).map(|n| format!("line {n} hunter22 reading x /folder")).collect();
    let text = lines.join("\n");
    tail.clone().drain(text.as_bytes(), "test".to_owned()).await;
    let kept = tail.text();
    assert_eq!(kept.lines().count(), KEPT_LINES);
    assert_eq!(kept.lines().last(), Some("line 20 *** reading x /folder"));
}

#[tokio::test]
async fn multi_line_secrets_and_url_passwords_are_redacted() {
    let tail = tail(&[
        ("PRIVATE_KEY", "--BEGIN--\nabcdefgh\r\nijklmnop\n"),
        ("GH_PAT", "ghp_123456"),
        ("DATABASE_URL", "postgres://user:p@ss:word@host:5432/db?x=@y"),
        ("HOME_URL", "http://host:8080/user:name@x"),
    ]);
    let text = "abcdefgh\nijklmnop ghp_123456\npostgres://user:p@ss:word@host 8080/user:name@x";
    tail.clone().drain(text.as_bytes(), "test".to_owned()).await;
    assert_eq!(tail.text(), "***\n*** ***\npostgres://user:***@host 8080/user:name@x");
}

#[tokio::test]
async fn long_lines_are_truncated_at_char_boundaries() {
    let tail = tail(&[]);
    tail.clone().drain("ä".repeat(400).as_bytes(), "test".to_owned()).await;
    assert_eq!(tail.text(), "ä".repeat(150));
    tail.clone().drain("x".repeat(MAX_LINE + 9).as_bytes(), "test".to_owned()).await;
    assert!(tail.text().lines().last().unwrap().starts_with("xxx"));
}

#[test]
fn exit_cause_quotes_stderr_only_if_allowed() {
    let tail = tail(&[]);
    let told = |is_told| ExitCause::new(None, &tail).describe(is_told);
    assert_eq!(told(true), "unknown exit status; stderr is empty");
    tail.push("no such database");
    assert_eq!(told(true), "unknown exit status; last lines of stderr:\n> no such database");
    assert_eq!(told(false), "unknown exit status; its stderr is in the workbench log");
}

#[tokio::test]
async fn error_before_a_stack_trace_comes_first() {
    let frames = "    at f (/app/index.js:1:2)\n".repeat(30);
    for (text, expected) in [
        (
            format!("app.js:7\n  throw x\nTypeError: x is null\n{frames}\nNode.js v22"),
            "TypeError: x is null\nNode.js v22",
        ),
        (
            format!("Uncaught Error: a\n{frames}{}", "b\n".repeat(KEPT_LINES)),
            "Uncaught Error: a\nb\nb\nb\nb\nb\nb\nb\nb",
        ),
        (
            "java.io.IOException: gone\n\tat a.b(C.java:1)\nCaused by: d\n".to_owned(),
            "java.io.IOException: gone\nCaused by: d",
        ),
        // Python prints the cause last.
        (
            "Traceback:\n  File \"a.py\", line 1\nValueError: b".to_owned(),
            "Traceback:\n  File \"a.py\", line 1\nValueError: b",
        ),
        ("starting\nError: no key".to_owned(), "starting\nError: no key"),
    ] {
        let tail = tail(&[]);
        tail.clone().drain(text.as_bytes(), "test".to_owned()).await;
        assert_eq!(tail.text(), expected);
    }
}

#[test]
fn quoted_output_is_stripped_for_display() {
    let lines = ["usage: x".to_owned()];
    let whole = with_stdout(with_stderr_tail("exited", "no key", true), &lines, true);
    assert!(whole.contains("> no key\n") && whole.ends_with("\n> usage: x"), "{whole}");
    assert_eq!(strip_stderr_tail(&whole), "exited");
    let whole = with_stdout("exited".to_owned(), &lines, true);
    assert_eq!(strip_stderr_tail(&whole), "exited");
    assert_eq!(with_stdout("exited".to_owned(), &lines, false), "exited");
}

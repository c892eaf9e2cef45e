use pretty_assertions::assert_eq;
use tokio::io::AsyncWriteExt;

use super::*;

/// Reads everything out of `chunks`, each written on its own, as text.
async fn lines(max: usize, chunks: &[&[u8]]) -> Vec<String> {
    let (mut writer, reader) = tokio::io::duplex(7);
    let mut lines = LineReader::new(reader, max);
    let write = async {
        for chunk in chunks {
            writer.write_all(chunk).await.unwrap();
        }
        drop(writer);
    };
    let read = async {
        let mut found = Vec::new();
        while let Some(line) = lines.next().await {
            found.push(match line {
                Line::Message(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                Line::Oversized { head, tail, length } => format!(
                    "oversized {length}: {}..{}",
                    String::from_utf8_lossy(&head),
                    String::from_utf8_lossy(&tail)
                ),
            });
        }
        found
    };
    tokio::join!(write, read).1
}

#[tokio::test]
async fn lines_come_whole_however_they_are_split() {
    assert_eq!(
        lines(99, &[b"one\ntw", b"o\r\n", b"\n  \n", b"thr", b"ee"]).await,
        ["one", "two", "three"]
    );
}

#[tokio::test]
async fn a_line_at_the_limit_passes_and_one_beyond_does_not() {
    let text = "x".repeat(20);
    assert_eq!(
        lines(20, &[format!("{text}\n{text}y\nlast\n").as_bytes()]).await,
        [text.clone(), format!("oversized 21: {text}y..{text}y"), "last".to_owned()]
    );
}

#[tokio::test]
async fn an_oversized_line_is_measured_and_only_its_edges_are_kept() {
    let long = format!("{}{}{}", "a".repeat(600), "b".repeat(90_000), "c".repeat(600));
    let found = lines(1000, &[long.as_bytes(), b"\nnext"]).await;
    assert_eq!(
        found,
        [format!("oversized 91200: {}..{}", "a".repeat(512), "c".repeat(512)), "next".to_owned()]
    );
}

#[tokio::test]
async fn the_edges_of_an_oversized_line_are_its_own_however_it_comes() {
    for chunks in [&[&b"123456\nnext"[..]][..], &[b"12345", b"6\nne", b"xt"]] {
        assert_eq!(lines(4, chunks).await, ["oversized 6: 123456..123456", "next"]);
    }
}

#[tokio::test]
async fn an_oversized_line_that_never_ends_is_reported_at_the_end_of_input() {
    let found = lines(4, &[b"123456"]).await;
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with("oversized 6"), "{found:?}");
}

#[tokio::test]
async fn a_cancelled_read_loses_nothing() {
    let (mut writer, reader) = tokio::io::duplex(64);
    let mut lines = LineReader::new(reader, 99);
    writer.write_all(b"ha").await.unwrap();
    tokio::select! {
        biased;
        _ = lines.next() => panic!("half a line is no line"),
        () = tokio::task::yield_now() => {}
    }
    writer.write_all(b"lf\n").await.unwrap();
    let Some(Line::Message(line)) = lines.next().await else { panic!("no line") };
    assert_eq!(&line[..], b"half");
}

#[tokio::test]
async fn much_that_is_here_already_lets_others_have_a_turn() {
    for text in ["x\n".repeat(1000), "\n".repeat(100_000), "x".repeat(100_000)] {
        let mut lines = LineReader::new(text.as_bytes(), 9);
        let read = async { while lines.next().await.is_some() {} };
        tokio::select! {
            biased;
            () = read => panic!("nobody else had a turn"),
            () = std::future::ready(()) => {}
        }
    }
}

use pretty_assertions::assert_eq;
use tokio::io::AsyncWriteExt;

use super::*;

/// Returns all lines read from `chunks`, each written separately.
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
                InputLine::Message(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                InputLine::Oversized { head, tail, length, .. } => format!(
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
async fn lines_are_reassembled_across_reads() {
    assert_eq!(
        lines(99, &[b"one\ntw", b"o\r\n", b"\n  \n", b"thr", b"ee"]).await,
        ["one", "two", "three"]
    );
}

#[tokio::test]
async fn line_length_limit_is_inclusive() {
    let text = "x".repeat(20);
    assert_eq!(
        lines(20, &[format!("{text}\n{text}y\nlast\n").as_bytes()]).await,
        [text.clone(), format!("oversized 21: {text}y..{text}y"), "last".to_owned()]
    );
}

#[tokio::test]
async fn oversized_line_reports_its_length_and_edges() {
    let long = format!("{}{}{}", "a".repeat(600), "b".repeat(90_000), "c".repeat(600));
    let found = lines(1000, &[long.as_bytes(), b"\nnext"]).await;
    assert_eq!(
        found,
        [format!("oversized 91200: {}..{}", "a".repeat(512), "c".repeat(512)), "next".to_owned()]
    );
}

#[tokio::test]
async fn oversized_edges_exclude_the_next_line() {
    for chunks in [&[&b"123456\nnext"[..]][..], &[b"12345", b"6\nne", b"xt"]] {
        assert_eq!(lines(4, chunks).await, ["oversized 6: 123456..123456", "next"]);
    }
}

#[tokio::test]
async fn unterminated_oversized_line_is_reported_at_eof() {
    let found = lines(4, &[b"123456"]).await;
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with("oversized 6"), "{found:?}");
}

#[tokio::test]
async fn cancelled_read_loses_no_input() {
    let (mut writer, reader) = tokio::io::duplex(64);
    let mut lines = LineReader::new(reader, 99);
    writer.write_all(b"ha").await.unwrap();
    tokio::select! {
        biased;
        _ = lines.next() => panic!("an incomplete line was returned"),
        () = tokio::task::yield_now() => {}
    }
    writer.write_all(b"lf\n").await.unwrap();
    let Some(InputLine::Message(line)) = lines.next().await else { panic!("no line") };
    assert_eq!(&line[..], b"half");
}

#[tokio::test]
async fn reader_yields_when_much_input_is_ready() {
    for text in ["x\n".repeat(1000), "\n".repeat(100_000), "x".repeat(100_000)] {
        let mut lines = LineReader::new(text.as_bytes(), 9);
        let read = async { while lines.next().await.is_some() {} };
        tokio::select! {
            biased;
            () = read => panic!("the reader did not yield"),
            () = std::future::ready(()) => {}
        }
    }
}

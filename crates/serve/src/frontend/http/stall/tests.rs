use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_nothing_is_given_up() {
    let (stream, mut client) = tokio::io::duplex(4);
    let mut stream = Patient::new(stream);
    let start = Instant::now();
    let error = stream.write_all(b"too much").await.unwrap_err();
    assert_eq!((error.kind(), start.elapsed()), (io::ErrorKind::TimedOut, PATIENCE));
    let mut taken = [0; 4];
    client.read_exact(&mut taken).await.unwrap();
    assert_eq!(&taken, b"too ");
}

#[tokio::test(start_paused = true)]
async fn a_slow_client_is_waited_for() {
    let (stream, mut client) = tokio::io::duplex(LEAST);
    let mut stream = Patient::new(stream);
    let slow = async {
        let mut taken = vec![0; LEAST];
        for _ in 0..5 {
            // Time is paused: this is how slow the client is.
            sleep(PATIENCE.mul_f64(0.9)).await;
            client.read_exact(&mut taken).await.unwrap();
        }
    };
    let bytes = vec![b'x'; 5 * LEAST];
    let (written, ()) = tokio::join!(stream.write_all(&bytes), slow);
    written.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_too_little_is_given_up() {
    let (stream, mut client) = tokio::io::duplex(16);
    let mut stream = Patient::new(stream);
    let dripping = async {
        while client.read_u8().await.is_ok() {
            // Time is paused: a byte every second.
            sleep(PATIENCE / 60).await;
        }
    };
    let start = Instant::now();
    let writing = async {
        let error = stream.write_all(&vec![b'x'; 100_000]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(stream);
        start.elapsed()
    };
    let (took, ()) = tokio::join!(writing, dripping);
    assert!(took <= PATIENCE * 2, "{took:?}");
}

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

use super::*;

#[tokio::test(start_paused = true)]
async fn times_out_when_the_client_reads_nothing() {
    let (stream, mut client) = tokio::io::duplex(4);
    let mut stream = WriteTimeout::new(stream);
    let start = Instant::now();
    let error = stream.write_all(b"too much").await.unwrap_err();
    assert_eq!((error.kind(), start.elapsed()), (io::ErrorKind::TimedOut, STALL_TIMEOUT));
    let mut taken = [0; 4];
    client.read_exact(&mut taken).await.unwrap();
    assert_eq!(&taken, b"too ");
}

#[tokio::test(start_paused = true)]
async fn waits_for_a_slow_client() {
    let (stream, mut client) = tokio::io::duplex(MIN_PROGRESS_BYTES);
    let mut stream = WriteTimeout::new(stream);
    let slow = async {
        let mut taken = vec![0; MIN_PROGRESS_BYTES];
        for _ in 0..5 {
            // Time is paused: the client reads this slowly.
            sleep(STALL_TIMEOUT.mul_f64(0.9)).await;
            client.read_exact(&mut taken).await.unwrap();
        }
    };
    let bytes = vec![b'x'; 5 * MIN_PROGRESS_BYTES];
    let (written, ()) = tokio::join!(stream.write_all(&bytes), slow);
    written.unwrap();
}

#[tokio::test(start_paused = true)]
async fn times_out_when_the_client_reads_too_little() {
    let (stream, mut client) = tokio::io::duplex(16);
    let mut stream = WriteTimeout::new(stream);
    let dripping = async {
        while client.read_u8().await.is_ok() {
            // Time is paused: one byte a second.
            sleep(STALL_TIMEOUT / 60).await;
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
    assert!(took <= STALL_TIMEOUT * 2, "{took:?}");
}

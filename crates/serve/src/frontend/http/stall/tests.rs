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
    let (stream, mut client) = tokio::io::duplex(1);
    let mut stream = Patient::new(stream);
    let slow = async {
        let mut taken = Vec::new();
        for _ in 0..5 {
            // Time is paused: this is how slow the client is.
            sleep(PATIENCE.mul_f64(0.9)).await;
            taken.push(client.read_u8().await.unwrap());
        }
        taken
    };
    let (written, taken) = tokio::join!(stream.write_all(b"bytes"), slow);
    written.unwrap();
    assert_eq!(taken, b"bytes");
}

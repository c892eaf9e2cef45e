use std::os::fd::AsFd;

use rustix::pipe::{fcntl_getpipe_size, fcntl_setpipe_size};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe::pipe;

use super::*;
use crate::widen;

fn holds(pipe: &impl AsFd) -> Option<usize> {
    fcntl_getpipe_size(pipe).ok()
}

async fn carry(
    text: &[u8],
    mut to: impl AsyncWrite + Unpin,
    from: &mut (impl AsyncRead + Unpin),
) -> io::Result<()> {
    let mut read = vec![1; text.len()];
    tokio::try_join!(to.write_all(text), from.read_exact(&mut read))?;
    assert_eq!(read, text);
    Ok(())
}

#[tokio::test]
async fn large_write_enlarges_the_pipe() {
    let (sender, mut receiver) = pipe().unwrap();
    let before = holds(&receiver).unwrap();
    carry(&vec![0; before + 1], Pipe::new(sender, widen), &mut receiver).await.unwrap();
    assert_eq!((before < ENLARGED_CAPACITY, holds(&receiver)), (true, Some(ENLARGED_CAPACITY)));
}

#[tokio::test]
async fn large_read_enlarges_the_pipe() {
    let (sender, receiver) = pipe().unwrap();
    let mut receiver = Pipe::new(receiver, widen);
    carry(&vec![0; 2 * ENLARGE_THRESHOLD], sender, &mut receiver).await.unwrap();
    assert_eq!(holds(&receiver.stream), Some(ENLARGED_CAPACITY));
}

#[tokio::test]
async fn small_messages_never_enlarge_the_pipe() {
    let (sender, receiver) = pipe().unwrap();
    let before = holds(&receiver);
    let (mut sender, mut receiver) = (Pipe::new(sender, widen), Pipe::new(receiver, widen));
    for _ in 0..4 * ENLARGE_THRESHOLD / MIN_CHUNK_BYTES {
        carry(&[0; MIN_CHUNK_BYTES - 1], &mut sender, &mut receiver).await.unwrap();
    }
    assert_eq!(holds(&receiver.stream), before);
}

#[tokio::test]
async fn larger_pipes_are_not_shrunk() {
    let (sender, mut receiver) = pipe().unwrap();
    fcntl_setpipe_size(&receiver, 2 * ENLARGED_CAPACITY).unwrap();
    carry(&vec![0; 4 * ENLARGED_CAPACITY], Pipe::new(sender, widen), &mut receiver).await.unwrap();
    assert_eq!(holds(&receiver), Some(2 * ENLARGED_CAPACITY));
}

#[tokio::test]
async fn enlarging_requires_a_permit() {
    static ROOM: Semaphore = Semaphore::const_new(1);
    let other = ROOM.acquire().await.unwrap();
    let (sender, mut receiver) = pipe().unwrap();
    let before = holds(&receiver);
    let mut sender = Pipe::within(&ROOM, sender, widen);
    let text = vec![0; 2 * ENLARGE_THRESHOLD];
    carry(&text, &mut sender, &mut receiver).await.unwrap();
    assert_eq!(holds(&receiver), before);
    drop(other);
    carry(&text, &mut sender, &mut receiver).await.unwrap();
    assert_eq!((holds(&receiver), ROOM.available_permits()), (Some(ENLARGED_CAPACITY), 0));
    drop(sender);
    assert_eq!(ROOM.available_permits(), 1);
}

#[tokio::test]
async fn streams_that_cannot_be_resized_are_still_read() {
    let text = vec![7; 4 * ENLARGE_THRESHOLD];
    let mut pipe = Pipe::new(&*text, |_, _| Err(io::ErrorKind::Unsupported.into()));
    let mut read = Vec::new();
    pipe.read_to_end(&mut read).await.unwrap();
    assert_eq!((read, matches!(pipe.width, Width::Fixed)), (text, true));
}

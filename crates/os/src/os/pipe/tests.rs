use std::os::fd::AsFd;

use rustix::pipe::{fcntl_getpipe_size, fcntl_setpipe_size};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe::pipe;

use super::*;
use crate::os::widen;

fn holds(pipe: &impl AsFd) -> Option<usize> {
    fcntl_getpipe_size(pipe).ok()
}

/// Writes a text to one end while the other is read.
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
async fn a_pipe_that_is_written_more_than_it_holds_is_made_wide() {
    let (sender, mut receiver) = pipe().unwrap();
    let before = holds(&receiver).unwrap();
    carry(&vec![0; before + 1], Pipe::new(sender, widen), &mut receiver).await.unwrap();
    assert_eq!((before < WIDE, holds(&receiver)), (true, Some(WIDE)));
}

#[tokio::test]
async fn a_pipe_that_is_read_more_from_than_it_holds_is_made_wide() {
    let (sender, receiver) = pipe().unwrap();
    let mut receiver = Pipe::new(receiver, widen);
    carry(&vec![0; 2 * MUCH], sender, &mut receiver).await.unwrap();
    assert_eq!(holds(&receiver.stream), Some(WIDE));
}

#[tokio::test]
async fn short_messages_leave_a_pipe_as_it_is_however_many_there_are() {
    let (sender, receiver) = pipe().unwrap();
    let before = holds(&receiver);
    let (mut sender, mut receiver) = (Pipe::new(sender, widen), Pipe::new(receiver, widen));
    for _ in 0..4 * MUCH / PIECE {
        carry(&[0; PIECE - 1], &mut sender, &mut receiver).await.unwrap();
    }
    assert_eq!(holds(&receiver.stream), before);
}

#[tokio::test]
async fn a_pipe_that_holds_more_already_keeps_that() {
    let (sender, mut receiver) = pipe().unwrap();
    fcntl_setpipe_size(&receiver, 2 * WIDE).unwrap();
    carry(&vec![0; 4 * WIDE], Pipe::new(sender, widen), &mut receiver).await.unwrap();
    assert_eq!(holds(&receiver), Some(2 * WIDE));
}

#[tokio::test]
async fn a_pipe_is_made_wide_only_while_there_is_room_for_it() {
    static ROOM: Semaphore = Semaphore::const_new(1);
    let other = ROOM.acquire().await.unwrap();
    let (sender, mut receiver) = pipe().unwrap();
    let before = holds(&receiver);
    let mut sender = Pipe::within(&ROOM, sender, widen);
    let text = vec![0; 2 * MUCH];
    carry(&text, &mut sender, &mut receiver).await.unwrap();
    assert_eq!(holds(&receiver), before);
    drop(other);
    carry(&text, &mut sender, &mut receiver).await.unwrap();
    assert_eq!((holds(&receiver), ROOM.available_permits()), (Some(WIDE), 0));
    drop(sender);
    assert_eq!(ROOM.available_permits(), 1);
}

#[tokio::test]
async fn what_cannot_be_made_wide_is_read_as_it_is() {
    let text = vec![7; 4 * MUCH];
    let mut pipe = Pipe::new(&*text, |_, _| Err(io::ErrorKind::Unsupported.into()));
    let mut read = Vec::new();
    pipe.read_to_end(&mut read).await.unwrap();
    assert_eq!((read, matches!(pipe.width, Width::Fixed)), (text, true));
}

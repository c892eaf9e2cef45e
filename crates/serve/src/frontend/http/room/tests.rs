use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::*;
use crate::gateway::{self, Payers};
use crate::observe::{Observer, Payer};
use crate::raw::Raw;
use crate::settings::Limits;

const BYTES: usize = 3_000_000;

/// The room of one caller, for less than two messages.
fn room() -> Room {
    let limits = Limits { max_message_bytes: BYTES, max_bytes_in_flight: 0, ..Limits::default() };
    let payers = Payers::new(&Arc::new(Observer::default()), gateway::Bytes::of(&limits));
    Room::of(&payers.purse(&Payer::Local))
}

fn long_answer() -> Message {
    let long = Raw::of_text(&"x".repeat(BYTES));
    let parts = incoming::answer(Raw::encode(&7), Outcome::Result(long));
    Message { parts, written: None }
}

#[tokio::test(start_paused = true)]
async fn an_answer_for_which_there_is_no_room_is_an_error_that_says_so() {
    let room = room();
    let (first, charge) = room.wait_for(long_answer()).await.unwrap();
    let untaken = charge.attach(first.parts.concat().into());
    let start = Instant::now();
    let (given_up, _) = room.wait_for(long_answer()).await.unwrap();
    assert_eq!(start.elapsed(), PATIENCE);
    let text = String::from_utf8(given_up.parts.concat()).unwrap();
    assert!(text.starts_with(r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32000,"#), "{text}");
    assert!(text.contains("take the other answers first"), "{text}");
    // Who has taken nothing since is not waited for again.
    let (_, charge) = room.wait_for(long_answer()).await.unwrap();
    assert_eq!((start.elapsed(), charge.is_held()), (PATIENCE, false));
    // What is short comes all the same.
    let parts = incoming::answer(Raw::encode(&8), Outcome::Result(Raw::of_text("short")));
    assert!(room.wait_for(Message { parts, written: None }).await.is_some());
    drop(untaken);
    let (whole, charge) = room.wait_for(long_answer()).await.unwrap();
    assert!(charge.is_held() && whole.parts.concat().len() > BYTES);
}

#[tokio::test(start_paused = true)]
async fn an_answer_waits_for_a_client_that_takes_others() {
    let room = room();
    let (_, untaken) = room.wait_for(long_answer()).await.unwrap();
    let later = async {
        // Time is paused: it takes its time.
        tokio::time::sleep(PATIENCE / 2).await;
        drop(untaken);
    };
    let (second, ()) = tokio::join!(room.wait_for(long_answer()), later);
    assert!(second.unwrap().0.parts.concat().len() > BYTES);
}

#[tokio::test(start_paused = true)]
async fn a_question_for_which_there_is_no_room_is_not_taken_for_asked() {
    let room = room();
    let (_, _untaken) = room.wait_for(long_answer()).await.unwrap();
    let long = Bytes::from(vec![b' '; BYTES]);
    let with = |head: &'static [u8]| {
        let (written, done) = oneshot::channel();
        let parts = vec![Bytes::from_static(head), long.clone()];
        (Message { parts, written: Some(written) }, done)
    };
    let (question, is_asked) = with(br#"{"jsonrpc":"2.0","id":1,"method":"#);
    assert!(room.wait_for(question).await.is_none() && is_asked.await.is_err());
    let (notice, is_told) = with(br#"{"jsonrpc":"2.0","method":"#);
    assert!(room.wait_for(notice).await.is_none() && is_told.await.is_ok());
}

//! The body of a request: read as far as it is not too long, and as there is room for it.

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Body as _;

use crate::wire::budget::{self, Charge};

/// Why a body could not be read.
#[derive(Debug)]
pub(crate) enum Unread {
    /// It is longer than a message may be.
    TooLong,
    /// It did not come to its end.
    Broken(axum::Error),
}

/// Reads a body of at most `max` bytes, for which `charge` pays as it comes.
pub(crate) async fn read(mut body: Body, max: usize, charge: &mut Charge) -> Result<Bytes, Unread> {
    // Where its length is said, nothing of it needs to come.
    let size = body.size_hint();
    if usize::try_from(size.lower()).map_or(true, |said| said > max) {
        return Err(Unread::TooLong);
    }
    let said = size.exact().and_then(|said| usize::try_from(said).ok());
    let mut text = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(Unread::Broken)?.into_data() else { continue };
        let length = text.len() + data.len();
        if length > max {
            return Err(Unread::TooLong);
        }
        if said == Some(data.len()) {
            // It is there as a whole already.
            charge.grow(length).await;
            return Ok(data);
        }
        if length > text.capacity() {
            let room = budget::room_for(length, said, max);
            charge.grow(room).await;
            text.reserve(room - text.len());
        }
        text.extend_from_slice(&data);
    }
    Ok(text.freeze())
}

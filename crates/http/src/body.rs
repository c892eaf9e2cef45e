//! Reads request bodies within the size limit and the memory quota.

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Body as _;

use mcp_workbench_wire::memory_pool::{self, MemoryReservation};

#[derive(Debug)]
pub(crate) enum BodyError {
    TooLong,
    Broken(axum::Error),
}

/// Reads a body of at most `max` bytes and grows `charge` as it arrives.
pub(crate) async fn read(
    mut body: Body,
    max: usize,
    charge: &mut MemoryReservation,
) -> Result<Bytes, BodyError> {
    // Reject a declared length over the limit before reading anything.
    let size = body.size_hint();
    if usize::try_from(size.lower()).map_or(true, |said| said > max) {
        return Err(BodyError::TooLong);
    }
    let said = size.exact().and_then(|said| usize::try_from(said).ok());
    let mut text = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(BodyError::Broken)?.into_data() else { continue };
        let length = text.len() + data.len();
        if length > max {
            return Err(BodyError::TooLong);
        }
        if said == Some(data.len()) {
            // The body arrived as a single frame; don't copy it.
            charge.grow(length).await;
            return Ok(data);
        }
        if length > text.capacity() {
            let capacity = memory_pool::room_for(length, said, max);
            charge.grow(capacity).await;
            text.reserve(capacity - text.len());
        }
        text.extend_from_slice(&data);
    }
    Ok(text.freeze())
}

//! The body of a request as a list of shared pieces, so that a long conversation is not copied to
//! be sent.

use std::{
    collections::VecDeque,
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::{Bytes, BytesMut};
use http_body::{Frame, SizeHint};
use serde::Serialize;

/// Pieces smaller than this are copied together: a frame for each would cost more.
const SMALL: usize = 4096;

/// A request body, complete or being built.
#[derive(Clone, Debug, Default)]
pub(crate) struct Body {
    pieces: VecDeque<Bytes>,
    open: BytesMut,
    len: u64,
}

impl Body {
    pub(crate) fn text(&mut self, text: &str) -> &mut Self {
        self.len += text.len() as u64;
        self.open.extend_from_slice(text.as_bytes());
        self
    }

    /// Appends a value as JSON.
    pub(crate) fn json(&mut self, value: &(impl Serialize + ?Sized)) -> &mut Self {
        let mut bytes = vec![];
        put(&mut bytes, value);
        self.shared(bytes.into())
    }

    /// Appends bytes that are cached elsewhere. Only small ones are copied.
    pub(crate) fn shared(&mut self, bytes: Bytes) -> &mut Self {
        self.len += bytes.len() as u64;
        if bytes.len() < SMALL {
            self.open.extend_from_slice(&bytes);
        } else {
            self.close();
            self.pieces.push_back(bytes);
        }
        self
    }

    fn close(&mut self) {
        if !self.open.is_empty() {
            self.pieces.push_back(self.open.split().freeze());
        }
    }

    /// The length in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// The whole body in one piece.
    pub(crate) fn joined(&self) -> Vec<u8> {
        let mut all = Vec::new();
        self.pieces.iter().for_each(|piece| all.extend_from_slice(piece));
        all.extend_from_slice(&self.open);
        all
    }

    /// The first byte where `other` differs from this body; `None` if `other` begins with all of
    /// this body. Pieces that both share are not compared.
    pub(crate) fn breaks_at(mut self, mut other: Body) -> Option<u64> {
        self.close();
        other.close();
        let mut at = 0;
        loop {
            let ours = self.pieces.front_mut()?;
            let Some(theirs) = other.pieces.front_mut() else { return Some(at) };
            let both = ours.len().min(theirs.len());
            if ours.as_ptr() != theirs.as_ptr() {
                let same = ours.iter().zip(theirs.iter()).take_while(|(a, b)| a == b).count();
                if same < both {
                    return Some(at + same as u64);
                }
            }
            at += both as u64;
            for (piece, body) in
                [(ours.split_off(both), &mut self), (theirs.split_off(both), &mut other)]
            {
                match body.pieces.front_mut() {
                    Some(front) if !piece.is_empty() => *front = piece,
                    _ => _ = body.pieces.pop_front(),
                }
            }
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.close();
        let piece = self.pieces.pop_front();
        self.len -= piece.as_ref().map_or(0, |piece| piece.len() as u64);
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.len == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.len)
    }
}

/// Writes a value as JSON. Cannot fail: the values are text, numbers and parsed JSON.
pub(crate) fn put(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    serde_json::to_writer(out, value).expect("text, numbers and JSON can be written as JSON");
}

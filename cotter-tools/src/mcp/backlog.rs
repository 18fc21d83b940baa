//! Limits the requests of a server whose answers it does not read.
//!
//! An answer is kept until it is written, and a server that does not read cannot be written to. So
//! the lines written to it and its requests are counted: if the difference becomes too large, the
//! connection ends.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
};

use futures_util::task::AtomicWaker;
use rmcp::{
    ErrorData, RoleClient, Service,
    model::{ClientConfig, ClientResult, ServerNotification, ServerRequest},
    service::{NotificationContext, RequestContext},
};
use tokio::io::AsyncWrite;

/// The most requests of a server without reading the answers.
pub(crate) const MAX_UNREAD: usize = 64;

/// How far a server on a pipe is behind in reading its answers.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    requests: AtomicUsize,
    written: AtomicUsize,
    exceeded: AtomicBool,
    /// The task that waits for room to write.
    writer_waker: AtomicWaker,
}

impl Backlog {
    /// True once it was too far behind.
    pub(crate) fn is_exceeded(&self) -> bool {
        self.exceeded.load(Ordering::Acquire)
    }

    fn count_request(&self) {
        let requests = self.requests.fetch_add(1, Ordering::AcqRel) + 1;
        // Our own requests count as lines too, so it may be behind by that many more.
        if requests > self.written.load(Ordering::Acquire) + MAX_UNREAD {
            self.exceeded.store(true, Ordering::Release);
            self.writer_waker.wake();
        }
    }
}

/// A client that counts the requests of its server.
pub(crate) struct CountingClient<C> {
    pub(crate) client: C,
    /// `None` if written lines cannot be counted.
    pub(crate) backlog: Option<Arc<Backlog>>,
}

impl<C: Service<RoleClient>> Service<RoleClient> for CountingClient<C> {
    async fn handle_request(
        &self,
        request: ServerRequest,
        context: RequestContext<RoleClient>,
    ) -> Result<ClientResult, ErrorData> {
        if let Some(backlog) = &self.backlog {
            backlog.count_request();
        }
        self.client.handle_request(request, context).await
    }

    async fn handle_notification(
        &self,
        notification: ServerNotification,
        context: NotificationContext<RoleClient>,
    ) -> Result<(), ErrorData> {
        self.client.handle_notification(notification, context).await
    }

    fn get_info(&self) -> ClientConfig {
        self.client.get_info()
    }
}

/// The input of a server; counts the lines as they are written.
pub(crate) struct CountingWriter<W> {
    pub(crate) to: W,
    pub(crate) backlog: Arc<Backlog>,
}

impl<W: AsyncWrite + Unpin> AsyncWrite for CountingWriter<W> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.backlog.writer_waker.register(cx.waker());
        if this.backlog.is_exceeded() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let length = ready!(Pin::new(&mut this.to).poll_write(cx, bytes))?;
        let lines = bytes[..length].iter().filter(|byte| **byte == b'\n').count();
        this.backlog.written.fetch_add(lines, Ordering::AcqRel);
        Poll::Ready(Ok(length))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().to).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().to).poll_shutdown(cx)
    }
}

//! What a server asks of us, and how much of what it is answered it has not read.
//!
//! An answer is kept until it is written, and nobody can write to a server that does not read. So the
//! lines that were written to it are counted, and what it asked: where the one lags too far behind the
//! other, the connection ends.

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

/// The most that a server may have asked without reading the answers.
pub(crate) const MOST: usize = 64;

/// How far a server that reads its answers from a pipe lags behind.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    asked: AtomicUsize,
    written: AtomicUsize,
    over: AtomicBool,
    /// Who waits for room to write.
    writing: AtomicWaker,
}

impl Backlog {
    /// Whether it lagged too far behind.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    fn ask(&self) {
        let asked = self.asked.fetch_add(1, Ordering::AcqRel) + 1;
        // Our own requests are lines too: it may lag by so many more.
        if asked > self.written.load(Ordering::Acquire) + MOST {
            self.over.store(true, Ordering::Release);
            self.writing.wake();
        }
    }
}

/// A client whose server is counted with.
pub(crate) struct CountingStream<C> {
    pub(crate) client: C,
    /// `None` where nobody can tell what was written.
    pub(crate) backlog: Option<Arc<Backlog>>,
}

impl<C: Service<RoleClient>> Service<RoleClient> for CountingStream<C> {
    async fn handle_request(
        &self,
        request: ServerRequest,
        context: RequestContext<RoleClient>,
    ) -> Result<ClientResult, ErrorData> {
        if let Some(backlog) = &self.backlog {
            backlog.ask();
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

/// The input of a server, whose lines are counted as they are written.
pub(crate) struct CountedBytes<W> {
    pub(crate) to: W,
    pub(crate) backlog: Arc<Backlog>,
}

impl<W: AsyncWrite + Unpin> AsyncWrite for CountedBytes<W> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.backlog.writing.register(cx.waker());
        if this.backlog.is_over() {
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

//! What stops a statement that writes before it is done: its client, the time, an operator or the
//! server's end.

use std::pin::Pin;
use std::time::Duration;

use futures::FutureExt;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::cancel::Running;
use super::outcome::Outcome;
use super::stream::FramedStream;
use crate::refusal::{Refusal, reason};

/// One for all parts of a statement that writes: reading its rows, waiting for a connection, and
/// the write itself. So no part begins its time anew, and a request to cancel reaches all of them.
pub(super) struct WriteStop {
    /// While it is there, a request to cancel finds the statement.
    _running: Running,
    stopped: Pin<Box<dyn Future<Output = Outcome> + Send>>,
    has_stopped: bool,
}

/// The end of a session, whatever runs in it.
pub(super) struct SessionEnd {
    /// An operator ends it.
    pub by_operator: CancellationToken,
    pub shutdown: CancellationToken,
    /// How long a running statement may go on after the shutdown.
    pub drain: Duration,
}

impl WriteStop {
    pub(super) fn new(running: Running, deadline: Instant, session: SessionEnd) -> Self {
        let token = running.token.clone();
        let cancelled = |message: &str| -> Outcome {
            Refusal::new(reason::STATEMENT_CANCELLED, message).into()
        };
        let stopped = async move {
            let SessionEnd {
                by_operator,
                shutdown,
                drain,
            } = session;
            tokio::select! {
                biased;
                () = by_operator.cancelled() => Outcome::operator_ended(),
                () = token.cancelled() => cancelled("canceling statement due to user request"),
                () = tokio::time::sleep_until(deadline) => {
                    cancelled("canceling statement due to statement timeout")
                }
                () = async {
                    shutdown.cancelled().await;
                    tokio::time::sleep(drain).await;
                } => Outcome::shutdown(),
            }
        };
        Self {
            _running: running,
            stopped: Box::pin(stopped.fuse()),
            has_stopped: false,
        }
    }

    /// Whether the statement was stopped.
    pub(super) fn has_stopped(&self) -> bool {
        self.has_stopped
    }

    /// The future's output, unless something stops the statement first. The client's messages are
    /// for the future to read.
    pub(super) async fn until<T>(&mut self, future: impl Future<Output = T>) -> Result<T, Outcome> {
        let stopped = tokio::select! {
            biased;
            stopped = &mut self.stopped => stopped,
            output = future => return Ok(output),
        };
        self.has_stopped = true;
        Err(stopped)
    }

    /// The same; it also stops where the client goes.
    pub(super) async fn watching<T>(
        &mut self,
        channel: &mut FramedStream,
        future: impl Future<Output = T>,
    ) -> Result<T, Outcome> {
        let watched = async {
            tokio::select! {
                biased;
                output = future => Ok(output),
                () = channel.gone() => Err(Outcome::Closed),
            }
        };
        let ended = self.until(watched).await.and_then(|ended| ended);
        self.has_stopped |= ended.is_err();
        ended
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::cancel::{CancelKey, CancelKeys};
    use super::*;

    struct Session {
        keys: Arc<CancelKeys>,
        key: CancelKey,
        ended: CancellationToken,
        shutdown: CancellationToken,
        channel: FramedStream,
        client: tokio::io::DuplexStream,
    }

    impl Session {
        fn new() -> Self {
            let keys = Arc::new(CancelKeys::default());
            let (near, client) = tokio::io::duplex(1 << 10);
            Self {
                key: keys.enter(4).unwrap(),
                keys,
                ended: CancellationToken::new(),
                shutdown: CancellationToken::new(),
                channel: FramedStream::new(Box::new(near)),
                client,
            }
        }

        fn write(&self, deadline: Instant) -> WriteStop {
            let session = SessionEnd {
                by_operator: self.ended.clone(),
                shutdown: self.shutdown.clone(),
                drain: Duration::ZERO,
            };
            WriteStop::new(self.key.run(), deadline, session)
        }
    }

    fn later() -> Instant {
        Instant::now() + Duration::from_secs(3600)
    }

    /// Work that only pauses now and then, as reports are made.
    async fn busy() {
        loop {
            tokio::task::yield_now().await;
        }
    }

    fn code(outcome: &Outcome) -> &str {
        match outcome {
            Outcome::Refused(refusal) | Outcome::Fatal(refusal) => &refusal.sqlstate,
            Outcome::Closed => "closed",
        }
    }

    /// A request to cancel reaches each part of a write, also one that came between two parts.
    #[tokio::test]
    async fn one_request_cancels_whatever_the_write_does() {
        let mut session = Session::new();
        let mut stop = session.write(later());
        assert!(stop.watching(&mut session.channel, async {}).await.is_ok());
        let (keys, process) = (Arc::clone(&session.keys), session.key.process);
        let secret = session.key.secret.clone();
        keys.cancel(process, &secret);
        // The next part is ready at once, and is not begun.
        let ended = stop.watching(&mut session.channel, async {}).await;
        assert_eq!(code(&ended.unwrap_err()), "57014");
        assert!(stop.has_stopped());
        drop(stop);
        let mut stop = session.write(later());
        let cancels = async {
            tokio::task::yield_now().await;
            keys.cancel(process, &secret);
            busy().await
        };
        let ended = stop.watching(&mut session.channel, cancels).await;
        assert_eq!(code(&ended.unwrap_err()), "57014");
    }

    /// The time ends at one moment, whatever was waited for before, and is not counted from each
    /// wait.
    #[tokio::test]
    async fn the_time_of_a_write_does_not_begin_anew() {
        let mut session = Session::new();
        let soon = Instant::now() + Duration::from_millis(20);
        let mut stop = session.write(soon);
        tokio::time::sleep_until(soon).await;
        let ended = stop.watching(&mut session.channel, async {}).await;
        let refused = ended.unwrap_err();
        assert_eq!(code(&refused), "57014");
        assert!(format!("{refused:?}").contains("statement timeout"));
    }

    /// Operators, the shutdown and a client that leaves end a write while reports are made.
    #[tokio::test]
    async fn a_busy_write_ends_with_its_session() {
        let mut session = Session::new();
        let (mut first, ended) = (session.write(later()), session.ended.clone());
        let ends = async {
            tokio::task::yield_now().await;
            ended.cancel();
            busy().await
        };
        let stopped = first
            .watching(&mut session.channel, ends)
            .await
            .unwrap_err();
        assert!(matches!(&stopped, Outcome::Fatal(_)), "{stopped:?}");
        assert_eq!(code(&stopped), "57P01");

        let mut session = Session::new();
        let (mut second, shutdown) = (session.write(later()), session.shutdown.clone());
        let stops = async {
            tokio::task::yield_now().await;
            shutdown.cancel();
            busy().await
        };
        let stopped = second
            .watching(&mut session.channel, stops)
            .await
            .unwrap_err();
        assert!(matches!(&stopped, Outcome::Fatal(_)), "{stopped:?}");

        let mut session = Session::new();
        let mut third = session.write(later());
        let client = session.client;
        let leaves = async {
            tokio::task::yield_now().await;
            drop(client);
            busy().await
        };
        let stopped = third.watching(&mut session.channel, leaves).await;
        assert!(matches!(stopped, Err(Outcome::Closed)));
        assert!(third.has_stopped());
    }
}

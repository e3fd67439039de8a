//! A client of the demo's own port: PostgreSQL's protocol, login and charges as for psql.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use futures::StreamExt;
use tokio::sync::mpsc;
use tokio_postgres::error::{DbError, ErrorPosition};
use tokio_postgres::{AsyncMessage, Client, Config, NoTls, SimpleQueryMessage};

use super::ANALYST;

/// One session of the demo's analyst.
#[derive(Debug)]
pub struct DemoSession {
    client: Client,
    notices: mpsc::UnboundedReceiver<String>,
}

/// The reply to one statement.
#[derive(Debug, Default)]
pub struct DemoReply {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<Option<String>>>,
    pub notices: Vec<String>,
}

/// An error as the proxy sent it.
#[derive(Debug)]
pub struct Refused {
    pub code: String,
    pub message: String,
    pub detail: Option<String>,
    pub hint: Option<String>,
    /// The character at which the statement is wrong, from 1.
    pub position: Option<u32>,
}

impl Refused {
    pub(super) fn new(message: &str) -> Self {
        Self {
            code: "08000".to_owned(),
            message: message.to_owned(),
            detail: None,
            hint: None,
            position: None,
        }
    }
}

impl From<tokio_postgres::Error> for Refused {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(db) = error.as_db_error() else {
            return Self::new(&error.to_string());
        };
        Self {
            code: db.code().code().to_owned(),
            message: db.message().to_owned(),
            detail: db.detail().map(str::to_owned),
            hint: db.hint().map(str::to_owned),
            position: db.position().and_then(|position| match position {
                ErrorPosition::Original(at) => Some(*at),
                ErrorPosition::Internal { .. } => None,
            }),
        }
    }
}

/// Where a client of this machine reaches a listener.
pub fn reachable(listening: SocketAddr) -> SocketAddr {
    let mut address = listening;
    match listening.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        IpAddr::V4(_) | IpAddr::V6(_) => {}
    }
    address
}

impl DemoSession {
    /// Logs in at the demo's port.
    ///
    /// # Errors
    /// The proxy's, for example that it stops.
    pub async fn open(
        listening: SocketAddr,
        database: &str,
        application: &str,
    ) -> Result<Self, Refused> {
        let address = reachable(listening);
        let mut config = Config::new();
        config
            .host(address.ip().to_string())
            .port(address.port())
            .dbname(database)
            .user(ANALYST)
            .password(ANALYST)
            .application_name(application);
        let (client, mut connection) = config.connect(NoTls).await?;
        let (sender, notices) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut messages =
                futures::stream::poll_fn(move |context| connection.poll_message(context));
            while let Some(Ok(message)) = messages.next().await {
                if let AsyncMessage::Notice(notice) = message
                    && sender.send(text(&notice)).is_err()
                {
                    return;
                }
            }
        });
        Ok(Self { client, notices })
    }

    /// Runs one or more statements, and calls `each` with the answer of each.
    ///
    /// # Errors
    /// The first error; statements before it were answered.
    pub async fn run(&mut self, sql: &str) -> Result<Vec<DemoReply>, (Vec<DemoReply>, Refused)> {
        let stream = self.client.simple_query_raw(sql).await;
        let mut replies = Vec::new();
        let stream = match stream {
            Ok(stream) => stream,
            Err(error) => return Err((replies, error.into())),
        };
        futures::pin_mut!(stream);
        let mut reply = DemoReply::default();
        while let Some(message) = stream.next().await {
            match message {
                Ok(SimpleQueryMessage::RowDescription(columns)) => {
                    reply.columns = columns.iter().map(|c| c.name().to_owned()).collect();
                }
                Ok(SimpleQueryMessage::Row(row)) => {
                    let value = |at| row.get(at).map(str::to_owned);
                    reply.rows.push((0..row.len()).map(value).collect());
                }
                Ok(SimpleQueryMessage::CommandComplete(_)) => {
                    reply.notices = self.heard();
                    replies.push(std::mem::take(&mut reply));
                }
                Ok(_) => {}
                Err(error) => return Err((replies, error.into())),
            }
        }
        Ok(replies)
    }

    /// Runs one statement.
    ///
    /// # Errors
    /// The proxy's.
    pub async fn ask(&mut self, sql: &str) -> Result<DemoReply, Refused> {
        let mut replies = self.run(sql).await.map_err(|(_, refused)| refused)?;
        Ok(replies.pop().unwrap_or_default())
    }

    /// The names and type names of a statement's columns. Free. Refuses more than one statement.
    ///
    /// # Errors
    /// The proxy's.
    pub async fn describe(&self, sql: &str) -> Result<Vec<(String, String)>, Refused> {
        let statement = self.client.prepare(sql).await?;
        let columns = statement.columns().iter();
        Ok(columns
            .map(|column| (column.name().to_owned(), column.type_().name().to_owned()))
            .collect())
    }

    /// The notices since the last answer.
    pub fn heard(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.notices.try_recv().ok()).collect()
    }
}

/// `NOTICE` or `WARNING`, and the message.
fn text(notice: &DbError) -> String {
    format!("{}:  {}", notice.severity(), notice.message())
}

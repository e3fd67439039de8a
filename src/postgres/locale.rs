//! A database's order and case folding of text.

use std::fmt;

use tokio_postgres::Client;

use super::literal;

/// How a database treats text without an explicit collation: its order, what is a letter, and upper
/// and lower case.
#[derive(Debug, Clone)]
pub struct Locale {
    provider: Provider,
    /// `LC_COLLATE` and `LC_CTYPE`, by which the C library reads text; every database has them,
    /// whatever its provider.
    collate: String,
    ctype: String,
}

/// The locale provider and the locale's name. Before PostgreSQL 15 only the C library is a
/// provider.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Provider {
    Libc,
    Icu {
        locale: String,
        rules: Option<String>,
    },
    Builtin {
        locale: String,
    },
}

impl Locale {
    /// The locale of the connected database.
    ///
    /// # Errors
    /// Those of the connection.
    pub async fn of(client: &Client) -> Result<Self, tokio_postgres::Error> {
        let row = client.query_one(SQL, &[]).await?;
        let provider = match (row.try_get(0)?, row.try_get(1)?) {
            (Some("i"), Some(locale)) => Provider::Icu {
                locale,
                rules: row.try_get(2)?,
            },
            (Some("b"), Some(locale)) => Provider::Builtin { locale },
            _ => Provider::Libc,
        };
        Ok(Self {
            provider,
            collate: row.try_get(3)?,
            ctype: row.try_get(4)?,
        })
    }

    /// The options of CREATE DATABASE.
    pub fn options(&self) -> String {
        let mut options = format!(
            "TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE {} LC_CTYPE {}",
            literal(&self.collate),
            literal(&self.ctype)
        );
        match &self.provider {
            Provider::Libc => {}
            Provider::Icu { locale, rules } => {
                options += &format!(" LOCALE_PROVIDER icu ICU_LOCALE {}", literal(locale));
                if let Some(rules) = rules {
                    options += &format!(" ICU_RULES {}", literal(rules));
                }
            }
            Provider::Builtin { locale } => {
                options += &format!(
                    " LOCALE_PROVIDER builtin BUILTIN_LOCALE {}",
                    literal(locale)
                )
            }
        }
        options
    }
}

/// The C library knows `en_US.utf8` as `en_US.UTF-8` too.
impl PartialEq for Locale {
    fn eq(&self, other: &Self) -> bool {
        let plain = |name: &str| name.to_ascii_lowercase().replace('-', "");
        self.provider == other.provider
            && plain(&self.collate) == plain(&other.collate)
            && plain(&self.ctype) == plain(&other.ctype)
    }
}

impl Eq for Locale {}

impl fmt::Display for Locale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.provider {
            Provider::Libc if self.collate == self.ctype => write!(f, "{}", self.collate),
            Provider::Libc => write!(f, "{} (letters of {})", self.collate, self.ctype),
            Provider::Icu {
                locale,
                rules: None,
            } => write!(f, "{locale} of ICU"),
            Provider::Icu {
                locale,
                rules: Some(_),
            } => write!(f, "{locale} of ICU with its own rules"),
            Provider::Builtin { locale } => write!(f, "{locale}, built in"),
        }
    }
}

/// Read through jsonb, because most of the columns came with later versions, one of them under two
/// names.
const SQL: &str = "
SELECT row ->> 'datlocprovider', coalesce(row ->> 'datlocale', row ->> 'daticulocale'), row ->> \
'daticurules', row ->> 'datcollate', row ->> 'datctype'
FROM (SELECT pg_catalog.to_jsonb(d) AS row FROM pg_catalog.pg_database d WHERE d.datname = \
pg_catalog.current_database()) AS here";

//! Who is logged in: random identifiers of which only a digest is kept, in memory alone; times
//! after which a session ends; tokens that make each form good for one use.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rand::TryRng;
use rand::rngs::SysRng;
use sha2::{Digest, Sha256};

use crate::policy::Operator;

/// Most sessions at the same time; one more ends the one that was idle longest.
const SESSIONS_MAX: usize = 32;
/// Forms of one session that are open at the same time; older ones are refused.
const TOKENS_MAX: usize = 64;

/// When sessions end by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetimes {
    /// Without a request.
    pub idle: Duration,
    /// At most.
    pub whole: Duration,
}

impl Default for Lifetimes {
    fn default() -> Self {
        Self {
            idle: Duration::from_secs(15 * 60),
            whole: Duration::from_secs(8 * 3600),
        }
    }
}

/// The digest of a session's identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionId([u8; 32]);

impl SessionId {
    fn of(secret: &str) -> Self {
        Self(Sha256::digest(secret).into())
    }
}

#[derive(Debug)]
struct Session {
    /// As the policy had the operator at the login: a change ends the session.
    operator: Operator,
    address: IpAddr,
    began: Instant,
    used: Instant,
    tokens: VecDeque<[u8; 32]>,
}

/// All sessions of a console.
#[derive(Debug)]
pub struct Sessions {
    lifetimes: Lifetimes,
    open: Mutex<HashMap<SessionId, Session>>,
}

impl Sessions {
    pub fn new(lifetimes: Lifetimes) -> Self {
        Self {
            lifetimes,
            open: Mutex::default(),
        }
    }

    /// Begins a session, and returns its identifier for the cookie; `None` without randomness.
    pub fn begin(&self, operator: Operator, address: IpAddr, now: Instant) -> Option<String> {
        let secret = random()?;
        let session = Session {
            operator,
            address,
            began: now,
            used: now,
            tokens: VecDeque::new(),
        };
        let mut open = self.living(now);
        if open.len() >= SESSIONS_MAX
            && let Some(idle) = open
                .iter()
                .min_by_key(|(_, session)| session.used)
                .map(|(id, _)| *id)
        {
            open.remove(&idle);
        }
        open.insert(SessionId::of(&secret), session);
        Some(secret)
    }

    /// The session of a cookie, if it lives and the operator is still as at the login; `touch`
    /// keeps it from becoming idle.
    pub fn find(
        &self,
        secret: &str,
        known: impl Fn(&str) -> Option<Operator>,
        touch: bool,
        now: Instant,
    ) -> Option<(SessionId, Operator, IpAddr)> {
        let id = SessionId::of(secret);
        let mut open = self.living(now);
        let session = open.get_mut(&id)?;
        if known(&session.operator.name).as_ref() != Some(&session.operator) {
            open.remove(&id);
            return None;
        }
        if touch {
            session.used = now;
        }
        Some((id, session.operator.clone(), session.address))
    }

    /// Whether a session lives and its operator is still as at the login.
    pub fn stands(
        &self,
        id: SessionId,
        known: impl Fn(&str) -> Option<Operator>,
        now: Instant,
    ) -> bool {
        let open = self.living(now);
        let session = open.get(&id);
        session.is_some_and(|s| known(&s.operator.name).as_ref() == Some(&s.operator))
    }

    pub fn end(&self, id: SessionId, now: Instant) {
        self.living(now).remove(&id);
    }

    /// A token for one form.
    pub fn token(&self, id: SessionId, now: Instant) -> Option<String> {
        let token = random()?;
        let mut open = self.living(now);
        let tokens = &mut open.get_mut(&id)?.tokens;
        if tokens.len() >= TOKENS_MAX {
            tokens.pop_front();
        }
        tokens.push_back(Sha256::digest(&token).into());
        Some(token)
    }

    /// Whether a form's token is one of this session's; it is good once.
    pub fn takes(&self, id: SessionId, token: &str, now: Instant) -> bool {
        let digest: [u8; 32] = Sha256::digest(token).into();
        let mut open = self.living(now);
        let Some(session) = open.get_mut(&id) else {
            return false;
        };
        let found = session.tokens.iter().position(|known| *known == digest);
        found.is_some_and(|at| session.tokens.remove(at).is_some())
    }

    /// How many live.
    pub fn count(&self, now: Instant) -> usize {
        self.living(now).len()
    }

    /// Those that live.
    fn living(&self, now: Instant) -> MutexGuard<'_, HashMap<SessionId, Session>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let Lifetimes { idle, whole } = self.lifetimes;
        open.retain(|_, session| {
            let since = |moment: Instant| now.saturating_duration_since(moment);
            since(session.used) < idle && since(session.began) < whole
        });
        open
    }
}

/// 256 random bits in hexadecimal.
fn random() -> Option<String> {
    let mut bytes = [0; 32];
    SysRng.try_fill_bytes(&mut bytes).ok()?;
    Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Certificate, Rights};

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn operator(verifier: &str) -> Operator {
        Operator {
            name: "olga".to_owned(),
            verifier: verifier.to_owned().into(),
            certificate: Certificate::Optional,
            rights: Rights::Own,
        }
    }

    fn minutes(count: u64) -> Duration {
        Duration::from_secs(60 * count)
    }

    #[test]
    fn sessions_end_when_idle_and_after_a_day_of_work() {
        let (sessions, start) = (Sessions::new(Lifetimes::default()), Instant::now());
        let known = |_: &str| Some(operator("a"));
        let secret = sessions.begin(operator("a"), HERE, start).unwrap();
        assert_eq!(secret.len(), 64);
        let mut now = start;
        while now < start + minutes(8 * 60 - 10) {
            now += minutes(10);
            assert!(sessions.find(&secret, known, true, now).is_some());
        }
        assert!(
            sessions
                .find(&secret, known, true, start + minutes(480))
                .is_none()
        );
        let idle = sessions.begin(operator("a"), HERE, start).unwrap();
        // A page that loads itself again keeps no session alive.
        assert!(
            sessions
                .find(&idle, known, false, start + minutes(14))
                .is_some()
        );
        assert!(
            sessions
                .find(&idle, known, true, start + minutes(15))
                .is_none()
        );
        assert_eq!(sessions.count(start + minutes(15)), 0);
    }

    #[test]
    fn another_password_or_right_ends_a_session() {
        let (sessions, now) = (Sessions::new(Lifetimes::default()), Instant::now());
        let watching = Operator {
            rights: Rights::Watch,
            ..operator("a")
        };
        for changed in [Some(operator("b")), Some(watching), None] {
            let secret = sessions.begin(operator("a"), HERE, now).unwrap();
            assert!(
                sessions
                    .find(&secret, |_| changed.clone(), true, now)
                    .is_none()
            );
            let begun = sessions.begin(operator("a"), HERE, now).unwrap();
            assert!(!sessions.stands(SessionId::of(&begun), |_| changed.clone(), now));
            assert!(sessions.stands(SessionId::of(&begun), |_| Some(operator("a")), now));
            // For good, also where the policy is changed back.
            assert!(
                sessions
                    .find(&secret, |_| Some(operator("a")), true, now)
                    .is_none()
            );
        }
        assert!(
            sessions
                .find("", |_| Some(operator("a")), true, now)
                .is_none()
        );
    }

    #[test]
    fn a_token_is_good_once_and_in_its_session() {
        let (sessions, now) = (Sessions::new(Lifetimes::default()), Instant::now());
        let begin = || {
            let secret = sessions.begin(operator("a"), HERE, now).unwrap();
            SessionId::of(&secret)
        };
        let (one, other) = (begin(), begin());
        let token = sessions.token(one, now).unwrap();
        assert!(!sessions.takes(other, &token, now));
        assert!(sessions.takes(one, &token, now));
        assert!(!sessions.takes(one, &token, now) && !sessions.takes(one, "", now));
        let first = sessions.token(one, now).unwrap();
        let later: Vec<String> = (0..TOKENS_MAX)
            .map(|_| sessions.token(one, now).unwrap())
            .collect();
        assert!(!sessions.takes(one, &first, now) && sessions.takes(one, &later[0], now));
        sessions.end(one, now);
        assert!(!sessions.takes(one, &later[1], now));
    }

    #[test]
    fn the_number_of_sessions_is_limited() {
        let (sessions, now) = (Sessions::new(Lifetimes::default()), Instant::now());
        let known = |_: &str| Some(operator("a"));
        let first = sessions.begin(operator("a"), HERE, now).unwrap();
        for later in 1..=SESSIONS_MAX as u64 {
            let now = now + Duration::from_secs(later);
            sessions.begin(operator("a"), HERE, now).unwrap();
        }
        assert_eq!(sessions.count(now), SESSIONS_MAX);
        assert!(sessions.find(&first, known, true, now).is_none());
    }
}

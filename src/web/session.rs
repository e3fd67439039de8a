//! Who is logged in: random identifiers of which only a digest is kept, in memory alone; times
//! after which a session ends; tokens that make each form good for one use.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rand::TryRng;
use rand::rngs::SysRng;
use sha2::{Digest, Sha256};

/// The owner of a session.
pub trait SessionOwner: Clone {
    fn name(&self) -> &str;
}

/// Forms of one session that are open at the same time; older ones are refused.
const TOKENS_MAX: usize = 64;

/// When sessions end by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetimes {
    /// After this time without a request.
    pub idle: Duration,
    /// After this time in any case.
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

/// A token of a form that was shown. The token itself is not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TokenDigest([u8; 32]);

impl TokenDigest {
    fn of(token: &str) -> Self {
        Self(Sha256::digest(token).into())
    }
}

#[derive(Debug)]
struct Session<V> {
    /// The visitor as at the login.
    visitor: V,
    address: IpAddr,
    began: Instant,
    used: Instant,
    tokens: VecDeque<TokenDigest>,
}

/// All sessions of a site.
#[derive(Debug)]
pub struct Sessions<V> {
    lifetimes: Lifetimes,
    /// Most sessions of one name; one more ends the one of that name that was idle longest.
    of_name: usize,
    open: Mutex<HashMap<SessionId, Session<V>>>,
}

impl<V: SessionOwner> Sessions<V> {
    pub fn new(lifetimes: Lifetimes, of_name: usize) -> Self {
        Self {
            lifetimes,
            of_name,
            open: Mutex::default(),
        }
    }

    /// Begins a session, and returns its identifier for the cookie; `None` without randomness.
    pub fn begin(&self, visitor: V, address: IpAddr, now: Instant) -> Option<String> {
        let secret = random()?;
        let mut open = self.living(now);
        let own = open
            .iter()
            .filter(|(_, session)| session.visitor.name() == visitor.name());
        if own.clone().count() >= self.of_name
            && let Some(idle) = own
                .min_by_key(|(_, session)| session.used)
                .map(|(id, _)| *id)
        {
            open.remove(&idle);
        }
        let session = Session {
            visitor,
            address,
            began: now,
            used: now,
            tokens: VecDeque::new(),
        };
        open.insert(SessionId::of(&secret), session);
        Some(secret)
    }

    /// Ends the session of this name that was idle longest, of those that may end. `false` where
    /// none may.
    pub fn end_idlest(&self, name: &str, may_end: impl Fn(&V) -> bool, now: Instant) -> bool {
        let mut open = self.living(now);
        let own = open
            .iter()
            .filter(|(_, session)| session.visitor.name() == name && may_end(&session.visitor));
        let idlest = own.min_by_key(|(_, session)| session.used);
        match idlest.map(|(id, _)| *id) {
            Some(id) => open.remove(&id).is_some(),
            None => false,
        }
    }

    /// How many of this name live.
    pub fn count_of(&self, name: &str, now: Instant) -> usize {
        let open = self.living(now);
        let own = open.values().filter(|one| one.visitor.name() == name);
        own.count()
    }

    /// Ends the session of a cookie, if it is of this name.
    pub fn end_own(&self, secret: &str, name: &str, now: Instant) {
        let id = SessionId::of(secret);
        let mut open = self.living(now);
        if open
            .get(&id)
            .is_some_and(|session| session.visitor.name() == name)
        {
            open.remove(&id);
        }
    }

    /// The session of a cookie, if it lives and its visitor is still as at the login; `touch` keeps
    /// it from becoming idle.
    pub fn find(
        &self,
        secret: &str,
        is_unchanged: impl Fn(&V) -> bool,
        touch: bool,
        now: Instant,
    ) -> Option<(SessionId, V, IpAddr)> {
        let id = SessionId::of(secret);
        let mut open = self.living(now);
        let session = open.get_mut(&id)?;
        if !is_unchanged(&session.visitor) {
            open.remove(&id);
            return None;
        }
        if touch {
            session.used = now;
        }
        Some((id, session.visitor.clone(), session.address))
    }

    /// Whether a session lives and its visitor is still as at the login.
    pub fn is_open(&self, id: SessionId, is_unchanged: impl Fn(&V) -> bool, now: Instant) -> bool {
        let open = self.living(now);
        open.get(&id)
            .is_some_and(|session| is_unchanged(&session.visitor))
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
        tokens.push_back(TokenDigest::of(&token));
        Some(token)
    }

    /// Whether a form's token is one of this session's; it is good once.
    pub fn takes(&self, id: SessionId, token: &str, now: Instant) -> bool {
        let digest = TokenDigest::of(token);
        let mut open = self.living(now);
        let Some(session) = open.get_mut(&id) else {
            return false;
        };
        let found = session.tokens.iter().position(|known| *known == digest);
        found.is_some_and(|at| session.tokens.remove(at).is_some())
    }

    /// Whether a token is one of this session's. It stays good.
    pub fn knows(&self, id: SessionId, token: &str, now: Instant) -> bool {
        let digest = TokenDigest::of(token);
        let open = self.living(now);
        open.get(&id)
            .is_some_and(|session| session.tokens.contains(&digest))
    }

    /// Ends sessions whose visitor is not as at the login, and those whose time is over.
    pub fn sweep(&self, is_unchanged: impl Fn(&V) -> bool, now: Instant) {
        self.living(now)
            .retain(|_, session| is_unchanged(&session.visitor));
    }

    /// How many live.
    pub fn count(&self, now: Instant) -> usize {
        self.living(now).len()
    }

    /// The sessions that live.
    fn living(&self, now: Instant) -> MutexGuard<'_, HashMap<SessionId, Session<V>>> {
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

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    const MOST: usize = 32;

    /// A name, and a password's verifier.
    #[derive(Debug, Clone, PartialEq)]
    struct Somebody(&'static str, &'static str);

    impl SessionOwner for Somebody {
        fn name(&self) -> &str {
            self.0
        }
    }

    const OLGA: Somebody = Somebody("olga", "a");

    fn is_olga(who: &Somebody) -> bool {
        *who == OLGA
    }

    fn sessions() -> Sessions<Somebody> {
        Sessions::new(Lifetimes::default(), MOST)
    }

    fn minutes(count: u64) -> Duration {
        Duration::from_secs(60 * count)
    }

    #[test]
    fn sessions_end_when_idle_and_after_a_day_of_work() {
        let (sessions, start) = (sessions(), Instant::now());
        let find = |secret: &str, touch, now| sessions.find(secret, is_olga, touch, now);
        let secret = sessions.begin(OLGA, HERE, start).unwrap();
        assert_eq!(secret.len(), 64);
        let mut now = start;
        while now < start + minutes(8 * 60 - 10) {
            now += minutes(10);
            assert!(find(&secret, true, now).is_some());
        }
        assert!(find(&secret, true, start + minutes(480)).is_none());
        let idle = sessions.begin(OLGA, HERE, start).unwrap();
        // A page that loads itself again keeps no session alive.
        assert!(find(&idle, false, start + minutes(14)).is_some());
        assert!(find(&idle, true, start + minutes(15)).is_none());
        assert_eq!(sessions.count(start + minutes(15)), 0);
    }

    #[test]
    fn another_password_or_right_ends_a_session() {
        let (sessions, now) = (sessions(), Instant::now());
        let secret = sessions.begin(OLGA, HERE, now).unwrap();
        let begun = sessions.begin(OLGA, HERE, now).unwrap();
        let is_other = |who: &Somebody| *who == Somebody("olga", "b");
        assert!(sessions.find(&secret, is_other, true, now).is_none());
        assert!(!sessions.is_open(SessionId::of(&begun), is_other, now));
        assert!(sessions.is_open(SessionId::of(&begun), is_olga, now));
        // For good, also where the policy is changed back.
        assert!(sessions.find(&secret, is_olga, true, now).is_none());
        assert!(sessions.find("", is_olga, true, now).is_none());
    }

    #[test]
    fn a_token_is_good_once_and_in_its_session() {
        let (sessions, now) = (sessions(), Instant::now());
        let begin = || SessionId::of(&sessions.begin(OLGA, HERE, now).unwrap());
        let (one, other) = (begin(), begin());
        let token = sessions.token(one, now).unwrap();
        assert!(!sessions.takes(other, &token, now) && !sessions.knows(other, &token, now));
        assert!(sessions.knows(one, &token, now) && sessions.knows(one, &token, now));
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
    fn the_idlest_session_of_a_name_ends_where_it_may() {
        let (sessions, now) = (sessions(), Instant::now());
        let later = now + Duration::from_secs(1);
        let first = sessions.begin(OLGA, HERE, now).unwrap();
        let second = sessions.begin(OLGA, HERE, later).unwrap();
        sessions.begin(Somebody("wim", "w"), HERE, now).unwrap();
        assert!(!sessions.end_idlest("olga", |_| false, later));
        assert_eq!(sessions.count_of("olga", later), 2);
        assert!(sessions.end_idlest("olga", |_| true, later));
        assert!(sessions.find(&first, is_olga, true, later).is_none());
        // A cookie ends its session for the same name alone.
        sessions.end_own(&second, "wim", later);
        assert_eq!(sessions.count_of("olga", later), 1);
        sessions.end_own(&second, "olga", later);
        assert_eq!(
            (sessions.count_of("olga", later), sessions.count(later)),
            (0, 1)
        );
        assert!(!sessions.end_idlest("olga", |_| true, later));
    }

    #[test]
    fn the_number_of_sessions_of_a_name_is_limited() {
        let (sessions, now) = (sessions(), Instant::now());
        let first = sessions.begin(OLGA, HERE, now).unwrap();
        let other = sessions.begin(Somebody("wim", "w"), HERE, now).unwrap();
        for later in 1..=MOST as u64 {
            let now = now + Duration::from_secs(later);
            sessions.begin(OLGA, HERE, now).unwrap();
        }
        assert_eq!(sessions.count(now), MOST + 1);
        assert!(sessions.find(&first, is_olga, true, now).is_none());
        // Nobody pushes out somebody else.
        assert!(sessions.find(&other, |_| true, true, now).is_some());
    }
}

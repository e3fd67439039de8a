//! The tables of a ledger in SQLite, format by format. A new format adds tables and columns and
//! never changes old ones.

/// The first format. Debits are only ever added, and no sum ever falls: the database itself refuses
/// otherwise.
const ACCOUNTS: &str = "
CREATE TABLE account (
  id INTEGER PRIMARY KEY,
  kind TEXT NOT NULL CHECK (kind IN ('owner', 'role')),
  name TEXT NOT NULL,
  accounting TEXT NOT NULL CHECK (accounting IN ('gdp', 'zcdp', 'pure')),
  threshold_share REAL NOT NULL,
  epsilon REAL NOT NULL,
  delta REAL NOT NULL,
  spent_epsilon BLOB CHECK (length(spent_epsilon) = 16),
  spent_rho BLOB NOT NULL CHECK (length(spent_rho) = 16),
  spent_mu_squared BLOB NOT NULL CHECK (length(spent_mu_squared) = 16),
  spent_delta BLOB NOT NULL CHECK (length(spent_delta) = 16),
  failures INTEGER NOT NULL CHECK (failures >= 0),
  UNIQUE (kind, name)
) STRICT;
CREATE UNIQUE INDEX account_owner ON account (kind) WHERE kind = 'owner';
CREATE TABLE debit (
  id INTEGER PRIMARY KEY,
  role INTEGER NOT NULL REFERENCES account (id),
  microseconds INTEGER NOT NULL,
  epsilon BLOB CHECK (length(epsilon) = 16),
  rho BLOB NOT NULL CHECK (length(rho) = 16),
  mu_squared BLOB NOT NULL CHECK (length(mu_squared) = 16),
  delta BLOB NOT NULL CHECK (length(delta) = 16),
  fingerprint BLOB NOT NULL CHECK (length(fingerprint) = 32)
) STRICT;
CREATE INDEX debit_role ON debit (role, id);
CREATE TRIGGER debit_update BEFORE UPDATE ON debit BEGIN SELECT RAISE(ABORT, 'a debit is never \
changed'); END;
CREATE TRIGGER debit_delete BEFORE DELETE ON debit BEGIN SELECT RAISE(ABORT, 'a debit is never \
removed'); END;
CREATE TRIGGER account_delete BEFORE DELETE ON account BEGIN SELECT RAISE(ABORT, 'an account is \
never removed'); END;
CREATE TRIGGER account_fixed BEFORE UPDATE OF id, kind, name, accounting, threshold_share ON account
  BEGIN SELECT RAISE(ABORT, 'the terms of an account are fixed'); END;
CREATE TRIGGER account_spent BEFORE UPDATE OF spent_epsilon, spent_rho, spent_mu_squared, \
spent_delta, failures ON account
  WHEN (OLD.spent_epsilon IS NULL AND NEW.spent_epsilon IS NOT NULL) OR NEW.spent_epsilon < \
  OLD.spent_epsilon OR NEW.spent_rho < OLD.spent_rho
    OR NEW.spent_mu_squared < OLD.spent_mu_squared OR NEW.spent_delta < OLD.spent_delta OR \
    NEW.failures < OLD.failures
  BEGIN SELECT RAISE(ABORT, 'what is spent never shrinks'); END;
";

/// Added by the second: an answer belongs to the question, a receipt says that a role paid for an
/// answer that was made for another role, and a holder may see the answer again.
const ANSWERS: &str = "
CREATE TABLE answer (
  id INTEGER PRIMARY KEY,
  question BLOB NOT NULL CHECK (length(question) = 32),
  accuracy REAL NOT NULL,
  microseconds INTEGER NOT NULL,
  epsilon BLOB CHECK (length(epsilon) = 16),
  rho BLOB NOT NULL CHECK (length(rho) = 16),
  mu_squared BLOB NOT NULL CHECK (length(mu_squared) = 16),
  delta BLOB NOT NULL CHECK (length(delta) = 16),
  released BLOB NOT NULL
) STRICT;
CREATE INDEX answer_question ON answer (question, accuracy);
CREATE TABLE holder (
  role INTEGER NOT NULL REFERENCES account (id),
  answer INTEGER NOT NULL REFERENCES answer (id),
  PRIMARY KEY (role, answer)
) STRICT;
CREATE TABLE receipt (
  id INTEGER PRIMARY KEY,
  role INTEGER NOT NULL REFERENCES account (id),
  microseconds INTEGER NOT NULL,
  epsilon BLOB CHECK (length(epsilon) = 16),
  rho BLOB NOT NULL CHECK (length(rho) = 16),
  mu_squared BLOB NOT NULL CHECK (length(mu_squared) = 16),
  delta BLOB NOT NULL CHECK (length(delta) = 16),
  fingerprint BLOB NOT NULL CHECK (length(fingerprint) = 32)
) STRICT;
CREATE INDEX receipt_role ON receipt (role, id);
CREATE TRIGGER answer_update BEFORE UPDATE ON answer BEGIN SELECT RAISE(ABORT, 'a released answer \
is never changed'); END;
CREATE TRIGGER receipt_update BEFORE UPDATE ON receipt BEGIN SELECT RAISE(ABORT, 'a receipt is \
never changed'); END;
CREATE TRIGGER receipt_delete BEFORE DELETE ON receipt BEGIN SELECT RAISE(ABORT, 'a receipt is \
never removed'); END;
";

/// Added by the third: a period is what a role's budget is counted over, and the last debit,
/// receipt and decision before it; a decision is the owner's; a claim says who is making an answer
/// just now; a statement is the record of one that was asked.
const PERIODS: &str = "
CREATE TABLE period (
  account INTEGER PRIMARY KEY REFERENCES account (id),
  renew TEXT NOT NULL CHECK (renew IN ('never', 'weekly', 'monthly')),
  start INTEGER NOT NULL,
  epsilon BLOB CHECK (length(epsilon) = 16),
  rho BLOB NOT NULL CHECK (length(rho) = 16),
  mu_squared BLOB NOT NULL CHECK (length(mu_squared) = 16),
  delta BLOB NOT NULL CHECK (length(delta) = 16),
  debits INTEGER NOT NULL,
  receipts INTEGER NOT NULL,
  decisions INTEGER NOT NULL
) STRICT;
CREATE TABLE decision (
  id INTEGER PRIMARY KEY,
  account INTEGER NOT NULL REFERENCES account (id),
  microseconds INTEGER NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('grant', 'freeze', 'unfreeze')),
  epsilon BLOB NOT NULL CHECK (length(epsilon) = 16),
  delta BLOB NOT NULL CHECK (length(delta) = 16),
  who TEXT NOT NULL,
  why TEXT NOT NULL
) STRICT;
CREATE INDEX decision_account ON decision (account, id);
CREATE TABLE claim (
  question BLOB PRIMARY KEY CHECK (length(question) = 32),
  holder BLOB NOT NULL CHECK (length(holder) = 16),
  until INTEGER NOT NULL
) STRICT;
CREATE TABLE statement (
  id INTEGER PRIMARY KEY,
  microseconds INTEGER NOT NULL,
  role TEXT NOT NULL,
  fingerprint BLOB NOT NULL CHECK (length(fingerprint) = 32),
  verdict TEXT NOT NULL,
  sqlstate TEXT NOT NULL,
  epsilon BLOB CHECK (length(epsilon) = 16),
  rho BLOB NOT NULL CHECK (length(rho) = 16),
  mu_squared BLOB NOT NULL CHECK (length(mu_squared) = 16),
  delta BLOB NOT NULL CHECK (length(delta) = 16)
) STRICT;
CREATE TRIGGER decision_update BEFORE UPDATE ON decision BEGIN SELECT RAISE(ABORT, 'a decision is \
never changed'); END;
CREATE TRIGGER decision_delete BEFORE DELETE ON decision BEGIN SELECT RAISE(ABORT, 'a decision is \
never removed'); END;
CREATE TRIGGER period_delete BEFORE DELETE ON period BEGIN SELECT RAISE(ABORT, 'a period is never \
removed'); END;
CREATE TRIGGER period_forward BEFORE UPDATE ON period
  WHEN NEW.account <> OLD.account OR NEW.start < OLD.start OR NEW.debits < OLD.debits OR \
  NEW.receipts < OLD.receipts OR NEW.decisions < OLD.decisions
    OR (NEW.start = OLD.start AND ((OLD.epsilon IS NULL AND NEW.epsilon IS NOT NULL) OR \
    NEW.epsilon \
    < OLD.epsilon OR NEW.rho < OLD.rho
      OR NEW.mu_squared < OLD.mu_squared OR NEW.delta < OLD.delta))
  BEGIN SELECT RAISE(ABORT, 'a period never goes back'); END;
";

/// Added by the fourth: answers of one family may be summed for each other's questions.
const FAMILIES: &str = "
CREATE TABLE family (
  answer INTEGER PRIMARY KEY REFERENCES answer (id),
  digest BLOB NOT NULL CHECK (length(digest) = 32)
) STRICT;
CREATE INDEX family_digest ON family (digest, answer);
CREATE TRIGGER family_update BEFORE UPDATE ON family BEGIN SELECT RAISE(ABORT, 'the family of an \
answer is never changed'); END;
";

/// Added by the fifth: a refusal by the owner's total closes a role's account to whatever is to be
/// paid. The owner opens it by raising the budget above the one recorded here, or by a decision
/// after the one recorded here.
const REFUSALS: &str = "
CREATE TABLE refusal (
  account INTEGER PRIMARY KEY REFERENCES account (id),
  microseconds INTEGER NOT NULL,
  epsilon BLOB NOT NULL CHECK (length(epsilon) = 16),
  delta BLOB NOT NULL CHECK (length(delta) = 16),
  decisions INTEGER NOT NULL
) STRICT;
CREATE TRIGGER refusal_delete BEFORE DELETE ON refusal BEGIN SELECT RAISE(ABORT, 'a refusal is \
never removed'); END;
CREATE TRIGGER refusal_forward BEFORE UPDATE ON refusal
  WHEN NEW.account <> OLD.account OR NEW.decisions < OLD.decisions
  BEGIN SELECT RAISE(ABORT, 'a refusal never goes back'); END;
";

/// Added by the sixth format: the identity that distinguishes a ledger from any other. Each
/// restoration adds a row.
const IDENTITY: &str = "
CREATE TABLE identity (
  id INTEGER PRIMARY KEY,
  birth BLOB NOT NULL CHECK (length(birth) = 16)
) STRICT;
CREATE TRIGGER identity_update BEFORE UPDATE ON identity BEGIN SELECT RAISE(ABORT, 'an identity is \
never changed'); END;
CREATE TRIGGER identity_delete BEFORE DELETE ON identity BEGIN SELECT RAISE(ABORT, 'an identity is \
never removed'); END;
INSERT INTO identity VALUES (1, randomblob(16));
";

/// Added by the seventh: the policies that were in force, and what each changed.
const POLICIES: &str = "
CREATE TABLE policy (
  id INTEGER PRIMARY KEY,
  microseconds INTEGER NOT NULL,
  digest BLOB NOT NULL CHECK (length(digest) = 32),
  change TEXT NOT NULL
) STRICT;
CREATE TRIGGER policy_update BEFORE UPDATE ON policy BEGIN SELECT RAISE(ABORT, 'the record of a \
policy is never changed'); END;
CREATE TRIGGER policy_delete BEFORE DELETE ON policy BEGIN SELECT RAISE(ABORT, 'the record of a \
policy is never removed'); END;
";

/// Added by the eighth: the record of statements, logins and acts, and the key of its digests.
/// Statements that were recorded before stay where they are. A proxy of an older format that still
/// runs goes on there; its records get numbers after those of the record.
const RECORDS: &str = "
CREATE TABLE record (
  id INTEGER PRIMARY KEY,
  microseconds INTEGER NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('statement', 'login', 'act')),
  name TEXT NOT NULL,
  session INTEGER NOT NULL,
  address TEXT,
  application TEXT NOT NULL,
  via TEXT NOT NULL,
  actor TEXT,
  verdict TEXT,
  sqlstate TEXT NOT NULL,
  statement BLOB CHECK (length(statement) = 32),
  plan BLOB CHECK (length(plan) = 32),
  detail TEXT NOT NULL,
  epsilon BLOB CHECK (length(epsilon) = 16),
  rho BLOB NOT NULL CHECK (length(rho) = 16),
  mu_squared BLOB NOT NULL CHECK (length(mu_squared) = 16),
  delta BLOB NOT NULL CHECK (length(delta) = 16)
) STRICT;
CREATE INDEX record_kind ON record (kind, id);
CREATE TABLE secret (
  id INTEGER PRIMARY KEY,
  key BLOB NOT NULL CHECK (length(key) = 32)
) STRICT;
CREATE TRIGGER record_update BEFORE UPDATE ON record BEGIN SELECT RAISE(ABORT, 'a record is never \
changed'); END;
CREATE TRIGGER record_delete BEFORE DELETE ON record WHEN OLD.kind = 'act'
  BEGIN SELECT RAISE(ABORT, 'the record of an act is never removed'); END;
CREATE TRIGGER secret_update BEFORE UPDATE ON secret BEGIN SELECT RAISE(ABORT, 'the key of digests \
is never changed'); END;
CREATE TRIGGER secret_delete BEFORE DELETE ON secret BEGIN SELECT RAISE(ABORT, 'the key of digests \
is never removed'); END;
CREATE TRIGGER statement_numbered AFTER INSERT ON statement
  WHEN NEW.id <= (SELECT max(id) FROM record)
  BEGIN UPDATE statement SET id = (SELECT max(id) + 1 FROM (SELECT max(id) AS id FROM record UNION \
  ALL SELECT max(id) FROM statement)) WHERE id = NEW.id; END;
INSERT INTO secret VALUES (1, randomblob(32));
";

/// Added by the ninth: a role's own statements are found without those of others.
const RECORDS_OF_ROLES: &str = "
CREATE INDEX record_of_role ON record (name, id) WHERE kind = 'statement' AND actor IS NULL;
";

/// Added by the tenth: debits by their names, of which some are counted; prepaid periods of a
/// question, who paid for them, and how far they are drawn. A draw is a debit too, of nothing where
/// the periods were paid for before: so the ledger's height has it.
const PREPAID: &str = "
CREATE TABLE prepaid (
  id INTEGER PRIMARY KEY,
  family BLOB NOT NULL UNIQUE CHECK (length(family) = 32),
  question BLOB NOT NULL CHECK (length(question) = 32),
  horizon INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  name TEXT NOT NULL,
  asked_epsilon REAL NOT NULL,
  asked_delta REAL NOT NULL,
  epsilon BLOB CHECK (length(epsilon) = 16),
  rho BLOB NOT NULL CHECK (length(rho) = 16),
  mu_squared BLOB NOT NULL CHECK (length(mu_squared) = 16),
  delta BLOB NOT NULL CHECK (length(delta) = 16),
  debit INTEGER NOT NULL UNIQUE REFERENCES debit (id)
) STRICT;
CREATE INDEX prepaid_question ON prepaid (question, horizon);
CREATE INDEX debit_name ON debit (role, fingerprint);
CREATE TABLE prepaid_holder (
  role INTEGER NOT NULL REFERENCES account (id),
  prepaid INTEGER NOT NULL REFERENCES prepaid (id),
  PRIMARY KEY (role, prepaid)
) STRICT;
CREATE TABLE prepaid_draw (
  prepaid INTEGER NOT NULL REFERENCES prepaid (id),
  first INTEGER NOT NULL,
  until INTEGER NOT NULL CHECK (until > first),
  debit INTEGER NOT NULL UNIQUE REFERENCES debit (id),
  PRIMARY KEY (prepaid, first)
) STRICT;
CREATE TRIGGER prepaid_update BEFORE UPDATE ON prepaid BEGIN SELECT RAISE(ABORT, 'what was prepaid \
is never changed'); END;
CREATE TRIGGER prepaid_delete BEFORE DELETE ON prepaid BEGIN SELECT RAISE(ABORT, 'what was prepaid \
is never removed'); END;
CREATE TRIGGER prepaid_draw_update BEFORE UPDATE ON prepaid_draw BEGIN SELECT RAISE(ABORT, 'a draw \
is never changed'); END;
CREATE TRIGGER prepaid_draw_delete BEFORE DELETE ON prepaid_draw BEGIN SELECT RAISE(ABORT, 'a draw \
is never removed'); END;
CREATE TRIGGER prepaid_draw_once BEFORE INSERT ON prepaid_draw
  WHEN NEW.first <> (SELECT coalesce(max(until), NEW.first) FROM prepaid_draw WHERE prepaid = \
  NEW.prepaid)
  BEGIN SELECT RAISE(ABORT, 'periods are drawn once, in their order'); END;
";

/// Accounts that were opened before there were periods have one that never ends.
const FIRST_PERIODS: &str = "
INSERT INTO period SELECT id, 'never', 0, spent_epsilon, spent_rho, spent_mu_squared, spent_delta, \
0, 0, 0 FROM account WHERE kind = 'role';
";

/// The newest format.
pub(super) const FORMAT: u32 = 10;

/// What each format added to the one before it: tables, and the rows that older accounts have in
/// them.
const STEPS: [(&str, &str); FORMAT as usize] = [
    (ACCOUNTS, ""),
    (ANSWERS, ""),
    (PERIODS, FIRST_PERIODS),
    (FAMILIES, ""),
    (REFUSALS, ""),
    (IDENTITY, ""),
    (POLICIES, ""),
    (RECORDS, ""),
    (RECORDS_OF_ROLES, ""),
    (PREPAID, ""),
];

/// Everything that a file of this format holds.
pub(super) fn of_format(format: u32) -> String {
    STEPS
        .iter()
        .take(format as usize)
        .map(|(tables, _)| *tables)
        .collect()
}

/// What brings a file of this format to the newest.
pub(super) fn since_format(format: u32) -> String {
    STEPS
        .iter()
        .skip(format as usize)
        .map(|(tables, rows)| format!("{tables}{rows}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use crate::ledger::record::STATEMENTS_OF_ROLE;

    /// However many statements other roles have.
    #[test]
    fn a_roles_statements_are_found_by_a_separate_index() {
        let connection = Connection::open_in_memory().unwrap();
        let schema = super::of_format(super::FORMAT);
        connection.execute_batch(&schema).unwrap();
        let explain = format!("EXPLAIN QUERY PLAN {STATEMENTS_OF_ROLE}");
        let mut plan = connection.prepare(&explain).unwrap();
        let read = plan.query_map(("ann", 100), |row| row.get::<_, String>(3));
        let lines: Vec<String> = read.unwrap().map(Result::unwrap).collect();
        assert_eq!(lines, ["SEARCH record USING INDEX record_of_role (name=?)"]);
    }
}

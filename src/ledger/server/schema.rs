//! The tables of a ledger in PostgreSQL, in their own schema.

/// The schema that holds a ledger.
pub(super) const NAME: &str = "pgveil_ledger";

/// What the tables of the schema take on disk.
pub(super) const BYTES: &str = "SELECT CAST(coalesce(sum(pg_total_relation_size(oid)), 0) AS \
    bigint) FROM pg_class WHERE relnamespace = 'pgveil_ledger'::regnamespace AND relkind = 'r'";

/// The newest format, in the numbers of the file's formats.
pub(super) const FORMAT: i64 = FIRST + STEPS.len() as i64;

/// The first format that a schema ever had.
const FIRST: i64 = 3;

/// What each later format added to the one before it, in the style of the first.
const STEPS: [&str; 7] = [
    FAMILIES,
    REFUSALS,
    IDENTITY,
    POLICIES,
    RECORDS,
    RECORDS_OF_ROLES,
    PREPAID,
];

/// Added by the fourth: answers of one family may be summed for each other's questions.
const FAMILIES: &str = "
CREATE TABLE family (
  answer bigint NOT NULL,
  digest bytea NOT NULL,
  PRIMARY KEY (answer),
  FOREIGN KEY (answer) REFERENCES answer (id),
  CHECK (length(digest) = 32)
);
CREATE INDEX family_digest ON family (digest, answer);
CREATE TRIGGER family_fixed BEFORE UPDATE ON family EXECUTE FUNCTION refuse('the family of an \
answer is never changed');
";

/// Added by the fifth: a refusal by the owner's total closes a role's account to whatever is to be
/// paid. The owner opens it by raising the budget above the one recorded here, or by a decision
/// after the one recorded here.
const REFUSALS: &str = "
CREATE TABLE refusal (
  account bigint NOT NULL,
  microseconds bigint NOT NULL,
  epsilon bytea NOT NULL,
  delta bytea NOT NULL,
  decisions bigint NOT NULL,
  PRIMARY KEY (account),
  FOREIGN KEY (account) REFERENCES account (id),
  CHECK (length(epsilon) = 16 AND length(delta) = 16)
);
CREATE TRIGGER refusal_kept BEFORE DELETE OR TRUNCATE ON refusal EXECUTE FUNCTION refuse('a \
refusal \
is never removed');
CREATE TRIGGER refusal_forward BEFORE UPDATE ON refusal FOR EACH ROW
  WHEN (NEW.account <> OLD.account OR NEW.decisions < OLD.decisions)
  EXECUTE FUNCTION refuse('a refusal never goes back');
";

/// Added by the sixth format: the identity that distinguishes a ledger from any other. Each
/// restoration adds a row.
const IDENTITY: &str = "
CREATE TABLE identity (
  id bigint NOT NULL,
  birth bytea NOT NULL,
  PRIMARY KEY (id),
  CHECK (length(birth) = 16)
);
CREATE TRIGGER identity_fixed BEFORE UPDATE OR DELETE OR TRUNCATE ON identity EXECUTE FUNCTION \
refuse('an identity is never changed');
INSERT INTO identity VALUES (1, uuid_send(gen_random_uuid()));
";

/// Added by the seventh: the policies that were in force, and what each changed.
const POLICIES: &str = "
CREATE TABLE policy (
  id bigint NOT NULL,
  microseconds bigint NOT NULL,
  digest bytea NOT NULL,
  change text NOT NULL,
  PRIMARY KEY (id),
  CHECK (length(digest) = 32)
);
CREATE TRIGGER policy_fixed BEFORE UPDATE OR DELETE OR TRUNCATE ON policy EXECUTE FUNCTION \
refuse('the record of a policy is never changed');
";

/// Added by the eighth: the record of statements, logins and acts, and the key of its digests.
/// Statements that were recorded before stay where they are. A proxy of an older format that still
/// runs goes on there; its records get numbers after those of the record.
const RECORDS: &str = "
CREATE TABLE record (
  id bigint NOT NULL,
  microseconds bigint NOT NULL,
  kind text NOT NULL,
  name text NOT NULL,
  session bigint NOT NULL,
  address text,
  application text NOT NULL,
  via text NOT NULL,
  actor text,
  verdict text,
  sqlstate text NOT NULL,
  statement bytea,
  plan bytea,
  detail text NOT NULL,
  epsilon bytea,
  rho bytea NOT NULL,
  mu_squared bytea NOT NULL,
  delta bytea NOT NULL,
  PRIMARY KEY (id),
  CHECK (kind IN ('statement', 'login', 'act')),
  CHECK (length(statement) = 32 AND length(plan) = 32 AND length(epsilon) = 16 AND length(rho) = \
  16 AND length(mu_squared) = 16 AND length(delta) = 16)
);
CREATE INDEX record_kind ON record (kind, id);
CREATE TABLE secret (
  id bigint NOT NULL,
  key bytea NOT NULL,
  PRIMARY KEY (id),
  CHECK (length(key) = 32)
);
CREATE TRIGGER record_fixed BEFORE UPDATE OR TRUNCATE ON record EXECUTE FUNCTION refuse('a record \
is never changed');
CREATE TRIGGER record_kept BEFORE DELETE ON record FOR EACH ROW WHEN (OLD.kind = 'act')
  EXECUTE FUNCTION refuse('the record of an act is never removed');
CREATE TRIGGER secret_fixed BEFORE UPDATE OR DELETE OR TRUNCATE ON secret EXECUTE FUNCTION \
refuse('the key of digests is never changed');
CREATE FUNCTION number_statement() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.id := \
greatest(NEW.id, (SELECT max(id) + 1 FROM record)); RETURN NEW; END $$;
CREATE TRIGGER statement_numbered BEFORE INSERT ON statement FOR EACH ROW EXECUTE FUNCTION \
number_statement();
INSERT INTO secret VALUES (1, uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));
";

/// Added by the ninth: a role's own statements are found without those of others.
const RECORDS_OF_ROLES: &str = "
CREATE INDEX record_of_role ON record (name, id) WHERE kind = 'statement' AND actor IS NULL;
";

/// Debits are only ever added, and no sum ever falls: the database itself refuses otherwise. One
/// line a column: they are compared with the catalog.
const TABLES: &str = "
CREATE TABLE format (
  id bigint NOT NULL,
  version bigint NOT NULL,
  PRIMARY KEY (id),
  CHECK (id = 1)
);
CREATE TABLE account (
  id bigint NOT NULL,
  kind text NOT NULL,
  name text NOT NULL,
  accounting text NOT NULL,
  threshold_share double precision NOT NULL,
  epsilon double precision NOT NULL,
  delta double precision NOT NULL,
  spent_epsilon bytea,
  spent_rho bytea NOT NULL,
  spent_mu_squared bytea NOT NULL,
  spent_delta bytea NOT NULL,
  failures bigint NOT NULL,
  PRIMARY KEY (id),
  UNIQUE (kind, name),
  CHECK (kind IN ('owner', 'role') AND accounting IN ('gdp', 'zcdp', 'pure') AND failures >= 0),
  CHECK (length(spent_epsilon) = 16 AND length(spent_rho) = 16 AND length(spent_mu_squared) = 16 \
  AND length(spent_delta) = 16)
);
CREATE UNIQUE INDEX account_owner ON account (kind) WHERE kind = 'owner';
CREATE TABLE debit (
  id bigint NOT NULL,
  role bigint NOT NULL,
  microseconds bigint NOT NULL,
  epsilon bytea,
  rho bytea NOT NULL,
  mu_squared bytea NOT NULL,
  delta bytea NOT NULL,
  fingerprint bytea NOT NULL,
  PRIMARY KEY (id),
  FOREIGN KEY (role) REFERENCES account (id),
  CHECK (length(epsilon) = 16 AND length(rho) = 16 AND length(mu_squared) = 16 AND length(delta) = \
  16 AND length(fingerprint) = 32)
);
CREATE INDEX debit_role ON debit (role, id);
CREATE TABLE answer (
  id bigint NOT NULL,
  question bytea NOT NULL,
  accuracy double precision NOT NULL,
  microseconds bigint NOT NULL,
  epsilon bytea,
  rho bytea NOT NULL,
  mu_squared bytea NOT NULL,
  delta bytea NOT NULL,
  released bytea NOT NULL,
  PRIMARY KEY (id),
  CHECK (length(question) = 32 AND length(epsilon) = 16 AND length(rho) = 16 AND \
  length(mu_squared) \
  = 16 AND length(delta) = 16)
);
CREATE INDEX answer_question ON answer (question, accuracy);
CREATE TABLE holder (
  role bigint NOT NULL,
  answer bigint NOT NULL,
  PRIMARY KEY (role, answer),
  FOREIGN KEY (role) REFERENCES account (id),
  FOREIGN KEY (answer) REFERENCES answer (id)
);
CREATE TABLE receipt (
  id bigint NOT NULL,
  role bigint NOT NULL,
  microseconds bigint NOT NULL,
  epsilon bytea,
  rho bytea NOT NULL,
  mu_squared bytea NOT NULL,
  delta bytea NOT NULL,
  fingerprint bytea NOT NULL,
  PRIMARY KEY (id),
  FOREIGN KEY (role) REFERENCES account (id),
  CHECK (length(epsilon) = 16 AND length(rho) = 16 AND length(mu_squared) = 16 AND length(delta) = \
  16 AND length(fingerprint) = 32)
);
CREATE INDEX receipt_role ON receipt (role, id);
CREATE TABLE period (
  account bigint NOT NULL,
  renew text NOT NULL,
  start bigint NOT NULL,
  epsilon bytea,
  rho bytea NOT NULL,
  mu_squared bytea NOT NULL,
  delta bytea NOT NULL,
  debits bigint NOT NULL,
  receipts bigint NOT NULL,
  decisions bigint NOT NULL,
  PRIMARY KEY (account),
  FOREIGN KEY (account) REFERENCES account (id),
  CHECK (renew IN ('never', 'weekly', 'monthly')),
  CHECK (length(epsilon) = 16 AND length(rho) = 16 AND length(mu_squared) = 16 AND length(delta) = \
  16)
);
CREATE TABLE decision (
  id bigint NOT NULL,
  account bigint NOT NULL,
  microseconds bigint NOT NULL,
  kind text NOT NULL,
  epsilon bytea NOT NULL,
  delta bytea NOT NULL,
  who text NOT NULL,
  why text NOT NULL,
  PRIMARY KEY (id),
  FOREIGN KEY (account) REFERENCES account (id),
  CHECK (kind IN ('grant', 'freeze', 'unfreeze') AND length(epsilon) = 16 AND length(delta) = 16)
);
CREATE INDEX decision_account ON decision (account, id);
CREATE TABLE claim (
  question bytea NOT NULL,
  holder bytea NOT NULL,
  until bigint NOT NULL,
  PRIMARY KEY (question),
  CHECK (length(question) = 32 AND length(holder) = 16)
);
CREATE TABLE statement (
  id bigint NOT NULL,
  microseconds bigint NOT NULL,
  role text NOT NULL,
  fingerprint bytea NOT NULL,
  verdict text NOT NULL,
  sqlstate text NOT NULL,
  epsilon bytea,
  rho bytea NOT NULL,
  mu_squared bytea NOT NULL,
  delta bytea NOT NULL,
  PRIMARY KEY (id),
  CHECK (length(fingerprint) = 32 AND length(epsilon) = 16 AND length(rho) = 16 AND \
  length(mu_squared) = 16 AND length(delta) = 16)
);
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION '%', \
TG_ARGV[0]; END $$;
CREATE TRIGGER debit_fixed BEFORE UPDATE OR DELETE OR TRUNCATE ON debit EXECUTE FUNCTION refuse('a \
debit is never changed');
CREATE TRIGGER receipt_fixed BEFORE UPDATE OR DELETE OR TRUNCATE ON receipt EXECUTE FUNCTION \
refuse('a receipt is never changed');
CREATE TRIGGER decision_fixed BEFORE UPDATE OR DELETE OR TRUNCATE ON decision EXECUTE FUNCTION \
refuse('a decision is never changed');
CREATE TRIGGER answer_fixed BEFORE UPDATE ON answer EXECUTE FUNCTION refuse('a released answer is \
never changed');
CREATE TRIGGER account_kept BEFORE DELETE OR TRUNCATE ON account EXECUTE FUNCTION refuse('an \
account is never removed');
CREATE TRIGGER period_kept BEFORE DELETE OR TRUNCATE ON period EXECUTE FUNCTION refuse('a period \
is \
never removed');
CREATE TRIGGER account_fixed BEFORE UPDATE OF id, kind, name, accounting, threshold_share ON account
  EXECUTE FUNCTION refuse('the terms of an account are fixed');
CREATE TRIGGER account_spent BEFORE UPDATE ON account FOR EACH ROW
  WHEN ((OLD.spent_epsilon IS NULL AND NEW.spent_epsilon IS NOT NULL) OR NEW.spent_epsilon < \
  OLD.spent_epsilon OR NEW.spent_rho < OLD.spent_rho
    OR NEW.spent_mu_squared < OLD.spent_mu_squared OR NEW.spent_delta < OLD.spent_delta OR \
    NEW.failures < OLD.failures)
  EXECUTE FUNCTION refuse('what is spent never shrinks');
CREATE TRIGGER period_forward BEFORE UPDATE ON period FOR EACH ROW
  WHEN (NEW.account <> OLD.account OR NEW.start < OLD.start OR NEW.debits < OLD.debits OR \
  NEW.receipts < OLD.receipts OR NEW.decisions < OLD.decisions
    OR (NEW.start = OLD.start AND ((OLD.epsilon IS NULL AND NEW.epsilon IS NOT NULL) OR \
    NEW.epsilon \
    < OLD.epsilon OR NEW.rho < OLD.rho
      OR NEW.mu_squared < OLD.mu_squared OR NEW.delta < OLD.delta)))
  EXECUTE FUNCTION refuse('a period never goes back');
INSERT INTO format VALUES (1, 3);
";

/// Added by the tenth: debits by their names, of which some are counted; prepaid periods of a
/// question, who paid for them, and how far they are drawn. A draw is a debit too, of nothing where
/// the periods were paid for before: so the ledger's height has it.
const PREPAID: &str = "
CREATE TABLE prepaid (
  id bigint NOT NULL,
  family bytea NOT NULL,
  question bytea NOT NULL,
  horizon bigint NOT NULL,
  generation bigint NOT NULL,
  name text NOT NULL,
  asked_epsilon double precision NOT NULL,
  asked_delta double precision NOT NULL,
  epsilon bytea,
  rho bytea NOT NULL,
  mu_squared bytea NOT NULL,
  delta bytea NOT NULL,
  debit bigint NOT NULL,
  PRIMARY KEY (id),
  UNIQUE (family),
  UNIQUE (debit),
  FOREIGN KEY (debit) REFERENCES debit (id),
  CHECK (length(family) = 32 AND length(question) = 32 AND length(epsilon) = 16 AND length(rho) = \
  16 AND length(mu_squared) = 16 AND length(delta) = 16)
);
CREATE INDEX prepaid_question ON prepaid (question, horizon);
CREATE INDEX debit_name ON debit (role, fingerprint);
CREATE TABLE prepaid_holder (
  role bigint NOT NULL,
  prepaid bigint NOT NULL,
  PRIMARY KEY (role, prepaid),
  FOREIGN KEY (role) REFERENCES account (id),
  FOREIGN KEY (prepaid) REFERENCES prepaid (id)
);
CREATE TABLE prepaid_draw (
  prepaid bigint NOT NULL,
  first bigint NOT NULL,
  until bigint NOT NULL,
  debit bigint NOT NULL,
  PRIMARY KEY (prepaid, first),
  UNIQUE (debit),
  FOREIGN KEY (prepaid) REFERENCES prepaid (id),
  FOREIGN KEY (debit) REFERENCES debit (id),
  CHECK (until > first)
);
CREATE TRIGGER prepaid_fixed BEFORE UPDATE OR DELETE OR TRUNCATE ON prepaid EXECUTE FUNCTION \
refuse('what was prepaid is never changed');
CREATE TRIGGER prepaid_draw_fixed BEFORE UPDATE OR DELETE OR TRUNCATE ON prepaid_draw EXECUTE \
FUNCTION refuse('a draw is never changed');
";

/// Everything that a new schema holds.
pub(super) fn whole() -> String {
    format!("{TABLES}{}", since(FIRST))
}

/// What brings a schema of this format to the newest.
pub(super) fn since(format: i64) -> String {
    let steps = usize::try_from(format - FIRST).unwrap_or_default();
    format!(
        "{}UPDATE format SET version = {FORMAT};",
        STEPS.iter().skip(steps).copied().collect::<String>()
    )
}

/// Whether a schema of this format can be brought to the newest.
pub(super) fn is_older(format: i64) -> bool {
    (FIRST..FORMAT).contains(&format)
}

/// What the catalog must say of the tables of a format: `table.column type [not null]`, and the
/// names of the guards, sorted.
pub(super) fn expected_catalog(format: i64) -> Vec<String> {
    let mut found = Vec::new();
    let mut table = "";
    let steps = usize::try_from(format - FIRST).unwrap_or_default();
    for line in TABLES
        .lines()
        .chain(STEPS.iter().take(steps).flat_map(|step| step.lines()))
    {
        if let Some(rest) = line.strip_prefix("CREATE TABLE ") {
            table = rest.trim_end_matches(" (");
        } else if let Some(rest) = line.strip_prefix("CREATE TRIGGER ") {
            found.push(format!(
                "trigger {}",
                rest.split(' ').next().unwrap_or_default()
            ));
        } else if let Some((name, rest)) = line
            .strip_prefix("  ")
            .and_then(|column| column.split_once(' '))
            && name.starts_with(|c: char| c.is_ascii_lowercase())
        {
            found.push(format!(
                "{table}.{name} {}",
                rest.trim_end_matches(',').to_ascii_lowercase()
            ));
        }
    }
    found.sort_unstable();
    found
}

/// The lines of the schema that the database has, from its catalog.
pub(super) const FOUND: &str = "
SELECT t.relname || '.' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod) || CASE WHEN \
a.attnotnull THEN ' not null' ELSE '' END
FROM pg_class AS t JOIN pg_attribute AS a ON a.attrelid = t.oid
WHERE t.relnamespace = 'pgveil_ledger'::regnamespace AND t.relkind IN ('r', 'p', 'v', 'm', 'f') \
AND \
a.attnum > 0 AND NOT a.attisdropped
UNION ALL
SELECT 'trigger ' || g.tgname FROM pg_trigger AS g JOIN pg_class AS t ON t.oid = g.tgrelid
WHERE t.relnamespace = 'pgveil_ledger'::regnamespace AND NOT g.tgisinternal AND g.tgenabled = 'O'
";

#[cfg(test)]
mod tests {
    #[test]
    fn columns_and_guards_are_listed() {
        let expected = super::expected_catalog(super::FORMAT);
        for line in [
            "account.spent_epsilon bytea",
            "debit.id bigint not null",
            "account.threshold_share double precision not null",
            "trigger account_spent",
        ] {
            assert!(
                expected.iter().any(|known| known == line),
                "{line}: {expected:#?}"
            );
        }
        assert_eq!(
            expected
                .iter()
                .filter(|line| line.starts_with("trigger"))
                .count(),
            20
        );
        assert_eq!(expected.len(), 144);
        assert_eq!(super::expected_catalog(super::FIRST).len(), 81);
    }
}

//! Errors of others, failures of pgveil itself, and messages that are no errors.

reasons! {
    POSTGRES_ERROR = "postgres-error", OF_POSTGRES, Other,
        "PostgreSQL refused the statement while it described it, or computed with released and \
            public values. The SQLSTATE and the words are PostgreSQL's.",
        "Do as PostgreSQL says.";
    INTERNAL_ERROR = "internal-error", INTERNAL_ERROR, Internal,
        "pgveil, the database or the shadow failed. The client learns an incident number only.",
        "Tell the operator, whose log has the cause under that number.";
    PUBLIC_ROWS_CHANGED = "public-rows-changed", WARNING, Other,
        "A warning: a public table has changed since pgveil loaded it. Groups, bounds and copied \
            rows are the old ones.",
        "Ask the data owner to reload the policy.";
    SMALL_GROUPS = "small-groups", WARNING, Other,
        "A warning: most groups have so few units that the noise hides them.",
        "Group by fewer keys, or spend more.";
    LOCK_NOT_HELD = "lock-not-held", WARNING, Other,
        "A warning: the session does not hold the advisory lock that it releases.",
        "Release a lock once for each time that it was taken.";
    NOTICE = "notice", SUCCESSFUL_COMPLETION, Other,
        "A notice about an answer: its cost, its error, or an assumption.",
        "`SET pgveil.notices = off` turns notices off.";
}

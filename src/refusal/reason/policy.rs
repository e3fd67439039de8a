//! The policy, the tables that it describes, and the roles that it has.

reasons! {
    PUBLIC_TABLE_TOO_LARGE = "public-table-too-large", FEATURE_NOT_SUPPORTED, Unsupported,
        "pgveil answers queries over public tables alone from a copy. This table has more rows \
            than the policy's `limits.mirror_rows`, so there is no copy.",
        "Join it to private rows, or ask the data owner to raise the limit.";
    TABLE_CHANGED = "table-changed", FEATURE_NOT_SUPPORTED, Unsupported,
        "The definition of the table has changed since the policy was checked. Nothing was \
            charged.",
        "Ask the data owner to reload the policy.";
    TABLE_LOCKED = "table-locked", LOCK_NOT_AVAILABLE, Other,
        "Another session of the database has locked the table. Nothing was charged.",
        "Try again later.";
    TOO_MANY_FAILURES = "too-many-failures", INSUFFICIENT_PRIVILEGE, Other,
        "Too many queries of this role have failed on the database. Each visible failure can \
            reveal a little, so they are counted and limited.",
        "Ask the data owner. The policy's `limits.failures` is the limit.";
    ROLE_REMOVED = "role-removed", INSUFFICIENT_PRIVILEGE, Other,
        "The policy was reloaded since the session began, and no longer has its role.",
        "Connect as a role that the policy has.";
    NO_ROLES = "no-roles", INSUFFICIENT_PRIVILEGE, Other,
        "`pgveil bounds` or `pgveil summarize` has no role to charge.",
        "Add a role to the policy.";
    UNSUPPORTED_SUMMARY = "unsupported-summary", FEATURE_NOT_SUPPORTED, Unsupported,
        "`pgveil summarize` cannot make this summary: its groups do not add up.",
        "Change the summary's keys, measures or epsilon in the policy.";
    UNSUPPORTED_SEARCH = "unsupported-search", FEATURE_NOT_SUPPORTED, Unsupported,
        "`pgveil bounds` cannot search the bounds of this column.",
        "Declare the bounds in the policy instead of `auto`.";
}

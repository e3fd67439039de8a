//! Limits on a statement's time, memory and rows.

reasons! {
    TOO_MANY_PARTS = "too-many-parts", STATEMENT_TOO_COMPLEX, Other,
        "The query has more tables, keys, aggregates, grouping sets or subqueries than pgveil \
            plans.",
        "Ask in several queries.";
    EXPRESSION_TOO_COMPLEX = "expression-too-complex", STATEMENT_TOO_COMPLEX, Other,
        "pgveil rewrites an expression over private rows so that no row makes it raise an error. \
            This one grows too large.",
        "Compute parts of it in a subquery in `FROM`, or simplify it.";
    PLANNING_TOO_LONG = "planning-too-long", STATEMENT_TOO_COMPLEX, Other,
        "pgveil takes too long to list the values of group keys, of `COUNT(DISTINCT …)` or of \
            `MODE()`.",
        "Simplify the keys, narrow their columns with `WHERE`, or use fewer of them.";
    TOO_MANY_GROUPS = "too-many-groups", PROGRAM_LIMIT_EXCEEDED, TooLarge,
        "The keys have more combinations of values than the policy's `limits.groups`.",
        "Group by fewer keys, or narrow them with `WHERE`.";
    TOO_MANY_PERIODS = "too-many-periods", PROGRAM_LIMIT_EXCEEDED, TooLarge,
        "The query would buy more periods than pgveil lists values of a key for, or more than a \
            clip can be chosen for. Groups of few units would then never be shown.",
        "Ask for a shorter range first, or group by a coarser key.";
    ANSWER_TOO_LARGE = "answer-too-large", PROGRAM_LIMIT_EXCEEDED, TooLarge,
        "The answer would have more numbers, rows or bytes than an answer may have.",
        "Group by fewer keys, use fewer aggregates, features or components, or add `LIMIT`.";
    ROW_TOO_SLOW = "row-too-slow", STATEMENT_TOO_COMPLEX, Other,
        "The query could take so long for one row, or one unit, that its time would reveal that \
            row or unit.",
        "Use fewer regular expressions and functions of long texts, join public rows by columns of \
            which few rows share a value, or ask in several queries.";
    OUT_OF_MEMORY = "out-of-memory", OUT_OF_MEMORY, TooLarge,
        "Sessions have too many rows that nobody has read, or too many prepared statements and \
            values. The ledger keeps the answers that were paid for.",
        "Read or close open cursors, portals and prepared statements, or ask for fewer rows.";
    SHADOW_MEMORY = "shadow-memory", PROGRAM_LIMIT_EXCEEDED, TooLarge,
        "The query over released and public rows needs more memory or disk than it may use.",
        "Ask for fewer rows, or sort and join less.";
    PARAMETERS_TOO_LONG = "parameters-too-long", PROGRAM_LIMIT_EXCEEDED, TooLarge,
        "The parameters are too long when written out as text. A numeric is written digit by \
            digit.",
        "Pass fewer of them, or numbers as double precision.";
    SESSION_TOO_LARGE = "session-too-large", PROGRAM_LIMIT_EXCEEDED, TooLarge,
        "The session has too many prepared statements, portals, cursors, savepoints or settings.",
        "Close those that are no longer needed, for example with `DEALLOCATE ALL`.";
    LOCK_TABLE_FULL = "lock-table-full", OUT_OF_MEMORY, TooLarge,
        "The session holds as many advisory locks as it may.",
        "Release some, for example with `pg_advisory_unlock_all()`.";
    STATEMENT_CANCELLED = "statement-cancelled", QUERY_CANCELED, Cancelled,
        "The client cancelled the statement, or `statement_timeout` passed. The charge stands.",
        "Repeat it: the ledger keeps the answers that were paid for and drawn.";
}

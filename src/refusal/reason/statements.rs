//! Statements that pgveil does not run, and the options of COPY and EXPLAIN.

reasons! {
    READ_ONLY = "read-only", INSUFFICIENT_PRIVILEGE, Other,
        "The statement would change data, schema or rights. pgveil only reads.",
        "Connect to the database itself to change anything.";
    ROW_LOCKS = "row-locks", INSUFFICIENT_PRIVILEGE, Other,
        "`FOR UPDATE` and `FOR SHARE` lock rows. pgveil only reads.",
        "Leave the clause out.";
    UNSUPPORTED_STATEMENT = "unsupported-statement", FEATURE_NOT_SUPPORTED, Unsupported,
        "PostgreSQL has this statement, or this option of it, but pgveil does not.",
        "pgveil answers `SELECT`, and runs the statements of a session that \
            [sql.md](sql.md#sessions) lists.";
    EXPLAIN_ANALYZE = "explain-analyze", INSUFFICIENT_PRIVILEGE, Other,
        "`EXPLAIN ANALYZE` would run the query and show exact numbers of rows.",
        "Use `EXPLAIN`: it shows the plan, the noise and the cost, and is free.";
    EXPLAIN_OPTION = "explain-option", SYNTAX_ERROR, Syntax,
        "`EXPLAIN` has no such option.",
        "Use `EXPLAIN` or `EXPLAIN (FORMAT JSON)`.";
    WRITE_FORM = "write-form", FEATURE_NOT_SUPPORTED, Unsupported,
        "pgveil reads each value that a role writes, and randomises it, before the database gets \
            it. So it takes constants and parameters alone, and no rows come back.",
        "`INSERT INTO table (column, …) VALUES (…), (…)`, or `COPY table (column, …) FROM STDIN`.";
    WRITE_NOT_GRANTED = "write-not-granted", INSUFFICIENT_PRIVILEGE, Other,
        "The policy does not let the role write this table.",
        "Ask the policy's owner for `writes:` of the role.";
    WRITE_COLUMNS = "write-columns", FEATURE_NOT_SUPPORTED, Unsupported,
        "A column with `local`, or the unit's column, is left out. Its default would be stored as \
            it is, and a memo needs the unit.",
        "Give a value for each of them.";
    WRITE_COHORT = "write-cohort", FEATURE_NOT_SUPPORTED, Unsupported,
        "A value is given for a column of cohorts. pgveil writes the cohort of each row's unit \
            itself: reports of another cohort would be decoded wrongly.",
        "Leave the column out of the list of columns.";
    WRITTEN_VALUE = "written-value", INVALID_PARAMETER_VALUE, Other,
        "The value is none of the column's list, or none of its type. The message does not repeat \
            it.",
        "Write a value of the list that `pgveil.columns` shows.";
    WRITTEN_NUMBER = "written-number", NUMERIC_VALUE_OUT_OF_RANGE, Other,
        "The number is outside the column's bounds. The message does not repeat it.",
        "Cut numbers at the bounds before you write them.";
    WRITE_ASKS_NOTHING = "write-asks-nothing", INSUFFICIENT_PRIVILEGE, Other,
        "The role has `budget: none`: it writes, and asks nothing about tables.",
        "Ask as a role that has a budget.";
    WRITE_FAILED = "write-failed", INTERNAL_ERROR, Other,
        "The database did not take the rows. Its own words may hold values, so they are not passed \
            on.",
        "Compare the values with the columns' types; the operator finds the SQLSTATE in the log.";
    WRITE_CLOSED = "write-closed", OBJECT_NOT_IN_PREREQUISITE_STATE, Other,
        "The database refused a row for other rows: a constraint was added since the start, or a \
            sequence is behind its column. Replies would show which rows are there, so the table \
            takes none.",
        "The owner finds the reason in pgveil's log, mends it and reloads the policy.";
    WRITE_CONNECTIONS = "write-connections", TOO_MANY_CONNECTIONS, Other,
        "All connections for writing are in use by transactions that are not over.",
        "Try again, and keep transactions short.";
    COPY_DATA = "copy-data", INVALID_TEXT_REPRESENTATION, Other,
        "A row of `COPY` has too many or too few values, or is not of the format.",
        "Send rows in the format that the statement names, with a value for each of its columns.";
    COPY_OF_TABLE = "copy-of-table", INSUFFICIENT_PRIVILEGE, Other,
        "`COPY table TO` would show the rows of a table.",
        "Copy an answer: `COPY (SELECT city, count(*) FROM people GROUP BY city) TO STDOUT`.";
    COPY_NOT_TO_CLIENT = "copy-not-to-client", INSUFFICIENT_PRIVILEGE, Other,
        "`COPY` would write a file or start a program on the server.",
        "Use `COPY (query) TO STDOUT`, or `\\copy` in psql.";
    COPY_OPTION_SYNTAX = "copy-option-syntax", SYNTAX_ERROR, Syntax,
        "An option of `COPY` is unknown, given twice, or contradicts another.",
        "Use the options that PostgreSQL has for `COPY TO`, each once.";
    COPY_OPTION_VALUE = "copy-option-value", INVALID_PARAMETER_VALUE, Other,
        "An option of `COPY` has a value that PostgreSQL refuses as well.",
        "Choose a value that does not clash with the format and the other options.";
    COPY_OPTION_UNSUPPORTED = "copy-option-unsupported", FEATURE_NOT_SUPPORTED, Unsupported,
        "An option of `COPY` does not go with this format or direction, as in PostgreSQL.",
        "Leave it out, or choose `FORMAT csv`.";
}

//! Transactions, savepoints, cursors, portals and prepared statements.

reasons! {
    TRANSACTION_IN_PROGRESS = "transaction-in-progress", ACTIVE_SQL_TRANSACTION, Other,
        "The statement cannot run inside a transaction block, or begins a second one.",
        "`COMMIT` or `ROLLBACK` first.";
    NO_TRANSACTION = "no-transaction", NO_ACTIVE_SQL_TRANSACTION, Other,
        "The statement needs a transaction block, and there is none.",
        "`BEGIN` first.";
    TRANSACTION_ABORTED = "transaction-aborted", IN_FAILED_SQL_TRANSACTION, Other,
        "An earlier statement of the transaction failed.",
        "`ROLLBACK`, or `ROLLBACK TO SAVEPOINT`.";
    UNKNOWN_SAVEPOINT = "unknown-savepoint", INVALID_SAVEPOINT, Other,
        "The transaction has no savepoint of this name.",
        "Set it with `SAVEPOINT` first.";
    UNKNOWN_CURSOR = "unknown-cursor", INVALID_CURSOR_NAME, Other,
        "No cursor or portal of this name is open.",
        "Declare it in the same transaction, or `WITH HOLD`.";
    DUPLICATE_CURSOR = "duplicate-cursor", DUPLICATE_CURSOR, Other,
        "A cursor or portal of this name is open.",
        "Close it, or choose another name.";
    CURSOR_OPTIONS = "cursor-options", INVALID_CURSOR_DEFINITION, Other,
        "The options of `DECLARE` contradict each other.",
        "Leave one of them out.";
    CURSOR_STATE = "cursor-state", OBJECT_NOT_IN_PREREQUISITE_STATE, Other,
        "The cursor was not declared for scanning backwards, or the portal has run already.",
        "Declare it with `SCROLL`, or bind the portal again.";
    UNKNOWN_PREPARED_STATEMENT = "unknown-prepared-statement", INVALID_SQL_STATEMENT_NAME, Other,
        "The session has no prepared statement of this name.",
        "Prepare it in the same session. A connection pool may have given you another one.";
    DUPLICATE_PREPARED_STATEMENT = "duplicate-prepared-statement",
        DUPLICATE_PREPARED_STATEMENT, Other,
        "The session has a prepared statement of this name.",
        "`DEALLOCATE` it, or choose another name.";
    PARAMETER_COUNT = "parameter-count", SYNTAX_ERROR, Syntax,
        "`EXECUTE` passes more or fewer values than the statement has parameters.",
        "Pass one value for each parameter.";
    CHANGED_RESULT_COLUMNS = "changed-result-columns", FEATURE_NOT_SUPPORTED, Unsupported,
        "The columns of a prepared statement changed since it was prepared.",
        "Prepare it again.";
}

//! Logging in, the protocol, and the end of a connection.

reasons! {
    PROTOCOL_VIOLATION = "protocol-violation", PROTOCOL_VIOLATION, Other,
        "The client broke PostgreSQL's protocol.",
        "Report it to the makers of the client.";
    UNSUPPORTED_PROTOCOL = "unsupported-protocol", FEATURE_NOT_SUPPORTED, Unsupported,
        "pgveil speaks versions 3.0 to 3.2 of PostgreSQL's protocol, without replication.",
        "Use a client for PostgreSQL 7.4 or later, and no replication connection.";
    LOGIN_REFUSED = "login-refused", INVALID_AUTHORIZATION, Other,
        "The client named no user, or its certificate is missing or made out to another name.",
        "Name the user, and show a certificate whose common name is that user.";
    WRONG_PASSWORD = "wrong-password", INVALID_PASSWORD, Other,
        "The password is wrong, or the policy has no such role. The answer is the same for both.",
        "Check both, or ask the data owner.";
    UNKNOWN_DATABASE = "unknown-database", INVALID_CATALOG_NAME, Other,
        "pgveil serves one database, and it has another name.",
        "Connect to the database that the data owner named.";
    TOO_MANY_CONNECTIONS = "too-many-connections", TOO_MANY_CONNECTIONS, Other,
        "The policy's limit on connections is reached: for all together, for the role, or for the \
            address.",
        "Close some, or wait.";
    SERVER_STOPS = "server-stops", ADMIN_SHUTDOWN, Other,
        "pgveil is stopping, because its operator asked for it.",
        "Connect again later.";
    SESSION_ENDED = "session-ended", ADMIN_SHUTDOWN, Other,
        "An operator ended the session. Charges stand.",
        "Connect again, or ask the operator.";
    OPERATOR_RIGHT = "operator-right", INSUFFICIENT_PRIVILEGE, Other,
        "The operator may not see or do this: some tables and FREEZE are for those who may `own`.",
        "Ask an operator who may, or the data owner.";
    OPERATOR_COMMAND = "operator-command", FEATURE_NOT_SUPPORTED, Unsupported,
        "The admin database answers commands of operators only, and no other database answers \
            them.",
        "`SHOW HELP` lists them. For questions, connect to the data's database as a role.";
    RELOAD_REFUSED = "reload-refused", CONFIG_FILE_ERROR, Other,
        "The policy file has an error, or changes a key that needs a restart. Nothing changed.",
        "Run `pgveil check` on the file.";
    UNKNOWN_SESSION = "unknown-session", UNDEFINED_OBJECT, Other,
        "No session has this number, or no role this name.",
        "`SHOW SESSIONS` and `SHOW ROLES` list them.";
    LEDGER_OUT_OF_REACH = "ledger-out-of-reach", IO_ERROR, Other,
        "pgveil cannot read or write the ledger. It does nothing that it cannot record.",
        "Read the log, and `/readyz`.";
    IDLE_SESSION = "idle-session", IDLE_SESSION_TIMEOUT, Other,
        "The session was idle for longer than `idle_session_timeout`.",
        "Connect again, or set the timeout to 0.";
    IDLE_TRANSACTION = "idle-transaction", IDLE_IN_TRANSACTION_SESSION_TIMEOUT, Other,
        "A transaction was idle for longer than `idle_in_transaction_session_timeout`.",
        "Connect again, and end transactions when they are done.";
    INVALID_BINARY_VALUE = "invalid-binary-value", INVALID_BINARY_REPRESENTATION, Other,
        "The binary form of a parameter is not one of its type.",
        "Declare the parameter's type as it is sent, or send text.";
    UNKNOWN_TYPE = "unknown-type", UNDEFINED_OBJECT, Other,
        "No type has this OID.",
        "Leave the type of the parameter to the server, or cast it in the query.";
}

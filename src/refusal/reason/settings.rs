//! SET, SHOW and the parameters of a session.

reasons! {
    UNKNOWN_SETTING = "unknown-setting", UNDEFINED_OBJECT, Other,
        "There is no such setting, or a session here cannot see it.",
        "`SHOW ALL` lists the settings; [sql.md](sql.md#settings) describes those of pgveil.";
    INVALID_SETTING = "invalid-setting", INVALID_PARAMETER_VALUE, Other,
        "The setting does not take this value.",
        "Use a value that the message, detail or hint names.";
    SETTING_CEILING = "setting-ceiling", INVALID_PARAMETER_VALUE, Other,
        "The data owner's policy sets the least and the most that the setting may be.",
        "Stay within it: `SELECT * FROM pgveil.budget` shows what a query may spend.";
    CHECK_TOLERANCE = "check-tolerance", INVALID_PARAMETER_VALUE, Other,
        "Under `pgveil.reuse = checked` a summary's answer is compared with the rows. \
            `pgveil.tolerance` says how far off it may be: it is missing, or smaller than the \
            comparison's own noise. Nothing was charged.",
        "Set the tolerance that the hint names. See [summaries.md](summaries.md#checked-answers).";
    SETTING_DENIED = "setting-denied", INSUFFICIENT_PRIVILEGE, Other,
        "A session keeps the role that logged in, because budgets belong to roles.",
        "Connect as the other role.";
    FIXED_SETTING = "fixed-setting", CANT_CHANGE_RUNTIME_PARAM, Other,
        "The setting describes the server and cannot be changed.",
        "Leave it as it is.";
}

//! SQLSTATE codes that pgveil raises itself, and the kind of refusal that each stands for.

use super::RefusalKind;

#[derive(Debug, Clone, Copy)]
pub struct SqlState {
    pub code: &'static str,
    pub(super) kind: RefusalKind,
}

const fn state(code: &'static str, kind: RefusalKind) -> SqlState {
    SqlState { code, kind }
}

const fn other(code: &'static str) -> SqlState {
    state(code, RefusalKind::Other)
}

pub const SUCCESSFUL_COMPLETION: SqlState = other("00000");
/// The code that PostgreSQL reported stands in its place.
pub const OF_POSTGRES: SqlState = other("");
pub const WARNING: SqlState = other("01000");
pub const CONNECTION_FAILURE: SqlState = other("08006");
pub const PROTOCOL_VIOLATION: SqlState = other("08P01");
pub const FEATURE_NOT_SUPPORTED: SqlState = state("0A000", RefusalKind::Unsupported);
pub const NUMERIC_VALUE_OUT_OF_RANGE: SqlState = other("22003");
pub const INVALID_DATETIME_FORMAT: SqlState = other("22007");
pub const SUBSTRING_ERROR: SqlState = other("22011");
pub const CHARACTER_NOT_IN_REPERTOIRE: SqlState = other("22021");
pub const INVALID_PARAMETER_VALUE: SqlState = other("22023");
pub const INVALID_ESCAPE_SEQUENCE: SqlState = other("22025");
pub const INVALID_TEXT_REPRESENTATION: SqlState = other("22P02");
pub const INVALID_BINARY_REPRESENTATION: SqlState = other("22P03");
pub const ACTIVE_SQL_TRANSACTION: SqlState = other("25001");
pub const NO_ACTIVE_SQL_TRANSACTION: SqlState = other("25P01");
pub const IN_FAILED_SQL_TRANSACTION: SqlState = other("25P02");
pub const IDLE_IN_TRANSACTION_SESSION_TIMEOUT: SqlState = other("25P03");
pub const INVALID_SQL_STATEMENT_NAME: SqlState = other("26000");
pub const INVALID_AUTHORIZATION: SqlState = other("28000");
pub const INVALID_PASSWORD: SqlState = other("28P01");
pub const INVALID_CURSOR_NAME: SqlState = other("34000");
pub const INVALID_SAVEPOINT: SqlState = other("3B001");
pub const INVALID_CATALOG_NAME: SqlState = other("3D000");
pub const INSUFFICIENT_PRIVILEGE: SqlState = other("42501");
/// [`INSUFFICIENT_PRIVILEGE`], for rows of a private table.
pub const PRIVATE_ROWS: SqlState = state("42501", RefusalKind::PrivateRows);
pub const SYNTAX_ERROR: SqlState = state("42601", RefusalKind::Syntax);
pub const NAME_TOO_LONG: SqlState = other("42622");
pub const DUPLICATE_COLUMN: SqlState = other("42701");
pub const AMBIGUOUS_COLUMN: SqlState = other("42702");
pub const UNDEFINED_COLUMN: SqlState = state("42703", RefusalKind::UnknownName);
pub const UNDEFINED_OBJECT: SqlState = other("42704");
pub const DUPLICATE_ALIAS: SqlState = other("42712");
pub const GROUPING_ERROR: SqlState = state("42803", RefusalKind::Grouping);
pub const DATATYPE_MISMATCH: SqlState = other("42804");
pub const UNDEFINED_FUNCTION: SqlState = other("42883");
pub const RESERVED_NAME: SqlState = other("42939");
pub const UNDEFINED_TABLE: SqlState = state("42P01", RefusalKind::UnknownName);
pub const UNDEFINED_PARAMETER: SqlState = other("42P02");
pub const DUPLICATE_CURSOR: SqlState = other("42P03");
pub const DUPLICATE_PREPARED_STATEMENT: SqlState = other("42P05");
pub const INVALID_COLUMN_REFERENCE: SqlState = other("42P10");
pub const INVALID_CURSOR_DEFINITION: SqlState = other("42P11");
pub const WINDOWING_ERROR: SqlState = other("42P20");
pub const OUT_OF_MEMORY: SqlState = state("53200", RefusalKind::TooLarge);
pub const TOO_MANY_CONNECTIONS: SqlState = other("53300");
pub const CONFIGURATION_LIMIT_EXCEEDED: SqlState = state("53400", RefusalKind::Exhausted);
pub const PROGRAM_LIMIT_EXCEEDED: SqlState = state("54000", RefusalKind::TooLarge);
pub const STATEMENT_TOO_COMPLEX: SqlState = other("54001");
pub const TOO_MANY_ARGUMENTS: SqlState = other("54023");
pub const OBJECT_NOT_IN_PREREQUISITE_STATE: SqlState = other("55000");
pub const CANT_CHANGE_RUNTIME_PARAM: SqlState = other("55P02");
pub const LOCK_NOT_AVAILABLE: SqlState = other("55P03");
pub const QUERY_CANCELED: SqlState = state("57014", RefusalKind::Cancelled);
pub const ADMIN_SHUTDOWN: SqlState = other("57P01");
pub const CANNOT_CONNECT_NOW: SqlState = other("57P03");
pub const IDLE_SESSION_TIMEOUT: SqlState = other("57P05");
pub const IO_ERROR: SqlState = other("58030");
pub const CONFIG_FILE_ERROR: SqlState = other("F0000");
/// pgveil's own: the noise would hide every possible answer.
pub const USELESS_QUESTION: SqlState = other("PV001");
/// pgveil's own: a noisy look saw too few units to choose a clip, or to show a group.
pub const TOO_FEW_UNITS: SqlState = other("PV002");
pub const INTERNAL_ERROR: SqlState = state("XX000", RefusalKind::Internal);

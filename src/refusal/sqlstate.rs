//! SQLSTATE codes that pgveil raises itself.

#[derive(Debug, Clone, Copy)]
pub struct SqlState {
    pub code: &'static str,
}

const fn state(code: &'static str) -> SqlState {
    SqlState { code }
}

pub const SUCCESSFUL_COMPLETION: SqlState = state("00000");
/// The code that PostgreSQL reported stands in its place.
pub const OF_POSTGRES: SqlState = state("");
pub const WARNING: SqlState = state("01000");
pub const CONNECTION_FAILURE: SqlState = state("08006");
pub const PROTOCOL_VIOLATION: SqlState = state("08P01");
pub const FEATURE_NOT_SUPPORTED: SqlState = state("0A000");
pub const NUMERIC_VALUE_OUT_OF_RANGE: SqlState = state("22003");
pub const INVALID_DATETIME_FORMAT: SqlState = state("22007");
pub const SUBSTRING_ERROR: SqlState = state("22011");
pub const CHARACTER_NOT_IN_REPERTOIRE: SqlState = state("22021");
pub const INVALID_PARAMETER_VALUE: SqlState = state("22023");
pub const INVALID_ESCAPE_SEQUENCE: SqlState = state("22025");
pub const INVALID_TEXT_REPRESENTATION: SqlState = state("22P02");
pub const INVALID_BINARY_REPRESENTATION: SqlState = state("22P03");
pub const ACTIVE_SQL_TRANSACTION: SqlState = state("25001");
pub const NO_ACTIVE_SQL_TRANSACTION: SqlState = state("25P01");
pub const IN_FAILED_SQL_TRANSACTION: SqlState = state("25P02");
pub const IDLE_IN_TRANSACTION_SESSION_TIMEOUT: SqlState = state("25P03");
pub const INVALID_SQL_STATEMENT_NAME: SqlState = state("26000");
pub const INVALID_AUTHORIZATION: SqlState = state("28000");
pub const INVALID_PASSWORD: SqlState = state("28P01");
pub const INVALID_CURSOR_NAME: SqlState = state("34000");
pub const INVALID_SAVEPOINT: SqlState = state("3B001");
pub const INVALID_CATALOG_NAME: SqlState = state("3D000");
pub const INSUFFICIENT_PRIVILEGE: SqlState = state("42501");
pub const SYNTAX_ERROR: SqlState = state("42601");
pub const NAME_TOO_LONG: SqlState = state("42622");
pub const DUPLICATE_COLUMN: SqlState = state("42701");
pub const AMBIGUOUS_COLUMN: SqlState = state("42702");
pub const UNDEFINED_COLUMN: SqlState = state("42703");
pub const UNDEFINED_OBJECT: SqlState = state("42704");
pub const DUPLICATE_ALIAS: SqlState = state("42712");
pub const GROUPING_ERROR: SqlState = state("42803");
pub const DATATYPE_MISMATCH: SqlState = state("42804");
pub const UNDEFINED_FUNCTION: SqlState = state("42883");
pub const RESERVED_NAME: SqlState = state("42939");
pub const UNDEFINED_TABLE: SqlState = state("42P01");
pub const UNDEFINED_PARAMETER: SqlState = state("42P02");
pub const DUPLICATE_CURSOR: SqlState = state("42P03");
pub const DUPLICATE_PREPARED_STATEMENT: SqlState = state("42P05");
pub const INVALID_COLUMN_REFERENCE: SqlState = state("42P10");
pub const INVALID_CURSOR_DEFINITION: SqlState = state("42P11");
pub const WINDOWING_ERROR: SqlState = state("42P20");
pub const OUT_OF_MEMORY: SqlState = state("53200");
pub const TOO_MANY_CONNECTIONS: SqlState = state("53300");
pub const CONFIGURATION_LIMIT_EXCEEDED: SqlState = state("53400");
pub const PROGRAM_LIMIT_EXCEEDED: SqlState = state("54000");
pub const STATEMENT_TOO_COMPLEX: SqlState = state("54001");
pub const TOO_MANY_ARGUMENTS: SqlState = state("54023");
pub const OBJECT_NOT_IN_PREREQUISITE_STATE: SqlState = state("55000");
pub const CANT_CHANGE_RUNTIME_PARAM: SqlState = state("55P02");
pub const LOCK_NOT_AVAILABLE: SqlState = state("55P03");
pub const QUERY_CANCELED: SqlState = state("57014");
pub const ADMIN_SHUTDOWN: SqlState = state("57P01");
pub const CANNOT_CONNECT_NOW: SqlState = state("57P03");
pub const IDLE_SESSION_TIMEOUT: SqlState = state("57P05");
pub const IO_ERROR: SqlState = state("58030");
pub const CONFIG_FILE_ERROR: SqlState = state("F0000");
/// pgveil's own: the noise would hide every possible answer.
pub const USELESS_QUESTION: SqlState = state("PV001");
/// pgveil's own: a noisy look saw too few units to choose a clip, or to show a group.
pub const TOO_FEW_UNITS: SqlState = state("PV002");
pub const INTERNAL_ERROR: SqlState = state("XX000");

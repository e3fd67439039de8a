//! Window functions over private rows.

reasons! {
    WINDOW_ACROSS_UNITS = "window-across-units", FEATURE_NOT_SUPPORTED, Unsupported,
        "A window that spans several units would let one unit change the values of others.",
        "Add `PARTITION BY` with the column that identifies the unit, or aggregate first and \
            apply the window to the result.";
    UNSUPPORTED_WINDOW = "unsupported-window", FEATURE_NOT_SUPPORTED, Unsupported,
        "pgveil does not answer this window function, frame or order over private rows.",
        "Use `ROWS` frames with constant offsets, order by columns, and aggregates or functions \
            such as `row_number()`, `rank()`, `lag()` and `lead()`.";
    UNKNOWN_WINDOW = "unknown-window", UNDEFINED_OBJECT, Other,
        "No window of this name is in the `WINDOW` clause.",
        "Define it, or write the window out in `OVER (…)`.";
    INVALID_WINDOW = "invalid-window", WINDOWING_ERROR, Other,
        "PostgreSQL refuses the definition of the window as well.",
        "Check the bounds of the frame, and what this window inherits from another one.";
}

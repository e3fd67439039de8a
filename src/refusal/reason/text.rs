//! The text of a statement, before its names are resolved.

reasons! {
    SYNTAX_ERROR = "syntax-error", SYNTAX_ERROR, Syntax,
        "PostgreSQL's grammar does not accept the text.",
        "Correct the text at the position that is reported.";
    UNSUPPORTED_SPELLING = "unsupported-spelling", FEATURE_NOT_SUPPORTED, Unsupported,
        "PostgreSQL would read the text, but pgveil cannot be sure that it reads the text in the \
            same way.",
        "Use the plain spelling: `AS` before an alias, parentheses around a prefix operator as in \
            `(@ x) + 1`, a space before a comment, characters instead of Unicode escapes.";
    INVALID_ENCODING = "invalid-encoding", CHARACTER_NOT_IN_REPERTOIRE, Other,
        "The text is not UTF-8, or has a zero byte or the replacement character U+FFFD.",
        "Send UTF-8.";
    STATEMENT_TOO_LONG = "statement-too-long", STATEMENT_TOO_COMPLEX, Other,
        "The text has more bytes, words or statements than pgveil reads.",
        "Send several texts, or pass long lists as parameters.";
    NESTED_TOO_DEEPLY = "nested-too-deeply", STATEMENT_TOO_COMPLEX, Other,
        "Parentheses, subqueries or prefix operators are nested more deeply than pgveil reads.",
        "Name the inner parts in `WITH`, or write them as derived tables.";
    STATEMENT_TOO_COMPLEX = "statement-too-complex", STATEMENT_TOO_COMPLEX, Other,
        "Too many operators follow one another, or `IN`, `BETWEEN` and `CASE` are nested so that \
            their operands would be computed too often.",
        "Compute the inner part in a subquery in `FROM`, and use its column.";
    COLUMN_COUNT = "column-count", SYNTAX_ERROR, Syntax,
        "Two lists that belong together differ in length: the columns of a subquery and those that \
            it is compared with, the branches of a `UNION`, or the fields of two row values.",
        "Give both the same number of columns. A subquery that stands for a value has one column.";
}

//! GROUP BY, its keys, and the collations that decide which texts are one group.

reasons! {
    UNGROUPED_COLUMN = "ungrouped-column", GROUPING_ERROR, Grouping,
        "A column is neither a key of `GROUP BY` nor inside an aggregate.",
        "Add it to `GROUP BY`, or aggregate it.";
    MISPLACED_AGGREGATE = "misplaced-aggregate", GROUPING_ERROR, Grouping,
        "An aggregate stands where PostgreSQL has no groups yet: in `WHERE`, `GROUP BY`, `FILTER`, \
            or inside another aggregate.",
        "Use `HAVING`, or aggregate in a subquery first.";
    GROUPING_ARGUMENTS = "grouping-arguments", GROUPING_ERROR, Grouping,
        "`GROUPING()` takes keys of `GROUP BY` only.",
        "Write the keys as in `GROUP BY`.";
    TOO_MANY_GROUPING_ARGUMENTS = "too-many-grouping-arguments", TOO_MANY_ARGUMENTS, Other,
        "`GROUPING()` takes at most 31 keys.",
        "Call it several times, each with some of the keys.";
    UNSUPPORTED_GROUPING = "unsupported-grouping", FEATURE_NOT_SUPPORTED, Unsupported,
        "pgveil does not answer this form of `GROUP BY` here.",
        "Group by columns and expressions. `GROUPING SETS`, `ROLLUP` and `CUBE` do not work in \
            subqueries whose groups have rows of one unit each.";
    GROUP_KEY_TYPE = "group-key-type", FEATURE_NOT_SUPPORTED, Unsupported,
        "Values of this type cannot be keys of groups.",
        "Cast the key to text, or group by another column.";
    GROUP_KEY_NOT_DECLARED = "group-key-not-declared", FEATURE_NOT_SUPPORTED, Unsupported,
        "`pgveil.keys` is `domain`, or accounting is pure, so the values of group keys must be \
            known without the data. Those of this key are not.",
        "`SET pgveil.keys = auto` shows the groups that have enough units. Under pure accounting, \
            ask the data owner to declare the column's values.";
    NONDETERMINISTIC_COLLATION = "nondeterministic-collation", FEATURE_NOT_SUPPORTED, Unsupported,
        "Under the column's collation different texts are equal, so which of them is shown would \
            depend on the rows.",
        "Compare the column with `=` or `IN`, and group by another.";
    MIXED_COLLATIONS = "mixed-collations", FEATURE_NOT_SUPPORTED, Unsupported,
        "Texts of different collations are compared, and the statement does not say which \
            collation to use.",
        "Name the collation of each, as in `ORDER BY x COLLATE \"C\"`, or use columns of one \
            collation.";
    UNSUPPORTED_COLLATION = "unsupported-collation", FEATURE_NOT_SUPPORTED, Unsupported,
        "The collation is not built into PostgreSQL, so the order that pgveil finds could differ \
            from the database's.",
        "Name a built-in collation, as in `ORDER BY x COLLATE \"C\"`.";
}

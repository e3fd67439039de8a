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
        "Write the keys as they are in `GROUP BY`.";
    TOO_MANY_GROUPING_ARGUMENTS = "too-many-grouping-arguments", TOO_MANY_ARGUMENTS, Other,
        "`GROUPING()` takes at most 31 keys.",
        "Call it once for each few keys.";
    UNSUPPORTED_GROUPING = "unsupported-grouping", FEATURE_NOT_SUPPORTED, Unsupported,
        "This form of `GROUP BY` is not answered here.",
        "Group by columns and expressions. `GROUPING SETS`, `ROLLUP` and `CUBE` are answered \
            outside of subqueries whose groups lie within one unit.";
    GROUP_KEY_TYPE = "group-key-type", FEATURE_NOT_SUPPORTED, Unsupported,
        "Values of this type cannot be keys of groups.",
        "Cast the key to text, or group by another column.";
    GROUP_KEY_NOT_DECLARED = "group-key-not-declared", FEATURE_NOT_SUPPORTED, Unsupported,
        "The groups must be known without the data, since `pgveil.keys` is `domain` or accounting \
            is pure, and the policy does not list the values of this key.",
        "`SET pgveil.keys = auto` shows the groups that have enough units. Under pure accounting, \
            ask the data owner to declare the column's values.";
    NONDETERMINISTIC_COLLATION = "nondeterministic-collation", FEATURE_NOT_SUPPORTED, Unsupported,
        "Under the column's collation different texts are equal, so which of them is shown would \
            depend on the rows.",
        "Compare the column with `=` or `IN`, and group by another.";
    MIXED_COLLATIONS = "mixed-collations", FEATURE_NOT_SUPPORTED, Unsupported,
        "Texts of different collations meet, and nothing says by which they are compared.",
        "Name the collation of each, as in `ORDER BY x COLLATE \"C\"`, or use columns of one \
            collation.";
    UNSUPPORTED_COLLATION = "unsupported-collation", FEATURE_NOT_SUPPORTED, Unsupported,
        "The collation is not built into PostgreSQL, so the order that pgveil finds could differ \
            from the database's.",
        "Name a built-in collation, as in `ORDER BY x COLLATE \"C\"`.";
}

//! Joins, subqueries, derived tables and unions.

reasons! {
    JOIN_NOT_BY_UNIT = "join-not-by-unit", FEATURE_NOT_SUPPORTED, Unsupported,
        "A joined row would have data of two units, but bounds are for one unit.",
        "Join on the column that identifies the unit, or along the foreign key that leads to it.";
    PUBLIC_OUTER_JOIN = "public-outer-join", FEATURE_NOT_SUPPORTED, Unsupported,
        "An outer join keeps every row of a public table, also rows without a private row. The \
            resulting groups are not known without the data.",
        "Write the private table on the side that is kept, or use an inner join.";
    UNSUPPORTED_JOIN = "unsupported-join", FEATURE_NOT_SUPPORTED, Unsupported,
        "pgveil does not answer `FULL JOIN`, `LATERAL` and some rare joins over private rows.",
        "Use `JOIN` or `LEFT JOIN`. A `LATERAL` subquery can be a derived table that is grouped \
            and joined.";
    GROUPED_ROWS_JOIN = "grouped-rows-join", FEATURE_NOT_SUPPORTED, Unsupported,
        "The query joins private rows with aggregates of other units' rows.",
        "Join first, and aggregate the joined rows.";
    SUBQUERY_NOT_BY_UNIT = "subquery-not-by-unit", FEATURE_NOT_SUPPORTED, Unsupported,
        "Whether a row is kept would depend on the rows of another unit.",
        "Equate the unit of both: `WHERE EXISTS (SELECT FROM orders AS o WHERE o.person = p.id)`.";
    CORRELATED_SUBQUERY = "correlated-subquery", FEATURE_NOT_SUPPORTED, Unsupported,
        "pgveil does not answer a subquery that refers to the query around it in this way.",
        "Refer to the row around it by an equality in `WHERE`, or join the tables and group the \
            joined rows.";
    SUBQUERY_FORM = "subquery-form", FEATURE_NOT_SUPPORTED, Unsupported,
        "A subquery of this form cannot be used as a value here.",
        "Select one aggregate without `GROUP BY`, or a column by its unique key. Otherwise join \
            the table in `FROM`.";
    SUBQUERY_MANY_ROWS = "subquery-many-rows", FEATURE_NOT_SUPPORTED, Unsupported,
        "The subquery could return several rows, and PostgreSQL would then report an error that \
            depends on the data.",
        "Compare a unique key with the row around it, or use an aggregate such as `max()`.";
    SUBQUERY_TOO_LARGE = "subquery-too-large", PROGRAM_LIMIT_EXCEEDED, TooLarge,
        "A subquery that runs first returns more values than pgveil compares private rows with.",
        "Add `LIMIT`, narrow it, or write it once.";
    COLUMN_TYPE_UNKNOWN = "column-type-unknown", FEATURE_NOT_SUPPORTED, Unsupported,
        "The type of a column of the answer, or of a subquery that runs first, is not certain.",
        "Cast it: `(SELECT avg(x)::numeric FROM people)`.";
    DERIVED_TABLE_CLAUSE = "derived-table-clause", FEATURE_NOT_SUPPORTED, Unsupported,
        "Which rows a derived table keeps would depend on other units' rows, as under `LIMIT`.",
        "Filter with `WHERE` instead.";
    NOT_IN_WITH_NULL = "not-in-with-null", FEATURE_NOT_SUPPORTED, Unsupported,
        "One NULL in the subquery of `NOT IN` would make the condition unknown for every row.",
        "Write `NOT EXISTS (SELECT FROM orders AS o WHERE o.person = p.id)`.";
    RECURSIVE_QUERY = "recursive-query", FEATURE_NOT_SUPPORTED, Unsupported,
        "`WITH RECURSIVE` does not read private rows.",
        "Write as many joins as there are steps, or recurse over public tables only.";
    UNSUPPORTED_SET_OPERATION = "unsupported-set-operation", FEATURE_NOT_SUPPORTED, Unsupported,
        "`INTERSECT`, `EXCEPT` and `UNION` without `ALL` would drop rows because of other units' \
            rows.",
        "Use `UNION ALL`, or `EXISTS` and `NOT EXISTS` with a subquery over the same unit.";
    UNION_OF_PUBLIC_ROWS = "union-of-public-rows", FEATURE_NOT_SUPPORTED, Unsupported,
        "A `UNION` mixes private rows with public ones, which belong to no unit.",
        "Aggregate each side by itself, and combine the results with `UNION`.";
    UNION_UNIT_TYPES = "union-unit-types", FEATURE_NOT_SUPPORTED, Unsupported,
        "The branches of a `UNION` identify the unit by columns of different types.",
        "Aggregate each side by itself, or ask the data owner for tables whose keys have one type.";
}

//! Rows of private tables, pgveil's views and PostgreSQL's catalogs.

reasons! {
    PRIVATE_ROWS = "private-rows", INSUFFICIENT_PRIVILEGE, PrivateRows,
        "The answer would have rows or values of a private table.",
        "Aggregate them: `SELECT city, count(*), avg(income) FROM people GROUP BY city`.";
    UNIT_ROWS = "unit-rows", INSUFFICIENT_PRIVILEGE, Other,
        "Each group is one unit, so each row of the answer would describe one unit.",
        "Aggregate over the groups: `SELECT avg(total) FROM (SELECT sum(x) AS total FROM orders \
            GROUP BY person) AS t`.";
    PUBLIC_ROWS_BY_PRIVATE = "public-rows-by-private", FEATURE_NOT_SUPPORTED, Unsupported,
        "Which public rows are shown would depend on private rows.",
        "Join the tables, and aggregate the private one.";
    UNSUPPORTED_CLAUSE = "unsupported-clause", FEATURE_NOT_SUPPORTED, Unsupported,
        "pgveil has no private answer for this clause, although it is valid SQL: for example \
            `TABLESAMPLE`, `ONLY`, or a `SELECT` without `FROM` within a query of private rows.",
        "Leave the clause out, or write the query with plain tables, joins and subqueries.";
    UNSUPPORTED_DISTINCT = "unsupported-distinct", FEATURE_NOT_SUPPORTED, Unsupported,
        "pgveil does not answer this form of `DISTINCT` over private rows.",
        "Use `GROUP BY`, or `DISTINCT ON` over one unit's rows that are not grouped.";
    VIEW_WITH_TABLES = "view-with-tables", FEATURE_NOT_SUPPORTED, Unsupported,
        "pgveil's views describe the role, not rows. They cannot be joined with tables.",
        "Read the view in a separate query, or in a subquery of the `SELECT` list.";
    CATALOG_WITH_TABLES = "catalog-with-tables", FEATURE_NOT_SUPPORTED, Unsupported,
        "One statement reads both a system catalog and a table.",
        "Ask in two statements.";
    CATALOG_DENIED = "catalog-denied", INSUFFICIENT_PRIVILEGE, Other,
        "The catalog, function or setting describes the server, its files, its sessions or its \
            secrets, not the schema.",
        "Read the catalogs that describe the schema. `SHOW` lists the settings of the session.";
    CATALOG_ARGUMENT = "catalog-argument", INSUFFICIENT_PRIVILEGE, Other,
        "pgveil must know the argument of a catalog function before the query runs.",
        "Write a constant. Change settings with `SET`.";
    CATALOG_CONSTRUCT = "catalog-construct", FEATURE_NOT_SUPPORTED, Unsupported,
        "pgveil does not offer this clause in queries over the catalogs.",
        "Leave it out.";
}

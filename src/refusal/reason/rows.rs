//! Rows of private tables, pgveil's views and PostgreSQL's catalogs.

reasons! {
    PRIVATE_ROWS = "private-rows", INSUFFICIENT_PRIVILEGE, PrivateRows,
        "The answer would hold rows or values of a private table.",
        "Aggregate them: `SELECT city, count(*), avg(income) FROM people GROUP BY city`.";
    UNIT_ROWS = "unit-rows", INSUFFICIENT_PRIVILEGE, Other,
        "Each group is one unit, so each row of the answer would describe one unit.",
        "Aggregate over the groups: `SELECT avg(total) FROM (SELECT sum(x) AS total FROM orders \
            GROUP BY person) AS t`.";
    PUBLIC_ROWS_BY_PRIVATE = "public-rows-by-private", FEATURE_NOT_SUPPORTED, Unsupported,
        "Which public rows are shown would depend on private rows.",
        "Join the tables, and aggregate the private one.";
    UNSUPPORTED_CLAUSE = "unsupported-clause", FEATURE_NOT_SUPPORTED, Unsupported,
        "The clause is valid SQL for which no private answer is known, such as `TABLESAMPLE`, \
            `ONLY`, or a `SELECT` without `FROM` within a query of private rows.",
        "Leave the clause out, or write the query with plain tables, joins and subqueries.";
    UNSUPPORTED_DISTINCT = "unsupported-distinct", FEATURE_NOT_SUPPORTED, Unsupported,
        "This form of `DISTINCT` over private rows is not answered.",
        "Use `GROUP BY`, or `DISTINCT ON` over one unit's rows that are not grouped.";
    VIEW_WITH_TABLES = "view-with-tables", FEATURE_NOT_SUPPORTED, Unsupported,
        "pgveil's views are about the role, not about rows, and cannot be joined with tables.",
        "Read the view in a separate query, or in a subquery of the `SELECT` list.";
    CATALOG_WITH_TABLES = "catalog-with-tables", FEATURE_NOT_SUPPORTED, Unsupported,
        "One statement reads both a system catalog and a table.",
        "Ask in two statements.";
    CATALOG_DENIED = "catalog-denied", INSUFFICIENT_PRIVILEGE, Other,
        "The catalog, function or setting tells about the server, its files, its sessions or its \
            secrets, not about the schema.",
        "Read the catalogs that describe the schema. `SHOW` lists the settings of the session.";
    CATALOG_ARGUMENT = "catalog-argument", INSUFFICIENT_PRIVILEGE, Other,
        "A function over the catalogs must know its argument before the query runs.",
        "Write a constant. Change settings with `SET`.";
    CATALOG_CONSTRUCT = "catalog-construct", FEATURE_NOT_SUPPORTED, Unsupported,
        "Queries over the catalogs do not offer this clause.",
        "Leave it out.";
}

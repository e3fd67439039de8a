//! Aggregates over private rows.

reasons! {
    UNSUPPORTED_AGGREGATE = "unsupported-aggregate", FEATURE_NOT_SUPPORTED, Unsupported,
        "pgveil has no private answer for this aggregate, or for this form of it.",
        "Use an aggregate of [sql.md](sql.md#aggregates).";
    DISTINCT_AGGREGATE = "distinct-aggregate", FEATURE_NOT_SUPPORTED, Unsupported,
        "This aggregate does not take `DISTINCT` over private rows.",
        "`DISTINCT` is answered in `COUNT`, `SUM`, `AVG`, `VARIANCE` and `STDDEV`.";
    AGGREGATE_TYPE = "aggregate-type", FEATURE_NOT_SUPPORTED, Unsupported,
        "pgveil has no private answer for this aggregate over values of this type or collation.",
        "Cast the value, for example to double precision, or show the values by `GROUP BY`.";
    VALUE_RANGE_UNKNOWN = "value-range-unknown", FEATURE_NOT_SUPPORTED, Unsupported,
        "One row could have any number, and no noise hides that. The value needs a range that does \
            not come from the data.",
        "Clamp it, as in `SUM(LEAST(GREATEST(x, 0), 100))`, or add `WHERE x BETWEEN 0 AND 100`, or \
            ask the data owner to declare bounds.";
    VALUE_DOMAIN_UNKNOWN = "value-domain-unknown", FEATURE_NOT_SUPPORTED, Unsupported,
        "`MODE()` chooses from a list of values that does not come from the data, and there is no \
            such list.",
        "Group by the column and order by the count, or ask the data owner to declare its values.";
    SUM_RANGE_TOO_NARROW = "sum-range-too-narrow", FEATURE_NOT_SUPPORTED, Unsupported,
        "The range of the sum is narrower than the steps in which noise is drawn.",
        "Widen the bounds of the value.";
    PERCENTILE_FRACTION = "percentile-fraction", FEATURE_NOT_SUPPORTED, Unsupported,
        "A percentile takes one value in `ORDER BY`, and one or a few constant fractions.",
        "Write `percentile_cont(0.5) WITHIN GROUP (ORDER BY x)`, once for each fraction if need \
            be.";
    UNCERTAINTY_ARGUMENT = "uncertainty-argument", FEATURE_NOT_SUPPORTED, Unsupported,
        "`pgveil.stderr()`, `pgveil.ci_low()`, `pgveil.ci_high()` and `pgveil.low_by()` take an \
            aggregate over private rows, or arithmetic on such aggregates.",
        "Repeat the aggregate inside it: `SELECT avg(x), pgveil.stderr(avg(x)) FROM people`.";
    MONITOR_FORM = "monitor-form", FEATURE_NOT_SUPPORTED, Unsupported,
        "`pgveil.above()` answers one question: is one `COUNT` or `SUM` of private rows at least a \
            constant?",
        "Write `SELECT pgveil.above(count(*), 1000) FROM t WHERE …`, without other clauses. See \
            [monitors.md](monitors.md).";
    MONITOR_ARGUMENT = "monitor-argument", INVALID_PARAMETER_VALUE, Other,
        "The threshold of `pgveil.above()` must be a constant number, and the monitor's name a \
            short constant text.",
        "Write `pgveil.above(count(*), 1000, 'fraud')`.";
    MONITORS_OFF = "monitors-off", FEATURE_NOT_SUPPORTED, Unsupported,
        "The policy allows no monitors. A monitor runs many statements for one charge, and the \
            time or the failure of each may reveal something.",
        "Ask for the count or the sum itself, or ask the data owner to set \
            `limits.monitor_questions`.";
    MONITOR_DIRECTION = "monitor-direction", FEATURE_NOT_SUPPORTED, Unsupported,
        "The monitor was opened by a count or by a sum of one sign, which needs half of the noise. \
            All of its questions must be of that kind.",
        "Open another monitor for this question: `pgveil.above(…, 'another name')`.";
    HOLDOUT_FORM = "holdout-form", FEATURE_NOT_SUPPORTED, Unsupported,
        "`pgveil.holdout()` compares the average of one expression, over all rows of a table that \
            the policy declares as a holdout, with a constant.",
        "Write `SELECT pgveil.holdout(avg(CASE WHEN predicted = label THEN 1 ELSE 0 END), 0.83) \
            FROM t`, without other clauses. See [holdout.md](holdout.md).";
    HOLDOUT_ARGUMENT = "holdout-argument", INVALID_PARAMETER_VALUE, Other,
        "The second argument of `pgveil.holdout()` must be a constant number from 0 to 1: your own \
            mean, over training data that the table does not have.",
        "Write `pgveil.holdout(avg(x), 0.83)`.";
    NO_HOLDOUT = "no-holdout", FEATURE_NOT_SUPPORTED, Unsupported,
        "The policy does not declare the table as a holdout.",
        "Ask for the average itself, or ask the data owner for `holdout:` of the table. \
            `pgveil.holdouts` lists those there are.";
    COLLECTED_VALUE = "collected-value", FEATURE_NOT_SUPPORTED, Unsupported,
        "The column's values were randomised before they were stored. pgveil estimates counts, \
            sums and averages from such reports. It does not compare, sort or show single reports.",
        "Ask for `COUNT(*)` with `WHERE` or `FILTER` on the column, or `GROUP BY` it. For a \
            number, ask for `AVG`, `SUM` or `COUNT`. See [local.md](local.md).";
    COLLECTED_CONDITION = "collected-condition", INVALID_PARAMETER_VALUE, Other,
        "The condition is false for every value that the collected column may have.",
        "`pgveil.columns` lists the values.";
    REGRESSION_RECORD = "regression-record", FEATURE_NOT_SUPPORTED, Unsupported,
        "`pgveil.linregr()`, `pgveil.logregr()` and `pgveil.pca()` give a record. You can select \
            its fields, but not the record as a whole, and `.*` works only in the `SELECT` list.",
        "Write `(pgveil.linregr(y, ARRAY[1, x])).*` as an item of `SELECT`, or one field, as in \
            `(pgveil.linregr(y, ARRAY[1, x])).coef`, over the private table.";
    REGRESSION_FEATURES = "regression-features", INVALID_PARAMETER_VALUE, Other,
        "A regression takes 1 to 16 features. At most one of them may be a constant, and each may \
            appear once.",
        "Remove repeated features, all constants but one, and those beyond 16. Write the constant \
            as 1.";
    LOGISTIC_ALONE = "logistic-alone", FEATURE_NOT_SUPPORTED, Unsupported,
        "A logistic regression is computed in steps, and each step is a separate release. It takes \
            neither groups nor other aggregates in the same `SELECT`.",
        "Ask for each group in a separate query, with `WHERE` or `FILTER` in place of `GROUP BY`.";
    COMPONENT_VALUES = "component-values", INVALID_PARAMETER_VALUE, Other,
        "`pgveil.pca()` takes 1 to 16 values. None may be a constant, and each may appear once.",
        "Remove constants, repeated values, and those beyond 16.";
    AGGREGATE_CONSTANT = "aggregate-constant", INVALID_PARAMETER_VALUE, Other,
        "The penalty of a regression must be a constant of at least 0. The number of principal \
            components must be a whole constant from 1 to the number of values.",
        "Write the number out, without a cast that may round it, as in `pgveil.linregr(y, ARRAY[1, \
            x], 0.1)` or `pgveil.pca(ARRAY[x1, x2], 1)`.";
}

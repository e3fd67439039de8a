//! The cost of an answer, its accuracy, and who pays.

reasons! {
    BUDGET_EXHAUSTED = "budget-exhausted", CONFIGURATION_LIMIT_EXCEEDED, Exhausted,
        "The rest of the role's budget does not cover the query. Nothing was charged.",
        "Lower `pgveil.epsilon`, ask for fewer parts, repeat a query that is paid for, or ask the \
            data owner. `SELECT * FROM pgveil.budget` shows the rest.";
    TOTAL_EXHAUSTED = "total-exhausted", CONFIGURATION_LIMIT_EXCEEDED, Exhausted,
        "The data owner's total over all roles does not cover the query. Nothing was charged.",
        "Repeat queries that are paid for, or ask the data owner.";
    BUDGET_FROZEN = "budget-frozen", CONFIGURATION_LIMIT_EXCEEDED, Exhausted,
        "The data owner has frozen the account. Nothing was charged.",
        "Repeat queries that are paid for, or ask the data owner.";
    NOT_HELD = "not-held", FEATURE_NOT_SUPPORTED, Unsupported,
        "`pgveil.reuse` is `summary`, so pgveil buys nothing, and no summary or answer that the \
            role has paid for answers the query. Nothing was charged.",
        "`SET pgveil.reuse = on` buys the answer. `SELECT * FROM pgveil.summaries` shows the \
            columns of each summary.";
    PURE_ACCOUNTING = "pure-accounting", CONFIGURATION_LIMIT_EXCEEDED, Exhausted,
        "The policy admits only queries with a pure epsilon, and this one needs Gaussian noise or \
            a delta. Nothing was charged.",
        "Group by keys whose values the policy lists, or ask the data owner.";
    EPSILON_TOO_SMALL = "epsilon-too-small", INVALID_PARAMETER_VALUE, Other,
        "The query has too many parts to share its epsilon.",
        "Raise `pgveil.epsilon`, or ask in several queries.";
    NO_FITTING_NOISE = "no-fitting-noise", INVALID_PARAMETER_VALUE, Other,
        "At this epsilon the noise would be larger than pgveil's numbers can be.",
        "Raise `pgveil.epsilon`, or narrow the ranges of the sums.";
    TARGET_ERROR_UNUSABLE = "target-error-unusable", FEATURE_NOT_SUPPORTED, Unsupported,
        "`pgveil.target_error` needs an aggregate whose error can be computed before the answer.",
        "`RESET pgveil.target_error`, and set `pgveil.epsilon` instead; or add a count.";
    TARGET_ERROR_TOO_SMALL = "target-error-too-small", INVALID_PARAMETER_VALUE, Other,
        "The target error would cost more than one query may spend. If a first answer was needed \
            to find this out, only that answer was charged.",
        "Set a larger target error, or use fewer groups and aggregates. The hint says how to show \
            the first answer again, free.";
    USELESS_QUESTION = "useless-question", USELESS_QUESTION, Other,
        "For the number of units that the policy states, or that answers of the role show, the \
            noise would hide every possible answer. Nothing was charged.",
        "Ask for fewer groups or parts, or spend more: the hint says how much. `SET pgveil.useless \
            = warn` runs the query anyway.";
    TOO_FEW_UNITS = "too-few-units", TOO_FEW_UNITS, Other,
        "Before the answer, noisy counts showed too few units to choose a clip for any sum, or to \
            show a group. Only these counts were charged. The same query again is free, unless \
            the hint says to ask it again.",
        "Ask about more rows, about fewer or coarser groups, or with the `pgveil.epsilon` that the \
            hint names; or `SET pgveil.clip = fixed`.";
    LOOK_ALONE_PAID = "look-alone-paid", CONFIGURATION_LIMIT_EXCEEDED, Exhausted,
        "Between the noisy counts that choose a clip and the answer, another query spent the \
            budget, or the account was frozen or closed. Only the counts were charged.",
        "Repeat queries that are paid for, or ask the data owner.";
    FIRST_ANSWER_ALONE_PAID = "first-answer-alone-paid", CONFIGURATION_LIMIT_EXCEEDED, Exhausted,
        "The budget does not cover the cost of `pgveil.target_error`. Only a first answer, which \
            showed that cost, was charged.",
        "Set a larger target error. The hint says how to show the first answer again, free.";
    PRICE_RISEN = "price-risen", OBJECT_NOT_IN_PREREQUISITE_STATE, Other,
        "At the analysts' desk the query may cost no more than the price that the page showed. It \
            would cost more now. Nothing was charged beyond that price.",
        "Ask for the price again: other questions of the role have changed it.";
    TOO_MANY_MONITORS = "too-many-monitors", CONFIGURATION_LIMIT_EXCEEDED, Exhausted,
        "The role has as many open monitors as it may have. Nothing was charged.",
        "Ask a monitor that is open: `pgveil.monitors` lists them.";
    MONITOR_ENDED = "monitor-ended", OBJECT_NOT_IN_PREREQUISITE_STATE, Other,
        "While the question waited, another session's question ended the monitor's epoch, so this \
            answer would no longer be free. Nothing was charged.",
        "Ask again. That opens the monitor again, for its price.";
    MONITOR_NOT_OPEN = "monitor-not-open", OBJECT_NOT_IN_PREREQUISITE_STATE, Other,
        "`pgveil.reuse` is `summary`, so pgveil buys nothing, and the monitor is not open. Nothing \
            was charged.",
        "`SET pgveil.reuse = on` opens it, for its price, which `EXPLAIN` shows.";
    MONITOR_BUSY = "monitor-busy", OBJECT_NOT_IN_PREREQUISITE_STATE, Other,
        "Other sessions of the role are asking the same monitor. Nothing was charged.",
        "Ask again later, or ask another monitor.";
    HOLDOUT_USED_UP = "holdout-used-up", CONFIGURATION_LIMIT_EXCEEDED, Exhausted,
        "The role has opened the holdout as often as the policy's `overflows` allows. After more \
            answers, questions would fit the holdout's own rows. Nothing was charged.",
        "Ask the data owner for a new holdout: rows that nobody has asked about, in another table.";
    HOLDOUT_ENDED = "holdout-ended", OBJECT_NOT_IN_PREREQUISITE_STATE, Other,
        "While the question waited, another session's question ended the holdout's epoch, so this \
            answer would no longer be free. Nothing was charged.",
        "Ask again. That opens the holdout again, for its price.";
    HOLDOUT_NOT_OPEN = "holdout-not-open", OBJECT_NOT_IN_PREREQUISITE_STATE, Other,
        "`pgveil.reuse` is `summary`, so pgveil buys nothing, and the holdout is not open. Nothing \
            was charged.",
        "`SET pgveil.reuse = on` opens it, for its price, which `EXPLAIN` shows.";
    HOLDOUT_BUSY = "holdout-busy", OBJECT_NOT_IN_PREREQUISITE_STATE, Other,
        "Other sessions of the role are asking the same holdout. Nothing was charged.",
        "Ask again later.";
    PERIODS_BUSY = "periods-busy", OBJECT_NOT_IN_PREREQUISITE_STATE, Other,
        "Other sessions are drawing the same prepaid periods for longer than a statement may take. \
            Nothing was charged.",
        "Ask again later.";
    PREPAID_ON_STANDBY = "prepaid-on-standby", OBJECT_NOT_IN_PREREQUISITE_STATE, Other,
        "Prepaid periods are drawn from a primary server, and the policy names a standby. Nothing \
            was charged.",
        "Ask the data owner, or `SET pgveil.open_periods = on` for an ordinary question.";
    COST_TOO_LARGE = "cost-too-large", PROGRAM_LIMIT_EXCEEDED, TooLarge,
        "The query costs more than pgveil can count.",
        "Ask for fewer parts, or lower `pgveil.epsilon`.";
}

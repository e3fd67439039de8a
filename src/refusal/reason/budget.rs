//! The cost of an answer, its accuracy, and who pays.

reasons! {
    BUDGET_EXHAUSTED = "budget-exhausted", CONFIGURATION_LIMIT_EXCEEDED, Exhausted,
        "What is left of the role's budget does not cover the query. Nothing was charged.",
        "Lower `pgveil.epsilon`, ask for fewer parts, repeat a query that is paid for, or ask the \
            data owner. `SELECT * FROM pgveil.budget` shows what is left.";
    TOTAL_EXHAUSTED = "total-exhausted", CONFIGURATION_LIMIT_EXCEEDED, Exhausted,
        "The data owner's total over all roles does not cover the query. Nothing was charged.",
        "Repeat queries that are paid for, or ask the data owner.";
    BUDGET_FROZEN = "budget-frozen", CONFIGURATION_LIMIT_EXCEEDED, Exhausted,
        "The data owner has frozen the account. Nothing was charged.",
        "Repeat queries that are paid for, or ask the data owner.";
    NOT_HELD = "not-held", FEATURE_NOT_SUPPORTED, Unsupported,
        "`pgveil.reuse` is `summary`, and no summary or answer that the role holds answers the \
            query. Nothing was charged.",
        "`SET pgveil.reuse = on` buys it; `SELECT * FROM pgveil.summaries` shows which columns \
            summaries have together.";
    PURE_ACCOUNTING = "pure-accounting", CONFIGURATION_LIMIT_EXCEEDED, Exhausted,
        "The policy admits only queries with a pure epsilon, and this one needs Gaussian noise or \
            a delta. Nothing was charged.",
        "Group by keys whose values the policy lists, or ask the data owner.";
    EPSILON_TOO_SMALL = "epsilon-too-small", INVALID_PARAMETER_VALUE, Other,
        "The epsilon of the query is shared by more parts than it can be shared by.",
        "Raise `pgveil.epsilon`, or ask in several queries.";
    NO_FITTING_NOISE = "no-fitting-noise", INVALID_PARAMETER_VALUE, Other,
        "At this epsilon the noise would be larger than numbers here can be.",
        "Raise `pgveil.epsilon`, or narrow the ranges of the sums.";
    TARGET_ERROR_UNUSABLE = "target-error-unusable", FEATURE_NOT_SUPPORTED, Unsupported,
        "`pgveil.target_error` needs an aggregate whose error is known beforehand.",
        "`RESET pgveil.target_error`, and set `pgveil.epsilon` instead; or add a count.";
    TARGET_ERROR_TOO_SMALL = "target-error-too-small", INVALID_PARAMETER_VALUE, Other,
        "The target error would cost more than one query may spend. Where a first answer had to \
            show this, only that was charged.",
        "Set a larger target error, or use fewer groups and aggregates. The hint says how the \
            first answer is shown, free.";
    USELESS_QUESTION = "useless-question", USELESS_QUESTION, Other,
        "By the number of units in the policy, the noise would hide every possible answer. \
            Nothing was charged.",
        "Ask for fewer groups or parts, or spend more: the hint says how much. `SET \
            pgveil.useless = warn` asks anyway.";
    TOO_FEW_UNITS = "too-few-units", TOO_FEW_UNITS, Other,
        "A noisy look saw too few units to choose a clip of any sum, or to show a group. Only the \
            look was charged; the repeat is free.",
        "Ask of more rows, of fewer or coarser groups, or at the `pgveil.epsilon` that the hint \
            names; or `SET pgveil.clip = fixed`.";
    LOOK_ALONE_PAID = "look-alone-paid", CONFIGURATION_LIMIT_EXCEEDED, Exhausted,
        "The budget was spent by another query, frozen or closed between the look at the data and \
            its answer. Only the look was charged.",
        "Repeat queries that are paid for, or ask the data owner.";
    FIRST_ANSWER_ALONE_PAID = "first-answer-alone-paid", CONFIGURATION_LIMIT_EXCEEDED, Exhausted,
        "The budget does not cover what `pgveil.target_error` needs. A first answer, which showed \
            what that is, was charged.",
        "Set a larger target error. The hint says how the first answer is shown, free.";
    PRICE_RISEN = "price-risen", OBJECT_NOT_IN_PREREQUISITE_STATE, Other,
        "At the analysts' desk the query was to cost no more than the price that was shown, and \
            it would cost more now. Nothing was charged beyond that price.",
        "Look at the price again: other questions of the role have changed it.";
    TOO_MANY_MONITORS = "too-many-monitors", CONFIGURATION_LIMIT_EXCEEDED, Exhausted,
        "The role has as many open monitors as it may have. Nothing was charged.",
        "Ask a monitor that is open: `pgveil.monitors` lists them.";
    MONITOR_ENDED = "monitor-ended", OBJECT_NOT_IN_PREREQUISITE_STATE, Other,
        "The monitor's epoch ended while the question waited for another session's, so its answer \
            would no longer be free. Nothing was charged.",
        "Ask again: that opens the monitor, for its price.";
    MONITOR_NOT_OPEN = "monitor-not-open", OBJECT_NOT_IN_PREREQUISITE_STATE, Other,
        "`pgveil.reuse` is `summary`, under which nothing is bought, and the monitor is not open. \
            Nothing was charged.",
        "`SET pgveil.reuse = on` opens it, for its price, which `EXPLAIN` shows.";
    MONITOR_BUSY = "monitor-busy", OBJECT_NOT_IN_PREREQUISITE_STATE, Other,
        "Other sessions of the role are asking the same monitor. Nothing was charged.",
        "Ask again later, or ask another monitor.";
    COST_TOO_LARGE = "cost-too-large", PROGRAM_LIMIT_EXCEEDED, TooLarge,
        "The query costs more than can be counted.",
        "Ask for fewer parts, or lower `pgveil.epsilon`.";
}

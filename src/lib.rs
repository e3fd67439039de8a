//! pgveil: a PostgreSQL wire-protocol proxy that answers SQL with differential privacy.
//!
//! # No public interface
//!
//! The crate is published for its binary. Items are public for the binary, the tests, the benches
//! and the fuzz targets. Any version may change or remove any of them, a patch version too: depend
//! on none. What versions keep is listed in `docs/operations.md`, under *What versions keep*.
//!
//! # One query, from the socket to the answer
//!
//! Take `SELECT race, avg(hourly_wage) FROM nls.women JOIN nls.interviews USING (woman_id) GROUP BY
//! race ORDER BY 2`.
//!
//!  0. [`wire`] accepts the connection, checks the password (SCRAM), reads one message and calls
//!     [`engine::Service::answer`]. SET, BEGIN and the like are answered by the session itself.
//!     [`engine::Engine`] alone knows the order of what follows.
//!  1. [`parse::parse`]: text → [`parse::Statement`], by an allow-list of statements. Bound
//!     parameters become constants of their types: [`shadow::Shadow::normalize_arguments`] lets
//!     PostgreSQL read them, [`parse::Query::bind`] puts them in. [`shadow::Shadow::describe`] asks
//!     PostgreSQL for the names and types of the answer's columns, in a second database that holds
//!     no private row.
//!  2. [`resolve::resolve`]: names and types, by the policy's own catalog: what the policy hides
//!     does not exist. It *cuts* the statement. What reads private rows becomes *releases* in our
//!     own relation tree ([`ir`]). The rest stays SQL: the *outer query*, over the releases'
//!     results. SQL between two releases (`hourly_wage > (SELECT avg(hourly_wage) FROM …)`) is a
//!     *middle query*.
//!  3. [`analyze::analyze`]: every relation gets a label, and each release a lineage (which columns
//!     are the privacy unit), a rule for each group key and a range for each summed value. Here the
//!     path `interviews → women` is joined in, and the join on `woman_id` is proved to keep units
//!     apart.
//!  4. [`rewrite::rewrite`]: counts and sums become one *vector* of integer coordinates; MIN, MAX,
//!     percentiles and DISTINCT become *choices* with separate statements. `price` chooses
//!     mechanism and noise and says what they cost. `vector::clipped_aggregate` emits the statement
//!     that clips each woman's contribution before it is summed, or, where a woman may have many
//!     rows, sums by group and by how much each woman adds. The [`rewrite::Plan`] is pure:
//!     Parse, Describe and EXPLAIN stop here, at no cost. [`finish::shape`] lets PostgreSQL confirm
//!     that the outer query has the promised types.
//!  5. Stored answers that the role has paid for are recalled from the ledger, or rolled up from
//!     finer ones and from summaries ([`release::Rollup`]), free. For the other releases
//!     [`ledger::Ledger::purchase`] writes the loss to the role's and the owner's account and syncs
//!     it to disk, or refuses. Only then is there a [`ledger::Charge`]. `Snapshot::run` in
//!     [`execute`] takes the charge by reference. It compares the snapshot's catalog with the
//!     plan's, and runs one release's statements in the plan's one read-only snapshot. Where a unit
//!     may be in many groups, it reads the rows of a [`rewrite::RowStream`] instead and adds them
//!     up, to the same result: [`execute::Sealed`] rows.
//!  6. [`release::PaidPart`] holds the charge by value, opens the rows, adds a fresh draw of exact
//!     integer noise to every coordinate of every group, drops groups below their threshold and
//!     decodes: [`release::Released`]. Grouping sets are computed from noisy *effects* instead,
//!     which serve all of them. Where a clip is to be chosen, it first draws noisy counts of
//!     women by how much they add ([`release::Looked`]); the clip is chosen from these, a second
//!     debit pays for the answer, and only then are the sums drawn. The next release may read it
//!     through a middle query, which the shadow runs and whose rows are bound as constants. All
//!     releases are on their way to the ledger before anything is shown. Under `timing.quantum` the
//!     answer waits for the end of the quantum.
//!  7. [`finish::finish`] puts the released rows under the outer query as constants, and
//!     [`shadow::Shadow::run`] runs it: `ORDER BY 2` sorts noisy averages, in PostgreSQL's own
//!     arithmetic. The wire sends the rows, and a notice with their cost.
//!
//! # Invariants
//!
//! Each is held by the test of its name in `tests/it/project/invariants.rs`, and by those named
//! with it.
//!
//!  1. Nothing read from a private relation leaves except through [`release`]:
//!     `nothing_private_leaves_but_through_release`,
//!     `project/tidy::sealed_rows_are_opened_by_release_alone`,
//!     `project/tidy::imports_point_one_way`.
//!  2. The charge is durable before the backend sees the query, covers the plan it is used with,
//!     and is never refunded; what is drawn after a look has a separate durable charge; the
//!     questions of an epoch share one, under which nothing but verdicts is shown, and the number
//!     that ends a holdout's; prepaid periods share one, of which each is drawn once, in their
//!     order, by a durable record:
//!     `a_charge_is_durable_before_the_backend_sees_the_query`,
//!     `project/tidy::charges_are_made_by_the_ledger_alone`, the kills in `ledger::processes`,
//!     `ledger/prepaid::periods_are_drawn_in_their_order`.
//!  3. No switch (flag, environment, feature, policy key, SET) turns noise or accounting off:
//!     `no_switch_turns_noise_off`, `project/tidy::noise_and_accounting_read_no_switch`,
//!     `project/tidy::no_other_noise_is_ever_plugged_in`. Test doubles live under `tests/`.
//!  4. Refuse unless proved; our own enums are matched without `_`, foreign syntax falls through to
//!     *unsupported*: `refuse_unless_proved`, `project::golden` (refuse).
//!  5. SQL is built as syntax tree and printed once. Before a statement is paid for it is parsed
//!     again and compared; what was not is never sent: `emitted_sql_is_printed_and_read_back`,
//!     `project/tidy::what_is_sent_was_read_back`.
//!  6. sqlparser's structs are destructured with every field named, so that a new clause breaks the
//!     build: the compiler, and the exact pin in Cargo.toml.
//!  7. Backend error text, row values and literals never reach clients, Debug output or logs:
//!     `backend_text_never_reaches_clients`.
//!  8. No control flow, size or SQLSTATE that a client can see depends on private rows, but through
//!     released values, and but for constraints of tables that roles write where the owner says
//!     `constraints: shown`; what follows a look depends on its noisy counts alone; a backend
//!     failure of a question is counted: `no_shape_depends_on_private_rows`,
//!     `privacy/write_replies::replies_say_nothing_of_rows_that_are_there`,
//!     `privacy/after_a_look::nothing_but_noisy_counts_decides_after_a_look`,
//!     `backend_text_never_reaches_clients`, `sql/end_to_end::failure_cap`.
//!  9. The seven rules of the SQL surface:
//!     `privacy/neighbour::neighbours_differ_within_the_declared_bound`, which runs the emitted SQL
//!     with and without one unit and compares exactly;
//!     `privacy/neighbour::emitted_expressions_never_raise`;
//!     `sql/end_to_end::finish_role_cannot_read_private`; `sql/end_to_end::bind_is_a_question`.
//!     - Each operator is made total at itself: no WHERE, ON, CASE or derived table counts as its
//!       guard.
//!     - A range chooses a clip; it never replaces one.
//!     - A label is the join of the labels of every embedded expression, in every position.
//!     - The unit is a column proved NOT NULL at that point of the tree, of one type with a
//!       deterministic collation.
//!     - A per-unit step is a function of the *set* of that unit's rows: no ties, no float
//!       addition, no physical order.
//!     - Private rows meet only the emitted statement; everything else runs in the shadow.
//!     - A Bind is a question: planned, priced and charged with its values.
//! 10. A true value of a local column leaves the process only randomised: it is in no statement
//!     that the database or the shadow gets, no log, record or error:
//!     `privacy/writes::true_values_never_leave`,
//!     `mechanism::randomise::tests::no_report_costs_more_than_its_epsilon`,
//!     `mechanism::randomise::tests::no_filter_costs_more_than_its_epsilons`.
//!
//! # Words
//!
//! One word for one idea. In brackets: words that are not used for it.
//!
//! - **privacy unit**: whose rows are protected together: one woman. (user, individual,
//!   entity)
//! - **lineage**: which columns are the unit in a relation; how many rows one unit may have.
//!   (provenance)
//! - **cut**: where a statement parts into releases and the outer query; what a clip takes is
//!   *clip bias*. (split, boundary)
//! - **outer query**: the analyst's SQL above the releases. (post-processing)
//! - **middle query**: the analyst's SQL between two releases; its rows are constants of the
//!   later one. (stage)
//! - **release**: one noised result of private rows, and the step that makes it. (query
//!   answer)
//! - **vector, coordinate**: the integers that a release sums, each with its own draw of noise; one
//!   of them. A *cell* is something else: a combination of the values of listed keys.
//! - **measure**: a count or sum that is decoded from coordinates. (statistic)
//! - **aggregate, derived aggregate**: a file of [`aggregates`]; arithmetic over others, which
//!   [`parse`] writes out. (function)
//! - **row stream, fold**: the rows of a statement before they are grouped, which pgveil reads in
//!   its place; how it adds them up to the statement's rows. (scan)
//! - **choice**: a value or a distinct count with its own mechanism and statement. What chooses
//!   laws, bounds or clips is named after what it selects. (part)
//! - **candidates**: the public grid of values that a choice chooses from, or of the clips that a
//!   look chooses from. (buckets)
//! - **fixed point**: the integers that stand for a value's range; one grid step is the unit in the
//!   last place. (lattice)
//! - **clip**: to bound what one unit adds, by value and by norm. (truncate, sanitise)
//! - **sensitivity**: how far one unit can move the vector. An audit measures it as *influence*.
//! - **per unit**: GROUP BY, DISTINCT and windows within one unit's rows. (inner query)
//! - **group, group key**: one row of GROUP BY, and its columns. (partition, bucket)
//! - **domain**: the values of a key that are known without the data. (universe)
//! - **threshold**: the noisy number of units from which a key without a domain is shown.
//!   (suppression)
//! - **look**: a noisy histogram of units by how much they add, drawn before the answer. (peek)
//! - **block, bin**: coordinates that one clip bounds together; units of about one length.
//! - **effect**: what a set of keys says that fewer keys do not; grouping sets are computed from
//!   noisy ones. (contrast)
//! - **level**: of a key with ranges, the length of the runs of values whose halves an effect
//!   compares. (scale, wavelet)
//! - **marginal**: a set of keys that a summary has groups of. (view)
//! - **grain**: what makes an answer's groups addable: their noisy integers, before they are
//!   decoded. (partial)
//! - **loss**: what a release costs, in epsilon, rho, mu² and delta; messages say *cost*.
//!   (spend)
//! - **charge**: the receipt of a durable debit. (token, ticket)
//! - **account, cap, budget**: where losses add up; the most they may; how the owner wrote
//!   that. (quota)
//! - **height, witness**: how far a ledger has come: its counts, which never fall, and its newest
//!   debit (the *tip*); a place away from the ledger that remembers the height. (version, replica)
//! - **rules**: who may be charged how much; the same over every store. (books)
//! - **stored answer, recall**: a release that the ledger keeps; to show it again to a role
//!   that paid. (cache)
//! - **roll-up**: to sum a finer stored answer's groups into a coarser answer of its *family*.
//!   (coarsen)
//! - **period**: an hour, day, week or month of a table, whose answers are bought once, when it is
//!   *closed*. (stream, bucket)
//! - **prepaid, horizon**: periods that one debit pays for before they are closed; a run of them.
//!   To *draw* some is to read their rows and to add noise, once. (subscription)
//! - **monitor, epoch, verdict**: questions whether sums are above thresholds; those of one debit,
//!   up to the first that is; one of their answers. (alarm, trigger)
//! - **holdout, overflow**: test rows whose means are compared with an analyst's value; a mean that
//!   differs, which ends the epoch and is shown. (test set)
//! - **report, memo**: a randomised value; the same one made again, from a keyed hash. (response)
//! - **summary**: groups that the owner declares and releases once, to answer later questions from.
//!   (synopsis, sketch)
//! - **auto bounds, search**: bounds that the policy leaves to `auto`, and the release that
//!   finds them. (discovery)
//! - **refuse**: to answer with a reason, without touching data. (fail, reject)
//! - **failure**: the backend broke after the charge. (error)
//! - **shadow**: the second PostgreSQL: schema and *copied* public rows, never a private one.
//!   (sandbox, mirror)
//! - **requester**: the role and session that a question comes from. (asker)
//! - **quantum**: the time that answers about private rows are rounded up to; *timing* holds it.
//!   (pace)
//! - **planning limit**: how many large statements are planned at once. (queue)
//! - **single flight**: one question that several sessions ask at once is answered once.
//! - **permit**: the right to plan, or to ask the next question of a session. (turn)
//! - **share**: the part of the memory for sessions that a requester may hold. (quota)
//! - **statement facts**: what is known of one statement so far, for the record. (tally)
//! - **session setting**: what `SET pgveil.…` changes. (option)
//! - **fingerprint, digest**: what a debit pays for, and a table's definition; a plan, a question
//!   or a statement. (hash, checksum)
//! - **canary, trial**: the extreme unit that an audit looks for; one answer with or without
//!   it. (target)
//! - **resolve**: to give names their meaning (*bind* is the protocol's word for parameters).
//!   (bind)

pub mod admin;
pub mod aggregates;
pub mod analyze;
pub mod audit;
pub mod auto_bounds;
pub mod calendar;
pub mod catalog;
pub mod cli;
pub mod console;
pub mod demo;
pub mod desk;
pub mod engine;
pub mod error;
pub mod execute;
pub mod finish;
pub mod init;
pub mod ir;
pub mod ledger;
pub mod mechanism;
pub mod memory;
pub mod operator;
pub mod parse;
pub mod policy;
pub mod postgres;
pub mod refusal;
pub mod release;
pub mod resolve;
pub mod rewrite;
pub mod shadow;
pub mod synthetic;
pub mod system_catalog;
mod visit;
pub mod web;
pub mod wire;

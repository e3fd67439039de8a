//! pgveil: a PostgreSQL wire-protocol proxy that answers SQL with differential privacy.
//!
//! # One query, from the socket to the answer
//!
//! Take `SELECT race, avg(hourly_wage) FROM nls.women JOIN nls.interviews USING (woman_id) GROUP BY
//! race ORDER BY 2`.
//!
//!  0. [`wire`] accepts the connection, checks the password (SCRAM), reads one message and calls
//!     [`engine::Service::answer`]. Settings, transactions and EXPLAIN never get further than the
//!     edge and the planner. Only [`engine::Engine`] knows the order of what follows.
//!  1. [`parse::parse`]: text → [`parse::Statement`], by an allow-list of statements. Bound
//!     parameters become constants of their types: [`shadow::Shadow::normalize_arguments`] has
//!     PostgreSQL read them, [`parse::Query::bind`] puts them in. [`shadow::Shadow::describe`] asks
//!     PostgreSQL for the names and types of the answer's columns, in a second database that holds
//!     no private row.
//!  2. [`resolve::resolve`]: names and types, by the policy's own catalog: what the policy hides
//!     does not exist. It cuts the statement: what reads private rows becomes *releases* in our own
//!     small relation tree, the rest stays SQL, the *outer query*, over the releases' results. What
//!     a release reads of other releases (`hourly_wage > (SELECT avg(hourly_wage) FROM …)`) is a
//!     *middle query* between them.
//!  3. [`analyze::analyze`]: every relation gets a label, and each release a lineage (which columns
//!     are the privacy unit), a rule for each group key and a range for each summed value. Here the
//!     path `interviews → women` is joined in and the join on `woman_id` is proved to keep units
//!     apart.
//!  4. [`rewrite::rewrite`]: aggregates become one vector of integer coordinates; `price` chooses
//!     mechanism and noise and says what they cost; `levels` emits the statement that clips each
//!     woman's part before it is summed. The [`rewrite::Plan`] is pure: Parse, Describe and EXPLAIN
//!     stop here, at no cost. [`finish::shape`] lets PostgreSQL confirm that the outer query has
//!     the promised types.
//!  5. Releases that the role holds already are recalled from the ledger, or summed of finer ones
//!     that it holds ([`release::rollup`]), and are free. For the rest [`ledger::Ledger::purchase`]
//!     writes the loss to the role's and the owner's account and syncs it to disk, or refuses. Only
//!     then is there a [`ledger::Charge`]. `Snapshot::run` in [`execute`] takes it by reference,
//!     runs one release's statement in the plan's one read-only snapshot, whose catalog was
//!     compared with the plan's, and gives [`execute::Sealed`] rows.
//!  6. [`release::Releasing`] holds the charge by value, opens the rows, adds a fresh draw of exact
//!     integer noise to every coordinate of every group, drops groups below their threshold and
//!     decodes: [`release::Released`]. The next release may read it, by a middle query that the
//!     shadow runs and whose rows are bound as constants. The ledger keeps all of them before
//!     anything is shown, at the end of the policy's quantum of time.
//!  7. [`finish::finish`] puts the released rows under the outer query as constants, and
//!     [`shadow::Shadow::run`] runs it: `ORDER BY 2` sorts noisy averages, in PostgreSQL's own
//!     arithmetic. The wire sends rows, and a notice with what it cost.
//!
//! # Invariants
//!
//! Each is held by the test of its name in `tests/it/project/invariants.rs`, and by those named
//! beside it.
//!
//!  1. Nothing read from a private relation leaves except through [`release`]:
//!     `nothing_private_leaves_but_through_release`,
//!     `project/tidy::sealed_rows_are_opened_by_release_alone`,
//!     `project/tidy::imports_point_one_way`.
//!  2. The charge is durable before the backend sees the query, covers the plan it is used with,
//!     and is never refunded: `a_charge_is_durable_before_the_backend_sees_the_query`,
//!     `project/tidy::charges_are_made_by_the_ledger_alone`, the kills in `ledger::processes`.
//!  3. No switch (flag, environment, feature, policy key, SET) turns noise or accounting off:
//!     `no_switch_turns_noise_off`, `project/tidy::noise_and_accounting_read_no_switch`,
//!     `project/tidy::no_other_noise_is_ever_plugged_in`. Test doubles live under `tests/`.
//!  4. Refuse unless proved; our own enums are matched without `_`, foreign syntax falls through to
//!     *unsupported*: `refuse_unless_proved`, `project::golden` (refuse).
//!  5. SQL is built as syntax tree, printed once, parsed again and compared:
//!     `emitted_sql_is_printed_and_read_back`, `project::golden` (plan).
//!  6. sqlparser's structs are destructured with every field named, so that a new clause breaks the
//!     build: the compiler, and the exact pin in Cargo.toml.
//!  7. Backend error text, row values and literals never reach clients, Debug output or logs:
//!     `backend_text_never_reaches_clients`.
//!  8. No control flow, size or SQLSTATE that a client can see depends on private rows, but through
//!     released values; a backend failure is counted: `no_shape_depends_on_private_rows`,
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
//!
//! # Words
//!
//! | say | meaning | not |
//! |---|---|---|
//! | privacy unit | whose rows are protected together: one woman | user, individual, entity |
//! | lineage | which columns are the unit in a relation, and how many rows one unit may have | provenance |
//! | group, group key | one row of GROUP BY, and its columns | partition, bucket |
//! | domain | the values of a key that are known without the data | universe |
//! | threshold | the noisy number of units from which a key without a domain is shown | tau, suppression |
//! | release | one noised vector of results, and the step that makes it | measurement, query answer |
//! | coordinate | one integer of that vector; a *measure* is a count or sum made of them | partial, cell |
//! | clip | bounding what a unit adds, by value and by norm | truncate, sanitise |
//! | lattice | the integers that stand for a value's range | grid, quantum |
//! | loss | what a release costs, in epsilon, rho, mu² and delta | cost, spend |
//! | middle query | the analyst's SQL between two releases: over released and public rows, its own rows constants of a later release | stage, step |
//! | recall | to show an answer again that the role has paid for | cache |
//! | canary, trial | the unit with extreme values that an audit looks for, and one answer in which it is, or is not | target, sample |
//! | coarser, finer | grouped by less, by more: a finer release's groups, summed, answer a coarser one of its *family* | roll-up, drill-down |
//! | charge | the receipt of a durable debit | token, ticket |
//! | account, cap, budget | where losses add up, the most they may, and how the owner wrote that | quota |
//! | refuse | to answer with a reason, without touching data | fail, reject, block |
//! | failure | the backend broke after the charge | error |
//! | shadow | the second PostgreSQL: schema, public rows, never a private one | mirror, sandbox |
//! | search | what finds the bounds that a policy leaves to `auto` | discovery, tuning |
//! | outer query | the analyst's own SQL above the releases | post-processing |
//! | fingerprint | a digest of a plan, or of a table's definition | hash, checksum |
//! | resolve | to give names their meaning (*bind* is the protocol's word for parameters) | bind |

pub mod admin;
pub mod analyze;
pub mod audit;
pub mod auto_bounds;
pub mod catalog;
pub mod cli;
pub mod engine;
pub mod error;
pub mod execute;
pub mod finish;
pub mod ir;
pub mod ledger;
pub mod mechanism;
pub mod memory;
pub mod parse;
pub mod policy;
pub mod postgres;
pub mod refusal;
pub mod release;
pub mod resolve;
pub mod rewrite;
pub mod shadow;
pub mod system_catalog;
pub mod wire;

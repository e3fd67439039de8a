// What the clients of Node share over the tables of tests/clients/shop: every check has a name,
// and says which items of the list it does.
const assert = require("node:assert");

const PORT = +process.env.VEILED_PORT;
const veiled = {
    host: "127.0.0.1",
    port: PORT,
    user: "analyst",
    password: "analyst",
    database: "nls",
};
const direct = {
    host: "127.0.0.1",
    port: +process.env.DIRECT_PORT,
    user: "postgres",
    database: "nls",
};
const COUNT = "SELECT count(*) FROM orders";
const SLOW =
    "SELECT count(*) FROM orders i JOIN orders j USING (customer), " +
    "countries a, countries b, countries c";
const BY_STATE = [
    ["open", 8000],
    ["paid", 6000],
    ["sent", 6000],
];

// The first value of the first row, as text.
const value = (rows) => String(Object.values(rows[0])[0]);
// Rows as lists of texts.
const texts = (rows) => rows.map((row) => Object.values(row).map(String));

// `open({user, password, tls})` gives a session of one connection: `ask(sql)` gives its rows as
// objects, `close()` ends it. `state(error)` reads a SQLSTATE. `cancel(session)`, where the client
// can cancel, starts the slow statement, cancels it and gives the statement's promise.
function standard({ open, state, cancel }) {
    const refused = (code, promise) =>
        assert.rejects(
            promise,
            (error) => (assert.strictEqual(state(error), code, String(error)), true),
        );
    const within = async (options, body) => {
        const session = await open(options);
        try {
            await body((sql) => session.ask(sql), session);
        } finally {
            await session.close();
        }
    };
    return {
        "connects: tls scram": async () => {
            for (const tls of [true, false])
                await within({ tls }, async (ask) =>
                    assert.strictEqual(value(await ask("SELECT 1 AS one")), "1"),
                );
            await assert.rejects(within({ password: "wrong" }, (ask) => ask("SELECT 1")));
        },
        "lists and describes: list describe": () =>
            within({}, async (ask) => {
                const tables = await ask(
                    "SELECT table_name::text FROM information_schema.tables " +
                        "WHERE table_schema = current_schema()::text ORDER BY 1",
                );
                assert.deepStrictEqual(texts(tables).flat().sort(), [
                    "Customers",
                    "countries",
                    "orders",
                ]);
                const columns = await ask(
                    "SELECT column_name::text, udt_name::text FROM information_schema.columns " +
                        "WHERE table_name = 'orders' ORDER BY ordinal_position",
                );
                assert.deepStrictEqual(texts(columns).slice(0, 4), [
                    ["id", "int8"],
                    ["customer", "int4"],
                    ["country", "bpchar"],
                    ["state", "status"],
                ]);
            }),
        "names need no schema: text": () =>
            within({}, async (ask) => {
                const rows = await ask(
                    "SELECT state::text AS state, count(*) AS n FROM orders GROUP BY 1 ORDER BY 1",
                );
                assert.deepStrictEqual(
                    texts(rows),
                    BY_STATE.map((row) => row.map(String)),
                );
                assert.strictEqual(
                    value(await ask(`SELECT count(*) FROM "Customers" WHERE "Country" = 'DE'`)),
                    "666",
                );
                assert.strictEqual(
                    value(
                        await ask(
                            `SELECT count(*) FROM orders JOIN "Customers" ON "Id" = customer ` +
                                `WHERE state = 'paid'::status`,
                        ),
                    ),
                    "6000",
                );
            }),
        "asks ten times and pays once: prepared": () =>
            within({ user: process.env.POOR }, async (ask) => {
                const spent =
                    "SELECT mu_spent::text, epsilon_spent::text, rho_spent::text " +
                    "FROM pgveil.budget";
                const sql =
                    "SELECT state::text, count(*) FROM orders WHERE placed > '2024-02-01' " +
                    "GROUP BY 1 ORDER BY 1";
                const first = await ask(sql);
                const paid = await ask(spent);
                for (let run = 0; run < 10; run++) assert.deepStrictEqual(await ask(sql), first);
                assert.deepStrictEqual(await ask(spent), paid);
                const spend = async () => {
                    for (let asked = 0; asked < 50; asked++)
                        await ask(`${COUNT} WHERE id > ${asked}`);
                };
                await refused("53400", spend());
                assert.strictEqual(value(await ask("SELECT 1 AS one")), "1");
            }),
        "reads a cursor in batches: cursor": () =>
            within({}, async (ask) => {
                await ask("BEGIN");
                await ask(
                    "DECLARE c CURSOR FOR SELECT state::text, count(*) FROM orders GROUP BY 1 " +
                        "ORDER BY 1",
                );
                assert.deepStrictEqual(
                    [(await ask("FETCH 2 FROM c")).length, (await ask("FETCH 2 FROM c")).length],
                    [2, 1],
                );
                await ask("COMMIT");
            }),
        "recovers from a refusal: refused transaction savepoint": () =>
            within({}, async (ask) => {
                await refused("42501", ask("SELECT id FROM orders LIMIT 5"));
                await ask("BEGIN");
                await ask("SAVEPOINT s");
                await refused("42501", ask("SELECT id FROM orders LIMIT 5"));
                await refused("25P02", ask(COUNT));
                await ask("ROLLBACK TO SAVEPOINT s");
                assert.strictEqual(value(await ask(COUNT)), "20000");
                await ask("COMMIT");
            }),
        "leaves a slow statement: cancel": () =>
            within({}, async (ask, session) => {
                await ask("SET statement_timeout = 300");
                await refused("57014", ask(SLOW));
                await ask("SET statement_timeout = 0");
                if (cancel) await refused("57014", cancel(session));
                assert.strictEqual(value(await ask(COUNT)), "20000");
            }),
        "resets a session: pool": () =>
            within({}, async (ask) => {
                await ask("SET application_name = 'lent'");
                await ask("DISCARD ALL");
                assert.notStrictEqual(value(await ask("SHOW application_name")), "lent");
                for (const sql of ["CLOSE ALL", "UNLISTEN *", "RESET ALL"]) await ask(sql);
                assert.strictEqual(value(await ask(COUNT)), "20000");
            }),
    };
}

// Runs checks by name; what stands after a colon are the items that the check does.
async function run(checks) {
    let failed = false;
    for (const [name, check] of Object.entries(checks)) {
        if (process.env.ONLY && !name.includes(process.env.ONLY)) continue;
        const started = Date.now();
        const [what, items] = name.split(": ");
        try {
            await check();
            console.log(`ok     ${what} ${(Date.now() - started) / 1000} s`);
            if (items) console.log("does", items);
        } catch (error) {
            failed = true;
            console.log(`FAILED ${what}`, error);
        }
    }
    process.exit(failed ? 1 : 0);
}

module.exports = { veiled, direct, COUNT, SLOW, BY_STATE, value, texts, standard, run };

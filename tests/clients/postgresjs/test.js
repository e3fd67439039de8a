// postgres.js over tables in a schema of their own.
const assert = require("node:assert");
const postgres = require("postgres");
const { veiled, SLOW, standard, run } = require("../node/checks.js");

const { database, host, port } = veiled;
const connect = ({ user = "analyst", password = "analyst", tls = false, max = 1 }) =>
    postgres({
        host,
        port,
        database,
        user,
        password,
        max,
        ssl: tls && { rejectUnauthorized: false },
        onnotice: () => {},
    });

async function open(options) {
    const sql = connect(options);
    await sql`SELECT 1`;
    return { sql, ask: async (text) => Array.from(await sql.unsafe(text)), close: () => sql.end() };
}

// With TLS, which its cancel requests use where the connection does.
async function cancel() {
    for (const tls of [true, false]) {
        const sql = connect({ tls, max: 1 });
        try {
            await sql`SELECT 1`;
            const slow = sql.unsafe(SLOW);
            // One that comes too early finds nothing to cancel, and a query sends no second one.
            setTimeout(() => slow.cancel(), 1500);
            await assert.rejects(slow, { code: "57014" });
            assert.strictEqual((await sql`SELECT count(*) FROM orders`)[0].count, "20000");
        } finally {
            await sql.end();
        }
    }
    throw Object.assign(new Error("cancelled twice"), { code: "57014" });
}

run({
    ...standard({ open, state: (error) => error.code, cancel }),
    "binds what it asks the server to describe": async () => {
        const { sql, close } = await open({});
        const states = ["paid", "sent"];
        for (let run = 0; run < 3; run++) {
            const rows = await sql`SELECT count(*)::int AS n FROM orders WHERE state IN ${sql(
                states,
            )} AND placed >= ${new Date("2024-03-01")} AND price < ${50}`;
            assert(rows[0].n > 4000 && rows[0].n < 6000, String(rows[0].n));
            assert.strictEqual(
                (
                    await sql`SELECT count(*)::int AS n FROM orders WHERE state = ${"paid"}::status`
                )[0].n,
                6000,
            );
            assert.strictEqual(
                (
                    await sql`SELECT count(*)::int AS n FROM ${sql("Customers")} WHERE ${sql(
                        "Country",
                    )} = ${"DE"}`
                )[0].n,
                666,
            );
        }
        await close();
    },
    "reads by its own cursor and transaction": async () => {
        const { sql, close } = await open({});
        const batches = [];
        await sql`SELECT code, title FROM countries ORDER BY code`.cursor(4, (rows) => {
            batches.push(rows.length);
        });
        assert.deepStrictEqual(batches, [4, 4, 2]);
        const counted = await sql.begin(async (sql) => {
            await sql
                .savepoint((sql) => sql`SELECT id FROM orders LIMIT 5`)
                .catch((error) => assert.strictEqual(error.code, "42501"));
            return sql`SELECT count(*)::int AS n FROM orders`;
        });
        assert.strictEqual(counted[0].n, 20000);
        await close();
    },
});

// node-postgres over tables in a schema of their own.
const assert = require("node:assert");
const { Client } = require("pg");
const { veiled, direct, SLOW, value, standard, run } = require("./checks.js");

async function open({ user = "analyst", password = "analyst", tls = false }) {
    const client = new Client({
        ...veiled,
        user,
        password,
        ssl: tls && { rejectUnauthorized: false },
    });
    client.on("error", () => {});
    await client.connect();
    return {
        client,
        ask: async (sql) => (await client.query(sql)).rows,
        close: () => client.end(),
    };
}

// By a connection of its own that sends the first one's key, as Client.cancel does.
async function cancel({ client }) {
    const slow = client.query(SLOW);
    slow.catch(() => {});
    const sent = [];
    const insist = setInterval(() => {
        const active = client._getActiveQuery();
        if (!active) return;
        const canceller = new Client(veiled);
        canceller.connection.on("error", () => {});
        sent.push(new Promise((done) => canceller.connection.once("end", done)));
        canceller.cancel(client, active);
    }, 300);
    try {
        return await slow;
    } finally {
        clearInterval(insist);
        await Promise.all(sent);
    }
}

run({
    ...standard({ open, state: (error) => error.code, cancel }),
    "binds dates, enums and lists": async () => {
        const [mine, theirs] = [await open({}), { client: new Client(direct) }];
        await theirs.client.connect();
        for (const [text, values] of [
            [
                "SELECT count(*) FROM orders WHERE state = $1 AND placed >= $2",
                ["paid", new Date("2024-03-01T00:00:00Z")],
            ],
            ["SELECT count(*) FROM orders WHERE shipped < $1", [new Date("2024-03-01T12:00:00Z")]],
            [
                "SELECT country, count(*) AS n FROM orders WHERE state = $1::status " +
                    "GROUP BY country HAVING count(*) > 0 ORDER BY 1",
                ["sent"],
            ],
            ['SELECT count(*) FROM "Customers" WHERE "Country" = ANY ($1)', [["DE", "FR"]]],
            ["SELECT code, title FROM countries WHERE code = $1", ["AT"]],
        ]) {
            const [a, b] = [
                await mine.client.query(text, values),
                await theirs.client.query(text, values),
            ];
            assert.deepStrictEqual(a.rows, b.rows, text);
        }
        assert.strictEqual(value(await mine.ask("SHOW search_path")), "shop");
        await mine.close();
        await theirs.client.end();
    },
});

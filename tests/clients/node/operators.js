// node-postgres in the admin database: simple queries, and named ones, which it prepares.
const assert = require("node:assert");
const { Client } = require("pg");

async function main() {
    const client = new Client({
        host: "127.0.0.1",
        port: +process.env.VEILED_PORT,
        user: "olga",
        password: "analyst",
        database: "pgveil",
    });
    await client.connect();
    const sessions = await client.query("SHOW SESSIONS");
    assert.deepStrictEqual(
        sessions.rows.map((row) => [row.role, row.kind]),
        [["olga", "operator"]],
    );
    for (let time = 0; time < 3; time++) {
        const pools = await client.query({ name: "pools", text: "SHOW POOLS" });
        assert.deepStrictEqual(
            pools.rows.map((row) => row.pool),
            ["database", "shadow"],
        );
    }
    const killed = client.query({ name: "kill", text: "KILL 1" });
    await assert.rejects(killed, (error) => error.code === "42704");
    await client.end();
}

main().catch((error) => {
    console.error(error);
    process.exit(1);
});

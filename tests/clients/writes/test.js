// node-postgres writes through pgveil: rows with and without parameters, transactions, COPY.
const assert = require("node:assert");
const { pipeline } = require("node:stream/promises");
const { Readable } = require("node:stream");
const { Client, Pool } = require("pg");
const { from } = require("pg-copy-streams");

const veiled = {
    host: "127.0.0.1",
    port: +process.env.VEILED_PORT,
    user: "collector",
    password: "analyst",
    database: "nls",
};
const direct = {
    host: "127.0.0.1",
    port: +process.env.DIRECT_PORT,
    user: "postgres",
    database: "nls",
};
const COLUMNS = '"Person", "Wave", "Smoked", "Illness", "Letter", "Tea", "Coffee", "Income"';
const INTO = `"Survey"."Answers" (${COLUMNS})`;
const INSERT = `INSERT INTO ${INTO} VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`;

const row = (person) => [person, 1, "yes", "flu", "a", true, false, 1000 + (person % 4000)];

async function main() {
    const owner = new Client(direct);
    await owner.connect();
    const count = async (where = "true") =>
        +(await owner.query(`SELECT count(*) FROM "Survey"."Answers" WHERE ${where}`)).rows[0]
            .count;
    const refused = (code, promise) =>
        assert.rejects(promise, (error) => {
            assert.strictEqual(error.code, code);
            assert(!JSON.stringify(error).includes("perhaps"), JSON.stringify(error));
            return true;
        });

    const pool = new Pool({ ...veiled, max: 4 });
    await Promise.all(
        Array.from({ length: 40 }, (_, at) => pool.query(INSERT, row(at + 1))),
    );
    assert.strictEqual(await count(), 40);
    // A statement that the server keeps, by its name.
    for (let person = 41; person <= 50; person++) {
        const written = await pool.query({ name: "answer", text: INSERT, values: row(person) });
        assert.deepStrictEqual([written.command, written.rowCount], ["INSERT", 1]);
    }
    // Without parameters, by the simple protocol: one statement, and two in one string.
    const literal = (person, smoked = "yes") =>
        `INSERT INTO ${INTO} VALUES (${person}, 1, '${smoked}', 'flu', 'a', true, false, 1000)`;
    const simple = await pool.query(literal(51));
    assert.deepStrictEqual([simple.command, simple.rowCount], ["INSERT", 1]);
    await pool.query(`${literal(52)}; ${literal(53)}`);
    await refused("22023", pool.query(`${literal(54)}; ${literal(55, "perhaps")}`));
    assert.strictEqual(await count(), 53);
    await refused("22023", pool.query(INSERT, [60, 1, "perhaps", "flu", "a", true, false, 1000]));
    await refused("22003", pool.query(INSERT, [60, 1, "yes", "flu", "a", true, false, 999]));
    await refused("23505", pool.query(INSERT, row(50)));
    await refused("0A000", pool.query(`${INSERT} RETURNING "Row"`, row(60)));
    await refused("42501", pool.query('UPDATE "Survey"."Answers" SET "Wave" = 2'));
    assert.strictEqual(await count(), 53);

    const client = await pool.connect();
    await client.query("BEGIN");
    await client.query(INSERT, row(70));
    await client.query("SAVEPOINT a");
    await refused("22023", client.query(INSERT, [71, 1, "perhaps", "flu", "a", true, false, 1000]));
    await client.query("ROLLBACK TO a");
    await client.query(INSERT, row(72));
    assert.strictEqual(await count('"Person" BETWEEN 70 AND 79'), 0);
    await client.query("COMMIT");
    assert.strictEqual(await count('"Person" BETWEEN 70 AND 79'), 2);
    await client.query("BEGIN");
    await client.query(INSERT, row(80));
    await client.query("ROLLBACK");

    const lines = (first, last, smoked = "yes") =>
        Array.from({ length: last - first + 1 }, (_, at) =>
            [first + at, 1, smoked, "flu", "a", "t", "f", 1000].join("\t") + "\n",
        );
    const copied = client.query(from(`COPY ${INTO} FROM STDIN`));
    await pipeline(Readable.from(lines(1000, 2999)), copied);
    assert.strictEqual(copied.rowCount, 2000);
    await refused(
        "22023",
        pipeline(
            Readable.from([...lines(3000, 3009), ...lines(3010, 3010, "perhaps")]),
            client.query(from(`COPY ${INTO} FROM STDIN`)),
        ),
    );
    const given = (async function* () {
        yield* lines(4000, 4009);
        throw new Error("the client gives up");
    })();
    await assert.rejects(
        pipeline(Readable.from(given), client.query(from(`COPY ${INTO} FROM STDIN`))),
    );
    // The connection is as good as before.
    await client.query(INSERT, row(90));
    assert.strictEqual(await count('"Person" >= 1000'), 2000);
    assert.strictEqual(await count(), 2056);
    client.release();
    await pool.end();
    await owner.end();
    console.log("node-postgres wrote");
}

main().catch((error) => {
    console.error(error);
    process.exit(1);
});

// node-pg against pgveil.
const assert = require("node:assert");
const { Client, Pool } = require("pg");
const Cursor = require("pg-cursor");

const WOMEN = "SELECT count(*) FROM nls.women";
const SLOW =
    "SELECT count(*) FROM nls.interviews i JOIN nls.interviews j USING (woman_id), " +
    "nls.industries a, nls.occupations b, nls.industries c";
const veiled = {
    host: "127.0.0.1",
    port: +process.env.VEILED_PORT,
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

async function open(options) {
    const client = new Client(options);
    client.on("error", () => {});
    await client.connect();
    return client;
}

const refused = (code, promise) =>
    assert.rejects(promise, (error) => (assert.strictEqual(error.code, code), true));
const checks = {
    async connects() {
        for (const ssl of [false, { rejectUnauthorized: false }]) {
            const client = await open({
                ...veiled,
                ssl,
                application_name: "a test",
                options: "-c search_path=nls",
                statement_timeout: 20000,
            });
            assert.strictEqual((await client.query("SELECT 1 AS one")).rows[0].one, 1);
            assert.strictEqual(
                (await client.query("SELECT count(*) FROM women")).rows[0].count,
                "4711",
            );
            await client.end();
        }
        await refused("28P01", open({ ...veiled, password: "wrong" }));
        await refused("3D000", open({ ...veiled, database: "elsewhere" }));
    },
    async answers_as_postgresql() {
        const [mine, theirs] = [await open(veiled), await open(direct)];
        const heard = [];
        mine.on("notice", (notice) => heard.push(notice.message));
        for (const [text, values] of [
            [
                "SELECT race, count(*) AS n FROM nls.women WHERE birth_year > $1 AND race <> $2 " +
                    "GROUP BY race ORDER BY race",
                [1947, "it's"],
            ],
            [
                "SELECT year, count(*), count(*) > 5 AS many FROM nls.interviews GROUP BY year " +
                    "ORDER BY year",
                [],
            ],
            ["SELECT count(*) FROM nls.interviews WHERE hourly_wage < $1", ["7.25"]],
            ["SELECT count(*) FROM nls.women WHERE race = $1", [null]],
            ["SELECT date '2020-02-29', 1.50, true, NULL, 7::int8", []],
        ]) {
            for (let run = 0; run < 3; run++) {
                const query = { text, values, name: "n" + text.length };
                const [a, b] = [await mine.query(query), await theirs.query(query)];
                const columns = (result) =>
                    result.fields.map((field) => [
                        field.name,
                        field.dataTypeID,
                        field.dataTypeSize,
                        field.dataTypeModifier,
                    ]);
                assert.deepStrictEqual(columns(a), columns(b));
                assert.deepStrictEqual(a.rows, b.rows);
            }
        }
        assert(heard.some((text) => text.includes("privacy cost")));
        assert.strictEqual((await mine.query("")).rows.length, 0);
        assert.strictEqual((await mine.query(`SELECT 1; ${WOMEN}`)).length, 2);
        await mine.end();
        await theirs.end();
    },
    async reads_by_cursor() {
        const client = await open(veiled);
        const cursor = client.query(
            new Cursor(
                "SELECT year, race, count(*) FROM nls.interviews JOIN nls.women USING (woman_id) " +
                    "GROUP BY 1, 2",
            ),
        );
        assert.strictEqual((await cursor.read(7)).length, 7);
        assert.strictEqual((await cursor.read(100)).length, 38);
        assert.strictEqual((await cursor.read(100)).length, 0);
        await cursor.close();
        await client.end();
    },
    async refuses_and_goes_on() {
        const client = await open(veiled);
        await refused("42501", client.query("SELECT * FROM nls.women LIMIT 5"));
        await client.query("BEGIN");
        await refused(
            "42501",
            client.query("SELECT * FROM nls.women WHERE birth_year = $1", [1950]),
        );
        await refused("25P02", client.query("SELECT 1"));
        assert.strictEqual((await client.query("COMMIT")).command, "ROLLBACK");
        const hasty = await open({ ...veiled, statement_timeout: 700 });
        await refused("57014", hasty.query(SLOW));
        await hasty.end();
        const slow = client.query(SLOW);
        // One that comes too early finds nothing to cancel, and one that is still on its way would
        // meet the next statement.
        const sent = [];
        const insist = setInterval(() => {
            const active = client.activeQuery ?? client._getActiveQuery();
            if (!active) return;
            const canceller = new Client(veiled);
            canceller.connection.on("error", () => {});
            sent.push(new Promise((done) => canceller.connection.once("end", done)));
            canceller.cancel(client, active);
        }, 400);
        await refused("57014", slow);
        clearInterval(insist);
        await Promise.all(sent);
        await client.query("LISTEN news");
        assert.strictEqual((await client.query("SELECT 1 AS one")).rows[0].one, 1);
        await client.end();
    },
    async asks_ten_times_and_pays_once() {
        const client = await open(veiled);
        const heard = [];
        client.on("notice", (notice) => heard.push(notice.message));
        const query = {
            name: "again",
            text:
                "SELECT race, count(*) FROM nls.women WHERE birth_year > $1 AND race <> 'x' " +
                "GROUP BY race ORDER BY race",
            values: [1942],
        };
        const first = (await client.query(query)).rows;
        for (let run = 0; run < 10; run++)
            assert.deepStrictEqual((await client.query(query)).rows, first);
        assert(
            heard.filter((text) => text.includes("privacy cost") && !text.includes("nothing"))
                .length <= 1,
            heard,
        );
        await client.end();
    },
    async lists_and_describes() {
        const client = await open(veiled);
        const tables = await client.query(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = $1 ORDER BY 1",
            ["nls"],
        );
        assert.deepStrictEqual(
            tables.rows.map((row) => row.table_name),
            ["industries", "interviews", "occupations", "women"],
        );
        const columns = await client.query(
            "SELECT column_name FROM information_schema.columns WHERE table_name = $1 " +
                "ORDER BY ordinal_position",
            ["women"],
        );
        assert.strictEqual(columns.rows[0].column_name, "woman_id");
        await client.end();
    },
    async keeps_a_transaction_by_savepoints() {
        const client = await open(veiled);
        await client.query("BEGIN");
        await client.query("SAVEPOINT s");
        await refused("42501", client.query("SELECT * FROM nls.women LIMIT 5"));
        await client.query("ROLLBACK TO s");
        assert.strictEqual((await client.query(WOMEN)).rows[0].count, "4711");
        assert.strictEqual((await client.query("COMMIT")).command, "COMMIT");
        await client.end();
    },
    async lends_from_a_pool() {
        const pool = new Pool({ ...veiled, max: 2 });
        const counts = await Promise.all(
            [1, 2, 3, 4, 5].map(async () => {
                const client = await pool.connect();
                try {
                    await client.query("SET application_name = 'lent'");
                    await client.query("DISCARD ALL");
                    return (await client.query(WOMEN)).rows[0].count;
                } finally {
                    client.release();
                }
            }),
        );
        assert.deepStrictEqual(counts, Array(5).fill("4711"));
        await pool.end();
    },
    async exhausts_its_budget() {
        const client = await open({ ...veiled, user: process.env.POOR });
        const spend = async () => {
            for (let asked = 0; asked < 50; asked++)
                await client.query(`${WOMEN} WHERE birth_year > ${asked}`);
        };
        await refused("53400", spend());
        assert.strictEqual((await client.query("SELECT 1 AS one")).rows[0].one, 1);
        await client.end();
    },
};

// What every client is to do, by the check that does it.
const does = {
    connects: "tls scram",
    answers_as_postgresql: "text",
    reads_by_cursor: "cursor",
    refuses_and_goes_on: "refused transaction cancel",
    asks_ten_times_and_pays_once: "prepared",
    lists_and_describes: "list describe",
    keeps_a_transaction_by_savepoints: "savepoint",
    lends_from_a_pool: "pool",
};

(async () => {
    let failed = false;
    for (const [name, check] of Object.entries(checks)) {
        const started = Date.now();
        try {
            await check();
            console.log(`ok     ${name} ${(Date.now() - started) / 1000} s`);
            if (does[name]) console.log("does", does[name]);
        } catch (error) {
            failed = true;
            console.log(`FAILED ${name}`, error);
        }
    }
    process.exit(failed ? 1 : 0);
})();

// node-pg against pgveil.
const assert = require("node:assert");
const { Client } = require("pg");
const Cursor = require("pg-cursor");

const WOMEN = "SELECT count(*) FROM nls.women";
const SLOW = "SELECT count(*) FROM nls.interviews i, nls.industries a, nls.occupations b, nls.industries c, nls.occupations d, nls.industries e";
const veiled = { host: "127.0.0.1", port: +process.env.VEILED_PORT, user: "analyst", password: "analyst", database: "nls" };
const direct = { host: "127.0.0.1", port: +process.env.DIRECT_PORT, user: "postgres", database: "nls" };

async function open(options) {
    const client = new Client(options);
    client.on("error", () => {});
    await client.connect();
    return client;
}

const refused = (code, promise) => assert.rejects(promise, (error) => (assert.strictEqual(error.code, code), true));
const checks = {
    async connects() {
        for (const ssl of [false, { rejectUnauthorized: false }]) {
            const client = await open({ ...veiled, ssl, application_name: "a test", options: "-c search_path=nls", statement_timeout: 20000 });
            assert.strictEqual((await client.query("SELECT 1 AS one")).rows[0].one, 1);
            assert.strictEqual((await client.query("SELECT count(*) FROM women")).rows[0].count, "4711");
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
            ["SELECT race, count(*) AS n FROM nls.women WHERE birth_year > $1 AND race <> $2 GROUP BY race ORDER BY race", [1947, "it's"]],
            ["SELECT year, count(*), count(*) > 5 AS many FROM nls.interviews GROUP BY year ORDER BY year", []],
            ["SELECT count(*) FROM nls.interviews WHERE hourly_wage < $1", ["7.25"]],
            ["SELECT count(*) FROM nls.women WHERE race = $1", [null]],
            ["SELECT date '2020-02-29', 1.50, true, NULL, 7::int8", []],
        ]) {
            for (let run = 0; run < 3; run++) {
                const query = { text, values, name: "n" + text.length };
                const [a, b] = [await mine.query(query), await theirs.query(query)];
                const columns = (result) => result.fields.map((field) => [field.name, field.dataTypeID, field.dataTypeSize, field.dataTypeModifier]);
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
        const cursor = client.query(new Cursor("SELECT year, race, count(*) FROM nls.interviews JOIN nls.women USING (woman_id) GROUP BY 1, 2"));
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
        await refused("42501", client.query("SELECT * FROM nls.women WHERE birth_year = $1", [1950]));
        await refused("25P02", client.query("SELECT 1"));
        assert.strictEqual((await client.query("COMMIT")).command, "ROLLBACK");
        const hasty = await open({ ...veiled, statement_timeout: 700 });
        await refused("57014", hasty.query(SLOW));
        await hasty.end();
        await client.query("LISTEN news");
        assert.strictEqual((await client.query("SELECT 1 AS one")).rows[0].one, 1);
        await client.end();
    },
    async exhausts_its_budget() {
        const client = await open({ ...veiled, user: process.env.POOR });
        const spend = async () => { for (let asked = 0; asked < 50; asked++) await client.query(`${WOMEN} WHERE birth_year > ${asked}`); };
        await refused("53400", spend());
        assert.strictEqual((await client.query("SELECT 1 AS one")).rows[0].one, 1);
        await client.end();
    },
};

(async () => {
    let failed = false;
    for (const [name, check] of Object.entries(checks)) {
        const started = Date.now();
        try {
            await check();
            console.log(`ok     ${name} ${(Date.now() - started) / 1000} s`);
        } catch (error) {
            failed = true;
            console.log(`FAILED ${name}`, error);
        }
    }
    process.exit(failed ? 1 : 0);
})();

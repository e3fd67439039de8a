// Prisma over tables in a schema of their own: `db pull` by its schema engine in WebAssembly,
// `generate`, and the client that this makes, over its driver adapter. The native schema engine is
// not on npm and is not used; both are built from one source.
import assert from "node:assert";
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";

const modules = process.env.NODE_PATH;
const require = createRequire(path.join(modules, "x.js"));
const { standard, run, veiled, COUNT, BY_STATE } = createRequire(import.meta.url)(
    "../node/checks.js",
);
const { PrismaPg } = require("@prisma/adapter-pg");
const { bindMigrationAwareSqlAdapterFactory } = require("@prisma/driver-adapter-utils");
const made = path.join(process.env.HOME, "prisma");

// The adapter refuses PostgreSQL's one-byte "char", which the introspection reads: such columns are
// shown to it as text.
const { Result } = require("pg");
const add = Result.prototype.addFields;
Result.prototype.addFields = function (fields) {
    for (const field of fields) if (field.dataTypeID === 18) field.dataTypeID = 25;
    return add.call(this, fields);
};

const adapter = ({ user = "analyst", password = "analyst", tls = false }) =>
    new PrismaPg(
        { ...veiled, user, password, max: 1, ssl: tls && { rejectUnauthorized: false } },
        { schema: "shop" },
    );

async function pull() {
    const folder = path.join(modules, "@prisma/schema-engine-wasm");
    const glue = await import(pathToFileURL(path.join(folder, "schema_engine_bg.js")));
    const { instance } = await WebAssembly.instantiate(
        fs.readFileSync(path.join(folder, "schema_engine_bg.wasm")),
        { "./schema_engine_bg.js": glue },
    );
    glue.__wbg_set_wasm(instance.exports);
    instance.exports.__wbindgen_start();
    const content = 'datasource db {\n  provider = "postgresql"\n}\n';
    const factory = bindMigrationAwareSqlAdapterFactory(adapter({}));
    const engine = await glue.SchemaEngine.new(
        { datamodels: [["schema.prisma", content]] },
        () => {},
        factory,
    );
    const files = [{ path: "schema.prisma", content }];
    const pulled = await engine.introspect({
        schema: { files },
        baseDirectoryPath: ".",
        force: false,
        compositeTypeDepth: 0,
        namespaces: null,
    });
    return pulled.schema.files[0].content;
}

// Without an engine: only that one is named keeps `generate` from fetching it.
function generate(schema) {
    fs.rmSync(made, { recursive: true, force: true });
    fs.mkdirSync(made, { recursive: true });
    fs.writeFileSync(
        path.join(made, "schema.prisma"),
        `generator client {\n  provider = "prisma-client-js"\n  output = "./client"\n}\n\n` +
            schema,
    );
    fs.symlinkSync(modules, path.join(made, "node_modules"));
    const environment = {
        ...process.env,
        PRISMA_SCHEMA_ENGINE_BINARY: "/bin/true",
        PRISMA_HIDE_UPDATE_MESSAGE: "1",
        CHECKPOINT_DISABLE: "1",
    };
    execFileSync("node", [path.join(modules, "prisma/build/index.js"), "generate"], {
        cwd: made,
        env: environment,
        stdio: "inherit",
    });
    return require(path.join(made, "client")).PrismaClient;
}

let Client;
const state = (error) => error.meta?.driverAdapterError?.cause?.originalCode ?? error.meta?.code;

async function open(options) {
    const prisma = new Client({ adapter: adapter(options) });
    return { prisma, ask: (sql) => prisma.$queryRawUnsafe(sql), close: () => prisma.$disconnect() };
}

const count = (by) => by.map((row) => [row.state, row._count._all]);

run({
    "pulls the schema and generates: list describe": async () => {
        const schema = await pull();
        const words = schema.replace(/ +/g, " ");
        for (const line of [
            "model Customers {",
            "Id Int @id",
            "Country String @db.Char(2)",
            "model orders {",
            "state status",
            "price Decimal @db.Decimal(10, 2)",
            "placed DateTime @db.Date",
            "shipped DateTime? @db.Timestamptz(6)",
            "model countries {",
            "enum status {",
        ])
            assert(words.includes(line), schema);
        Client = generate(schema);
    },
    ...standard({ open, state }),
    // After a failed statement outside of a transaction the adapter's pool closes the connection,
    // so that BEGIN is the client's own.
    "recovers from a refusal: refused transaction savepoint": async () => {
        const { prisma, close } = await open({});
        const refused = (code, promise) =>
            assert.rejects(
                promise,
                (error) => (assert.strictEqual(state(error), code, String(error)), true),
            );
        await refused("42501", prisma.$queryRawUnsafe("SELECT id FROM orders LIMIT 5"));
        await prisma.$transaction(async (inside) => {
            await inside.$executeRawUnsafe("SAVEPOINT s");
            await refused("42501", inside.$queryRawUnsafe("SELECT id FROM orders LIMIT 5"));
            await refused("25P02", inside.$queryRawUnsafe(COUNT));
            await inside.$executeRawUnsafe("ROLLBACK TO SAVEPOINT s");
            assert.strictEqual(Number((await inside.$queryRawUnsafe(COUNT))[0].count), 20000);
        });
        await close();
    },
    "models count, sum and group": async () => {
        const { prisma, close } = await open({});
        const { orders, Customers: customers, countries } = prisma;
        assert.strictEqual(await orders.count(), 20000);
        assert.strictEqual(await orders.count({ where: { state: "paid" } }), 6000);
        assert.strictEqual(
            await orders.count({ where: { state: { in: ["paid", "sent"] }, country: "DE" } }),
            3996,
        );
        assert.strictEqual(
            await orders.count({
                where: { placed: { gte: new Date("2024-01-01") }, shipped: { not: null } },
            }),
            15000,
        );
        assert.strictEqual(await customers.count({ where: { Country: "DE" } }), 666);
        const all = await orders.aggregate({
            _count: true,
            _avg: { price: true },
            where: { state: { not: "open" } },
        });
        assert.strictEqual(all._count, 12000);
        assert(+all._avg.price > 49 && +all._avg.price < 50, String(all._avg.price));
        assert.deepStrictEqual(
            count(
                await orders.groupBy({
                    by: ["state"],
                    _count: { _all: true },
                    orderBy: { state: "asc" },
                }),
            ),
            BY_STATE,
        );
        assert.strictEqual(
            (await countries.findMany({ take: 3, orderBy: { code: "asc" } })).length,
            3,
        );
        await assert.rejects(
            orders.findMany({ take: 3 }),
            (error) => (assert.strictEqual(state(error), "42501", String(error)), true),
        );
        await close();
    },
    "transactions of its own": async () => {
        const { prisma, close } = await open({});
        const counted = await prisma.$transaction(async (inside) =>
            inside.orders.count({ where: { state: "sent" } }),
        );
        assert.strictEqual(counted, 6000);
        const two = await prisma.$transaction([
            prisma.orders.count(),
            prisma.$queryRawUnsafe(COUNT),
        ]);
        assert.deepStrictEqual([two[0], Number(two[1][0].count)], [20000, 20000]);
        await close();
    },
});

// Sequelize over tables in a schema of their own: what it learns of them, and a model that counts.
const assert = require("node:assert");
const { DataTypes, Op, Sequelize } = require("sequelize");
const { veiled, BY_STATE, standard, run } = require("../node/checks.js");

const { database, host, port } = veiled;
const connect = ({ user = "analyst", password = "analyst", tls = false }) =>
    new Sequelize(database, user, password, {
        host,
        port,
        dialect: "postgres",
        logging: false,
        pool: { max: 1 },
        dialectOptions: { ssl: tls && { rejectUnauthorized: false } },
    });

async function open(options) {
    const sequelize = connect(options);
    await sequelize.authenticate();
    const ask = async (sql) => {
        // Of SHOW it gives the rows alone, of all else a pair.
        const found = await sequelize.query(sql, { raw: true });
        return Array.isArray(found[0]) ? found[0] : found;
    };
    return { sequelize, ask, close: () => sequelize.close() };
}

run({
    ...standard({ open, state: (error) => error.parent?.code }),
    "describes tables: list describe": async () => {
        const { sequelize, close } = await open({});
        const about = sequelize.getQueryInterface();
        assert.deepStrictEqual((await about.showAllSchemas()).flat().sort(), ["pgveil", "shop"]);
        for (const table of [{ tableName: "orders", schema: "shop" }]) {
            const columns = await about.describeTable(table);
            assert.deepStrictEqual(Object.keys(columns), [
                "id",
                "customer",
                "country",
                "state",
                "placed",
                "shipped",
                "price",
            ]);
            assert.deepStrictEqual(
                [columns.id.type, columns.id.primaryKey, columns.id.allowNull],
                ["BIGINT", true, false],
            );
            assert.deepStrictEqual(
                [columns.country.type, columns.price.type],
                ["CHARACTER(2)", "NUMERIC"],
            );
            assert.deepStrictEqual(
                [columns.state.type, columns.state.special],
                ["USER-DEFINED", ["open", "paid", "sent"]],
            );
            assert.strictEqual(columns.placed.type, "DATE");
        }
        const people = await about.describeTable({ tableName: "Customers", schema: "shop" });
        assert.deepStrictEqual(Object.keys(people), ["Id", "Country", "Name"]);
        const indexes = await about.showIndex({ tableName: "Customers", schema: "shop" });
        assert.deepStrictEqual(
            indexes.map((index) => [index.name, index.primary]),
            [["Customers_pkey", true]],
        );
        assert.strictEqual(await about.tableExists({ tableName: "orders", schema: "shop" }), true);
        await close();
    },
    "a model counts": async () => {
        const { sequelize, close } = await open({});
        const columns = {
            id: { type: DataTypes.BIGINT, primaryKey: true },
            customer: DataTypes.INTEGER,
            country: DataTypes.CHAR(2),
            state: DataTypes.ENUM("open", "paid", "sent"),
            placed: DataTypes.DATEONLY,
            shipped: DataTypes.DATE,
            price: DataTypes.DECIMAL(10, 2),
        };
        for (const more of [{}, { schema: "shop" }]) {
            const Order = sequelize.define("Order", columns, {
                tableName: "orders",
                timestamps: false,
                ...more,
            });
            assert.strictEqual(await Order.count(), 20000);
            assert.strictEqual(
                await Order.count({ where: { state: "paid", country: "DE" } }),
                1998,
            );
            assert.strictEqual(
                await Order.count({
                    where: { shipped: { [Op.gte]: new Date("2024-01-02T10:00:00Z") } },
                }),
                15000,
            );
            assert.strictEqual(
                await Order.count({
                    where: { placed: { [Op.between]: ["2024-01-01", "2025-01-01"] } },
                }),
                20000,
            );
            const sum = await Order.sum("price", {
                where: { state: { [Op.in]: ["paid", "sent"] } },
            });
            assert(sum > 590000 && sum < 600000, String(sum));
            const groups = await Order.findAll({
                attributes: ["state", [sequelize.fn("COUNT", sequelize.col("*")), "n"]],
                group: ["state"],
                order: ["state"],
                raw: true,
            });
            assert.deepStrictEqual(
                groups.map((row) => [row.state, +row.n]),
                BY_STATE,
            );
            await assert.rejects(
                Order.findAll({ limit: 3 }),
                (error) => error.parent.code === "42501",
            );
        }
        await close();
    },
    "transactions and savepoints of its own": async () => {
        const { sequelize, close } = await open({});
        await sequelize.transaction(async (transaction) => {
            const inner = sequelize.transaction({ transaction }, (nested) =>
                sequelize.query("SELECT id FROM orders LIMIT 5", { transaction: nested }),
            );
            await assert.rejects(inner, (error) => error.parent.code === "42501");
            const [rows] = await sequelize.query("SELECT count(*) FROM orders", { transaction });
            assert.strictEqual(rows[0].count, "20000");
        });
        await close();
    },
});

import java.math.BigDecimal;
import java.sql.*;
import java.util.*;

/** pgJDBC against pgveil. Run as one source file with the driver on the class path. */
public class Clients {
    static final String VEILED =
        "jdbc:postgresql://127.0.0.1:" + System.getenv("VEILED_PORT") + "/nls";
    static final String DIRECT =
        "jdbc:postgresql://127.0.0.1:" + System.getenv("DIRECT_PORT") + "/nls?sslmode=disable";
    static final String WOMEN = "SELECT count(*) FROM nls.women";
    static final String SLOW =
        "SELECT count(*) FROM nls.interviews i JOIN nls.interviews j USING (woman_id), "
            + "nls.industries a, nls.occupations b, nls.industries c";

    interface Check { void run() throws Exception; }

    static boolean failed = false;

    /** What every client is to do, by the check that does it. */
    static final Map<String, String> DOES = Map.of(
        "connects with and without TLS", "tls scram",
        "metadata shows what the policy shows", "list describe",
        "names, types and rows are PostgreSQL's", "text binary",
        "fetches in batches", "cursor",
        "a refused preview leaves the connection whole", "refused",
        "transactions and savepoints", "transaction savepoint",
        "a working statement is cancelled", "cancel",
        "the same question ten times is one", "prepared",
        "a session is reset", "pool");

    static void check(String name, Check body) {
        long started = System.nanoTime();
        try {
            body.run();
            System.out.printf("ok     %s %.2f s%n", name, (System.nanoTime() - started) / 1e9);
            if (DOES.containsKey(name)) System.out.println("does " + DOES.get(name));
        } catch (Throwable error) {
            failed = true;
            System.out.println("FAILED " + name);
            error.printStackTrace(System.out);
        }
    }

    static void same(Object found, Object wanted) {
        if (!Objects.equals(found, wanted))
            throw new AssertionError("found " + found + ", wanted " + wanted);
    }

    static void sure(boolean held, Object what) {
        if (!held) throw new AssertionError(what);
    }

    static Connection veiled(String... options) throws SQLException {
        Properties properties = new Properties();
        properties.setProperty("user", "analyst");
        properties.setProperty("password", "analyst");
        properties.setProperty("sslmode", "disable");
        for (String option : options)
            properties.setProperty(option.split("=")[0], option.split("=")[1]);
        return DriverManager.getConnection(VEILED, properties);
    }

    static Connection direct() throws SQLException {
        return DriverManager.getConnection(DIRECT, "postgres", "");
    }

    static SQLException refused(String state, Check body) throws Exception {
        try {
            body.run();
        } catch (SQLException error) {
            same(error.getSQLState(), state);
            return error;
        }
        throw new AssertionError("not refused with " + state);
    }

    static long one(Connection connection, String sql) throws SQLException {
        try (Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery(sql)) {
            rows.next();
            return rows.getLong(1);
        }
    }

    static List<String> strings(ResultSet rows, String column) throws SQLException {
        List<String> found = new ArrayList<>();
        while (rows.next()) found.add(rows.getString(column));
        rows.close();
        return found;
    }

    static List<String> columns(ResultSet rows) throws SQLException {
        ResultSetMetaData meta = rows.getMetaData();
        List<String> found = new ArrayList<>();
        for (int i = 1; i <= meta.getColumnCount(); i++) {
            found.add(meta.getColumnLabel(i) + ":" + meta.getColumnTypeName(i) + ":"
                + meta.getColumnType(i) + ":" + meta.getPrecision(i) + ":" + meta.getScale(i) + ":"
                + meta.getColumnClassName(i));
        }
        return found;
    }

    static List<List<Object>> rows(ResultSet rows) throws SQLException {
        List<List<Object>> found = new ArrayList<>();
        while (rows.next()) {
            List<Object> row = new ArrayList<>();
            for (int i = 1; i <= rows.getMetaData().getColumnCount(); i++) {
                Object value = rows.getObject(i);
                // An average is a ratio of two released sums: nine digits.
                if (value instanceof BigDecimal || value instanceof Double)
                    value = String.format("%.9g", ((Number) value).doubleValue());
                row.add(value);
            }
            found.add(row);
        }
        return found;
    }

    static final String[] COMPARED = {
        WOMEN,
        "SELECT race, count(*) AS n, avg(years_of_school) FROM nls.women GROUP BY race "
            + "ORDER BY race",
        "SELECT year, avg(age), avg(age)::float8 AS f, count(*) > 1000 AS many FROM nls.interviews "
            + "GROUP BY 1 ORDER BY 1",
        "SELECT industry_code, industry FROM nls.industries ORDER BY 1",
        "SELECT 1, 'a', true, NULL, 1.50, 12345678901, 1.5::float8 AS f, date '2020-02-29', "
            + "'x'::text, 2::int2",
        "SELECT date '1988-01-01' AS d, count(*) FROM nls.women",
        "SELECT * FROM nls.women LIMIT 0",
    };

    public static void main(String[] arguments) throws Exception {
        check("connects with and without TLS", () -> {
            for (String mode : new String[] {"require", "disable", "prefer"}) {
                try (Connection connection = veiled("sslmode=" + mode)) {
                    same(one(connection, "SELECT 1"), 1L);
                    sure(connection.isValid(60), "isValid");
                }
            }
            refused("28P01", () -> veiled("password=wrong"));
            refused("28P01", () -> veiled("user=nobody"));
            refused("3D000", () -> DriverManager.getConnection(
                VEILED.replace("/nls", "/elsewhere") + "?sslmode=disable", "analyst", "analyst"));
        });
        try (Connection connection = veiled("sslmode=require"); Connection real = direct()) {
            check("says what server it is", () -> {
                DatabaseMetaData mine = connection.getMetaData();
                same(mine.getDatabaseProductName(), "PostgreSQL");
                same(mine.getDatabaseMajorVersion(), real.getMetaData().getDatabaseMajorVersion());
                same(connection.getTransactionIsolation(), Connection.TRANSACTION_READ_COMMITTED);
                same(connection.getCatalog(), "nls");
            });
            check("names, types and rows are PostgreSQL's", () -> {
                for (String sql : COMPARED) {
                    // The last run uses a named statement and binary results.
                    try (PreparedStatement mine = connection.prepareStatement(sql);
                            PreparedStatement theirs = real.prepareStatement(sql)) {
                        for (int run = 0; run < 2; run++) {
                            mine.unwrap(org.postgresql.PGStatement.class).setPrepareThreshold(2);
                            theirs.unwrap(org.postgresql.PGStatement.class).setPrepareThreshold(2);
                            ResultSet a = mine.executeQuery(), b = theirs.executeQuery();
                            same(columns(a), columns(b));
                            same(rows(a), rows(b));
                        }
                    }
                }
            });
            check("binds parameters", () -> {
                String sql = "SELECT race, count(*) FROM nls.women "
                    + "WHERE birth_year BETWEEN ? AND ? AND race <> ? GROUP BY race ORDER BY race";
                List<List<List<Object>>> both = new ArrayList<>();
                for (Connection each : new Connection[] {connection, real}) {
                    List<List<Object>> found = new ArrayList<>();
                    try (PreparedStatement statement = each.prepareStatement(sql)) {
                        for (int run = 0; run < 10; run++) {
                            statement.setInt(1, 1944);
                            statement.setInt(2, 1945 + run);
                            statement.setString(3, "nobody's");
                            found.addAll(rows(statement.executeQuery()));
                        }
                    }
                    try (PreparedStatement statement = each.prepareStatement(
                            "SELECT count(*) FROM nls.interviews "
                                + "WHERE hourly_wage < ? AND experience_years < ? "
                                + "AND year > extract(year from ?::date)")) {
                        for (int run = 0; run < 6; run++) {
                            statement.setBigDecimal(1, new BigDecimal("7.25"));
                            statement.setDouble(2, 9.5);
                            statement.setDate(3, java.sql.Date.valueOf("1972-02-29"));
                            found.addAll(rows(statement.executeQuery()));
                        }
                    }
                    try (PreparedStatement statement = each.prepareStatement(
                            "SELECT count(*) FROM nls.women WHERE (?::text IS NULL OR race = ?) "
                                + "AND birth_year > ?")) {
                        statement.setNull(1, Types.VARCHAR);
                        statement.setNull(2, Types.VARCHAR);
                        statement.setLong(3, 1948);
                        found.addAll(rows(statement.executeQuery()));
                    }
                    both.add(found);
                }
                same(both.get(0), both.get(1));
            });
            check("fetches in batches", () -> {
                String sql = "SELECT year, race, count(*) FROM nls.interviews "
                    + "JOIN nls.women USING (woman_id) GROUP BY year, race ORDER BY year, race";
                connection.setAutoCommit(false);
                try (Statement statement = connection.createStatement();
                        Statement theirs = real.createStatement()) {
                    statement.setFetchSize(7);
                    same(rows(statement.executeQuery(sql)), rows(theirs.executeQuery(sql)));
                    statement.setMaxRows(5);
                    same(rows(statement.executeQuery(sql)).size(), 5);
                    statement.setMaxRows(Integer.MAX_VALUE);
                    same(rows(statement.executeQuery(sql)).size(), 45);
                } finally {
                    connection.commit();
                    connection.setAutoCommit(true);
                }
            });
            check("a refused preview leaves the connection whole", () -> {
                SQLException error = refused("42501",
                    () -> one(connection, "SELECT * FROM nls.women LIMIT 5"));
                sure(error.getMessage().contains("rows of a private table")
                    && error.getMessage().contains("count(*)"),
                    error.getMessage());
                same(one(connection, WOMEN), 4711L);
                refused("42501", () -> one(connection, "DELETE FROM nls.women"));
                refused("42601", () -> one(connection, "SELEC 1"));
                same(one(connection, WOMEN), 4711L);
            });
            check("transactions and savepoints", () -> {
                connection.setAutoCommit(false);
                connection.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
                same(one(connection, WOMEN), 4711L);
                Savepoint savepoint = connection.setSavepoint("s");
                refused("42501", () -> one(connection, "SELECT * FROM nls.women"));
                refused("25P02", () -> one(connection, "SELECT 1"));
                connection.rollback(savepoint);
                same(one(connection, WOMEN), 4711L);
                connection.releaseSavepoint(savepoint);
                connection.commit();
                refused("42501", () -> one(connection, "SELECT * FROM nls.women"));
                connection.rollback();
                same(one(connection, "SELECT 1"), 1L);
                connection.rollback();
                connection.setReadOnly(true);
                same(one(connection, WOMEN), 4711L);
                connection.rollback();
                connection.setReadOnly(false);
                connection.setAutoCommit(true);
            });
            check("several statements and none", () -> {
                try (Statement statement = connection.createStatement()) {
                    sure(statement.execute("SELECT 1; " + WOMEN), "the first result");
                    sure(statement.getMoreResults(), "the second result");
                    ResultSet rows = statement.getResultSet();
                    rows.next();
                    same(rows.getLong(1), 4711L);
                    sure(!statement.execute(""), "an empty query has no rows");
                }
            });
            check("notices tell the charge", () -> {
                try (Statement statement = connection.createStatement()) {
                    statement.executeQuery(WOMEN);
                    SQLWarning warning = statement.getWarnings();
                    sure(warning != null && warning.getMessage().contains("privacy cost"), warning);
                    System.out.println("       " + warning.getMessage());
                }
            });
            check("a working statement is cancelled", () -> {
                try (Statement statement = connection.createStatement()) {
                    var ended = new java.util.concurrent.CountDownLatch(1);
                    // One that comes too early finds nothing to cancel, and the statement sends no
                    // second one.
                    Thread thread = new Thread(() -> {
                        try {
                            Thread.sleep(700);
                            statement.cancel();
                            while (!ended.await(500, java.util.concurrent.TimeUnit.MILLISECONDS))
                                connection.unwrap(org.postgresql.PGConnection.class).cancelQuery();
                        } catch (Exception error) {
                            error.printStackTrace();
                        }
                    });
                    thread.start();
                    try {
                        refused("57014", () -> statement.executeQuery(SLOW));
                    } finally {
                        ended.countDown();
                        thread.join();
                    }
                    statement.setQueryTimeout(2);
                    refused("57014", () -> statement.executeQuery(SLOW));
                }
                same(one(connection, "SELECT 1"), 1L);
            });
            check("copies answers", () -> {
                String sql = "COPY (SELECT race, count(*) FROM nls.women GROUP BY race "
                    + "ORDER BY race) TO STDOUT CSV HEADER";
                var copies = new ArrayList<String>();
                for (Connection server : List.of(connection, real)) {
                    var out = new java.io.StringWriter();
                    same(server.unwrap(org.postgresql.PGConnection.class).getCopyAPI()
                        .copyOut(sql, out), 3L);
                    copies.add(out.toString());
                }
                same(copies.get(0), copies.get(1));
                var copy = connection.unwrap(org.postgresql.PGConnection.class).getCopyAPI();
                refused("42501",
                    () -> copy.copyOut("COPY nls.women TO STDOUT", new java.io.StringWriter()));
                same(one(connection, "SELECT 1"), 1L);
            });
            check("SQL cursors are fetched", () -> {
                String declare = "DECLARE c CURSOR FOR SELECT year, count(*) FROM nls.interviews "
                    + "WHERE year > ? GROUP BY year ORDER BY year";
                var both = new ArrayList<List<Object>>();
                for (Connection server : List.of(connection, real)) {
                    server.setAutoCommit(false);
                    try (PreparedStatement cursor = server.prepareStatement(declare);
                            Statement fetch = server.createStatement()) {
                        cursor.setInt(1, 1970);
                        cursor.execute();
                        var found = new ArrayList<Object>();
                        for (int at = 0; at < 8; at++)
                            found.addAll(rows(fetch.executeQuery("FETCH 2 FROM c")));
                        both.add(found);
                    } finally {
                        server.commit();
                        server.setAutoCommit(true);
                    }
                }
                same(both.get(0), both.get(1));
            });
            for (String mode : List.of(
                "simple", "extended", "extendedForPrepared", "extendedCacheEverything")) {
                check("the protocol's mode " + mode, () -> {
                    try (Connection other = veiled("preferQueryMode=" + mode, "prepareThreshold=1");
                            PreparedStatement asked = other.prepareStatement(
                                "SELECT race, count(*) FROM nls.women WHERE birth_year > ? "
                                    + "GROUP BY race ORDER BY race")) {
                        for (int run = 0; run < 3; run++) {
                            asked.setInt(1, 1945);
                            same(rows(asked.executeQuery()).size(), 3);
                        }
                    }
                });
            }
            for (String way : List.of("always", "never", "conservative")) {
                check("autosave " + way, () -> {
                    try (Connection other = veiled("autosave=" + way)) {
                        other.setAutoCommit(false);
                        same(one(other, WOMEN), 4711L);
                        refused("42501", () -> one(other, "SELECT * FROM nls.women LIMIT 5"));
                        // With a savepoint before each statement the transaction outlives the
                        // refusal.
                        if (way.equals("always")) same(one(other, WOMEN), 4711L);
                        else refused("25P02", () -> one(other, WOMEN));
                        other.rollback();
                        same(one(other, WOMEN), 4711L);
                        other.commit();
                    }
                });
            }
            check("the same question ten times is one", () -> {
                // A role that no other client has, so that its account tells of this alone.
                try (Connection poor = veiled("user=" + System.getenv("POOR"));
                        PreparedStatement asked = poor.prepareStatement(
                            "SELECT count(*) FROM nls.women WHERE birth_year > ? "
                                + "AND race <> 'x'")) {
                    asked.setInt(1, 1942);
                    List<List<Object>> first = rows(asked.executeQuery());
                    String spent = strings(
                        poor.createStatement().executeQuery(
                            "SELECT mu_spent::text FROM pgveil.budget"), "mu_spent").get(0);
                    for (int run = 0; run < 10; run++) same(rows(asked.executeQuery()), first);
                    same(strings(
                        poor.createStatement().executeQuery(
                            "SELECT mu_spent::text FROM pgveil.budget"), "mu_spent").get(0), spent);
                }
            });
            check("a session is reset", () -> {
                try (Connection other = veiled(); Statement statement = other.createStatement()) {
                    statement.execute("SET application_name = 'lent'");
                    statement.execute("DISCARD ALL");
                    same(one(other, WOMEN), 4711L);
                    sure(other.isValid(60), "isValid");
                }
            });
            check("metadata shows what the policy shows", () -> {
                DatabaseMetaData meta = connection.getMetaData();
                same(strings(meta.getSchemas(), "TABLE_SCHEM").contains("nls"), true);
                same(strings(
                        meta.getTables(null, "nls", "%", new String[] {"TABLE"}), "TABLE_NAME"),
                    List.of("industries", "interviews", "occupations", "women"));
                same(strings(meta.getColumns(null, "nls", "women", "%"), "COLUMN_NAME").get(0),
                    "woman_id");
                same(strings(meta.getPrimaryKeys(null, "nls", "women"), "COLUMN_NAME"),
                    List.of("woman_id"));
                same(new TreeSet<>(
                        strings(meta.getImportedKeys(null, "nls", "interviews"), "PKTABLE_NAME")),
                    new TreeSet<>(List.of("industries", "occupations", "women")));
                same(strings(meta.getExportedKeys(null, "nls", "women"), "FKTABLE_NAME"),
                    List.of("interviews"));
                same(strings(meta.getIndexInfo(null, "nls", "women", true, true), "INDEX_NAME"),
                    List.of("women_pkey"));
                sure(strings(meta.getTypeInfo(), "TYPE_NAME")
                    .containsAll(List.of("int4", "text", "numeric", "timestamptz")),
                    "getTypeInfo");
                same(strings(meta.getCatalogs(), "TABLE_CAT").contains("nls"), true);
                sure(strings(meta.getTableTypes(), "TABLE_TYPE").contains("TABLE"),
                    "getTableTypes");
                same(strings(meta.getProcedures(null, "nls", "%"), "PROCEDURE_NAME"), List.of());
                meta.getFunctions(null, "nls", "%").close();
                meta.getTablePrivileges(null, "nls", "women").close();
                meta.getColumnPrivileges(null, "nls", "women", "%").close();
                meta.getBestRowIdentifier(null, "nls", "women", 1, true).close();
                meta.getCrossReference(null, "nls", "women", null, "nls", "interviews").close();
                meta.getUDTs(null, "nls", "%", null).close();
                same(meta.getMaxTableNameLength(), 63);
                sure(meta.getSQLKeywords().length() > 10, "getSQLKeywords");
                same(connection.getSchema(), "public");
                connection.prepareStatement("SELECT race, count(*) FROM nls.women GROUP BY race")
                    .getMetaData().isNullable(1);
                same(one(connection, "SELECT 1"), 1L);
            });
        }
        check("an exhausted budget says what is needed and left", () -> {
            try (Connection poor = veiled("user=" + System.getenv("POOR"))) {
                SQLException error = refused("53400", () -> {
                    for (int asked = 0; asked < 50; asked++)
                        one(poor, WOMEN + " WHERE birth_year > " + asked);
                });
                System.out.println("       " + error.getMessage().replace("\n", " | "));
                sure(error.getMessage().contains("needs") && error.getMessage().contains("left"),
                    error.getMessage());
                same(one(poor, "SELECT 1"), 1L);
                sure(poor.isValid(60), "isValid");
            }
        });
        System.exit(failed ? 1 : 0);
    }
}

import java.math.BigDecimal;
import java.sql.*;
import java.time.*;
import java.util.*;

/** pgJDBC with preferQueryMode=simple: it writes values into the text. Over tests/clients/shop. */
public class Shop {
    static final String HOST = "jdbc:postgresql://127.0.0.1:";
    static final String SIMPLE = "/nls?preferQueryMode=simple&sslmode=";
    static final String VEILED = HOST + System.getenv("VEILED_PORT") + SIMPLE;
    static final String DIRECT = HOST + System.getenv("DIRECT_PORT") + SIMPLE + "disable";
    static final String COUNT = "SELECT count(*) FROM orders";
    static final String BY_STATE = "SELECT state, count(*) FROM orders GROUP BY 1 ORDER BY 1";
    static final String SLOW = "SELECT count(*) FROM orders i JOIN orders j USING (customer), "
        + "countries a, countries b, countries c";

    interface Check { void run() throws Exception; }

    interface Bind { void to(PreparedStatement statement) throws SQLException; }

    static boolean failed = false;

    static void check(String name, String does, Check body) {
        long started = System.nanoTime();
        try {
            body.run();
            System.out.printf("ok     %s %.2f s%n", name, (System.nanoTime() - started) / 1e9);
            if (!does.isEmpty()) System.out.println("does " + does);
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

    static Connection open(String user, String password, String mode) throws SQLException {
        return DriverManager.getConnection(VEILED + mode, user, password);
    }

    static void refused(String state, Check body) throws Exception {
        try {
            body.run();
        } catch (SQLException error) {
            same(error.getSQLState(), state);
            return;
        }
        throw new AssertionError("not refused with " + state);
    }

    static List<List<String>> ask(Connection connection, String sql) throws SQLException {
        try (Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery(sql)) {
            return texts(rows);
        }
    }

    static List<List<String>> texts(ResultSet rows) throws SQLException {
        List<List<String>> found = new ArrayList<>();
        while (rows.next()) {
            List<String> row = new ArrayList<>();
            for (int i = 1; i <= rows.getMetaData().getColumnCount(); i++)
                row.add(rows.getString(i));
            found.add(row);
        }
        return found;
    }

    static List<String> column(ResultSet rows, String name) throws SQLException {
        List<String> found = new ArrayList<>();
        while (rows.next()) found.add(rows.getString(name));
        return found;
    }

    static final Map<String, Bind> BOUND = new LinkedHashMap<>();

    static {
        Timestamp at = Timestamp.from(Instant.parse("2024-03-01T12:00:00Z"));
        BOUND.put(COUNT + " WHERE placed >= ?",
            s -> s.setDate(1, java.sql.Date.valueOf("2024-03-01")));
        BOUND.put(COUNT + " WHERE placed < ? AND price < ?", s -> {
            s.setObject(1, LocalDate.of(2024, 3, 1));
            s.setBigDecimal(2, new BigDecimal("50"));
        });
        BOUND.put(COUNT + " WHERE shipped < ?", s -> s.setTimestamp(1, at));
        BOUND.put(COUNT + " WHERE shipped >= ? AND id > ?", s -> {
            s.setObject(1, OffsetDateTime.parse("2024-03-01T12:00:00+02:00"));
            s.setLong(2, 5);
        });
        BOUND.put(COUNT + " WHERE shipped >= ?::timestamptz AND price > ?", s -> {
            s.setObject(1, "2024-03-01 12:00:00+00");
            s.setDouble(2, 12.5);
        });
        BOUND.put(COUNT + " WHERE shipped < ? AND customer > ?", s -> {
            s.setObject(1, LocalDateTime.of(2024, 3, 1, 12, 0));
            s.setInt(2, -5);
        });
        BOUND.put(COUNT + " WHERE state = ?::status AND country = ?", s -> {
            s.setString(1, "paid");
            s.setString(2, "DE");
        });
        BOUND.put(COUNT + " WHERE state = ?", s -> s.setObject(1, "sent", Types.OTHER));
        BOUND.put("SELECT \"Country\", count(*) FROM \"Customers\" WHERE \"Country\" <> ? "
            + "GROUP BY 1 ORDER BY 1",
            s -> s.setString(1, "it's"));
        BOUND.put("SELECT code, title FROM countries WHERE code = ? OR ? ORDER BY 1", s -> {
            s.setString(1, "AT");
            s.setBoolean(2, false);
        });
    }

    public static void main(String[] arguments) throws Exception {
        TimeZone.setDefault(TimeZone.getTimeZone("UTC"));
        check("connects", "tls scram", () -> {
            for (String mode : List.of("require", "disable")) {
                try (Connection connection = open("analyst", "analyst", mode)) {
                    same(ask(connection, "SELECT 1"), List.of(List.of("1")));
                    same(connection.isValid(60), true);
                    same(connection.getSchema(), "shop");
                }
            }
            refused("28P01", () -> open("analyst", "wrong", "disable"));
        });
        try (Connection mine = open("analyst", "analyst", "require");
                Connection theirs = DriverManager.getConnection(DIRECT, "postgres", "")) {
            check("metadata shows what the policy shows", "list describe", () -> {
                DatabaseMetaData about = mine.getMetaData();
                ResultSet tables = about.getTables(null, "shop", "%", new String[] {"TABLE"});
                same(column(tables, "TABLE_NAME"), List.of("Customers", "countries", "orders"));
                same(column(about.getColumns(null, null, "orders", "%"), "TYPE_NAME"),
                    List.of("int8", "int4", "bpchar", "status", "date", "timestamptz", "numeric"));
                same(column(about.getPrimaryKeys(null, "shop", "Customers"), "COLUMN_NAME"),
                    List.of("Id"));
                // The path that the policy trusts.
                same(column(about.getImportedKeys(null, "shop", "orders"), "FKCOLUMN_NAME"),
                    List.of("customer"));
            });
            check("values in the text", "text", () -> {
                for (Map.Entry<String, Bind> asked : BOUND.entrySet()) {
                    List<List<List<String>>> both = new ArrayList<>();
                    for (Connection each : List.of(mine, theirs)) {
                        try (PreparedStatement statement = each.prepareStatement(asked.getKey())) {
                            asked.getValue().to(statement);
                            both.add(texts(statement.executeQuery()));
                        } catch (SQLException error) {
                            throw new SQLException(
                                asked.getKey() + ": " + error.getMessage(), error);
                        }
                    }
                    System.out.println("       " + asked.getKey() + " " + both.get(0));
                    same(both.get(0), both.get(1));
                }
                same(ask(mine, BY_STATE), ask(theirs, BY_STATE));
            });
            check("fetches in batches", "cursor", () -> {
                mine.setAutoCommit(false);
                try (Statement statement = mine.createStatement()) {
                    statement.setFetchSize(2);
                    same(texts(statement.executeQuery(BY_STATE)).size(), 3);
                    statement.execute("DECLARE c CURSOR FOR " + BY_STATE);
                    same(texts(statement.executeQuery("FETCH 2 FROM c")).size(), 2);
                    same(texts(statement.executeQuery("FETCH 2 FROM c")).size(), 1);
                } finally {
                    mine.commit();
                    mine.setAutoCommit(true);
                }
            });
            check("a refusal is recovered from", "refused transaction savepoint", () -> {
                refused("42501", () -> ask(mine, "SELECT * FROM orders LIMIT 5"));
                mine.setAutoCommit(false);
                Savepoint savepoint = mine.setSavepoint("s");
                refused("42501", () -> ask(mine, "SELECT * FROM orders LIMIT 5"));
                refused("25P02", () -> ask(mine, COUNT));
                mine.rollback(savepoint);
                same(ask(mine, COUNT), List.of(List.of("20000")));
                mine.releaseSavepoint(savepoint);
                mine.commit();
                mine.setAutoCommit(true);
            });
            check("a working statement is cancelled", "cancel", () -> {
                try (Statement statement = mine.createStatement()) {
                    statement.setQueryTimeout(1);
                    refused("57014", () -> statement.executeQuery(SLOW));
                }
                same(ask(mine, COUNT), List.of(List.of("20000")));
            });
            check("a session is reset", "pool", () -> {
                ask(mine, "SELECT set_config('application_name', 'lent', false)");
                try (Statement statement = mine.createStatement()) {
                    for (String sql : List.of(
                        "DISCARD ALL", "CLOSE ALL", "UNLISTEN *", "RESET ALL"))
                        statement.execute(sql);
                }
                same(ask(mine, "SHOW application_name").get(0).get(0).equals("lent"), false);
                same(ask(mine, COUNT), List.of(List.of("20000")));
            });
        }
        check("the same question ten times is one", "prepared", () -> {
            String sql = "SELECT country, count(*) FROM orders WHERE placed > ? GROUP BY 1 "
                + "ORDER BY 1";
            try (Connection poor = open(System.getenv("POOR"), "analyst", "require");
                    PreparedStatement again = poor.prepareStatement(sql)) {
                String spent = "SELECT mu_spent, epsilon_spent, rho_spent FROM pgveil.budget";
                again.setDate(1, java.sql.Date.valueOf("2024-02-01"));
                List<List<String>> first = texts(again.executeQuery()), paid = ask(poor, spent);
                for (int run = 0; run < 10; run++) same(texts(again.executeQuery()), first);
                same(ask(poor, spent), paid);
                refused("53400", () -> {
                    for (int asked = 0; asked < 50; asked++)
                        ask(poor, COUNT + " WHERE id > " + asked);
                });
                same(ask(poor, "SELECT 1"), List.of(List.of("1")));
            }
        });
        System.exit(failed ? 1 : 0);
    }
}

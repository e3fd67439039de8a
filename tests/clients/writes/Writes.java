import java.io.StringReader;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.Properties;
import org.postgresql.PGConnection;

/** pgJDBC writes through pgveil: batches, prepared statements of the server, COPY. */
public class Writes {
    static final String COLUMNS =
        "\"Person\", \"Wave\", \"Smoked\", \"Illness\", "
        + "\"Letter\", \"Tea\", \"Coffee\", \"Income\"";

    static Connection open(String port, String role, String... options) throws SQLException {
        Properties of = new Properties();
        of.setProperty("user", role);
        of.setProperty("password", "analyst");
        of.setProperty("sslmode", "disable");
        for (int at = 0; at < options.length; at += 2) {
            of.setProperty(options[at], options[at + 1]);
        }
        return DriverManager.getConnection("jdbc:postgresql://localhost:" + port + "/nls", of);
    }

    static long count(String where) throws SQLException {
        try (Connection direct = open(System.getenv("DIRECT_PORT"), "postgres");
             ResultSet rows = direct.createStatement().executeQuery(
                 "SELECT count(*) FROM \"Survey\".\"Answers\" WHERE " + where)) {
            rows.next();
            return rows.getLong(1);
        }
    }

    static void expect(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    static void batch(PreparedStatement insert, int from, int to) throws SQLException {
        for (int person = from; person < to; person++) {
            insert.setInt(1, person);
            insert.setLong(2, 1);
            insert.setString(3, "yes");
            insert.setObject(4, "flu", java.sql.Types.OTHER);
            insert.setString(5, "a");
            insert.setBoolean(6, true);
            insert.setBoolean(7, false);
            insert.setInt(8, 1000 + person % 4000);
            insert.addBatch();
        }
        insert.executeBatch();
    }

    static void batches(String... options) throws SQLException {
        String port = System.getenv("VEILED_PORT");
        long before = count("true");
        int first = (int) before * 10 + 10_000;
        try (Connection veiled = open(port, "collector", options)) {
            PreparedStatement insert = veiled.prepareStatement(
                "INSERT INTO \"Survey\".\"Answers\" ("
                + COLUMNS + ") VALUES (?, ?, ?, ?, ?, ?, ?, ?)");
            batch(insert, first, first + 100);
            expect(count("true") == before + 100, "a batch of 100 rows");
            veiled.setAutoCommit(false);
            batch(insert, first + 100, first + 200);
            veiled.rollback();
            expect(count("true") == before + 100, "a batch that was rolled back");
            try {
                batch(insert, first + 90, first + 110);
                throw new AssertionError("a batch with keys that are there");
            } catch (SQLException error) {
                expect(error.getNextException().getSQLState().equals("23505"), "" + error);
            }
            veiled.rollback();
            batch(insert, first + 100, first + 120);
            veiled.commit();
            expect(count("true") == before + 120, "the session goes on");
        }
    }

    public static void main(String[] arguments) throws Exception {
        batches();
        batches("reWriteBatchedInserts", "true");
        batches("prepareThreshold", "1");
        batches("preferQueryMode", "simple");
        try (Connection veiled = open(System.getenv("VEILED_PORT"), "collector")) {
            long before = count("true");
            long rows = veiled.unwrap(PGConnection.class).getCopyAPI().copyIn(
                "COPY \"Survey\".\"Answers\" (" + COLUMNS + ") FROM STDIN (FORMAT csv)",
                new StringReader("900001,1,yes,flu,a,t,f,1000\n900002,1,no,cold,bcd,f,t,2000\n"));
            expect(rows == 2 && count("true") == before + 2, "COPY");
        }
        System.out.println("pgJDBC wrote");
    }
}

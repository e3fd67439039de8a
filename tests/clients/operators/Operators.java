import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;

/** pgjdbc in the admin database, with and without server-side preparation. */
public class Operators {
    public static void main(String[] arguments) throws Exception {
        String url = "jdbc:postgresql://127.0.0.1:" + System.getenv("VEILED_PORT")
            + "/pgveil?user=olga&password=analyst";
        for (String mode : new String[] {"", "&prepareThreshold=1", "&preferQueryMode=simple"}) {
            try (Connection connection = DriverManager.getConnection(url + mode)) {
                for (int time = 0; time < 3; time++) {
                    try (var statement = connection.prepareStatement("SHOW POOLS");
                         ResultSet rows = statement.executeQuery()) {
                        int count = 0;
                        while (rows.next()) {
                            count++;
                            Integer.parseInt(rows.getString("size"));
                        }
                        check(count == 2, "pools");
                    }
                }
                connection.setAutoCommit(false);
                try (var statement = connection.createStatement();
                     ResultSet rows = statement.executeQuery("SHOW SESSIONS")) {
                    check(rows.next(), "sessions");
                    check(rows.getString("role").equals("olga"), "olga");
                }
                connection.rollback();
                connection.setAutoCommit(true);
                try (var statement = connection.createStatement()) {
                    statement.executeUpdate("KILL 1");
                    throw new IllegalStateException("a session was ended");
                } catch (SQLException refused) {
                    check(refused.getSQLState().equals("42704"), refused.getSQLState());
                }
            }
        }
    }

    private static void check(boolean holds, String what) {
        if (!holds) {
            throw new IllegalStateException(what);
        }
    }
}

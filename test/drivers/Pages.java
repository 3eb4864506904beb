// Pages of an answer with JDBC; see README.

import java.sql.Array;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Properties;
import java.util.Set;
import java.util.UUID;

public class Pages {
    // What a string is to become is said by a cast; a UUID is one by itself.
    static final String FETCH = "SELECT k FROM peek_fetch(NULL::item, ?, ?, ?)";
    static final String SUBMIT =
        "SELECT peek_submit('item_pkey', options => ?::jsonb)";

    static Connection connection;

    static void connect() throws SQLException {
        Properties properties = new Properties();

        properties.setProperty("user", System.getenv("PGUSER"));
        properties.setProperty("password", System.getenv("PGPASSWORD"));
        properties.setProperty("prepareThreshold", "0");
        connection = DriverManager.getConnection("jdbc:postgresql://"
            + System.getenv("PGHOST") + ":" + System.getenv("PGPORT") + "/"
            + System.getenv("PGDATABASE"), properties);
    }

    static ResultSet query(String sql, Object... parameters)
            throws SQLException {
        PreparedStatement statement = connection.prepareStatement(sql);

        for (int i = 0; i < parameters.length; i++) {
            Object value = parameters[i];

            if (value instanceof String[]) {
                value = connection.createArrayOf("text", (String[]) value);
            } else if (value instanceof Integer[]) {
                value = connection.createArrayOf("integer", (Integer[]) value);
            }
            statement.setObject(i + 1, value);
        }
        return statement.executeQuery();
    }

    // The SQLSTATE of the error, or "none".
    static String outcome(String sql, Object... parameters) {
        try {
            query(sql, parameters);
            return "none";
        } catch (SQLException error) {
            return error.getSQLState()
                + (error.getMessage().contains("has expired") ? " has expired" : "");
        }
    }

    static List<Integer> keys(ResultSet result) throws SQLException {
        List<Integer> keys = new ArrayList<>();

        while (result.next()) {
            keys.add(result.getInt("k"));
        }
        return keys;
    }

    static long sum(List<Integer> keys) {
        return keys.stream().mapToLong(Integer::longValue).sum();
    }

    static void castNeeded(String name, String sql, Object... parameters) {
        System.out.println("cast " + name + ": " + outcome(sql, parameters));
    }

    public static void main(String[] args) throws Exception {
        connect();

        ResultSet result = query(
            "SELECT handle, num_rows, pos, (r).k FROM peek_page(NULL::item,"
            + " filter => ?, args => ?, page_rows => ?)",
            "k > $1 AND name <> $2", new String[] {"1000", "nobody"}, 10);
        result.next();
        UUID handle = (UUID) result.getObject("handle");
        long numRows = result.getLong("num_rows");
        int first = result.getInt("k");
        int rows = 1;
        int last = first;
        long pos = 0;
        while (result.next()) {
            rows++;
            last = result.getInt("k");
            pos = result.getLong("pos");
        }
        System.out.printf("page: %d rows of %d, k %d to %d, pos 0 to %d%n",
            rows, numRows, first, last, pos);

        List<Integer> keys = keys(query(FETCH, handle, 10, 10));
        System.out.printf("fetch: %d rows, k %d to %d%n", keys.size(),
            keys.get(0), keys.get(keys.size() - 1));

        // JSON comes as text
        result = query("SELECT jsonb_array_length(p->'rows'), p->'rows'->0->>'k',"
            + " p->>'next', p->>'total' FROM peek_fetch_json(?, ?, ?) AS p",
            handle, 10, 10);
        result.next();
        System.out.printf("json: %s rows, k %s, next %s of %s%n",
            result.getString(1), result.getString(2), result.getString(3),
            result.getString(4));

        keys = new ArrayList<>();
        Set<Integer> backends = new HashSet<>();
        for (int start = 0; start < 4000; start += 400) {
            result = query("SELECT k, pg_backend_pid() FROM"
                + " peek_fetch(NULL::item, ?, ?, ?)", handle, start, 400);
            while (result.next()) {
                keys.add(result.getInt(1));
                backends.add(result.getInt(2));
            }
        }
        System.out.printf("pages: %d rows, sum %d, %d backends%n", keys.size(),
            sum(keys), backends.size());

        keys = keys(query(FETCH, handle, 0, 1500));
        connection.close();
        connect();
        keys.addAll(keys(query(
            "SELECT k FROM peek_fetch(NULL::item, ?, ?)", handle, keys.size())));
        System.out.printf("resumed: %d rows, sum %d%n", keys.size(), sum(keys));

        result = query(SUBMIT, "{\"ttl\": 1}");
        result.next();
        UUID expiring = (UUID) result.getObject(1);
        Thread.sleep(1500);
        System.out.println("error unknown: " + outcome(FETCH,
            UUID.fromString("00000000-0000-7000-8000-000000000000"), 0, 10));
        System.out.println("error expired: " + outcome(FETCH, expiring, 0, 10));
        System.out.println("error other type: "
            + outcome("SELECT * FROM peek_fetch(NULL::other, ?)", handle));
        System.out.println("error too large: "
            + outcome(SUBMIT, "{\"max_result_size\": 1}"));
        System.out.println("error option: " + outcome(SUBMIT, "{\"nonsense\": 1}"));
        System.out.println("error row number: " + outcome(FETCH, handle, -1, 10));
        connection.setAutoCommit(false);
        connection.setReadOnly(true);
        System.out.println("error read only: "
            + outcome("SELECT peek_submit('item_pkey')"));
        connection.rollback();
        System.out.println("read only fetch: " + outcome(FETCH, handle, 0, 10));
        connection.rollback();
        connection.setReadOnly(false);
        connection.setAutoCommit(true);

        castNeeded("number as key", "SELECT * FROM peek(NULL::item, key => ?)", 7);
        castNeeded("text as key",
            "SELECT * FROM peek(NULL::item, 'item_name', key => ?)", "n7");
        castNeeded("numbers as keys", "SELECT * FROM peek(NULL::item, keys => ?)",
            (Object) new Integer[] {7, 8});
        castNeeded("texts as keys",
            "SELECT * FROM peek(NULL::item, 'item_name', keys => ?)",
            (Object) new String[] {"n7", "n8"});
        castNeeded("two columns as key",
            "SELECT * FROM peek(NULL::item, 'item_both', key => ROW(?, ?))", "n7", 7);
        castNeeded("arrangement", "SELECT * FROM peek(NULL::item, ?)", "item_name");
        castNeeded("args", "SELECT * FROM peek(NULL::item, filter => ?, args => ?)",
            "k = $1", new String[] {"7"});
        castNeeded("columns", "SELECT peek_submit('item_pkey', ?)",
            (Object) new String[] {"k", "name"});
        castNeeded("options", "SELECT peek_submit('item_pkey', options => ?)",
            "{\"ttl\": 60}");
        castNeeded("handle", FETCH, handle.toString(), 0, 10);
        castNeeded("interval", "SELECT peek_touch(?, ?)", handle, "1 hour");
        castNeeded("role", "SELECT peek_grant(?, ?)", handle, "postgres");

        result = query("SELECT peek_release(?)", handle);
        result.next();
        System.out.println("released: " + (result.getBoolean(1) ? "True" : "False"));
        connection.close();
    }
}

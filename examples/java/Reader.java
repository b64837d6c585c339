import java.util.Arrays;
import org.apache.bookkeeper.client.api.BookKeeper;
import org.apache.bookkeeper.client.api.LedgerEntries;
import org.apache.bookkeeper.client.api.LedgerEntry;
import org.apache.bookkeeper.client.api.ReadHandle;

/**
 * Opens a ledger that nobody closed, which fences its writer and recovers its end, and compares every entry with its order.
 *
 * <p>It tells {@code recovered ORDERS MILLISECONDS}, {@code wrong ENTRY} for each that differs, and {@code read ORDERS BYTES MILLISECONDS}.
 */
final class Reader {
    private static final int AT_ONCE = 1000;

    private Reader() {}

    /** usage: Reader METADATA-URI v2|v3 LEDGER */
    public static void main(String[] arguments) throws Exception {
        Orders.endWithStandardInput();
        BookKeeper client = Orders.client(arguments[0], arguments[1]);
        long from = System.nanoTime();
        ReadHandle ledger = client.newOpenLedgerOp()
                .withLedgerId(Long.parseLong(arguments[2]))
                .withPassword(Orders.PASSWORD)
                .withRecovery(true)
                .execute()
                .get();
        long orders = ledger.getLastAddConfirmed() + 1;
        Orders.tell("recovered " + orders + " " + milliseconds(from));

        from = System.nanoTime();
        long bytes = 0;
        long read = 0;
        while (read < orders) {
            try (LedgerEntries entries = ledger.read(read, Math.min(orders, read + AT_ONCE) - 1)) {
                for (LedgerEntry entry : entries) {
                    byte[] found = entry.getEntryBytes();
                    if (entry.getEntryId() != read || !Arrays.equals(found, Orders.order(read))) {
                        Orders.tell("wrong " + read);
                    }
                    bytes += found.length;
                    read++;
                }
            }
        }
        Orders.tell("read " + read + " " + bytes + " " + milliseconds(from));
        ledger.close();
        client.close();
    }

    private static long milliseconds(long from) {
        return (System.nanoTime() - from) / 1_000_000;
    }
}

package walkeeper.interop;

import java.nio.charset.StandardCharsets;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.LedgerHandle;
import org.junit.ClassRule;
import org.junit.Test;

/**
 * How often close() of a client throws where it was just writing; to measure, not to check: -Dtest=CloseRace, and -Dbookies=java for Java's bookies.
 *
 * PerChannelBookieClient.readV3Response (4.17.3) hands an add's AddCompletion to another thread, and removes it from the map of those that are
 * outstanding afterwards. The other thread may be done and have released it by then, and close() finds it in the map: "perChannelBookieClient is null". Of
 * 1,000 closes where three of three, two of three bookies must acknowledge: 14 and 40 with our bookies, 19 and 34 with Java's (2 processors).
 */
public class CloseRace {
    private static final int CLOSES = 1000;

    @ClassRule
    public static final Cluster CLUSTER = new Cluster(3, 0);

    @Test
    public void whereAllMustAcknowledge() throws Exception {
        closeOften(3);
    }

    @Test
    public void whereOneMayBeLate() throws Exception {
        closeOften(2);
    }

    private static void closeOften(int acknowledge) throws Exception {
        int thrown = 0;
        for (int i = 0; i < CLOSES; i++) {
            BookKeeper client = CLUSTER.client(Protocol.V3);
            LedgerHandle ledger = client.createLedger(3, 3, acknowledge, BookKeeper.DigestType.CRC32,
                    "".getBytes(StandardCharsets.UTF_8));
            for (int entry = 0; entry < 3; entry++) {
                ledger.addEntry(Payload.of(ledger.getId(), entry));
            }
            try {
                client.close();
            } catch (NullPointerException wrong) {
                thrown++;
            }
        }
        System.out.println("#### " + thrown + " of " + CLOSES + " closes threw where " + acknowledge
                + " of 3 acknowledge, with " + (Cluster.isControl() ? "Java's bookies" : "ours"));
    }
}

package walkeeper.interop;

import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertTrue;

import java.util.List;
import org.apache.bookkeeper.client.BKException.Code;
import org.apache.bookkeeper.client.BookKeeperTestClient;
import org.apache.bookkeeper.client.LedgerHandle;
import org.junit.Test;

/** What becomes of a ledger that a client deletes, on each of the bookies that have it. */
public class DeletionTest extends ShapeTest {
    private static final int ROUNDS = 10;

    @Override
    String[] options() {
        return new String[] {"--file-size-min", "1MiB", "--file-size-max", "1MiB"};
    }

    private List<Bookie> bookiesOf(LedgerHandle ledger) {
        return ledger.getLedgerMetadata().getAllEnsembles().get(0L).stream().map(cluster()::bookie).toList();
    }

    private void awaitVanished(BookKeeperTestClient client, Bookie bookie, long ledger) throws Exception {
        Requests requests = new Requests(client, bookie.id());
        Until.holds(() -> requests.read(ledger, 0).code() == Code.NoSuchLedgerExistsException,
                bookie.id() + " has it no more");
    }

    /** In most of its files another ledger has some entries, which are moved. */
    @Test
    public void itVanishesAndItsSpaceComesBack() throws Exception {
        try (BookKeeperTestClient client = cluster().bareClient(protocol)) {
            LedgerHandle large = shape.everywhere(client);
            List<Bookie> bookies = bookiesOf(large);
            LedgerHandle stays = Ledgers.on(bookies, client, shape::everywhere);
            for (int round = 0; round < ROUNDS; round++) {
                Ledgers.fill(large, 800);
                Ledgers.fill(stays, 10);
            }
            large.close();
            for (Bookie bookie : bookies) {
                assertTrue(bookie.id() + " has it", bookie.diskBytes() > large.getLength());
            }
            client.deleteLedger(large.getId());
            for (Bookie bookie : bookies) {
                awaitVanished(client, bookie, large.getId());
                if (bookie.isWalkeeper()) { // Java's compacts by the hour.
                    Until.holds(() -> bookie.diskBytes() < large.getLength(),
                            bookie.id() + " has less on its disk than the ledger had");
                }
            }
            Ledgers.check(stays, 0, ROUNDS * 10 - 1);
            assertFalse(stays.isClosed());
            stays.close();
        }
    }
}

package walkeeper.interop;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.BookKeeperAdmin;
import org.apache.bookkeeper.client.BookKeeperTestClient;
import org.apache.bookkeeper.client.BookieInfoReader.BookieInfo;
import org.apache.bookkeeper.client.LedgerEntry;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.discover.BookieServiceInfo;
import org.apache.bookkeeper.net.BookieId;
import org.apache.bookkeeper.util.AvailabilityOfEntriesOfLedger;
import org.junit.ClassRule;
import org.junit.Test;

/** What tools and placement ask of bookies. */
public class AdminTest extends InteropTest {
    @ClassRule
    public static final Cluster CLUSTER = new Cluster(3, 0);

    @Override
    Cluster cluster() {
        return CLUSTER;
    }

    @Test
    public void freeSpaceIsAnswered() throws Exception {
        for (Protocol protocol : Protocol.values()) {
            try (BookKeeper client = CLUSTER.client(protocol)) {
                Map<BookieId, BookieInfo> all = client.getBookieInfo();
                assertEquals(protocol.toString(), CLUSTER.bookies.size(), all.size());
                for (BookieInfo info : all.values()) {
                    assertTrue(info.toString(), info.getFreeDiskSpace() > 0);
                    assertTrue(info.toString(), info.getTotalDiskSpace() >= info.getFreeDiskSpace());
                }
            }
        }
    }

    @Test
    public void theEntriesOfALedgerAreListed() throws Exception {
        try (BookKeeperTestClient client = CLUSTER.bareClient(Protocol.V3)) {
            LedgerHandle ledger = Ledgers.create(client, 3, 2, 2);
            Ledgers.fill(ledger, 100);
            ledger.close();
            List<BookieId> ensemble = ledger.getLedgerMetadata().getAllEnsembles().get(0L);
            int replicas = 0;
            for (int i = 0; i < 3; i++) {
                AvailabilityOfEntriesOfLedger entries = client.getBookieClient()
                        .getListOfEntriesOfLedger(ensemble.get(i), ledger.getId()).get(60, TimeUnit.SECONDS);
                for (long entry = 0; entry < 101; entry++) {
                    boolean here = entry < 100 && (entry % 3 == i || (entry + 1) % 3 == i);
                    assertEquals("entry " + entry + " on " + i, here, entries.isEntryAvailable(entry));
                }
                replicas += entries.getTotalNumOfAvailableEntries();
            }
            assertEquals(200, replicas);
        }
    }

    @Test
    public void theAdminReadsEntriesAndWhoIsThere() throws Exception {
        try (BookKeeperAdmin admin = CLUSTER.admin(); BookKeeper client = CLUSTER.client(Protocol.V3)) {
            LedgerHandle ledger = Ledgers.create(client, 3, 2, 2);
            Ledgers.fill(ledger, 50);
            ledger.close();
            long next = 0;
            for (LedgerEntry entry : admin.readEntries(ledger.getId(), 0, 49)) {
                assertEquals(next++, entry.getEntryId());
            }
            assertEquals(50, next);
            List<Long> ledgers = new ArrayList<>();
            admin.listLedgers().forEach(ledgers::add);
            assertTrue(ledgers.contains(ledger.getId()));
            assertEquals(CLUSTER.bookies.size(), admin.getAllBookies().size());
            for (Bookie bookie : CLUSTER.bookies) {
                BookieServiceInfo info = admin.getBookieServiceInfo(bookie.id());
                BookieServiceInfo.Endpoint endpoint = info.getEndpoints().stream()
                        .filter(each -> each.getProtocol().equals("bookie-rpc")).findFirst().orElseThrow();
                assertEquals(bookie.id().toString(), endpoint.getHost() + ":" + endpoint.getPort());
            }
        }
    }

    /** A ledger that is nowhere in the metadata is nobody's either, and is not taken from its writer while it is new. */
    @Test
    public void bookiesSayWhichEntriesTheyDoNotHave() throws Exception {
        try (BookKeeper client = CLUSTER.client(Protocol.V3); BookKeeperAdmin admin = CLUSTER.admin()) {
            LedgerHandle ledger = Ledgers.create(client, 3, 3, 3);
            Ledgers.fill(ledger, 20);
            ledger.close();
            for (Bookie bookie : CLUSTER.bookies) {
                assertTrue(BookKeeperAdmin.areEntriesOfLedgerStoredInTheBookie(ledger.getId(), bookie.id(),
                        ledger.getLedgerMetadata()));
            }
        }
    }
}

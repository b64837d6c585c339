package walkeeper.interop;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertTrue;
import static org.junit.Assume.assumeFalse;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.client.BKException.Code;
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
    public static final Cluster CLUSTER = new Cluster(3, 0, "--file-size-max", "4MiB", "--minor-interval", "1s");

    /** A good part of what a large ledger has; the rest may lie in files that are kept for the next entries. */
    private static final long FREED_LEAST = 20 << 20;

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

    @Test
    public void aDeletedLedgerVanishesFromTheBookies() throws Exception {
        try (BookKeeperTestClient client = CLUSTER.bareClient(Protocol.V3)) {
            LedgerHandle ledger = Ledgers.create(client, 3, 3, 3);
            Ledgers.fill(ledger, 100);
            ledger.close();
            LedgerHandle stays = Ledgers.create(client, 3, 3, 3);
            Ledgers.fill(stays, 10);
            client.deleteLedger(ledger.getId());
            for (Bookie bookie : CLUSTER.bookies) {
                Requests requests = new Requests(client, bookie.id());
                Until.holds(() -> requests.read(ledger.getId(), 0).code() == Code.NoSuchLedgerExistsException,
                        "the ledger vanishes");
            }
            Ledgers.check(stays, 0, 9);
            assertFalse(stays.isClosed());
            stays.close();
        }
    }

    /** In most of its files another ledger has some entries, which are moved. */
    @Test
    public void aDeletedLedgersSpaceComesBack() throws Exception {
        assumeFalse("Java's bookie compacts by the hour", Cluster.isControl());
        try (BookKeeper client = CLUSTER.client(Protocol.V3)) {
            LedgerHandle large = Ledgers.create(client, 3, 3, 3);
            LedgerHandle stays = Ledgers.create(client, 3, 3, 3);
            for (int round = 0; round < 20; round++) {
                Ledgers.fill(large, 1000);
                Ledgers.fill(stays, 10);
            }
            large.close();
            Map<Bookie, Long> before = new HashMap<>();
            for (Bookie bookie : CLUSTER.bookies) {
                before.put(bookie, bookie.diskBytes());
                assertTrue(bookie.id() + " has it", before.get(bookie) > large.getLength());
            }
            assertTrue("large: " + large.getLength(), large.getLength() > FREED_LEAST);
            client.deleteLedger(large.getId());
            for (Bookie bookie : CLUSTER.bookies) {
                Until.holds(() -> bookie.diskBytes() < before.get(bookie) - FREED_LEAST,
                        "the bytes on the disk come back");
            }
            Ledgers.check(stays, 0, 199);
            stays.close();
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

package walkeeper.interop;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;

import java.util.ArrayList;
import java.util.List;
import org.apache.bookkeeper.client.BKException.Code;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.BookKeeperAdmin;
import org.apache.bookkeeper.client.BookKeeperTestClient;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.client.api.LedgerMetadata;
import org.apache.bookkeeper.conf.ServerConfiguration;
import org.apache.bookkeeper.net.BookieId;
import org.apache.bookkeeper.replication.AutoRecoveryMain;
import org.junit.Test;

/** Java's auto-recovery copies what a lost bookie had, from and to bookies of ours. */
public class AutoRecoveryTest extends InteropTest {
    private static final int LEDGERS = 5;
    private static final int ENTRIES = 100;

    private Cluster running;

    @Override
    Cluster cluster() {
        return running;
    }

    /** Of four bookies, three have all ledgers; one of those is lost, and only the fourth can take its place. */
    private void recover(Cluster cluster, Bookie lost, Bookie target, boolean leaveOneOpen) throws Exception {
        List<Bookie> three = new ArrayList<>(cluster.bookies);
        three.remove(target);
        List<Long> ledgers = new ArrayList<>();
        try (BookKeeper writer = cluster.client(Protocol.V3)) {
            for (int i = 0; i < LEDGERS; i++) {
                LedgerHandle ledger = Ledgers.on(three, writer, Shape.THREE::everywhere);
                Ledgers.fill(ledger, ENTRIES);
                ledgers.add(ledger.getId());
                if (i > 0 || !leaveOneOpen) {
                    ledger.close();
                }
            }
            Thread.sleep(100); // Java's close() throws where it meets an add whose answer another thread has: CloseRace
        }
        ServerConfiguration settings = Settings.server(cluster.uri(), Ports.free());
        settings.setOpenLedgerRereplicationGracePeriod("1000");
        settings.setLostBookieRecoveryDelay(0);
        settings.setAuditorPeriodicCheckInterval(3600);
        AutoRecoveryMain recovery = new AutoRecoveryMain(settings);
        recovery.start();
        try (BookKeeperTestClient client = cluster.bareClient(Protocol.V3); BookKeeperAdmin admin = cluster.admin()) {
            Until.holds(() -> recovery.getAuditor() != null, "the auditor is elected");
            lost.kill();
            cluster.awaitGone(lost);
            for (long id : ledgers) {
                Until.holds(() -> !everyone(Ledgers.metadata(client, id)).contains(lost.id()), "ledger " + id + " is copied");
                assertTrue(target.id() + " takes its place", everyone(Ledgers.metadata(client, id)).contains(target.id()));
                LedgerMetadata metadata = Ledgers.metadata(client, id);
                for (var segment : metadata.getAllEnsembles().entrySet()) {
                    for (BookieId bookie : segment.getValue()) {
                        Requests requests = new Requests(client, bookie);
                        for (long entry = segment.getKey(); entry < ENTRIES; entry++) {
                            Requests.Answer answer = requests.read(id, entry);
                            assertEquals("entry " + entry + " of " + id + " on " + bookie, Code.OK, answer.code());
                            assertArrayEquals(Payload.of(id, entry), answer.payload());
                        }
                    }
                }
            }
        } finally {
            recovery.shutdown();
        }
    }

    private static List<BookieId> everyone(LedgerMetadata metadata) {
        List<BookieId> all = new ArrayList<>();
        metadata.getAllEnsembles().values().forEach(all::addAll);
        return all;
    }

    private Cluster start(int ours, int java) throws Throwable {
        running = new Cluster(ours, java);
        running.before();
        return running;
    }

    @Test
    public void fromOursToOurs() throws Throwable {
        try (Cluster cluster = start(4, 0)) {
            recover(cluster, cluster.bookies.get(1), cluster.bookies.get(3), true);
        }
    }

    @Test
    public void fromJavasToOurs() throws Throwable {
        try (Cluster cluster = start(3, 1)) {
            recover(cluster, cluster.bookies.get(3), cluster.bookies.get(0), false);
        }
    }

    @Test
    public void fromOursToJavas() throws Throwable {
        try (Cluster cluster = start(3, 1)) {
            recover(cluster, cluster.bookies.get(0), cluster.bookies.get(3), true);
        }
    }
}

package walkeeper.interop;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertNotEquals;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.BKException.Code;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.BookKeeperTestClient;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.client.api.LedgerMetadata;
import org.apache.bookkeeper.net.BookieId;
import org.apache.bookkeeper.proto.BookieProtocol;
import org.junit.Rule;
import org.junit.Test;

/** Recovery of a ledger whose writer is gone, or only slow; and the keys that a ledger has. */
public class FenceTest extends ProtocolTest {
    private static final long LEDGER = 7_000_000_000L;
    private static final long ACKNOWLEDGED_LEAST = 1000;
    private static final byte[] SECRET = "secret".getBytes(StandardCharsets.UTF_8);

    @Rule
    public final Cluster cluster = new Cluster(4, 0);

    @Override
    Cluster cluster() {
        return cluster;
    }

    @Test
    public void aWriterThatStillLivesIsFencedOff() throws Exception {
        try (BookKeeper writer = cluster.client(protocol); BookKeeper another = cluster.client(protocol)) {
            LedgerHandle ledger = Ledgers.create(writer, 3, 3, 2);
            AtomicLong acknowledged = new AtomicLong(-1);
            CompletableFuture<Integer> fenced = new CompletableFuture<>();
            CompletableFuture.runAsync(() -> {
                try {
                    for (long entry = 0; ; entry++) {
                        ledger.addEntry(Payload.of(ledger.getId(), entry));
                        acknowledged.set(entry);
                    }
                } catch (BKException wrong) {
                    fenced.complete(wrong.getCode());
                } catch (Exception wrong) {
                    fenced.completeExceptionally(wrong);
                }
            });
            Until.holds(() -> acknowledged.get() > 50, "the writer writes");
            LedgerHandle recovered = Ledgers.recover(another, ledger.getId());
            // Closed, where the refusal came from the third bookie after two others had acknowledged.
            int code = fenced.get(60, TimeUnit.SECONDS);
            assertTrue("code " + code, code == Code.LedgerFencedException || code == Code.LedgerClosedException);
            assertTrue(acknowledged + " and " + recovered.getLastAddConfirmed(),
                    recovered.getLastAddConfirmed() >= acknowledged.get());
            Ledgers.check(recovered, 0, recovered.getLastAddConfirmed());
            recovered.close();
        }
    }

    @Test
    public void aKilledWritersLedgerIsRecovered() throws Exception {
        try (WriterProcess writer = new WriterProcess(cluster, protocol, 3, 2, 2);
                BookKeeperTestClient another = cluster.bareClient(protocol);
                BookKeeper third = cluster.client(protocol)) {
            long id = writer.ledger();
            Until.holds(() -> writer.acknowledged() >= ACKNOWLEDGED_LEAST, "the writer writes");
            writer.kill();
            LedgerHandle recovered = Ledgers.recover(another, id);
            long last = recovered.getLastAddConfirmed();
            assertTrue(writer.acknowledged() + " and " + last, last >= writer.acknowledged());
            Ledgers.check(recovered, 0, last);
            LedgerMetadata metadata = recovered.getLedgerMetadata();
            recovered.close();
            assertEquals(LedgerMetadata.State.CLOSED, Ledgers.metadata(third, id).getState());
            assertEquals(last, Ledgers.metadata(third, id).getLastEntryId());
            // Adds that the writer sent and no bookie had read yet come too late. Recovery does not wait for the last bookie's fence.
            for (BookieId bookie : metadata.getAllEnsembles().lastEntry().getValue()) {
                Requests requests = new Requests(another, bookie);
                Until.holds(() -> requests.add(id, last + 1, new byte[1]) == Code.LedgerFencedException,
                        bookie + " refuses late adds");
            }
            Ledgers.recoverAndCheck(third, id, last);
        }
    }

    @Test
    public void anEmptyLedgerIsRecoveredByTwoAtOnce() throws Exception {
        try (BookKeeper writer = cluster.client(protocol); BookKeeper another = cluster.client(protocol);
                BookKeeper third = cluster.client(protocol)) {
            LedgerHandle ledger = Ledgers.create(writer, 3, 3, 2);
            CompletableFuture<Long> one = CompletableFuture.supplyAsync(() -> lastOf(another, ledger.getId()));
            CompletableFuture<Long> two = CompletableFuture.supplyAsync(() -> lastOf(third, ledger.getId()));
            assertEquals(-1, one.get(60, TimeUnit.SECONDS).longValue());
            assertEquals(-1, two.get(60, TimeUnit.SECONDS).longValue());
            assertThrows(BKException.BKLedgerFencedException.class, () -> ledger.addEntry(new byte[10]));
        }
    }

    private static long lastOf(BookKeeper client, long id) {
        try (LedgerHandle recovered = Ledgers.recover(client, id)) {
            return recovered.getLastAddConfirmed();
        } catch (Exception wrong) {
            throw new IllegalStateException(wrong);
        }
    }

    @Test
    public void recoveryWithABookieAway() throws Exception {
        try (BookKeeper writer = cluster.client(protocol); BookKeeper another = cluster.client(protocol)) {
            LedgerHandle ledger = Ledgers.create(writer, 3, 3, 2);
            Ledgers.fill(ledger, 100);
            cluster.bookie(ledger.getLedgerMetadata().getAllEnsembles().get(0L).get(0)).kill();
            Ledgers.recoverAndCheck(another, ledger.getId(), 99);
        }
    }

    @Test
    public void aFenceOutlivesTheBookie() throws Exception {
        Bookie bookie = cluster.bookies.get(0);
        for (int life = 0; life < 2; life++) {
            // A client for each life: none that does not know yet that its connection ended.
            try (BookKeeperTestClient client = cluster.bareClient(protocol)) {
                Requests requests = new Requests(client, bookie.id());
                if (life == 0) {
                    assertEquals(Code.OK, requests.add(LEDGER, 0, Payload.of(LEDGER, 0)));
                    assertEquals(Code.OK, requests.fence(LEDGER, Ledgers.PASSWORD).code());
                    // One that it never saw: the answer is that there is none, and the fence stands all the same.
                    assertNotEquals(Code.OK, requests.fence(LEDGER + 1, Ledgers.PASSWORD).code());
                }
                for (long ledger : new long[] {LEDGER, LEDGER + 1}) {
                    if (ledger == LEDGER || bookie.isWalkeeper()) {
                        assertEquals(Code.LedgerFencedException, requests.add(ledger, 1, Payload.of(ledger, 1)));
                        assertEquals("a recovering client may write", Code.OK, requests.add(ledger, 2 + life,
                                Payload.of(ledger, 2 + life), Ledgers.PASSWORD, BookieProtocol.FLAG_RECOVERY_ADD));
                    }
                }
                // The client forgets an add after it called back, and its close trips over that; not after another answer.
                assertEquals(Code.OK, requests.read(LEDGER, 0).code());
            }
            if (life == 0) {
                bookie.kill();
                bookie.start();
            }
        }
    }

    @Test
    public void aWrongPasswordIsRefusedByTheBookie() throws Exception {
        try (BookKeeperTestClient client = cluster.bareClient(protocol)) {
            Requests requests = new Requests(client, cluster.bookies.get(0).id());
            assertEquals(Code.OK, requests.add(LEDGER, 0, new byte[10], SECRET, 0));
            assertEquals(Code.UnauthorizedAccessException, requests.add(LEDGER, 1, new byte[10], Ledgers.PASSWORD, 0));
            assertEquals(Code.UnauthorizedAccessException, requests.fence(LEDGER, Ledgers.PASSWORD).code());
            assertEquals("it is not fenced", Code.OK, requests.add(LEDGER, 1, new byte[10], SECRET, 0));
            assertEquals(Code.NoSuchEntryException, requests.read(LEDGER, 2).code());
        }
    }

    @Test
    public void whatIsNotThereIsSaid() throws Exception {
        try (BookKeeperTestClient client = cluster.bareClient(protocol)) {
            Requests requests = new Requests(client, cluster.bookies.get(0).id());
            assertEquals(Code.NoSuchLedgerExistsException, requests.read(LEDGER, 0).code());
            assertEquals(Code.OK, requests.add(LEDGER, 3, Payload.of(LEDGER, 3)));
            assertEquals(Code.NoSuchEntryException, requests.read(LEDGER, 2).code());
            assertEquals(Code.NoSuchEntryException, requests.read(LEDGER, 4).code());
            assertEquals(Code.OK, requests.read(LEDGER, 3).code());
        }
    }
}

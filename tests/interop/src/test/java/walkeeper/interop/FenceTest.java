package walkeeper.interop;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertNotEquals;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;
import static org.junit.Assume.assumeTrue;

import java.nio.charset.StandardCharsets;
import java.util.List;
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
import org.junit.Test;

/** Recovery of a ledger whose writer is gone, or only slow; and the keys that a ledger has. */
public class FenceTest extends ShapeTest {
    private static final long ACKNOWLEDGED_LEAST = 1000;
    private static final byte[] SECRET = "secret".getBytes(StandardCharsets.UTF_8);

    /** Of a mixed cluster one of ours and one of Java's. */
    private List<Bookie> oneOfEachMake() {
        Bookie last = cluster().bookies.get(cluster().bookies.size() - 1);
        return shape.java == 0 ? List.of(first()) : List.of(first(), last);
    }

    /** A ledger that the bookie has heard nothing of. It is in the metadata: what is not, Java's bookie may delete at any time. */
    private static long unheardOf(BookKeeper client, Bookie bookie) throws Exception {
        return Ledgers.on(bookie, client, Shape.ONE::everywhere).getId();
    }

    @Test
    public void aWriterThatStillLivesIsFencedOff() throws Exception {
        try (BookKeeper writer = cluster().client(protocol); BookKeeper another = cluster().client(protocol)) {
            LedgerHandle ledger = shape.majority(writer);
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
        try (WriterProcess writer = new WriterProcess(cluster(), protocol, shape);
                BookKeeperTestClient another = cluster().bareClient(protocol);
                BookKeeper third = cluster().client(protocol)) {
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
        try (BookKeeper writer = cluster().client(protocol); BookKeeper another = cluster().client(protocol);
                BookKeeper third = cluster().client(protocol)) {
            LedgerHandle ledger = shape.majority(writer);
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
        assumeTrue("what only one bookie has cannot be read while it is away", shape != Shape.ONE);
        try (BookKeeper writer = cluster().client(protocol); BookKeeper another = cluster().client(protocol)) {
            LedgerHandle ledger = Ledgers.on(first(), writer, shape::majority);
            Ledgers.fill(ledger, 100);
            first().kill();
            Ledgers.recoverAndCheck(another, ledger.getId(), 99);
        }
        cluster().startAgain(first());
    }

    @Test
    public void aFenceOutlivesTheBookie() throws Exception {
        for (Bookie bookie : oneOfEachMake()) {
            long written;
            long empty;
            // A client for each life: none that does not know yet that its connection ended.
            try (BookKeeperTestClient client = cluster().bareClient(protocol)) {
                Requests requests = new Requests(client, bookie.id());
                written = unheardOf(client, bookie);
                empty = unheardOf(client, bookie);
                assertEquals(Code.OK, requests.add(written, 0, Payload.of(written, 0)));
                assertEquals(Code.OK, requests.fence(written, Ledgers.PASSWORD).code());
                // The answer is that there is none, and the fence stands all the same.
                assertNotEquals(Code.OK, requests.fence(empty, Ledgers.PASSWORD).code());
                refusesAllButRecovery(bookie, requests, written, empty, 2);
            }
            bookie.kill();
            cluster().startAgain(bookie);
            try (BookKeeperTestClient client = cluster().bareClient(protocol)) {
                refusesAllButRecovery(bookie, new Requests(client, bookie.id()), written, empty, 3);
            }
        }
    }

    private static void refusesAllButRecovery(Bookie bookie, Requests requests, long written, long empty, long entry)
            throws Exception {
        // Java's bookie keeps no fence of a ledger that it never saw.
        for (long ledger : bookie.isWalkeeper() ? new long[] {written, empty} : new long[] {written}) {
            assertEquals(Code.LedgerFencedException, requests.add(ledger, 1, Payload.of(ledger, 1)));
            assertEquals("a recovering client may write", Code.OK, requests.add(ledger, entry,
                    Payload.of(ledger, entry), Ledgers.PASSWORD, BookieProtocol.FLAG_RECOVERY_ADD));
        }
        // The client forgets an add after it called back, and its close trips over that; not after another answer.
        assertEquals(Code.OK, requests.read(written, 0).code());
    }

    @Test
    public void aWrongPasswordIsRefusedByTheBookie() throws Exception {
        try (BookKeeperTestClient client = cluster().bareClient(protocol)) {
            for (Bookie bookie : oneOfEachMake()) {
                Requests requests = new Requests(client, bookie.id());
                long ledger = unheardOf(client, bookie);
                assertEquals(Code.OK, requests.add(ledger, 0, new byte[10], SECRET, 0));
                assertEquals(Code.UnauthorizedAccessException,
                        requests.add(ledger, 1, new byte[10], Ledgers.PASSWORD, 0));
                assertEquals(Code.UnauthorizedAccessException, requests.fence(ledger, Ledgers.PASSWORD).code());
                assertEquals("it is not fenced", Code.OK, requests.add(ledger, 1, new byte[10], SECRET, 0));
                assertEquals(Code.NoSuchEntryException, requests.read(ledger, 2).code());
            }
        }
    }

    @Test
    public void whatIsNotThereIsSaid() throws Exception {
        try (BookKeeperTestClient client = cluster().bareClient(protocol)) {
            for (Bookie bookie : oneOfEachMake()) {
                Requests requests = new Requests(client, bookie.id());
                long ledger = unheardOf(client, bookie);
                assertEquals(Code.NoSuchLedgerExistsException, requests.read(ledger, 0).code());
                assertEquals(Code.OK, requests.add(ledger, 3, Payload.of(ledger, 3)));
                assertEquals(Code.NoSuchEntryException, requests.read(ledger, 2).code());
                assertEquals(Code.NoSuchEntryException, requests.read(ledger, 4).code());
                assertEquals(Code.OK, requests.read(ledger, 3).code());
            }
        }
    }
}

package walkeeper.interop;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;
import static org.junit.Assume.assumeTrue;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Enumeration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.BKException.Code;
import org.apache.bookkeeper.client.BookKeeper.DigestType;
import org.apache.bookkeeper.client.BookKeeperTestClient;
import org.apache.bookkeeper.client.LedgerEntry;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.client.LedgerHandleAdv;
import org.junit.AfterClass;
import org.junit.Before;
import org.junit.Test;
import org.junit.runner.RunWith;
import org.junit.runners.Parameterized;
import org.junit.runners.Parameterized.Parameters;

/** Ledgers written, read and deleted: each protocol, on ensembles of one, three and five of ours, and mixed with Java's. */
@RunWith(Parameterized.class)
public class EntriesTest extends InteropTest {
    private static Cluster ours;
    private static Cluster mixed;
    private static final Map<String, BookKeeperTestClient> clients = new HashMap<>();

    private final Protocol protocol;
    private final Shape shape;
    private BookKeeperTestClient client;

    @Parameters(name = "{0} {1}")
    public static List<Object[]> cases() {
        List<Object[]> all = new ArrayList<>();
        for (Shape shape : Shape.values()) {
            for (Protocol protocol : Protocol.values()) {
                all.add(new Object[] {protocol, shape});
            }
        }
        return all;
    }

    public EntriesTest(Protocol protocol, Shape shape) {
        this.protocol = protocol;
        this.shape = shape;
    }

    @Override
    Cluster cluster() {
        return shape == Shape.MIXED ? mixed : ours;
    }

    @Before
    public void open() throws Throwable {
        if (shape == Shape.MIXED && mixed == null) {
            mixed = new Cluster(2, 2);
            mixed.before();
        } else if (shape != Shape.MIXED && ours == null) {
            ours = new Cluster(5, 0);
            ours.before();
        }
        // A client's close takes two seconds: one for each protocol and cluster does.
        client = clients.get(protocol + " " + (shape == Shape.MIXED));
        if (client == null) {
            client = cluster().bareClient(protocol);
            clients.put(protocol + " " + (shape == Shape.MIXED), client);
        }
    }

    @AfterClass
    public static void end() throws Exception {
        for (BookKeeperTestClient each : clients.values()) {
            each.close();
        }
        clients.clear();
        for (Cluster each : new Cluster[] {ours, mixed}) {
            if (each != null) {
                each.close();
            }
        }
        ours = mixed = null;
    }

    private LedgerHandle create(DigestType digest, byte[] password) throws Exception {
        return client.createLedger(shape.ensemble, shape.writeQuorum, shape.ackQuorum, digest, password);
    }

    private LedgerHandle create() throws Exception {
        return create(Ledgers.DIGEST, Ledgers.PASSWORD);
    }

    @Test
    public void sizesFromOneByteToFiveMebibytes() throws Exception {
        int[] sizes = {1, 2, 3, 7, 8, 63, 64, 65, 127, 128, 255, 256, 1000, 4032, 4095, 4096, 4097, 16383, 16384, 65535,
            65536, 65537, 262144, 524287, 524288, 1 << 20, 3_000_001, 4 << 20, 5 << 20};
        LedgerHandle ledger = create();
        for (int size : sizes) {
            ledger.addEntry(Payload.of(ledger.getId(), 0, size));
        }
        ledger.close();
        LedgerHandle read = Ledgers.recover(client, ledger.getId());
        assertEquals(sizes.length - 1, read.getLastAddConfirmed());
        for (int entry = 0; entry < sizes.length; entry++) {
            byte[] got = read.readEntries(entry, entry).nextElement().getEntry();
            assertArrayEquals("size " + sizes[entry], Payload.of(ledger.getId(), 0, sizes[entry]), got);
        }
        read.close();
    }

    /** A bookie of either make ends the connection for a byte more, and the next connection is as any. */
    @Test
    public void theLargestEntryThatAFrameHasRoomForAndAByteMore() throws Exception {
        // Each bookie is asked by itself: with what all refuse the client would go from one to the next for ever.
        int all = cluster().bookies.size();
        long id = Ledgers.create(client, all, all, all).getId();
        int largest = Frames.largestEntry(protocol, id);
        for (Bookie bookie : cluster().bookies) {
            Requests requests = new Requests(client, bookie.id());
            assertEquals(bookie.id().toString(), Code.OK, requests.add(id, 0, Payload.of(id, 0, largest)));
            assertEquals(bookie.id().toString(), Code.BookieHandleNotAvailableException,
                    requests.add(id, 1, Payload.of(id, 1, largest + 1)));
            // For a moment the client goes on using the connection that has ended.
            Until.holds(() -> requests.read(id, 0).code() == Code.OK, "a connection to " + bookie.id());
            assertArrayEquals(Payload.of(id, 0, largest), requests.read(id, 0).payload());
        }
        LedgerHandle ledger = create();
        largest = Frames.largestEntry(protocol, ledger.getId());
        ledger.addEntry(Payload.of(ledger.getId(), 0, largest));
        ledger.close();
        LedgerHandle read = Ledgers.recover(client, ledger.getId());
        assertArrayEquals(Payload.of(ledger.getId(), 0, largest), read.readEntries(0, 0).nextElement().getEntry());
        read.close();
    }

    @Test
    public void anEmptyEntry() throws Exception {
        LedgerHandle ledger = create();
        ledger.addEntry(new byte[0]);
        ledger.addEntry(new byte[] {1});
        ledger.close();
        LedgerHandle read = Ledgers.recover(client, ledger.getId());
        assertEquals(0, read.readEntries(0, 0).nextElement().getEntry().length);
        read.close();
    }

    @Test
    public void thousandsInFlight() throws Exception {
        LedgerHandle ledger = create();
        Ledgers.fill(ledger, 3000);
        Ledgers.check(ledger, 0, 2999);
        ledger.close();
        LedgerHandle read = Ledgers.recover(client, ledger.getId());
        assertEquals(2999, read.getLastAddConfirmed());
        Ledgers.check(read, 0, 2999);
        LedgerEntry last = read.readLastEntry();
        assertEquals(2999, last.getEntryId());
        read.close();
    }

    @Test
    public void manyLedgersAtOnce() throws Exception {
        List<LedgerHandle> ledgers = new ArrayList<>();
        for (int i = 0; i < 20; i++) {
            ledgers.add(create());
        }
        for (int round = 0; round < 5; round++) {
            for (LedgerHandle each : ledgers) {
                Ledgers.fill(each, 20);
            }
        }
        for (LedgerHandle each : ledgers) {
            each.close();
            Ledgers.recoverAndCheck(client, each.getId(), 99);
        }
    }

    @Test
    public void everyDigestAndPassword() throws Exception {
        byte[][] passwords = {new byte[0], "secret".getBytes(StandardCharsets.UTF_8), new byte[300]};
        for (DigestType digest : DigestType.values()) {
            for (byte[] password : passwords) {
                LedgerHandle ledger = create(digest, password);
                Ledgers.fill(ledger, 20);
                long id = ledger.getId();
                LedgerHandle read = client.openLedger(id, digest, password);
                assertEquals(19, read.getLastAddConfirmed());
                Ledgers.check(read, 0, 19);
                read.close();
                byte[] wrong = "another".getBytes(StandardCharsets.UTF_8);
                assertThrows(digest.toString(), BKException.BKUnauthorizedAccessException.class,
                        () -> client.openLedger(id, digest, wrong));
            }
        }
    }

    @Test
    public void entriesOutOfOrder() throws Exception {
        LedgerHandleAdv ledger = (LedgerHandleAdv) client.createLedgerAdv(
                shape.ensemble, shape.writeQuorum, shape.ackQuorum, Ledgers.DIGEST, Ledgers.PASSWORD);
        List<Long> order = new ArrayList<>();
        for (long entry = 0; entry < 200; entry++) {
            order.add(entry);
        }
        Collections.shuffle(order, Seed.random());
        List<CompletableFuture<Long>> answers = new ArrayList<>();
        for (long entry : order) {
            answers.add(ledger.writeAsync(entry, Payload.of(ledger.getId(), entry)));
        }
        for (CompletableFuture<Long> answer : answers) {
            answer.get(60, TimeUnit.SECONDS);
        }
        ledger.close();
        Ledgers.recoverAndCheck(client, ledger.getId(), 199);
    }

    @Test
    public void batchesOfEntries() throws Exception {
        assumeTrue("the client has batch reads in version 2 alone: in version 3 it throws UnsupportedOperationException", protocol == Protocol.V2);
        // The client reads batches of what is not striped.
        LedgerHandle ledger = Ledgers.create(client, shape.ensemble, shape.ensemble, shape.ackQuorum);
        Ledgers.fill(ledger, 500);
        ledger.close();
        LedgerHandle read = Ledgers.recover(client, ledger.getId());
        Enumeration<LedgerEntry> hundred = read.batchReadEntries(100, 100, 5 << 20);
        Ledgers.check(ledger.getId(), 100, 199, hundred);
        Enumeration<LedgerEntry> bySize = read.batchReadEntries(0, 500, 50_000);
        long entries = 0;
        int bytes = 0;
        while (bySize.hasMoreElements()) {
            LedgerEntry entry = bySize.nextElement();
            assertEquals(entries, entry.getEntryId());
            assertArrayEquals(Payload.of(ledger.getId(), entries), entry.getEntry());
            entries++;
            bytes += entry.getLength() > 0 ? Payload.size(entries - 1) : 0;
        }
        assertTrue("some entries and not all: " + entries, entries > 10 && entries < 500);
        assertTrue("not more than asked for: " + bytes, bytes <= 50_000);
        read.close();
    }

    @Test
    public void unconfirmedEntriesAreRead() throws Exception {
        LedgerHandle ledger = create();
        Ledgers.fill(ledger, 50);
        LedgerHandle read = Ledgers.tail(client, ledger.getId());
        Ledgers.check(ledger.getId(), 0, 49, read.readUnconfirmedEntries(0, 49));
        assertThrows(BKException.class, () -> read.readUnconfirmedEntries(50, 50));
        read.close();
        ledger.close();
    }

    @Test
    public void aDeletedLedgerIsGone() throws Exception {
        LedgerHandle ledger = create();
        Ledgers.fill(ledger, 100);
        ledger.close();
        client.deleteLedger(ledger.getId());
        assertThrows(BKException.BKNoSuchLedgerExistsOnMetadataServerException.class,
                () -> Ledgers.recover(client, ledger.getId()));
    }
}

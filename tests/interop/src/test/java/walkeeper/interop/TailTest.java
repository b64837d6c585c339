package walkeeper.interop;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertTrue;
import static org.junit.Assume.assumeTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.client.api.LastConfirmedAndEntry;
import org.apache.bookkeeper.client.api.LedgerEntry;
import org.apache.bookkeeper.client.api.ReadHandle;
import org.apache.bookkeeper.net.BookieId;
import org.junit.After;
import org.junit.Before;
import org.junit.Test;

/** A reader behind a writer that goes on: how it learns what is confirmed. */
public class TailTest extends ShapeTest {
    private static final int ENTRIES = 300;

    /** Of each kind to a bookie, as Pulsar has them; a ledger's requests go to the one of its number. */
    private static final int CHANNELS = 16;

    private static final String NO_PLACE = "a request of version 2 has no place for the LAC that the reader knows: "
            + "the client's long poll is a plain read there";

    private BookKeeper writer;
    private BookKeeper reader;

    @Before
    public void open() throws Exception {
        writer = cluster().client(protocol,
                settings -> settings.setExplictLacInterval(50).setNumChannelsPerBookie(CHANNELS));
        reader = cluster().client(protocol, settings -> settings.setNumChannelsPerBookie(CHANNELS));
    }

    @After
    public void close() throws Exception {
        writer.close();
        reader.close();
    }

    /**
     * A ledger that each of its bookies has heard of: each has one of its first entries. One that has not answers a long poll as Java's does, that there
     * is no such ledger.
     */
    private LedgerHandle begun() throws Exception {
        LedgerHandle ledger = shape.striped(writer);
        Ledgers.fill(ledger, shape.ensemble);
        return ledger;
    }

    /** Goes on until it has so many, one after the other, slowly enough to be followed. */
    private CompletableFuture<Void> write(LedgerHandle ledger, int entries) {
        return CompletableFuture.runAsync(() -> {
            try {
                for (long entry = ledger.getLastAddPushed() + 1; entry < entries; entry++) {
                    ledger.addEntry(Payload.of(ledger.getId(), entry));
                    if (entry % 50 == 0) {
                        Thread.sleep(20);
                    }
                }
            } catch (Exception wrong) {
                throw new IllegalStateException(wrong);
            }
        });
    }

    @Test
    public void byAskingForWhatIsConfirmed() throws Exception {
        LedgerHandle ledger = begun();
        CompletableFuture<Void> written = write(ledger, ENTRIES + 1);
        LedgerHandle tail = Ledgers.tail(reader, ledger.getId());
        long next = 0;
        while (next < ENTRIES) {
            long confirmed = tail.readLastConfirmed();
            assertTrue(confirmed <= ENTRIES);
            if (confirmed >= next) {
                Ledgers.check(tail, next, confirmed);
                next = confirmed + 1;
            }
        }
        written.get(60, TimeUnit.SECONDS);
        tail.close();
        ledger.close();
    }

    @Test
    public void byTryingToReadWhatIsConfirmed() throws Exception {
        LedgerHandle ledger = shape.majority(writer);
        write(ledger, 10).get(60, TimeUnit.SECONDS);
        LedgerHandle tail = Ledgers.tail(reader, ledger.getId());
        Until.holds(() -> tail.tryReadLastConfirmed() >= 8, "the tail is tried");
        tail.close();
        ledger.close();
    }

    @Test
    public void byLongPoll() throws Exception {
        assumeTrue(NO_PLACE, protocol == Protocol.V3);
        for (boolean parallel : new boolean[] {false, true}) {
            LedgerHandle ledger = begun();
            ReadHandle tail = reader.newOpenLedgerOp().withLedgerId(ledger.getId()).withPassword(Ledgers.PASSWORD)
                    .withRecovery(false).execute().get(60, TimeUnit.SECONDS);
            CompletableFuture<Void> written = write(ledger, ENTRIES + 1);
            for (long next = 0; next < ENTRIES; ) {
                try (LastConfirmedAndEntry answer = tail.readLastAddConfirmedAndEntry(next, 20_000, parallel)) {
                    assertTrue(answer.getLastAddConfirmed() <= ENTRIES);
                    if (answer.hasEntry()) {
                        LedgerEntry entry = answer.getEntry();
                        assertEquals(next, entry.getEntryId());
                        assertArrayEquals(Payload.of(ledger.getId(), next), entry.getEntryBytes());
                        next++;
                    }
                }
            }
            written.get(60, TimeUnit.SECONDS);
            tail.close();
            ledger.close();
        }
    }

    @Test
    public void aLongPollWaitsForTheNextEntryAndForItsTimeOut() throws Exception {
        assumeTrue(NO_PLACE, protocol == Protocol.V3);
        BookKeeper quiet = cluster().client(protocol);
        LedgerHandle ledger = Ledgers.on(first(), quiet, Shape.ONE::everywhere);
        ledger.addEntry(Payload.of(ledger.getId(), 0));
        ledger.addEntry(Payload.of(ledger.getId(), 1));
        ReadHandle tail = reader.newOpenLedgerOp().withLedgerId(ledger.getId()).withPassword(Ledgers.PASSWORD)
                .withRecovery(false).execute().get(60, TimeUnit.SECONDS);
        assertEquals(0, tail.readLastAddConfirmed());
        long before = System.nanoTime();
        try (LastConfirmedAndEntry nothing = tail.readLastAddConfirmedAndEntry(1, 700, false)) {
            assertFalse(nothing.hasEntry());
            assertEquals(0, nothing.getLastAddConfirmed());
        }
        assertTrue("it waited", System.nanoTime() - before >= 600_000_000L);
        CompletableFuture<LastConfirmedAndEntry> waits = tail.readLastAddConfirmedAndEntryAsync(1, 60_000, false);
        Thread.sleep(300);
        assertFalse("nothing came yet", waits.isDone());
        ledger.addEntry(Payload.of(ledger.getId(), 2));
        try (LastConfirmedAndEntry answer = waits.get(30, TimeUnit.SECONDS)) {
            assertTrue(answer.hasEntry());
            assertArrayEquals(Payload.of(ledger.getId(), 1), answer.getEntry().getEntryBytes());
            assertEquals(1, answer.getLastAddConfirmed());
        }
        tail.close();
        ledger.close();
        quiet.close();
    }

    /** Version 3 sends with every entry what the bookie knows to be confirmed. */
    @Test
    public void byReadingEntries() throws Exception {
        assumeTrue("an answer of version 2 has no place for the LAC", protocol == Protocol.V3);
        BookKeeper quiet = cluster().client(protocol);
        LedgerHandle ledger = shape.everywhere(quiet);
        Ledgers.fill(ledger, 1);
        LedgerHandle tail = Ledgers.tail(reader, ledger.getId());
        assertEquals(-1, tail.getLastAddConfirmed());
        for (int entry = 1; entry < 20; entry++) {
            ledger.addEntry(Payload.of(ledger.getId(), entry));
        }
        Ledgers.check(ledger.getId(), 0, 0, tail.readUnconfirmedEntries(0, 0));
        assertEquals(18, tail.getLastAddConfirmed());
        tail.close();
        ledger.close();
        quiet.close();
    }

    /** As Pulsar does: adds in version 2 and, on a second connection, what is confirmed in version 3; many such pairs. */
    @Test
    public void byTheWritersExplicitWord() throws Exception {
        List<LedgerHandle> ledgers = new ArrayList<>();
        List<LedgerHandle> tails = new ArrayList<>();
        for (int i = 0; i < CHANNELS; i++) {
            ledgers.add(shape.striped(writer));
            tails.add(Ledgers.tail(reader, ledgers.get(i).getId()));
        }
        for (int round = 1; round <= 3; round++) {
            // The word goes to the bookies of the last entry: each of the ensemble's has one of these.
            for (LedgerHandle ledger : ledgers) {
                Ledgers.fill(ledger, 11);
            }
            long last = round * 11 - 1;
            for (LedgerHandle tail : tails) {
                Until.holds(() -> tail.readExplicitLastConfirmed() == last, "the last entry is confirmed by word");
                assertEquals(last, tail.getLastAddConfirmed());
                Ledgers.check(tail, last - 10, last);
            }
        }
        for (Bookie bookie : cluster().bookies) {
            if (bookie instanceof WalkeeperBookie ours) {
                int both = 2 * connections(ledgers, ours.id());
                Until.holds(() -> ours.connections() == both, ours.id() + " has " + both + " of writer and reader");
            }
        }
        for (int i = 0; i < CHANNELS; i++) {
            tails.get(i).close();
            ledgers.get(i).close();
        }
    }

    /** A client's to this bookie: all of its protocol at once, and beside those of version 2 as many of 3 as it needs. */
    private int connections(List<LedgerHandle> ledgers, BookieId bookie) {
        long there = ledgers.stream()
                .filter(ledger -> ledger.getLedgerMetadata().getAllEnsembles().get(0L).contains(bookie)).count();
        return there == 0 ? 0 : CHANNELS + (protocol == Protocol.V2 ? (int) there : 0);
    }

    @Test
    public void theWritersCloseIsSeen() throws Exception {
        LedgerHandle ledger = shape.striped(writer);
        LedgerHandle tail = Ledgers.tail(reader, ledger.getId());
        Ledgers.fill(ledger, 30);
        ledger.close();
        Until.holds(() -> tail.isClosed(), "the close is seen");
        assertEquals(29, tail.readLastConfirmed());
        Ledgers.check(tail, 0, 29);
        tail.close();
    }
}

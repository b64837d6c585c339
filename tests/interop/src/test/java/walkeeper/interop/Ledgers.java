package walkeeper.interop;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;

import java.util.Enumeration;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.LedgerEntry;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.client.api.LedgerMetadata;
import org.apache.bookkeeper.net.BookieId;

/** What most tests do with a ledger. */
final class Ledgers {
    static final BookKeeper.DigestType DIGEST = BookKeeper.DigestType.CRC32C;
    static final byte[] PASSWORD = new byte[0];
    private static final int CREATIONS_MAX = 100;
    private static final int READ_AT_ONCE = 100;

    private Ledgers() {}

    static LedgerHandle create(BookKeeper client, int ensemble, int writeQuorum, int ackQuorum) throws Exception {
        return client.createLedger(ensemble, writeQuorum, ackQuorum, DIGEST, PASSWORD);
    }

    interface Creation {
        LedgerHandle create(BookKeeper client) throws Exception;
    }

    static LedgerHandle on(Bookie bookie, BookKeeper client, Creation creation) throws Exception {
        return on(List.of(bookie), client, creation);
    }

    /** The client chooses bookies by chance: ledgers are made until one has all of these. */
    static LedgerHandle on(List<Bookie> bookies, BookKeeper client, Creation creation) throws Exception {
        List<BookieId> ids = bookies.stream().map(Bookie::id).toList();
        for (int tried = 0; tried < CREATIONS_MAX; tried++) {
            LedgerHandle ledger = creation.create(client);
            if (ledger.getLedgerMetadata().getAllEnsembles().get(0L).containsAll(ids)) {
                return ledger;
            }
            ledger.close();
        }
        throw new AssertionError("the client never chose " + ids);
    }

    static LedgerHandle recover(BookKeeper client, long ledger) throws Exception {
        return client.openLedger(ledger, DIGEST, PASSWORD);
    }

    /** Another client recovers it: it ends with entry `last`, and every entry is as it was written. */
    static LedgerMetadata recoverAndCheck(BookKeeper client, long ledger, long last) throws Exception {
        try (LedgerHandle read = recover(client, ledger)) {
            assertEquals(last, read.getLastAddConfirmed());
            check(read, 0, last);
            return read.getLedgerMetadata();
        }
    }

    /** As the metadata store has it now. */
    static LedgerMetadata metadata(BookKeeper client, long ledger) throws Exception {
        return client.getLedgerManager().readLedgerMetadata(ledger).get(60, TimeUnit.SECONDS).getValue();
    }

    static LedgerHandle tail(BookKeeper client, long ledger) throws Exception {
        return client.openLedgerNoRecovery(ledger, DIGEST, PASSWORD);
    }

    /** Adds entries that name themselves, many in flight, and returns when all are acknowledged. */
    static void fill(LedgerHandle ledger, int entries) throws Exception {
        CountDownLatch answers = new CountDownLatch(entries);
        AtomicInteger wrong = new AtomicInteger(BKException.Code.OK);
        long first = ledger.getLastAddPushed() + 1;
        for (long entry = first; entry < first + entries; entry++) {
            ledger.asyncAddEntry(Payload.of(ledger.getId(), entry), (code, handle, id, context) -> {
                wrong.compareAndSet(BKException.Code.OK, code);
                answers.countDown();
            }, null);
        }
        assertEquals("adds are answered", true, answers.await(90, TimeUnit.SECONDS));
        assertEquals(BKException.getMessage(wrong.get()), BKException.Code.OK, wrong.get());
    }

    /** Reads all of [first, last] and compares byte for byte. */
    static void check(LedgerHandle ledger, long first, long last) throws Exception {
        for (long from = first; from <= last; from += READ_AT_ONCE) {
            long to = Math.min(last, from + READ_AT_ONCE - 1);
            check(ledger.getId(), from, to, ledger.readEntries(from, to));
        }
    }

    static void check(long ledger, long first, long last, Enumeration<LedgerEntry> entries) {
        for (long entry = first; entry <= last; entry++) {
            LedgerEntry read = entries.nextElement();
            assertEquals(entry, read.getEntryId());
            assertArrayEquals("entry " + entry, Payload.of(ledger, entry), read.getEntry());
        }
        assertFalse("no more entries than asked for", entries.hasMoreElements());
    }
}

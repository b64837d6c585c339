package walkeeper.interop;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertTrue;
import static org.junit.Assume.assumeTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.BookKeeperAdmin;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.net.BookieId;
import org.junit.Test;

/** Bookies of ours that die, hang and come back under a client that goes on; where there are Java's, those are beside them. */
public class FailureTest extends ShapeTest {
    private static final String ALONE = "what only one bookie has cannot be read while it is away";

    private static List<BookieId> lastEnsemble(LedgerHandle ledger) {
        return ledger.getLedgerMetadata().getAllEnsembles().lastEntry().getValue();
    }

    private void killOneWhileWriting(Ledgers.Creation creation) throws Exception {
        assumeTrue(ALONE, shape != Shape.ONE);
        try (BookKeeper client = cluster().client(protocol); BookKeeper another = cluster().client(protocol)) {
            LedgerHandle ledger = Ledgers.on(first(), client, creation);
            Ledgers.fill(ledger, 100);
            BookieId killed = first().id();
            CompletableFuture<Void> more = CompletableFuture.runAsync(() -> {
                try {
                    for (int round = 0; round < 20; round++) {
                        Ledgers.fill(ledger, 50);
                        Thread.sleep(20);
                    }
                } catch (Exception wrong) {
                    throw new IllegalStateException(wrong);
                }
            });
            Thread.sleep(100);
            first().kill();
            more.get(120, TimeUnit.SECONDS);
            Until.holds(() -> !lastEnsemble(ledger).contains(killed), "the killed bookie is replaced");
            Ledgers.fill(ledger, 50);
            ledger.close();
            assertEquals(2, Ledgers.recoverAndCheck(another, ledger.getId(), 1149).getAllEnsembles().size());
        }
        cluster().startAgain(first());
    }

    @Test
    public void aKilledBookieIsReplaced() throws Exception {
        killOneWhileWriting(shape::majority);
    }

    @Test
    public void aKilledBookieIsReplacedWhereAllMustAcknowledge() throws Exception {
        killOneWhileWriting(shape::everywhere);
    }

    @Test
    public void aBookieIsRestartedUnderARunningClient() throws Exception {
        try (BookKeeper client = cluster().client(protocol)) {
            LedgerHandle closed = Ledgers.on(first(), client, Shape.ONE::everywhere);
            Ledgers.fill(closed, 500);
            closed.close();
            // All must acknowledge: none is still written to when its bookie ends.
            int all = cluster().bookies.size();
            LedgerHandle open = Ledgers.create(client, all, all, all);
            Ledgers.fill(open, 100);
            Bookie bookie = first();
            for (boolean inOrder : new boolean[] {true, false}) {
                if (inOrder) {
                    bookie.stop();
                } else {
                    bookie.kill();
                }
                cluster().startAgain(bookie);
                Until.holds(() -> {
                    try {
                        Ledgers.check(closed, 0, 499);
                        return true;
                    } catch (BKException notYet) {
                        return false;
                    }
                }, "what only the restarted bookie has is read");
                Ledgers.fill(open, 100);
            }
            Ledgers.check(open, 0, 299);
            assertEquals("no other bookie could take its place", 1,
                    open.getLedgerMetadata().getAllEnsembles().size());
            open.close();
        }
    }

    @Test
    public void aBookieHangs() throws Exception {
        assumeTrue(ALONE, shape != Shape.ONE);
        try (BookKeeper client = cluster().client(protocol, settings -> {
            settings.setAddEntryTimeout(3);
            settings.setReadEntryTimeout(3);
        })) {
            Bookie hangs = first();
            LedgerHandle ledger = Ledgers.on(hangs, client, shape::majority);
            Ledgers.fill(ledger, 50);
            hangs.suspend();
            Ledgers.fill(ledger, 200);
            Until.holds(() -> {
                Ledgers.fill(ledger, 1);
                return !lastEnsemble(ledger).contains(hangs.id());
            }, "the hanging bookie is replaced");
            long last = ledger.getLastAddConfirmed();
            Ledgers.check(ledger, 0, last);
            hangs.resume();
            ledger.close();
            Ledgers.recoverAndCheck(client, ledger.getId(), last);
        }
    }

    @Test
    public void everyBookieIsRestartedAtOnce() throws Exception {
        try (BookKeeper client = cluster().client(protocol)) {
            List<LedgerHandle> ledgers = new ArrayList<>();
            for (int i = 0; i < 10; i++) {
                LedgerHandle ledger = shape.striped(client);
                Ledgers.fill(ledger, 100);
                ledgers.add(ledger);
            }
            cluster().killAndStartAll();
            try (BookKeeper another = cluster().client(protocol)) {
                for (LedgerHandle ledger : ledgers) {
                    Ledgers.recoverAndCheck(another, ledger.getId(), 99);
                }
            }
        }
    }

    @Test
    public void aReadOnlyBookieIsReadAndNotWritten() throws Exception {
        try (BookKeeper client = cluster().client(protocol)) {
            Bookie readOnly = first();
            LedgerHandle ledger = Ledgers.on(readOnly, client, shape::everywhere);
            Ledgers.fill(ledger, 100);
            LedgerHandle alone = Ledgers.on(readOnly, client, Shape.ONE::everywhere);
            Ledgers.fill(alone, 10);
            alone.close();
            readOnly.setReadOnly(true);
            try (BookKeeperAdmin admin = cluster().admin()) {
                Until.holds(() -> admin.getReadOnlyBookies().contains(readOnly.id())
                        && !admin.getAvailableBookies().contains(readOnly.id()), "it is registered as read-only");
                Ledgers.fill(ledger, 100);
                Until.holds(() -> !lastEnsemble(ledger).contains(readOnly.id()), "a writer takes another");
                Ledgers.check(ledger, 0, 199);
                Ledgers.recoverAndCheck(client, alone.getId(), 9);
                for (int i = 0; i < 5; i++) {
                    LedgerHandle next = shape.striped(client);
                    assertFalse(lastEnsemble(next).contains(readOnly.id()));
                    next.close();
                }
                readOnly.setReadOnly(false);
                Until.holds(() -> admin.getAvailableBookies().contains(readOnly.id())
                        && !admin.getReadOnlyBookies().contains(readOnly.id()), "it is writable again");
            }
            Until.holds(() -> {
                LedgerHandle next = shape.striped(client);
                Ledgers.fill(next, 10);
                next.close();
                return lastEnsemble(next).contains(readOnly.id());
            }, "it is chosen again");
            assertTrue(ledger.getLastAddConfirmed() >= 199);
            ledger.close();
        }
    }
}

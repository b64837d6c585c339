package walkeeper.interop;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.BookKeeperAdmin;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.net.BookieId;
import org.junit.Rule;
import org.junit.Test;

/** Bookies that die, hang and come back under a client that goes on. */
public class FailureTest extends ProtocolTest {
    @Rule
    public final Cluster cluster = new Cluster(4, 0);

    @Override
    Cluster cluster() {
        return cluster;
    }

    private static List<BookieId> lastEnsemble(LedgerHandle ledger) {
        return ledger.getLedgerMetadata().getAllEnsembles().lastEntry().getValue();
    }

    private void killOneWhileWriting(int ackQuorum) throws Exception {
        try (BookKeeper client = cluster.client(protocol); BookKeeper another = cluster.client(protocol)) {
            LedgerHandle ledger = Ledgers.create(client, 3, 3, ackQuorum);
            Ledgers.fill(ledger, 100);
            BookieId killed = lastEnsemble(ledger).get(1);
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
            cluster.bookie(killed).kill();
            more.get(120, TimeUnit.SECONDS);
            Until.holds(() -> !lastEnsemble(ledger).contains(killed), "the killed bookie is replaced");
            Ledgers.fill(ledger, 50);
            ledger.close();
            assertEquals(2, Ledgers.recoverAndCheck(another, ledger.getId(), 1149).getAllEnsembles().size());
        }
    }

    @Test
    public void aKilledBookieIsReplaced() throws Exception {
        killOneWhileWriting(2);
    }

    @Test
    public void aKilledBookieIsReplacedWhereAllMustAcknowledge() throws Exception {
        killOneWhileWriting(3);
    }

    @Test
    public void aBookieIsRestartedUnderARunningClient() throws Exception {
        try (BookKeeper client = cluster.client(protocol)) {
            LedgerHandle closed = Ledgers.create(client, 1, 1, 1);
            Ledgers.fill(closed, 500);
            closed.close();
            // All must acknowledge: none is still written to when its bookie ends.
            LedgerHandle open = Ledgers.create(client, 4, 4, 4);
            Ledgers.fill(open, 100);
            Bookie bookie = cluster.bookie(lastEnsemble(closed).get(0));
            for (boolean inOrder : new boolean[] {true, false}) {
                if (inOrder) {
                    bookie.stop();
                } else {
                    bookie.kill();
                }
                bookie.start();
                cluster.awaitWritable(cluster.bookies);
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
        try (BookKeeper client = cluster.client(protocol, settings -> {
            settings.setAddEntryTimeout(3);
            settings.setReadEntryTimeout(3);
        })) {
            LedgerHandle ledger = Ledgers.create(client, 3, 3, 2);
            Ledgers.fill(ledger, 50);
            Bookie hangs = cluster.bookie(lastEnsemble(ledger).get(0));
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
        try (BookKeeper client = cluster.client(protocol)) {
            List<LedgerHandle> ledgers = new ArrayList<>();
            for (int i = 0; i < 10; i++) {
                LedgerHandle ledger = Ledgers.create(client, 3, 2, 2);
                Ledgers.fill(ledger, 100);
                ledgers.add(ledger);
            }
            for (Bookie bookie : cluster.bookies) {
                bookie.kill();
            }
            for (Bookie bookie : cluster.bookies) {
                bookie.launch();
            }
            for (Bookie bookie : cluster.bookies) {
                bookie.awaitReady();
            }
            cluster.awaitWritable(cluster.bookies);
            try (BookKeeper another = cluster.client(protocol)) {
                for (LedgerHandle ledger : ledgers) {
                    Ledgers.recoverAndCheck(another, ledger.getId(), 99);
                }
            }
        }
    }

    @Test
    public void aReadOnlyBookieIsReadAndNotWritten() throws Exception {
        try (BookKeeper client = cluster.client(protocol)) {
            LedgerHandle ledger = Ledgers.create(client, 3, 3, 3);
            Ledgers.fill(ledger, 100);
            LedgerHandle alone = Ledgers.create(client, 1, 1, 1);
            Ledgers.fill(alone, 10);
            alone.close();
            Bookie readOnly = cluster.bookie(lastEnsemble(alone).get(0));
            readOnly.setReadOnly(true);
            try (BookKeeperAdmin admin = cluster.admin()) {
                Until.holds(() -> admin.getReadOnlyBookies().contains(readOnly.id())
                        && !admin.getAvailableBookies().contains(readOnly.id()), "it is registered as read-only");
                Ledgers.fill(ledger, 100);
                Until.holds(() -> !lastEnsemble(ledger).contains(readOnly.id()), "a writer takes another");
                Ledgers.check(ledger, 0, 199);
                Ledgers.recoverAndCheck(client, alone.getId(), 9);
                for (int i = 0; i < 5; i++) {
                    LedgerHandle next = Ledgers.create(client, 3, 2, 2);
                    assertFalse(lastEnsemble(next).contains(readOnly.id()));
                    next.close();
                }
                readOnly.setReadOnly(false);
                Until.holds(() -> admin.getAvailableBookies().contains(readOnly.id())
                        && !admin.getReadOnlyBookies().contains(readOnly.id()), "it is writable again");
            }
            Until.holds(() -> {
                LedgerHandle next = Ledgers.create(client, 3, 2, 2);
                Ledgers.fill(next, 10);
                next.close();
                return lastEnsemble(next).contains(readOnly.id());
            }, "it is chosen again");
            assertTrue(ledger.getLastAddConfirmed() >= 199);
            ledger.close();
        }
    }
}

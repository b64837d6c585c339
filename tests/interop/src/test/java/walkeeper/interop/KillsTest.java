package walkeeper.interop;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertTrue;

import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.LedgerEntry;
import org.apache.bookkeeper.client.LedgerHandle;
import org.junit.Rule;
import org.junit.Test;

/** SIGKILL under load, -Dkills times: what was acknowledged is read back, from the one bookie that has it. */
public class KillsTest extends ProtocolTest {
    private static final int KILLS = Integer.getInteger("kills", 2);
    private static final int IN_FLIGHT = 500;
    private static final int LIFE_MS = 1500;

    /** A life that ends before the bookie did anything tests nothing. */
    private static final int ACKNOWLEDGED_LEAST = 1000;

    @Rule
    public final Cluster cluster = new Cluster(1, 0);

    @Override
    Cluster cluster() {
        return cluster;
    }

    @Override
    int limitSeconds() {
        return 150 + 20 * KILLS;
    }

    /** Adds until one fails. */
    private static void write(LedgerHandle ledger, AtomicLong acknowledged) throws Exception {
        Semaphore room = new Semaphore(IN_FLIGHT);
        AtomicBoolean broken = new AtomicBoolean();
        for (long entry = 0; !broken.get(); entry++) {
            room.acquire();
            ledger.asyncAddEntry(Payload.of(ledger.getId(), entry), (code, handle, id, context) -> {
                if (code == BKException.Code.OK) {
                    acknowledged.accumulateAndGet(id, Math::max);
                } else {
                    broken.set(true);
                }
                room.release();
            }, null);
        }
        room.acquire(IN_FLIGHT);
    }

    @Test
    public void everyAcknowledgedEntryIsReadBack() throws Exception {
        Random random = Seed.random();
        Map<Long, Long> ends = new TreeMap<>();
        Bookie bookie = cluster.bookies.get(0);
        try (BookKeeper client = cluster.client(protocol)) {
            for (int life = 0; life < KILLS; life++) {
                LedgerHandle ledger = Ledgers.create(client, 1, 1, 1);
                AtomicLong acknowledged = new AtomicLong(-1);
                CompletableFuture<Void> killed = CompletableFuture.runAsync(() -> {
                    try {
                        Until.holds(() -> acknowledged.get() >= ACKNOWLEDGED_LEAST, "the bookie acknowledges");
                        Thread.sleep(random.nextInt(LIFE_MS));
                        bookie.kill();
                    } catch (Exception wrong) {
                        throw new IllegalStateException(wrong);
                    }
                });
                write(ledger, acknowledged);
                killed.get();
                ends.put(ledger.getId(), acknowledged.get());
                bookie.start();
                Until.holds(() -> {
                    try (LedgerHandle probe = Ledgers.create(client, 1, 1, 1)) {
                        probe.addEntry(new byte[1]); // to be in the list is not enough: its address is learned behind that
                        return true;
                    } catch (BKException notYet) {
                        return false;
                    }
                }, "the client reaches the bookie again");
            }
        }
        long entries = 0;
        try (BookKeeper another = cluster.client(protocol)) {
            for (Map.Entry<Long, Long> each : ends.entrySet()) {
                LedgerHandle read = Ledgers.recover(another, each.getKey());
                long last = read.getLastAddConfirmed();
                assertTrue("ledger " + each + " ends at " + last, last >= each.getValue());
                for (long from = 0; from <= last; from += 200) {
                    var some = read.readEntries(from, Math.min(last, from + 199));
                    while (some.hasMoreElements()) {
                        LedgerEntry entry = some.nextElement();
                        assertArrayEquals(Payload.of(each.getKey(), entry.getEntryId()), entry.getEntry());
                        entries++;
                    }
                }
                read.close();
            }
        }
        System.out.println(KILLS + " kills, " + entries + " entries read back");
        assertTrue(entries + " entries", entries > (long) KILLS * ACKNOWLEDGED_LEAST);
    }
}

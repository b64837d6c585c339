import java.util.List;
import java.util.Map;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Collectors;
import org.apache.bookkeeper.client.api.BKException;
import org.apache.bookkeeper.client.api.BookKeeper;
import org.apache.bookkeeper.client.api.DigestType;
import org.apache.bookkeeper.client.api.WriteHandle;
import org.apache.bookkeeper.net.BookieId;

/**
 * Writes orders to a ledger until somebody fences it; it never closes the ledger.
 *
 * <p>It tells, a line each: {@code ledger ID BOOKIES}, {@code acknowledged N} now and then, {@code ensemble FIRST-ENTRY BOOKIES} when the
 * client replaced a bookie, and at last {@code fenced N}: so many appends had been acknowledged.
 */
final class Writer {
    private static final int IN_FLIGHT = 500;
    private static final int LOOK_MS = 2;
    private static final int TELL_EVERY = 10; // looks

    private final WriteHandle ledger;
    private final Semaphore room = new Semaphore(IN_FLIGHT);
    private final AtomicLong acknowledged = new AtomicLong();
    private volatile boolean fenced;
    private final AtomicReference<Throwable> refused = new AtomicReference<>(); // for any other reason
    private volatile boolean ledgerIsClosed;

    private Writer(WriteHandle ledger) {
        this.ledger = ledger;
    }

    /** usage: Writer METADATA-URI v2|v3 */
    public static void main(String[] arguments) throws Exception {
        Orders.endWithStandardInput();
        BookKeeper client = Orders.client(arguments[0], arguments[1]);
        WriteHandle ledger = client.newCreateLedgerOp()
                .withEnsembleSize(3)
                .withWriteQuorumSize(3)
                .withAckQuorumSize(2)
                .withDigestType(DigestType.CRC32C)
                .withPassword(Orders.PASSWORD)
                .execute()
                .get();
        Writer writer = new Writer(ledger);
        Orders.tell("ledger " + ledger.getId() + " " + names(ledger.getLedgerMetadata().getEnsembleAt(0)));
        Thread looks = new Thread(writer::look);
        looks.setDaemon(true);
        looks.start();
        writer.write();
        if (writer.refused.get() != null) {
            throw new IllegalStateException("an append failed, and not because another client took over", writer.refused.get());
        }
        Orders.tell("fenced " + writer.acknowledged.get());
        Runtime.getRuntime().halt(0); // as a crash would: the client closes nothing
    }

    /** Returns when an append was refused, and all that were under way are answered. */
    private void write() throws InterruptedException {
        for (long number = 0; !isRefused(); number++) {
            room.acquire();
            ledger.appendAsync(Orders.order(number)).whenComplete((entry, wrong) -> {
                if (wrong == null) {
                    acknowledged.incrementAndGet();
                } else {
                    note(wrong);
                }
                room.release();
            });
        }
        room.acquire(IN_FLIGHT);
    }

    private boolean isRefused() {
        return ledgerIsClosed || fenced || refused.get() != null;
    }

    private void note(Throwable wrong) {
        int code = wrong instanceof BKException known ? known.getCode() : BKException.Code.UnexpectedConditionException;
        if (code == BKException.Code.LedgerFencedException) {
            fenced = true;
        } else if (code == BKException.Code.LedgerClosedException) {
            // By who recovered it: the client learns of that from the metadata where no pending append hears of the fence. Or
            // by the client itself, because an append that came before was refused: that one says why.
            ledgerIsClosed = true;
        } else {
            refused.compareAndSet(null, wrong);
        }
    }

    /** Tells how far it is, and of each new ensemble. */
    private void look() {
        int ensembles = 1;
        for (long looks = 0; ; looks++) {
            Map<Long, ? extends List<BookieId>> all = ledger.getLedgerMetadata().getAllEnsembles();
            if (all.size() > ensembles) {
                ensembles = all.size();
                long first = all.keySet().stream().max(Long::compare).orElseThrow();
                Orders.tell("ensemble " + first + " " + names(all.get(first)));
            }
            if (looks % TELL_EVERY == 0) {
                Orders.tell("acknowledged " + acknowledged.get());
            }
            try {
                TimeUnit.MILLISECONDS.sleep(LOOK_MS);
            } catch (InterruptedException ended) {
                return;
            }
        }
    }

    private static String names(List<BookieId> bookies) {
        return bookies.stream().map(BookieId::toString).collect(Collectors.joining(" "));
    }
}

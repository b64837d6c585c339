import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.Random;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.bookkeeper.client.api.BookKeeper;
import org.apache.bookkeeper.client.api.DigestType;
import org.apache.bookkeeper.client.api.LedgerEntries;
import org.apache.bookkeeper.client.api.ReadHandle;
import org.apache.bookkeeper.client.api.WriteHandle;
import org.apache.bookkeeper.conf.ClientConfiguration;

/**
 * BookKeeper's client, told by its standard input what to do, so that it stays warm: a line each, answered by a line of JSON.
 *
 * <p>{@code add v2|v3 WINDOW MILLISECONDS [E QW QA]}: adds of 1 KiB to a new ledger, on one bookie if not told. {@code read v2|v3 BATCH}: the ledger of the last
 * add, all of it; v2 by batch reads of BATCH entries, v3 by ranges of so many.
 */
final class Client {
    private static final int SIZE = 1024;
    private static final int SAMPLES_MAX = 1 << 22;
    private static final byte[] PASSWORD = new byte[0];

    private final BookKeeper v2;
    private final BookKeeper v3;
    private long lastLedger = -1;

    private Client(String metadata) throws Exception {
        v2 = client(metadata, true);
        v3 = client(metadata, false);
    }

    private static BookKeeper client(String metadata, boolean isV2) throws Exception {
        ClientConfiguration settings = new ClientConfiguration();
        settings.setMetadataServiceUri(metadata);
        settings.setUseV2WireProtocol(isV2);
        settings.setThrottleValue(0); // its default is 5,000 adds a second
        settings.setBatchReadEnabled(true);
        return BookKeeper.newBuilder(settings).build();
    }

    /** usage: Client METADATA-URI */
    public static void main(String[] arguments) {
        try {
            serve(arguments[0]);
        } catch (Exception wrong) {
            wrong.printStackTrace();
            System.exit(1);
        }
        System.exit(0); // its threads are no daemons
    }

    private static void serve(String metadata) throws Exception {
        Client client = new Client(metadata);
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
        System.out.println("ready");
        for (String line = orders.readLine(); line != null; line = orders.readLine()) {
            String[] words = line.split(" ");
            BookKeeper by = words[1].equals("v2") ? client.v2 : client.v3;
            System.out.println(
                    words[0].equals("add")
                            ? client.add(by, Integer.parseInt(words[2]), Long.parseLong(words[3]), quorums(words))
                            : client.read(by, words[1].equals("v2"), Integer.parseInt(words[2])));
        }
    }

    private static int[] quorums(String[] words) {
        int[] told = Arrays.stream(words).skip(4).mapToInt(Integer::parseInt).toArray();
        return told.length > 0 ? told : new int[] {1, 1, 1};
    }

    private String add(BookKeeper by, int window, long milliseconds, int[] quorums) throws Exception {
        byte[] payload = new byte[SIZE];
        new Random(1).nextBytes(payload);
        int[] samples = new int[SAMPLES_MAX];
        AtomicInteger done = new AtomicInteger();
        AtomicReference<Throwable> wrong = new AtomicReference<>();
        try (WriteHandle ledger = by.newCreateLedgerOp()
                .withEnsembleSize(quorums[0]).withWriteQuorumSize(quorums[1]).withAckQuorumSize(quorums[2])
                .withDigestType(DigestType.CRC32C).withPassword(PASSWORD).execute().get()) {
            lastLedger = ledger.getId();
            Semaphore room = new Semaphore(window);
            long from = System.nanoTime();
            long until = from + milliseconds * 1_000_000;
            while (System.nanoTime() < until && wrong.get() == null) {
                room.acquire();
                long began = System.nanoTime();
                ledger.appendAsync(payload).whenComplete((entry, error) -> {
                    if (error != null) {
                        wrong.set(error);
                    } else {
                        samples[Math.min(done.getAndIncrement(), SAMPLES_MAX - 1)] = (int) (System.nanoTime() - began);
                    }
                    room.release();
                });
            }
            room.acquire(window);
            double seconds = (System.nanoTime() - from) / 1e9;
            if (wrong.get() != null) {
                throw new IllegalStateException(wrong.get());
            }
            int[] sorted = Arrays.copyOf(samples, Math.min(done.get(), SAMPLES_MAX));
            Arrays.sort(sorted);
            return String.format("{\"entries\": %d, \"entries_per_second\": %.1f, \"p50_ns\": %d, \"p99_ns\": %d}",
                    done.get(), done.get() / seconds, sorted[sorted.length / 2], sorted[(int) (sorted.length * 0.99)]);
        }
    }

    private String read(BookKeeper by, boolean batches, int count) throws Exception {
        try (ReadHandle ledger = by.newOpenLedgerOp()
                .withLedgerId(lastLedger).withDigestType(DigestType.CRC32C).withPassword(PASSWORD).execute().get()) {
            long last = ledger.getLastAddConfirmed();
            long from = System.nanoTime();
            long next = 0;
            while (next <= last) {
                try (LedgerEntries entries = batches
                        ? ledger.batchRead(next, (int) Math.min(count, last - next + 1), 5 << 20)
                        : ledger.read(next, Math.min(next + count - 1, last))) {
                    for (var entry : entries) {
                        if (entry.getEntryId() != next++ || entry.getLength() <= 0) {
                            throw new IllegalStateException("entry " + entry.getEntryId() + " before " + next);
                        }
                    }
                }
            }
            return String.format("{\"entries\": %d, \"entries_per_second\": %.1f}",
                    next, next / ((System.nanoTime() - from) / 1e9));
        }
    }
}

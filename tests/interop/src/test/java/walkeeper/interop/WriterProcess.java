package walkeeper.interop;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.LedgerHandle;

/** A client in a process of its own that writes until it is killed, and says of each entry that it is acknowledged. */
final class WriterProcess implements AutoCloseable {
    private static final int IN_FLIGHT = 200;
    private static final int PATIENCE_S = 60;

    private final Process process;
    private final CompletableFuture<Long> ledger = new CompletableFuture<>();
    private final AtomicLong acknowledged = new AtomicLong(-1);
    private final CompletableFuture<Void> heard;

    WriterProcess(Cluster cluster, Protocol protocol, Shape shape) throws IOException {
        process = Children.start(new ProcessBuilder(System.getProperty("java.home") + "/bin/java", "-Xmx256m",
                "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", System.getProperty("java.class.path"),
                WriterProcess.class.getName(), cluster.uri(), protocol.toString(), shape.toString())
                .redirectError(ProcessBuilder.Redirect.DISCARD));
        heard = CompletableFuture.runAsync(this::listen);
    }

    /** A line that the kill cut short has no end, and does not count. */
    private void listen() {
        StringBuilder line = new StringBuilder();
        try (BufferedReader said = process.inputReader(StandardCharsets.US_ASCII)) {
            for (int next = said.read(); next != -1; next = said.read()) {
                if (next != '\n') {
                    line.append((char) next);
                    continue;
                }
                if (!ledger.complete(Long.valueOf(line.toString()))) {
                    acknowledged.accumulateAndGet(Long.parseLong(line.toString()), Math::max);
                }
                line.setLength(0);
            }
        } catch (IOException wrong) {
            throw new IllegalStateException(wrong);
        } finally {
            ledger.completeExceptionally(new IOException("the writer ended before it had a ledger: " + line));
        }
    }

    long ledger() throws Exception {
        return ledger.get(PATIENCE_S, TimeUnit.SECONDS);
    }

    /** The last entry of those that it said are acknowledged. */
    long acknowledged() {
        return acknowledged.get();
    }

    /** SIGKILL; then acknowledged() has all that it said. */
    void kill() throws Exception {
        if (!process.isAlive()) {
            throw new IOException("the writer ended by itself, with status " + process.exitValue());
        }
        // Not destroyForcibly(): that throws away what is not read yet.
        Children.signal(process, "KILL");
        process.waitFor();
        heard.get(PATIENCE_S, TimeUnit.SECONDS);
    }

    @Override
    public void close() {
        process.destroyForcibly();
    }

    public static void main(String[] given) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err);
        BookKeeper client = new BookKeeper(Settings.client(given[0], Protocol.valueOf(given[1])));
        LedgerHandle ledger = Shape.valueOf(given[2]).striped(client);
        out.println(ledger.getId());
        Semaphore room = new Semaphore(IN_FLIGHT);
        for (long entry = 0; ; entry++) {
            room.acquire();
            ledger.asyncAddEntry(Payload.of(ledger.getId(), entry), (code, handle, id, context) -> {
                if (code != BKException.Code.OK) {
                    Runtime.getRuntime().halt(1);
                }
                out.println(id);
                room.release();
            }, null);
        }
    }
}

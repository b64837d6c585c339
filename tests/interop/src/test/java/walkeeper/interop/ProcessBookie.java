package walkeeper.interop;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.commons.io.FileUtils;
import org.apache.bookkeeper.conf.ServerConfiguration;
import org.apache.bookkeeper.net.BookieId;

/** A bookie of ours with settings taken from a Java bookie's, for BookKeeper's own tests. */
public final class ProcessBookie {
    /** Beside the directories that the tests give: some start a Java bookie there afterwards. */
    private static final Path PLACE = place();

    private final WalkeeperBookie bookie;

    private static Path place() {
        try {
            Path made = Files.createTempDirectory("walkeeper-interop-");
            Runtime.getRuntime().addShutdownHook(new Thread(() -> FileUtils.deleteQuietly(made.toFile())));
            return made;
        } catch (IOException wrong) {
            throw new UncheckedIOException(wrong);
        }
    }

    /** `given` is the Java bookie's directory; ours has its name. */
    public ProcessBookie(BookieId id, int port, Path given, ServerConfiguration settings) {
        bookie = new WalkeeperBookie(settings.getMetadataServiceUriUnchecked(), PLACE.resolve(given.getFileName()), port,
                "--bookie-id", id.toString(),
                "--frame-size-max", String.valueOf(settings.getNettyMaxFrameSizeBytes()),
                "--reads-max", String.valueOf(settings.getMaxPendingReadRequestPerThread()),
                "--gc-interval", Math.max(settings.getGcWaitTime(), 1000) + "ms",
                // Tests that let a bookie sleep do not want it to be lost to ZooKeeper.
                "--session-timeout", "30s",
                "--drain-timeout", "2s");
    }

    public void start(boolean readOnly) throws IOException {
        try {
            bookie.start();
            if (readOnly) {
                bookie.setReadOnly(true);
            }
        } catch (Exception wrong) {
            throw new IOException(bookie.log(), wrong);
        }
    }

    /** As Java's shutdown: registered no more when this returns. */
    public void stop() {
        if (bookie.isRunning()) {
            try {
                bookie.resume();
                bookie.end();
            } catch (Exception wrong) {
                throw new IllegalStateException(wrong);
            } finally {
                System.out.println("---- " + bookie.id() + '\n' + bookie.log());
            }
        }
    }

    public void setReadOnly() throws Exception {
        bookie.setReadOnly(true);
    }

    public void signal(String name) {
        try {
            bookie.signal(name);
        } catch (IOException wrong) {
            throw new UncheckedIOException(wrong);
        } catch (InterruptedException wrong) {
            throw new IllegalStateException(wrong);
        }
    }

    public boolean isRunning() {
        return bookie.isRunning();
    }

    public void join() throws InterruptedException {
        bookie.join();
    }
}

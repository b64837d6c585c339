package walkeeper.interop;

import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.function.Consumer;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.BookKeeperAdmin;
import org.apache.bookkeeper.client.BookKeeperTestClient;
import org.apache.bookkeeper.conf.ClientConfiguration;
import org.apache.bookkeeper.net.BookieId;
import org.apache.commons.io.FileUtils;
import org.junit.rules.ExternalResource;

/** A ZooKeeper and some bookies; a rule of JUnit, all is gone after the test (or the class) that has it. */
final class Cluster extends ExternalResource implements AutoCloseable {
    /** Pulsar's limit of a frame, which is BookKeeper's and 10 KiB. */
    static final int FRAME_SIZE_MAX = 5 * 1024 * 1024 + 10 * 1024;

    private static final boolean ALL_JAVA = "java".equals(System.getProperty("bookies"));

    final List<Bookie> bookies = new ArrayList<>();
    private final int walkeeper;
    private final int java;
    private final String[] options;
    private Path place;
    private MetadataServer metadata;

    /** As many bookies of each make; `options` are for ours. */
    Cluster(int walkeeper, int java, String... options) {
        this.walkeeper = walkeeper;
        this.java = java;
        this.options = options;
    }

    static Path repository() {
        return new File(System.getProperty("repository")).toPath().toAbsolutePath().normalize();
    }

    /** Every bookie is Java's: a run that shows what a test is worth. */
    static boolean isControl() {
        return ALL_JAVA;
    }

    @Override
    protected void before() throws Throwable {
        place = Files.createTempDirectory("walkeeper-interop-");
        metadata = new MetadataServer(Files.createDirectory(place.resolve("zookeeper")));
        List<Bookie> started = new ArrayList<>();
        for (int i = 0; i < walkeeper + java; i++) {
            started.add(launched(i < walkeeper));
        }
        for (Bookie bookie : started) {
            bookie.awaitReady();
        }
        awaitWritable(bookies);
    }

    private Bookie launched(boolean ours) throws Exception {
        Path data = place.resolve("bookie-" + bookies.size());
        Bookie bookie = ours && !ALL_JAVA
                ? new WalkeeperBookie(uri(), data, Ports.free(), options)
                : new JavaBookie(uri(), data, Ports.free());
        bookies.add(bookie);
        bookie.launch();
        return bookie;
    }

    /** One more of ours. */
    Bookie startBookie() throws Exception {
        Bookie bookie = launched(true);
        bookie.awaitReady();
        awaitWritable(List.of(bookie));
        return bookie;
    }

    /** A failure of power, where all bookies hang on it. */
    void killAndStartAll() throws Exception {
        for (Bookie bookie : bookies) {
            bookie.kill();
        }
        for (Bookie bookie : bookies) {
            bookie.launch();
        }
        for (Bookie bookie : bookies) {
            bookie.awaitReady();
        }
        awaitWritable(bookies);
    }

    /** After kill(). */
    void startAgain(Bookie bookie) throws Exception {
        bookie.start();
        awaitWritable(List.of(bookie));
    }

    String uri() {
        return metadata.uri();
    }

    ClientConfiguration settings(Protocol protocol) {
        return Settings.client(uri(), protocol);
    }

    BookKeeper client(Protocol protocol) throws Exception {
        return new BookKeeper(settings(protocol));
    }

    /** A client that shows what lies under its interface: single requests to single bookies. */
    BookKeeperTestClient bareClient(Protocol protocol) throws Exception {
        return new BookKeeperTestClient(settings(protocol));
    }

    BookKeeper client(Protocol protocol, Consumer<ClientConfiguration> change) throws Exception {
        ClientConfiguration settings = settings(protocol);
        change.accept(settings);
        return new BookKeeper(settings);
    }

    BookKeeperAdmin admin() throws Exception {
        return new BookKeeperAdmin(settings(Protocol.V3));
    }

    Bookie bookie(BookieId id) {
        return bookies.stream().filter(each -> each.id().equals(id)).findFirst().orElseThrow();
    }

    /** Returns when the cluster's metadata has exactly these as writable. */
    void awaitWritable(List<Bookie> expected) throws Exception {
        Set<BookieId> ids = new HashSet<>();
        expected.forEach(each -> ids.add(each.id()));
        try (BookKeeperAdmin admin = admin()) {
            Until.holds(() -> admin.getAvailableBookies().containsAll(ids), ids + " are registered");
        }
    }

    void awaitGone(Bookie bookie) throws Exception {
        try (BookKeeperAdmin admin = admin()) {
            Until.holds(() -> !admin.getAvailableBookies().contains(bookie.id()), bookie.id() + " is unregistered");
        }
    }

    /** The bookies' logs, each under its name. */
    String logs() {
        StringBuilder all = new StringBuilder();
        for (Bookie bookie : bookies) {
            all.append("---- ").append(bookie.id()).append('\n').append(bookie.log());
        }
        return all.toString();
    }

    @Override
    protected void after() {
        try {
            for (Bookie bookie : bookies) {
                bookie.close();
            }
            bookies.clear();
            if (metadata != null) {
                metadata.close();
            }
            FileUtils.deleteDirectory(place.toFile());
        } catch (Exception wrong) {
            throw new IllegalStateException(wrong);
        }
    }

    @Override
    public void close() {
        after();
    }
}

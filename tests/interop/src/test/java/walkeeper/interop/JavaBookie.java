package walkeeper.interop;

import java.nio.file.Path;
import org.apache.bookkeeper.bookie.StateManager;
import org.apache.bookkeeper.conf.ServerConfiguration;
import org.apache.bookkeeper.net.BookieId;
import org.apache.bookkeeper.proto.BookieServer;
import org.apache.bookkeeper.server.EmbeddedServer;
import org.apache.bookkeeper.server.conf.BookieConfiguration;

/** BookKeeper's own bookie, in this JVM. It cannot be killed: kill() is as stop(). */
final class JavaBookie implements Bookie {
    private final Path data;
    private final ServerConfiguration settings;
    private EmbeddedServer server;

    JavaBookie(String metadata, Path data, int port) {
        this.data = data;
        settings = Settings.server(metadata, port)
                .setJournalDirName(data.resolve("journal").toString())
                .setLedgerDirNames(new String[] {data.resolve("ledgers").toString()});
    }

    @Override
    public BookieId id() {
        return BookieId.parse("127.0.0.1:" + settings.getBookiePort());
    }

    @Override
    public void launch() throws Exception {
        server = EmbeddedServer.builder(new BookieConfiguration(settings)).build();
        server.getLifecycleComponentStack().start();
    }

    private BookieServer bookie() {
        return server.getBookieService().getServer();
    }

    @Override
    public void awaitReady() throws Exception {
        Until.holds(() -> bookie().isRunning(), "the Java bookie is running");
    }

    @Override
    public void stop() {
        if (server != null) {
            server.getLifecycleComponentStack().close();
            server = null;
        }
    }

    @Override
    public void kill() {
        stop();
    }

    @Override
    public void suspend() {
        bookie().suspendProcessing();
    }

    @Override
    public void resume() {
        bookie().resumeProcessing();
    }

    @Override
    public void setReadOnly(boolean readOnly) throws Exception {
        StateManager states = bookie().getBookie().getStateManager();
        (readOnly ? states.transitionToReadOnlyMode() : states.transitionToWritableMode()).get();
    }

    @Override
    public boolean isWalkeeper() {
        return false;
    }

    @Override
    public long diskBytes() {
        return DiskSpace.of(data);
    }

    @Override
    public String log() {
        return "";
    }
}

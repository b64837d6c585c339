package walkeeper.interop;

import org.apache.bookkeeper.net.BookieId;

/** A bookie of a cluster under test, of either make: what a test may do to it. */
interface Bookie extends AutoCloseable {
    BookieId id();

    /** Begins to start it on the address and the directory that it always has. */
    void launch() throws Exception;

    /** Returns when it is ready; fails when it ended instead. */
    void awaitReady() throws Exception;

    /** Ends it in order. */
    void stop() throws Exception;

    /** Ends it at once, as a power failure of the process. */
    void kill() throws Exception;

    /** From now on it neither reads nor answers; its connections stay open. */
    void suspend() throws Exception;

    void resume() throws Exception;

    void setReadOnly(boolean readOnly) throws Exception;

    boolean isWalkeeper();

    /** The bytes of all files that it has. */
    long diskBytes();

    /** What it wrote to its log. */
    String log();

    @Override
    default void close() throws Exception {
        kill();
    }

    default void start() throws Exception {
        launch();
        awaitReady();
    }
}

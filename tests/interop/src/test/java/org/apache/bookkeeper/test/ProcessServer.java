package org.apache.bookkeeper.test;

import java.io.IOException;
import java.lang.reflect.Field;
import org.apache.bookkeeper.bookie.Bookie;
import org.apache.bookkeeper.bookie.BookieImpl;
import org.apache.bookkeeper.conf.ServerConfiguration;
import org.apache.bookkeeper.net.BookieId;
import org.apache.bookkeeper.net.BookieSocketAddress;
import org.apache.bookkeeper.proto.BookieServer;
import sun.misc.Unsafe;
import walkeeper.interop.ProcessBookie;

/** A bookie of ours where BookKeeper's tests want a BookieServer. What they ask of the object is done to the process. */
final class ProcessServer extends BookieServer {
    private ServerConfiguration settings;
    private ProcessBookie process;

    /** Never called: it would make a Java bookie. The fields of BookieServer stay empty. */
    private ProcessServer() throws Exception {
        super(null, null, null, null, null);
    }

    static ProcessServer of(ServerConfiguration settings) throws Exception {
        Field unsafe = Unsafe.class.getDeclaredField("theUnsafe");
        unsafe.setAccessible(true);
        ProcessServer server = (ProcessServer) ((Unsafe) unsafe.get(null)).allocateInstance(ProcessServer.class);
        server.settings = settings;
        server.process = new ProcessBookie(
                server.getBookieId(), server.getLocalAddress().getPort(), settings.getLedgerDirs()[0].toPath(), settings);
        return server;
    }

    @Override
    public void start() throws InterruptedException, IOException {
        process.start(settings.isForceReadOnlyBookie());
    }

    @Override
    public synchronized void shutdown() {
        process.stop();
    }

    void setReadOnly() throws Exception {
        process.setReadOnly();
    }

    @Override
    public BookieSocketAddress getLocalAddress() throws java.net.UnknownHostException {
        return BookieImpl.getBookieAddress(settings);
    }

    @Override
    public BookieId getBookieId() throws java.net.UnknownHostException {
        return BookieImpl.getBookieId(settings);
    }

    @Override
    public Bookie getBookie() {
        throw new UnsupportedOperationException("the bookie is not in this JVM");
    }

    @Override
    public void suspendProcessing() {
        process.signal("STOP");
    }

    @Override
    public void resumeProcessing() {
        process.signal("CONT");
    }

    @Override
    public boolean isRunning() {
        return process.isRunning();
    }

    @Override
    public boolean isBookieRunning() {
        return isRunning();
    }

    @Override
    public void join() throws InterruptedException {
        process.join();
    }

    @Override
    public int getExitCode() {
        return 0;
    }

    @Override
    public String toString() {
        return "walkeeper-bookie on port " + settings.getBookiePort();
    }
}

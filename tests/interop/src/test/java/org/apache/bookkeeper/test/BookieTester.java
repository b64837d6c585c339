package org.apache.bookkeeper.test;

import java.io.IOException;
import org.apache.bookkeeper.bookie.Bookie;
import org.apache.bookkeeper.bookie.BookieResources;
import org.apache.bookkeeper.bookie.MockUncleanShutdownDetection;
import org.apache.bookkeeper.conf.ServerConfiguration;
import org.apache.bookkeeper.net.BookieSocketAddress;
import org.apache.bookkeeper.proto.BookieServer;
import org.apache.bookkeeper.replication.Auditor;
import org.apache.bookkeeper.replication.AutoRecoveryMain;
import org.apache.bookkeeper.replication.ReplicationWorker;

/** One bookie: a process of ours; Java's where the control run or a test of its own wants that. */
class BookieTester {
    static final boolean JAVA = "java".equals(System.getProperty("bookies"));

    private final ServerConfiguration conf;
    private final TestStatsProvider provider = new TestStatsProvider();
    private final BookieServer server;
    private final JavaServer java;
    private AutoRecoveryMain recovery;

    BookieTester(ServerConfiguration conf) throws Exception {
        this.conf = conf;
        java = JAVA ? new JavaServer(conf, provider.getStatsLogger("")) : null;
        server = JAVA ? java.server : ProcessServer.of(conf);
    }

    BookieTester(ServerConfiguration conf, Bookie b) throws Exception {
        this.conf = conf;
        java = null;
        server = new BookieServer(conf, b, provider.getStatsLogger(""), BookieResources.createAllocator(conf),
                new MockUncleanShutdownDetection());
    }

    public void startAutoRecovery() throws Exception {
        recovery = new AutoRecoveryMain(conf);
        recovery.start();
    }

    public void stopAutoRecovery() {
        if (recovery != null) {
            recovery.shutdown();
        }
    }

    public Auditor getAuditor() {
        return recovery == null ? null : recovery.getAuditor();
    }

    public ReplicationWorker getReplicationWorker() {
        return recovery == null ? null : recovery.getReplicationWorker();
    }

    boolean hasRunningAuditor() {
        Auditor auditor = getAuditor();
        ReplicationWorker worker = getReplicationWorker();
        return auditor != null && auditor.isRunning() && worker != null && worker.isRunning();
    }

    public ServerConfiguration getConfiguration() {
        return conf;
    }

    public BookieServer getServer() {
        return server;
    }

    public TestStatsProvider getStatsProvider() {
        return provider;
    }

    public BookieSocketAddress getAddress() {
        try {
            return server.getLocalAddress();
        } catch (IOException wrong) {
            throw new IllegalStateException(wrong);
        }
    }

    public void shutdown() throws Exception {
        server.shutdown();
        if (java != null) {
            java.close();
        }
        stopAutoRecovery();
    }
}

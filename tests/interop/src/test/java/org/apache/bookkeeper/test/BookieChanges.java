package org.apache.bookkeeper.test;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import org.apache.bookkeeper.bookie.Bookie;
import org.apache.bookkeeper.client.BookKeeperTestClient;
import org.apache.bookkeeper.conf.ServerConfiguration;
import org.apache.bookkeeper.net.BookieId;
import org.apache.bookkeeper.net.BookieSocketAddress;
import org.apache.bookkeeper.proto.BookieServer;
import org.apache.bookkeeper.replication.Auditor;

/** What a test does to its bookies: starts, kills and suspends them, and runs Java's auto-recovery beside each. */
abstract class BookieChanges extends ClusterBookies {
    private static final int READY_S = 60;
    private static final int RESTART_PAUSE_MS = 1000;

    private boolean autoRecovery;

    BookieChanges(int zooKeepers) {
        super(zooKeepers);
    }

    abstract BookKeeperClusterTestCase.ServerTester newTester(ServerConfiguration conf) throws Exception;

    abstract BookKeeperClusterTestCase.ServerTester newTester(ServerConfiguration conf, Bookie b) throws Exception;

    public ServerConfiguration killBookie(BookieId addr) throws Exception {
        BookKeeperClusterTestCase.ServerTester found = byId(addr);
        return found == null ? null : killBookie(servers.indexOf(found));
    }

    public ServerConfiguration killBookie(int index) throws Exception {
        BookKeeperClusterTestCase.ServerTester killed = servers.remove(index);
        killed.shutdown();
        return killed.getConfiguration();
    }

    public ServerConfiguration killBookieAndWaitForZK(int index) throws Exception {
        BookieId id = getBookie(index);
        ServerConfiguration conf = killBookie(index);
        while (bkc.getMetadataClientDriver().getRegistrationClient().getWritableBookies().get().getValue().contains(id)) {
            Thread.sleep(100);
        }
        return conf;
    }

    public void setBookieToReadOnly(BookieId addr) throws Exception {
        BookKeeperClusterTestCase.ServerTester found = byId(addr);
        if (found != null && found.getServer() instanceof ProcessServer ours) {
            ours.setReadOnly();
        } else if (found != null) {
            found.getServer().getBookie().getStateManager().transitionToReadOnlyMode().get();
        }
    }

    public CountDownLatch sleepBookie(BookieId addr, final int seconds) throws Exception {
        BookieServer server = wanted(addr).getServer();
        CountDownLatch asleep = new CountDownLatch(1);
        inBackground(() -> {
            server.suspendProcessing();
            asleep.countDown();
            TimeUnit.SECONDS.sleep(seconds);
            server.resumeProcessing();
        });
        return asleep;
    }

    public void sleepBookie(BookieId addr, final CountDownLatch l) throws InterruptedException, IOException {
        CountDownLatch asleep = new CountDownLatch(1);
        sleepBookie(addr, l, asleep);
        asleep.await();
    }

    public void sleepBookie(BookieId addr, final CountDownLatch l, final CountDownLatch suspendLatch)
            throws InterruptedException, IOException {
        BookieServer server = wanted(addr).getServer();
        inBackground(() -> {
            server.suspendProcessing();
            if (suspendLatch != null) {
                suspendLatch.countDown();
            }
            l.await();
            server.resumeProcessing();
        });
    }

    private interface Action {
        void run() throws Exception;
    }

    private static void inBackground(Action action) {
        Thread thread = new Thread(() -> {
            try {
                action.run();
            } catch (Exception wrong) {
                throw new IllegalStateException(wrong);
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    public void restartBookie(BookieId addr) throws Exception {
        wanted(addr);
        ServerConfiguration conf = killBookie(addr);
        Thread.sleep(RESTART_PAUSE_MS);
        startAndAddBookie(conf);
    }

    public void restartBookies() throws Exception {
        restartBookies(conf -> conf);
    }

    public void restartBookies(Function<ServerConfiguration, ServerConfiguration> reconfFunction) throws Exception {
        List<ServerConfiguration> before = new ArrayList<>();
        servers.forEach(each -> before.add(each.getConfiguration()));
        stopAllBookies(false);
        Thread.sleep(RESTART_PAUSE_MS);
        for (ServerConfiguration conf : before) {
            startAndAddBookie(reconfFunction.apply(conf));
        }
    }

    /** At once, where they are processes. */
    void startNewBookies(int count) throws Exception {
        List<CompletableFuture<Void>> starts = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            BookKeeperClusterTestCase.ServerTester tester = newTester(newServerConfiguration());
            servers.add(tester);
            starts.add(CompletableFuture.runAsync(() -> {
                try {
                    started(tester);
                } catch (Exception wrong) {
                    throw new IllegalStateException(wrong);
                }
            }));
            if (BookieTester.JAVA) {
                starts.get(i).get();
            }
        }
        CompletableFuture.allOf(starts.toArray(new CompletableFuture<?>[0])).get();
    }

    public int startNewBookie() throws Exception {
        return startNewBookieAndReturnAddress().getPort();
    }

    public BookieSocketAddress startNewBookieAndReturnAddress() throws Exception {
        return startAndAddBookie(newServerConfiguration()).getServer().getLocalAddress();
    }

    public BookieId startNewBookieAndReturnBookieId() throws Exception {
        return startAndAddBookie(newServerConfiguration()).getServer().getBookieId();
    }

    protected BookKeeperClusterTestCase.ServerTester startAndAddBookie(ServerConfiguration conf) throws Exception {
        BookKeeperClusterTestCase.ServerTester started = startBookie(conf);
        servers.add(started);
        return started;
    }

    protected BookKeeperClusterTestCase.ServerTester startAndAddBookie(ServerConfiguration conf, Bookie b) throws Exception {
        BookKeeperClusterTestCase.ServerTester started = startBookie(conf, b);
        servers.add(started);
        return started;
    }

    protected BookKeeperClusterTestCase.ServerTester startBookie(ServerConfiguration conf) throws Exception {
        return started(newTester(conf));
    }

    protected BookKeeperClusterTestCase.ServerTester startBookie(ServerConfiguration conf, final Bookie b) throws Exception {
        return started(newTester(conf, b));
    }

    /** Starts it and returns when the tests' client sees it. */
    private BookKeeperClusterTestCase.ServerTester started(BookKeeperClusterTestCase.ServerTester tester) throws Exception {
        if (bkc == null) {
            bkc = new BookKeeperTestClient(baseClientConf, new TestStatsProvider());
        }
        BookieId id = tester.getServer().getBookieId();
        Future<?> seen = tester.getConfiguration().isForceReadOnlyBookie()
                ? bkc.waitForReadOnlyBookie(id)
                : bkc.waitForWritableBookie(id);
        tester.getServer().start();
        seen.get(READY_S, TimeUnit.SECONDS);
        if (autoRecovery) {
            tester.startAutoRecovery();
        }
        return tester;
    }

    protected void stopAllBookies() throws Exception {
        stopAllBookies(true);
    }

    protected void stopAllBookies(boolean shutdownClient) throws Exception {
        stopReplicationService();
        for (BookKeeperClusterTestCase.ServerTester each : servers) {
            each.shutdown();
        }
        servers.clear();
        if (shutdownClient && bkc != null) {
            bkc.close();
            bkc = null;
        }
    }

    // ---- Auto-recovery.

    public void setAutoRecoveryEnabled(boolean isAutoRecoveryEnabled) {
        autoRecovery = isAutoRecoveryEnabled;
    }

    public boolean isAutoRecoveryEnabled() {
        return autoRecovery;
    }

    public void startReplicationService() throws Exception {
        for (BookKeeperClusterTestCase.ServerTester each : servers) {
            each.startAutoRecovery();
        }
    }

    public void stopReplicationService() throws Exception {
        servers.forEach(BookKeeperClusterTestCase.ServerTester::stopAutoRecovery);
    }

    public Auditor getAuditor(int timeout, TimeUnit unit) throws Exception {
        long limit = System.nanoTime() + unit.toNanos(timeout);
        while (System.nanoTime() < limit) {
            for (BookKeeperClusterTestCase.ServerTester each : servers) {
                if (each.hasRunningAuditor()) {
                    // Its death watcher may be about to end it.
                    Thread.sleep(each.getConfiguration().getDeathWatchInterval() + RESTART_PAUSE_MS);
                    if (each.hasRunningAuditor()) {
                        return each.getAuditor();
                    }
                }
            }
            Thread.sleep(100);
        }
        throw new Exception("no auditor within " + timeout + " " + unit);
    }
}

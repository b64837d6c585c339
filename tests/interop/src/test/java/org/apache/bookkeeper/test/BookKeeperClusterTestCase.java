package org.apache.bookkeeper.test;

import java.io.File;
import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import org.apache.bookkeeper.bookie.Bookie;
import org.apache.bookkeeper.bookie.BookieImpl;
import org.apache.bookkeeper.bookie.BookieResources;
import org.apache.bookkeeper.bookie.LedgerDirsManager;
import org.apache.bookkeeper.bookie.LedgerStorage;
import org.apache.bookkeeper.bookie.LegacyCookieValidation;
import org.apache.bookkeeper.bookie.MockUncleanShutdownDetection;
import org.apache.bookkeeper.bookie.ReadOnlyBookie;
import org.apache.bookkeeper.bookie.UncleanShutdownDetectionImpl;
import org.apache.bookkeeper.client.BookKeeperTestClient;
import org.apache.bookkeeper.common.allocator.ByteBufAllocatorWithOomHandler;
import org.apache.bookkeeper.common.allocator.PoolingPolicy;
import org.apache.bookkeeper.conf.AbstractConfiguration;
import org.apache.bookkeeper.conf.ClientConfiguration;
import org.apache.bookkeeper.conf.ServerConfiguration;
import org.apache.bookkeeper.conf.TestBKConfiguration;
import org.apache.bookkeeper.discover.BookieServiceInfo;
import org.apache.bookkeeper.discover.RegistrationManager;
import org.apache.bookkeeper.meta.LedgerManager;
import org.apache.bookkeeper.meta.LedgerManagerFactory;
import org.apache.bookkeeper.meta.MetadataBookieDriver;
import org.apache.bookkeeper.metastore.InMemoryMetaStore;
import org.apache.bookkeeper.net.BookieId;
import org.apache.bookkeeper.net.BookieSocketAddress;
import org.apache.bookkeeper.proto.BookieServer;
import org.apache.bookkeeper.replication.Auditor;
import org.apache.bookkeeper.replication.AutoRecoveryMain;
import org.apache.bookkeeper.replication.ReplicationWorker;
import org.apache.bookkeeper.server.Main;
import org.apache.bookkeeper.stats.NullStatsLogger;
import org.apache.bookkeeper.stats.StatsLogger;
import org.apache.bookkeeper.stats.ThreadRegistry;
import org.apache.bookkeeper.util.DiskChecker;
import org.apache.bookkeeper.util.PortManager;
import org.apache.zookeeper.ZooKeeper;
import org.junit.After;
import org.junit.Before;
import org.junit.Rule;
import org.junit.rules.TestName;
import org.junit.rules.Timeout;

/**
 * Stands on the class path before the class of this name in BookKeeper's jar of tests, with the same members: the tests of that jar that extend it
 * run on processes walkeeper-bookie. With -Dbookies=java they run on Java's bookies. A bookie that a test made itself stays Java's.
 */
public abstract class BookKeeperClusterTestCase {
    private static final boolean JAVA = "java".equals(System.getProperty("bookies"));
    private static final int READY_S = 60;
    private static final int RESTART_PAUSE_MS = 1000;

    @Rule
    public final TestName runtime = new TestName();

    @Rule
    public final Timeout globalTimeout;

    protected final ZooKeeperCluster zkUtil;
    protected ZooKeeper zkc;
    protected String metadataServiceUri;
    protected final TmpDirs tmpDirs = new TmpDirs();
    protected final List<ServerTester> servers = new LinkedList<>();
    protected int numBookies;
    protected BookKeeperTestClient bkc;
    protected boolean useUUIDasBookieId = true;
    protected final ServerConfiguration baseConf = TestBKConfiguration.newServerConfiguration();
    protected final ClientConfiguration baseClientConf = TestBKConfiguration.newClientConfiguration();
    private final ByteBufAllocatorWithOomHandler allocator = BookieResources.createAllocator(baseConf);
    private final Queue<Throwable> captured = new ConcurrentLinkedQueue<>();
    private boolean autoRecovery;

    public BookKeeperClusterTestCase(int numBookies) {
        this(numBookies, 120);
    }

    public BookKeeperClusterTestCase(int numBookies, int testTimeoutSecs) {
        this(numBookies, 1, testTimeoutSecs);
    }

    public BookKeeperClusterTestCase(int numBookies, int numOfZKNodes, int testTimeoutSecs) {
        this.numBookies = numBookies;
        globalTimeout = Timeout.seconds(testTimeoutSecs);
        try {
            zkUtil = numOfZKNodes == 1 ? new ZooKeeperUtil() : new ZooKeeperClusterUtil(numOfZKNodes);
        } catch (Exception wrong) {
            throw new IllegalStateException(wrong);
        }
    }

    /** Runs it, in a thread of the test's; what goes wrong there fails the test at its end. */
    protected void captureThrowable(Runnable c) {
        try {
            c.run();
        } catch (Throwable wrong) {
            captured.add(wrong);
        }
    }

    // ---- The cluster's life.

    @Before
    public void setUp() throws Exception {
        setUp("/ledgers");
    }

    protected void setUp(String ledgersRootPath) throws Exception {
        InMemoryMetaStore.reset();
        setMetastoreImplClass(baseConf);
        setMetastoreImplClass(baseClientConf);
        startZKCluster();
        metadataServiceUri = getMetadataServiceUri(ledgersRootPath);
        startBKCluster(metadataServiceUri);
    }

    @After
    public void tearDown() throws Exception {
        try {
            stopBKCluster();
        } finally {
            try {
                stopZKCluster();
            } finally {
                tmpDirs.cleanup();
            }
        }
        if (!captured.isEmpty()) {
            throw new AssertionError("in another thread", captured.peek());
        }
    }

    @After
    public void clearMetricsThreadRegistry() throws Exception {
        ThreadRegistry.clear();
    }

    protected void startZKCluster() throws Exception {
        zkUtil.startCluster();
        zkc = zkUtil.getZooKeeperClient();
    }

    protected void stopZKCluster() throws Exception {
        zkUtil.killCluster();
    }

    protected void startBKCluster(String metadataServiceUri) throws Exception {
        baseConf.setMetadataServiceUri(metadataServiceUri);
        baseClientConf.setMetadataServiceUri(metadataServiceUri);
        baseClientConf.setAllocatorPoolingPolicy(PoolingPolicy.UnpooledHeap);
        if (numBookies > 0) {
            bkc = new BookKeeperTestClient(baseClientConf, new TestStatsProvider());
        }
        for (int i = 0; i < numBookies; i++) {
            startNewBookie();
        }
    }

    protected void stopBKCluster() throws Exception {
        if (bkc != null) {
            bkc.close();
        }
        stopAllBookies(false);
    }

    protected void stopAllBookies() throws Exception {
        stopAllBookies(true);
    }

    protected void stopAllBookies(boolean shutdownClient) throws Exception {
        stopReplicationService();
        for (ServerTester each : servers) {
            each.shutdown();
        }
        servers.clear();
        if (shutdownClient && bkc != null) {
            bkc.close();
            bkc = null;
        }
    }

    // ---- Settings.

    public void setMetastoreImplClass(AbstractConfiguration conf) {
        conf.setMetastoreImplClass(InMemoryMetaStore.class.getName());
    }

    protected String getMetadataServiceUri(String ledgersRootPath) {
        return zkUtil.getMetadataServiceUri(ledgersRootPath);
    }

    protected String newMetadataServiceUri(String ledgersRootPath) {
        return zkUtil.getMetadataServiceUri(ledgersRootPath);
    }

    protected String newMetadataServiceUri(String ledgersRootPath, String type) {
        return zkUtil.getMetadataServiceUri(ledgersRootPath, type);
    }

    protected ClientConfiguration newClientConfiguration() {
        return new ClientConfiguration(baseClientConf);
    }

    protected ServerConfiguration newServerConfiguration() throws Exception {
        File place = tmpDirs.createNew("bookie", "test");
        boolean ephemeral = JAVA && baseConf.getAllowEphemeralPorts() && !baseConf.isEnableLocalTransport();
        return newServerConfiguration(ephemeral ? 0 : PortManager.nextFreePort(), place, new File[] {place});
    }

    protected ServerConfiguration newServerConfiguration(int port, File journalDir, File[] ledgerDirs) {
        ServerConfiguration conf = new ServerConfiguration(baseConf);
        String[] paths = new String[ledgerDirs.length];
        for (int i = 0; i < paths.length; i++) {
            paths[i] = ledgerDirs[i].getPath();
        }
        conf.setBookiePort(port);
        conf.setJournalDirName(journalDir.getPath());
        conf.setLedgerDirNames(paths);
        conf.setEnableTaskExecutionStats(true);
        conf.setAllocatorPoolingPolicy(PoolingPolicy.UnpooledHeap);
        return conf;
    }

    // ---- Which bookies there are.

    public BookieId getBookie(int index) throws Exception {
        return servers.get(index).getServer().getBookieId();
    }

    protected BookieId addressByIndex(int index) throws Exception {
        return getBookie(index);
    }

    protected List<BookieId> bookieAddresses() throws Exception {
        List<BookieId> all = new ArrayList<>();
        for (ServerTester each : servers) {
            all.add(each.getServer().getBookieId());
        }
        return all;
    }

    protected List<File> bookieLedgerDirs() throws Exception {
        List<File> all = new ArrayList<>();
        servers.forEach(each -> all.addAll(List.of(each.getConfiguration().getLedgerDirs())));
        return all;
    }

    protected List<File> bookieJournalDirs() throws Exception {
        List<File> all = new ArrayList<>();
        servers.forEach(each -> all.addAll(List.of(each.getConfiguration().getJournalDirs())));
        return all;
    }

    protected BookieServer serverByIndex(int index) throws Exception {
        return servers.get(index).getServer();
    }

    protected ServerConfiguration confByIndex(int index) throws Exception {
        return servers.get(index).getConfiguration();
    }

    protected int indexOfServer(BookieServer server) throws Exception {
        for (int i = 0; i < servers.size(); i++) {
            if (servers.get(i).getServer().equals(server)) {
                return i;
            }
        }
        return -1;
    }

    protected int lastBookieIndex() {
        return servers.size() - 1;
    }

    protected int bookieCount() {
        return servers.size();
    }

    /** The one of this id, or null. */
    private ServerTester byId(BookieId id) throws IOException {
        for (ServerTester each : servers) {
            if (each.getServer().getBookieId().equals(id)) {
                return each;
            }
        }
        return null;
    }

    private ServerTester wanted(BookieId id) throws IOException {
        ServerTester found = byId(id);
        if (found == null) {
            throw new IOException("no bookie " + id);
        }
        return found;
    }

    public ServerConfiguration getBkConf(BookieId addr) throws Exception {
        return wanted(addr).getConfiguration();
    }

    public TestStatsProvider getStatsProvider(BookieId addr) throws java.net.UnknownHostException {
        for (ServerTester each : servers) {
            if (each.getServer().getBookieId().equals(addr)) {
                return each.getStatsProvider();
            }
        }
        throw new java.util.NoSuchElementException(addr.toString());
    }

    public TestStatsProvider getStatsProvider(int index) throws Exception {
        return servers.get(index).getStatsProvider();
    }

    public void resetBookieOpLoggers() {
        servers.forEach(each -> each.getStatsProvider().clear());
    }

    public boolean isCreatedFromIp(BookieId bookieId) {
        return bkc.getBookieAddressResolver().resolve(bookieId).getSocketAddress().toString().startsWith("/");
    }

    // ---- What is done to them.

    public ServerConfiguration killBookie(BookieId addr) throws Exception {
        ServerTester found = byId(addr);
        return found == null ? null : killBookie(servers.indexOf(found));
    }

    public ServerConfiguration killBookie(int index) throws Exception {
        ServerTester killed = servers.remove(index);
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
        ServerTester found = byId(addr);
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

    public int startNewBookie() throws Exception {
        return startNewBookieAndReturnAddress().getPort();
    }

    public BookieSocketAddress startNewBookieAndReturnAddress() throws Exception {
        return startAndAddBookie(newServerConfiguration()).getServer().getLocalAddress();
    }

    public BookieId startNewBookieAndReturnBookieId() throws Exception {
        return startAndAddBookie(newServerConfiguration()).getServer().getBookieId();
    }

    protected ServerTester startAndAddBookie(ServerConfiguration conf) throws Exception {
        ServerTester started = startBookie(conf);
        servers.add(started);
        return started;
    }

    protected ServerTester startAndAddBookie(ServerConfiguration conf, Bookie b) throws Exception {
        ServerTester started = startBookie(conf, b);
        servers.add(started);
        return started;
    }

    protected ServerTester startBookie(ServerConfiguration conf) throws Exception {
        return started(new ServerTester(conf));
    }

    protected ServerTester startBookie(ServerConfiguration conf, final Bookie b) throws Exception {
        return started(new ServerTester(conf, b));
    }

    /** Starts it and returns when the tests' client sees it. */
    private ServerTester started(ServerTester tester) throws Exception {
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

    // ---- Auto-recovery: one of Java's beside each bookie.

    public void setAutoRecoveryEnabled(boolean isAutoRecoveryEnabled) {
        autoRecovery = isAutoRecoveryEnabled;
    }

    public boolean isAutoRecoveryEnabled() {
        return autoRecovery;
    }

    public void startReplicationService() throws Exception {
        for (ServerTester each : servers) {
            each.startAutoRecovery();
        }
    }

    public void stopReplicationService() throws Exception {
        servers.forEach(ServerTester::stopAutoRecovery);
    }

    public Auditor getAuditor(int timeout, TimeUnit unit) throws Exception {
        long limit = System.nanoTime() + unit.toNanos(timeout);
        while (System.nanoTime() < limit) {
            for (ServerTester each : servers) {
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

    /** One bookie: a process of ours; Java's where the control run or a test of its own wants that. */
    public class ServerTester {
        private final ServerConfiguration conf;
        private final TestStatsProvider provider = new TestStatsProvider();
        private final BookieServer server;
        private final List<AutoCloseable> resources = new ArrayList<>();
        private AutoRecoveryMain recovery;

        public ServerTester(ServerConfiguration conf) throws Exception {
            this.conf = conf;
            server = JAVA ? javaServer() : ProcessServer.of(conf);
        }

        public ServerTester(ServerConfiguration conf, Bookie b) throws Exception {
            this.conf = conf;
            server = new BookieServer(
                    conf, b, provider.getStatsLogger(""), allocator, new MockUncleanShutdownDetection());
        }

        private <T extends AutoCloseable> T kept(T resource) {
            resources.add(0, resource);
            return resource;
        }

        private BookieServer javaServer() throws Exception {
            StatsLogger stats = NullStatsLogger.INSTANCE;
            MetadataBookieDriver driver = kept(BookieResources.createMetadataDriver(conf, stats));
            RegistrationManager registration = kept(driver.createRegistrationManager());
            LedgerManagerFactory factory = kept(driver.getLedgerManagerFactory());
            LedgerManager ledgers = kept(factory.newLedgerManager());
            new LegacyCookieValidation(conf, registration).checkCookies(Main.storageDirectoriesFromConf(conf));
            DiskChecker disks = BookieResources.createDiskChecker(conf);
            LedgerDirsManager data = BookieResources.createLedgerDirsManager(conf, disks, stats);
            LedgerDirsManager index = BookieResources.createIndexDirsManager(conf, disks, stats, data);
            LedgerStorage storage =
                    BookieResources.createLedgerStorage(conf, ledgers, data, index, stats, allocator);
            Bookie bookie = conf.isForceReadOnlyBookie()
                    ? new ReadOnlyBookie(conf, registration, storage, disks, data, index, stats, allocator,
                            BookieServiceInfo.NO_INFO)
                    : new BookieImpl(conf, registration, storage, disks, data, index, stats, allocator,
                            BookieServiceInfo.NO_INFO);
            return new BookieServer(
                    conf, bookie, provider.getStatsLogger(""), allocator, new UncleanShutdownDetectionImpl(data));
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

        private boolean hasRunningAuditor() {
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
            for (AutoCloseable resource : resources) {
                resource.close();
            }
            stopAutoRecovery();
        }
    }
}

package org.apache.bookkeeper.test;

import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.bookkeeper.bookie.Bookie;
import org.apache.bookkeeper.client.BookKeeperTestClient;
import org.apache.bookkeeper.common.allocator.PoolingPolicy;
import org.apache.bookkeeper.conf.ServerConfiguration;
import org.apache.bookkeeper.metastore.InMemoryMetaStore;
import org.apache.bookkeeper.stats.ThreadRegistry;
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
public abstract class BookKeeperClusterTestCase extends BookieChanges {
    /** Answers to adds that come while a client closes make it fail: walkeeper.interop.CloseRace. */
    private static final int ANSWERS_MS = 100;

    @Rule
    public final TestName runtime = new TestName();

    @Rule
    public final Timeout globalTimeout;

    protected ZooKeeper zkc;
    protected String metadataServiceUri;
    protected int numBookies;
    protected boolean useUUIDasBookieId = true;
    private final Queue<Throwable> captured = new ConcurrentLinkedQueue<>();

    public BookKeeperClusterTestCase(int numBookies) {
        this(numBookies, 120);
    }

    public BookKeeperClusterTestCase(int numBookies, int testTimeoutSecs) {
        this(numBookies, 1, testTimeoutSecs);
    }

    public BookKeeperClusterTestCase(int numBookies, int numOfZKNodes, int testTimeoutSecs) {
        super(numOfZKNodes);
        this.numBookies = numBookies;
        globalTimeout = Timeout.seconds(testTimeoutSecs);
    }

    /** One bookie: a process of ours; Java's where the control run or a test of its own wants that. */
    public class ServerTester extends BookieTester {
        public ServerTester(ServerConfiguration conf) throws Exception {
            super(conf);
        }

        public ServerTester(ServerConfiguration conf, Bookie b) throws Exception {
            super(conf, b);
        }
    }

    @Override
    ServerTester newTester(ServerConfiguration conf) throws Exception {
        return new ServerTester(conf);
    }

    @Override
    ServerTester newTester(ServerConfiguration conf, Bookie b) throws Exception {
        return new ServerTester(conf, b);
    }

    /** Runs it, in a thread of the test's; what goes wrong there fails the test at its end. */
    protected void captureThrowable(Runnable c) {
        try {
            c.run();
        } catch (Throwable wrong) {
            captured.add(wrong);
        }
    }

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
        startNewBookies(numBookies);
    }

    protected void stopBKCluster() throws Exception {
        if (bkc != null) {
            Thread.sleep(ANSWERS_MS);
            bkc.close();
        }
        stopAllBookies(false);
    }
}

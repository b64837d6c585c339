package org.apache.bookkeeper.test;

import java.io.File;
import org.apache.bookkeeper.common.allocator.PoolingPolicy;
import org.apache.bookkeeper.conf.AbstractConfiguration;
import org.apache.bookkeeper.conf.ClientConfiguration;
import org.apache.bookkeeper.conf.ServerConfiguration;
import org.apache.bookkeeper.conf.TestBKConfiguration;
import org.apache.bookkeeper.metastore.InMemoryMetaStore;
import walkeeper.interop.Ports;

/** How the bookies and the clients of a test are set, and where their metadata and files are. */
abstract class ClusterSettings {
    protected final ZooKeeperCluster zkUtil;
    protected final TmpDirs tmpDirs = new TmpDirs();
    protected final ServerConfiguration baseConf = TestBKConfiguration.newServerConfiguration();
    protected final ClientConfiguration baseClientConf = TestBKConfiguration.newClientConfiguration();

    ClusterSettings(int zooKeepers) {
        try {
            zkUtil = zooKeepers == 1 ? new ZooKeeperUtil() : new ZooKeeperClusterUtil(zooKeepers);
        } catch (Exception wrong) {
            throw new IllegalStateException(wrong);
        }
    }

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
        boolean ephemeral = BookieTester.JAVA && baseConf.getAllowEphemeralPorts() && !baseConf.isEnableLocalTransport();
        return newServerConfiguration(ephemeral ? 0 : Ports.free(), place, new File[] {place});
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
}

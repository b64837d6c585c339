package walkeeper.interop;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import org.apache.bookkeeper.client.BookKeeperAdmin;
import org.apache.zookeeper.server.NIOServerCnxnFactory;
import org.apache.zookeeper.server.ZooKeeperServer;

/** A ZooKeeper in this JVM with an empty BookKeeper cluster in it, made by BookKeeper's own command. */
final class MetadataServer implements AutoCloseable {
    private static final int TICK_MS = 500;
    private static final int CONNECTIONS_MAX = 1000;

    private final NIOServerCnxnFactory connections = new NIOServerCnxnFactory();

    MetadataServer(Path place) throws Exception {
        System.setProperty("zookeeper.admin.enableServer", "false");
        System.setProperty("zookeeper.forceSync", "no");
        ZooKeeperServer server = new ZooKeeperServer(place.toFile(), place.toFile(), TICK_MS);
        connections.configure(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), CONNECTIONS_MAX);
        connections.startup(server);
        Until.holds(server::isRunning, "ZooKeeper is running");
        if (!BookKeeperAdmin.initNewCluster(Settings.server(uri(), 3181))) {
            throw new IllegalStateException("BookKeeper could not make its metadata");
        }
    }

    String address() {
        return "127.0.0.1:" + connections.getLocalPort();
    }

    String uri() {
        return "zk+hierarchical://" + address() + "/ledgers";
    }

    @Override
    public void close() {
        connections.shutdown();
    }
}

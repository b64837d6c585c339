import java.io.File;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import org.apache.zookeeper.server.NIOServerCnxnFactory;
import org.apache.zookeeper.server.ZooKeeperServer;

/** An empty ZooKeeper that keeps its files in a directory, until standard input ends. It tells {@code zookeeper PORT}. */
final class MetadataServer {
    private static final int TICK_MS = 1000;
    private static final int CONNECTIONS_MAX = 100;

    private MetadataServer() {}

    /** usage: MetadataServer DIRECTORY */
    public static void main(String[] arguments) throws Exception {
        File directory = new File(arguments[0]);
        NIOServerCnxnFactory connections = new NIOServerCnxnFactory();
        connections.configure(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), CONNECTIONS_MAX);
        connections.startup(new ZooKeeperServer(directory, directory, TICK_MS));
        Orders.tell("zookeeper " + connections.getLocalPort());
        Orders.endWithStandardInput();
        connections.join();
    }
}

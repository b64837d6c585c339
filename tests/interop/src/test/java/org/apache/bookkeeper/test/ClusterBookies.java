package org.apache.bookkeeper.test;

import java.io.File;
import java.io.IOException;
import java.net.UnknownHostException;
import java.util.ArrayList;
import java.util.LinkedList;
import java.util.List;
import java.util.NoSuchElementException;
import org.apache.bookkeeper.client.BookKeeperTestClient;
import org.apache.bookkeeper.conf.ServerConfiguration;
import org.apache.bookkeeper.net.BookieId;
import org.apache.bookkeeper.proto.BookieServer;

/** The bookies that a test has started. */
abstract class ClusterBookies extends ClusterSettings {
    protected final List<BookKeeperClusterTestCase.ServerTester> servers = new LinkedList<>();
    protected BookKeeperTestClient bkc;

    ClusterBookies(int zooKeepers) {
        super(zooKeepers);
    }

    public BookieId getBookie(int index) throws Exception {
        return servers.get(index).getServer().getBookieId();
    }

    protected BookieId addressByIndex(int index) throws Exception {
        return getBookie(index);
    }

    protected List<BookieId> bookieAddresses() throws Exception {
        List<BookieId> all = new ArrayList<>();
        for (BookKeeperClusterTestCase.ServerTester each : servers) {
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
    BookKeeperClusterTestCase.ServerTester byId(BookieId id) throws IOException {
        for (BookKeeperClusterTestCase.ServerTester each : servers) {
            if (each.getServer().getBookieId().equals(id)) {
                return each;
            }
        }
        return null;
    }

    BookKeeperClusterTestCase.ServerTester wanted(BookieId id) throws IOException {
        BookKeeperClusterTestCase.ServerTester found = byId(id);
        if (found == null) {
            throw new IOException("no bookie " + id);
        }
        return found;
    }

    public ServerConfiguration getBkConf(BookieId addr) throws Exception {
        return wanted(addr).getConfiguration();
    }

    public TestStatsProvider getStatsProvider(BookieId addr) throws UnknownHostException {
        for (BookKeeperClusterTestCase.ServerTester each : servers) {
            if (each.getServer().getBookieId().equals(addr)) {
                return each.getStatsProvider();
            }
        }
        throw new NoSuchElementException(addr.toString());
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
}

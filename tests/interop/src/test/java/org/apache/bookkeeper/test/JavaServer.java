package org.apache.bookkeeper.test;

import java.util.ArrayList;
import java.util.List;
import org.apache.bookkeeper.bookie.Bookie;
import org.apache.bookkeeper.bookie.BookieImpl;
import org.apache.bookkeeper.bookie.BookieResources;
import org.apache.bookkeeper.bookie.LedgerDirsManager;
import org.apache.bookkeeper.bookie.LedgerStorage;
import org.apache.bookkeeper.bookie.LegacyCookieValidation;
import org.apache.bookkeeper.bookie.ReadOnlyBookie;
import org.apache.bookkeeper.bookie.UncleanShutdownDetectionImpl;
import org.apache.bookkeeper.common.allocator.ByteBufAllocatorWithOomHandler;
import org.apache.bookkeeper.conf.ServerConfiguration;
import org.apache.bookkeeper.discover.BookieServiceInfo;
import org.apache.bookkeeper.discover.RegistrationManager;
import org.apache.bookkeeper.meta.LedgerManager;
import org.apache.bookkeeper.meta.LedgerManagerFactory;
import org.apache.bookkeeper.meta.MetadataBookieDriver;
import org.apache.bookkeeper.proto.BookieServer;
import org.apache.bookkeeper.server.Main;
import org.apache.bookkeeper.stats.NullStatsLogger;
import org.apache.bookkeeper.stats.StatsLogger;
import org.apache.bookkeeper.util.DiskChecker;

/** Java's bookie, as BookKeeper's own tests make it, for the control run. */
final class JavaServer implements AutoCloseable {
    private final List<AutoCloseable> resources = new ArrayList<>();
    final BookieServer server;

    JavaServer(ServerConfiguration conf, StatsLogger counters) throws Exception {
        StatsLogger stats = NullStatsLogger.INSTANCE;
        ByteBufAllocatorWithOomHandler allocator = BookieResources.createAllocator(conf);
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
        server = new BookieServer(conf, bookie, counters, allocator, new UncleanShutdownDetectionImpl(data));
    }

    private <T extends AutoCloseable> T kept(T resource) {
        resources.add(0, resource);
        return resource;
    }

    /** What the server was made of; the server was shut down before. */
    @Override
    public void close() throws Exception {
        for (AutoCloseable resource : resources) {
            resource.close();
        }
    }
}

package walkeeper.interop;

import org.apache.bookkeeper.conf.ClientConfiguration;
import org.apache.bookkeeper.conf.ServerConfiguration;

/** BookKeeper's settings for small clusters on loopback; everything else is its default. */
final class Settings {
    private Settings() {}

    static ServerConfiguration server(String metadata, int port) {
        ServerConfiguration settings = new ServerConfiguration()
                .setBookiePort(port)
                .setAdvertisedAddress("127.0.0.1")
                .setAllowLoopback(true)
                .setDiskUsageThreshold(0.999f)
                .setDiskUsageWarnThreshold(0.99f)
                .setMaxJournalSizeMB(16)
                .setEntryLogSizeLimit(16 << 20)
                .setEntryLogFilePreAllocationEnabled(false)
                .setMinUsableSizeForIndexFileCreation(1 << 20)
                .setMinUsableSizeForEntryLogCreation(1 << 20)
                .setMinUsableSizeForHighPriorityWrites(1 << 20)
                .setSkipListSizeLimit(8 << 20)
                .setGcWaitTime(1000)
                .setHttpServerEnabled(false)
                .setNettyMaxFrameSizeBytes(Cluster.FRAME_SIZE_MAX)
                .setAutoRecoveryDaemonEnabled(false);
        settings.setMetadataServiceUri(metadata);
        settings.setProperty("journalPreAllocSizeMB", 1);
        settings.setProperty("enableStatistics", false);
        settings.setZkTimeout(3000);
        return settings;
    }

    static ClientConfiguration client(String metadata, Protocol protocol) {
        ClientConfiguration settings = new ClientConfiguration();
        settings.setMetadataServiceUri(metadata);
        settings.setZkTimeout(10_000);
        settings.setUseV2WireProtocol(protocol == Protocol.V2);
        settings.setNettyMaxFrameSizeBytes(Cluster.FRAME_SIZE_MAX);
        settings.setThrottleValue(0);
        settings.setNumIOThreads(2);
        settings.setNumWorkerThreads(2);
        return settings;
    }
}

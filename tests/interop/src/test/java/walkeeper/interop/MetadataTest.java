package walkeeper.interop;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertThrows;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.BookKeeper.DigestType;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.client.api.LedgerMetadata;
import org.apache.bookkeeper.net.BookieId;
import org.junit.ClassRule;
import org.junit.Test;

/** Java reads the metadata of ledgers that walkeeper.metadata wrote. */
public class MetadataTest extends InteropTest {
    private static final byte[] PASSWORD = "secret \0\u00ff".getBytes(StandardCharsets.ISO_8859_1);
    private static final byte[] WRONG = "another".getBytes(StandardCharsets.US_ASCII);

    @ClassRule
    public static final Cluster CLUSTER = new Cluster(3, 0);

    @Override
    Cluster cluster() {
        return CLUSTER;
    }

    /** Runs ledger_metadata.py on the cluster; the lines that it says. */
    private static List<String> walkeeper(String... arguments) throws Exception {
        List<String> command = new ArrayList<>(List.of(
                Path.of(WalkeeperBookie.executable()).resolveSibling("python").toString(),
                Cluster.repository().resolve("tests/interop/ledger_metadata.py").toString(), CLUSTER.uri()));
        command.addAll(List.of(arguments));
        Process process = Children.start(new ProcessBuilder(command).redirectErrorStream(true));
        String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertEquals(said, 0, process.waitFor());
        return said.lines().toList();
    }

    private static List<BookieId> ensemble(String... ids) {
        return List.of(ids).stream().map(BookieId::parse).toList();
    }

    @Test
    public void aLedgerThatWalkeeperCreated() throws Exception {
        Map<DigestType, Long> created = new EnumMap<>(DigestType.class);
        for (String line : walkeeper("create")) {
            created.put(DigestType.valueOf(line.split(" ")[0]), Long.valueOf(line.split(" ")[1]));
        }
        assertEquals(Set.of(DigestType.values()), created.keySet());
        byte[] allBytes = new byte[256];
        for (int i = 0; i < allBytes.length; i++) {
            allBytes[i] = (byte) i;
        }
        try (BookKeeper client = CLUSTER.client(Protocol.V3)) {
            for (Map.Entry<DigestType, Long> each : created.entrySet()) {
                LedgerMetadata metadata = Ledgers.metadata(client, each.getValue());
                assertEquals(3, metadata.getMetadataFormatVersion());
                assertEquals(LedgerMetadata.State.CLOSED, metadata.getState());
                assertEquals(3, metadata.getEnsembleSize());
                assertEquals(3, metadata.getWriteQuorumSize());
                assertEquals(2, metadata.getAckQuorumSize());
                assertEquals(5_000_000_000L, metadata.getLength());
                assertEquals(40, metadata.getLastEntryId());
                assertEquals(1_700_000_000_123L, metadata.getCtime());
                assertEquals(each.getKey().toApiDigestType(), metadata.getDigestType());
                assertArrayEquals(PASSWORD, metadata.getPassword());
                assertEquals(new TreeMap<>(Map.of(0L, ensemble("one:3181", "two:3181", "127.0.0.1:3181"),
                        7L, ensemble("one:3181", "four", "127.0.0.1:3181"))), metadata.getAllEnsembles());
                Map<String, byte[]> custom = metadata.getCustomMetadata();
                assertEquals(Set.of("text", "bytes", "", "empty"), custom.keySet());
                assertArrayEquals("fünf".getBytes(StandardCharsets.UTF_8), custom.get("text"));
                assertArrayEquals(allBytes, custom.get("bytes"));
                assertEquals(0, custom.get("").length);
                assertEquals(0, custom.get("empty").length);
                try (LedgerHandle opened = client.openLedger(each.getValue(), each.getKey(), PASSWORD)) {
                    assertEquals(40, opened.getLastAddConfirmed());
                    assertEquals(5_000_000_000L, opened.getLength());
                }
                assertThrows(each.getKey().toString(), BKException.BKUnauthorizedAccessException.class,
                        () -> client.openLedger(each.getValue(), each.getKey(), WRONG));
            }
        }
    }

    /** As a client of walkeeper does that closes, or repairs, what a Java client began. */
    @Test
    public void aLedgerOfJavasThatWalkeeperRewrote() throws Exception {
        try (BookKeeper writer = CLUSTER.client(Protocol.V3); BookKeeper another = CLUSTER.client(Protocol.V3)) {
            List<String> command = new ArrayList<>(List.of("rewrite"));
            Map<DigestType, LedgerMetadata> ledgers = new EnumMap<>(DigestType.class);
            for (DigestType digest : DigestType.values()) {
                LedgerHandle ledger = writer.createLedger(3, 2, 2, digest, PASSWORD, Map.of("java", new byte[] {1, 0}));
                Ledgers.fill(ledger, 20);
                ledger.close();
                ledgers.put(digest, Ledgers.metadata(writer, ledger.getId()));
                command.add(String.valueOf(ledger.getId()));
            }
            walkeeper(command.toArray(String[]::new));
            for (Map.Entry<DigestType, LedgerMetadata> each : ledgers.entrySet()) {
                LedgerMetadata before = each.getValue();
                try (LedgerHandle read = another.openLedger(before.getLedgerId(), each.getKey(), PASSWORD)) {
                    LedgerMetadata after = read.getLedgerMetadata();
                    Map<String, byte[]> custom = after.getCustomMetadata();
                    assertEquals(Set.of("java", "again"), custom.keySet());
                    assertArrayEquals(new byte[] {1, 0}, custom.get("java"));
                    assertArrayEquals(new byte[] {0, -1}, custom.get("again"));
                    assertEquals(before.getMetadataFormatVersion(), after.getMetadataFormatVersion());
                    assertEquals(LedgerMetadata.State.CLOSED, after.getState());
                    assertEquals(before.getLength(), after.getLength());
                    assertEquals(before.getCtime(), after.getCtime());
                    assertEquals(before.getAllEnsembles(), after.getAllEnsembles());
                    assertEquals(19, read.getLastAddConfirmed());
                    Ledgers.check(read, 0, 19);
                }
                assertThrows(each.getKey().toString(), BKException.BKUnauthorizedAccessException.class,
                        () -> another.openLedger(before.getLedgerId(), each.getKey(), WRONG));
            }
        }
    }
}

package walkeeper.interop;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.apache.bookkeeper.bookie.BookieShell;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.conf.ServerConfiguration;
import org.apache.bookkeeper.util.EntryFormatter;
import org.apache.bookkeeper.util.LedgerIdFormatter;
import org.junit.ClassRule;
import org.junit.Test;

/** Commands of `bookkeeper shell`, on a cluster of ours. */
public class ShellTest extends InteropTest {
    @ClassRule
    public static final Cluster CLUSTER = new Cluster(3, 0);

    @Override
    Cluster cluster() {
        return CLUSTER;
    }

    /** Runs a command as on the first bookie's machine; what it wrote. */
    private static String shell(String... command) throws Exception {
        int port = Integer.parseInt(CLUSTER.bookies.get(0).id().toString().split(":")[1]);
        ServerConfiguration settings = Settings.server(CLUSTER.uri(), port);
        BookieShell shell = new BookieShell(
                LedgerIdFormatter.LONG_LEDGERID_FORMATTER, EntryFormatter.STRING_FORMATTER);
        shell.setConf(settings);
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        PrintStream before = System.out;
        int status;
        try (PrintStream all = new PrintStream(said, true, StandardCharsets.UTF_8)) {
            System.setOut(all);
            status = shell.run(command);
        } finally {
            System.setOut(before);
        }
        String text = said.toString(StandardCharsets.UTF_8);
        assertEquals(String.join(" ", command) + ": " + text, 0, status);
        return text;
    }

    @Test
    public void simpletest() throws Exception {
        String said = shell("simpletest", "-ensemble", "3", "-writeQuorum", "2", "-ackQuorum", "2", "-numEntries",
                "500");
        assertTrue(said, said.contains("500 entries written to ledger"));
    }

    @Test
    public void bookiesanity() throws Exception {
        String said = shell("bookiesanity", "-entries", "50", "-timeout", "10");
        assertTrue(said, said.contains("Bookie sanity test succeeded"));
    }

    @Test
    public void listbookies() throws Exception {
        String writable = shell("listbookies", "-rw");
        for (Bookie bookie : CLUSTER.bookies) {
            assertTrue(writable, writable.contains(bookie.id().toString()));
        }
        Bookie one = CLUSTER.bookies.get(2);
        one.setReadOnly(true);
        Until.holds(() -> shell("listbookies", "-ro").contains(one.id().toString()), "it is listed as read-only");
        assertFalse(shell("listbookies", "-rw").contains(one.id().toString()));
        one.setReadOnly(false);
        Until.holds(() -> shell("listbookies", "-rw").contains(one.id().toString()), "it is listed as writable");
    }

    @Test
    public void ledgermetadataAndReadledger() throws Exception {
        try (BookKeeper client = CLUSTER.client(Protocol.V3)) {
            LedgerHandle ledger = Ledgers.create(client, 3, 2, 2);
            for (int entry = 0; entry < 5; entry++) {
                ledger.addEntry(("entry number " + entry).getBytes(StandardCharsets.UTF_8));
            }
            ledger.close();
            String id = String.valueOf(ledger.getId());
            String metadata = shell("ledgermetadata", "-ledgerid", id);
            assertTrue(metadata, metadata.contains("state=CLOSED") && metadata.contains("lastEntryId=4"));
            String read = shell("readledger", "-ledgerid", id, "-msg");
            for (int entry = 0; entry < 5; entry++) {
                assertTrue(read, read.contains("entry number " + entry));
            }
            BookieReplica replica = new BookieReplica(ledger);
            String one = shell("readledger", "-ledgerid", id, "-msg", "-lastentryid", "4", "-bookie",
                    replica.bookie());
            assertTrue(one, one.contains("Eid=0"));
        }
    }

    /** The bookie that has entry 0. */
    private record BookieReplica(LedgerHandle ledger) {
        String bookie() {
            return ledger.getLedgerMetadata().getAllEnsembles().get(0L).get(0).toString();
        }
    }

    @Test
    public void bookieinfo() throws Exception {
        String said = shell("bookieinfo");
        for (Bookie bookie : CLUSTER.bookies) {
            assertTrue(said, said.contains(bookie.id().toString()));
        }
    }

    @Test
    public void whoisinstanceListledgersAndDeleteledger() throws Exception {
        assertTrue(shell("whatisinstanceid").contains("InstanceId"));
        try (BookKeeper client = CLUSTER.client(Protocol.V3)) {
            LedgerHandle ledger = Ledgers.create(client, 3, 2, 2);
            Ledgers.fill(ledger, 5);
            ledger.close();
            String id = String.valueOf(ledger.getId());
            assertTrue(shell("listledgers").contains(id));
            shell("deleteledger", "-ledgerid", id, "-force");
        }
    }

    /** Moves what one bookie has to the others, by the client's own recovery tool. */
    @Test
    public void recoverDryRun() throws Exception {
        shell("recover", "-force", "-dryrun", CLUSTER.bookies.get(1).id().toString());
    }
}

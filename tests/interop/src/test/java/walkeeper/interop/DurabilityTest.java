package walkeeper.interop;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.client.api.LedgerEntries;
import org.apache.bookkeeper.client.api.ReadHandle;
import org.apache.bookkeeper.client.api.WriteFlag;
import org.apache.bookkeeper.client.api.WriteHandle;
import org.junit.Test;
import org.junit.runners.Parameterized.Parameters;

/** What is acknowledged before it is durable, and what force() makes of it; version 3 alone has it. */
public class DurabilityTest extends ShapeTest {
    @Parameters(name = "{0} {1}")
    public static List<Object[]> cases() {
        return cases(Protocol.V3);
    }

    @Test
    public void deferredSyncIsConfirmedByForce() throws Exception {
        try (BookKeeper client = cluster().client(Protocol.V3)) {
            WriteHandle ledger = client.newCreateLedgerOp().withEnsembleSize(shape.ensemble)
                    .withWriteQuorumSize(shape.writeQuorum).withAckQuorumSize(shape.ackQuorum)
                    .withPassword(Ledgers.PASSWORD).withWriteFlags(WriteFlag.DEFERRED_SYNC).execute().get(60, TimeUnit.SECONDS);
            List<CompletableFuture<Long>> answers = new ArrayList<>();
            for (int entry = 0; entry < 200; entry++) {
                answers.add(ledger.appendAsync(Payload.of(ledger.getId(), entry)));
            }
            for (CompletableFuture<Long> answer : answers) {
                answer.get(60, TimeUnit.SECONDS);
            }
            assertEquals("nothing is confirmed before force", -1, ledger.getLastAddConfirmed());
            ledger.force().get(60, TimeUnit.SECONDS);
            assertEquals(199, ledger.getLastAddConfirmed());
            cluster().killAndStartAll();
            try (BookKeeper another = cluster().client(Protocol.V3);
                    ReadHandle read = another.newOpenLedgerOp().withLedgerId(ledger.getId())
                            .withPassword(Ledgers.PASSWORD).withRecovery(true).execute().get(60, TimeUnit.SECONDS);
                    LedgerEntries entries = read.read(0, 199)) {
                for (int entry = 0; entry < 200; entry++) {
                    assertArrayEquals(Payload.of(ledger.getId(), entry), entries.getEntry(entry).getEntryBytes());
                }
            }
        }
    }

    @Test
    public void forceOfAnEmptyLedgerAndOfWhatIsDurable() throws Exception {
        try (BookKeeper client = cluster().client(Protocol.V3)) {
            LedgerHandle ledger = shape.striped(client);
            ledger.force().get(60, TimeUnit.SECONDS);
            Ledgers.fill(ledger, 10);
            ledger.force().get(60, TimeUnit.SECONDS);
            assertEquals(9, ledger.getLastAddConfirmed());
            ledger.close();
        }
    }
}

package walkeeper.interop;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.ByteBufUtil;
import io.netty.buffer.Unpooled;
import io.netty.buffer.UnpooledByteBufAllocator;
import io.netty.util.ReferenceCounted;
import java.util.EnumSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.BookKeeperTestClient;
import org.apache.bookkeeper.client.api.WriteFlag;
import org.apache.bookkeeper.net.BookieId;
import org.apache.bookkeeper.proto.DataFormats.LedgerMetadataFormat.DigestType;
import org.apache.bookkeeper.proto.BookieProtocol;
import org.apache.bookkeeper.proto.checksum.DigestManager;

/** Single requests to a single bookie, with keys and flags as a test wants them; codes are BKException's. */
final class Requests {
    private static final int PATIENCE_S = 60;

    private final BookKeeperTestClient client;
    private final BookieId bookie;

    Requests(BookKeeperTestClient client, BookieId bookie) {
        this.client = client;
        this.bookie = bookie;
    }

    static byte[] key(byte[] password) throws Exception {
        return DigestManager.generateMasterKey(password);
    }

    int add(long ledger, long entry, byte[] payload, byte[] password, int flags) throws Exception {
        DigestManager digests = DigestManager.instantiate(ledger, password, DigestType.CRC32C,
                UnpooledByteBufAllocator.DEFAULT, client.getConf().getUseV2WireProtocol());
        ReferenceCounted body = digests.computeDigestAndPackageForSending(entry, entry - 1, payload.length,
                Unpooled.wrappedBuffer(payload), key(password), flags);
        CompletableFuture<Integer> answer = new CompletableFuture<>();
        client.getBookieClient().addEntry(bookie, ledger, key(password), entry, body,
                (code, l, e, from, context) -> answer.complete(code), null, flags, false, WriteFlag.NONE);
        return answer.get(PATIENCE_S, TimeUnit.SECONDS);
    }

    int add(long ledger, long entry, byte[] payload) throws Exception {
        return add(ledger, entry, payload, Ledgers.PASSWORD, BookieProtocol.FLAG_NONE);
    }

    /** An answer to a read: the code, and the payload where there is an entry. */
    record Answer(int code, byte[] payload) {}

    Answer read(long ledger, long entry, int flags, byte[] password) throws Exception {
        CompletableFuture<Answer> answer = new CompletableFuture<>();
        client.getBookieClient().readEntry(bookie, ledger, entry, (code, l, e, buffer, context) -> {
            try {
                answer.complete(new Answer(code, code == BKException.Code.OK ? payload(ledger, buffer) : null));
            } catch (Exception wrong) {
                answer.completeExceptionally(wrong);
            }
        }, null, flags, password == null ? null : key(password));
        return answer.get(PATIENCE_S, TimeUnit.SECONDS);
    }

    private byte[] payload(long ledger, ByteBuf buffer) throws Exception {
        DigestManager digests = DigestManager.instantiate(ledger, Ledgers.PASSWORD, DigestType.CRC32C,
                UnpooledByteBufAllocator.DEFAULT, client.getConf().getUseV2WireProtocol());
        // The answer to a read of the last entry has the id that was asked for; the entry has its own.
        ByteBuf bytes = digests.verifyDigestAndReturnData(buffer.getLong(buffer.readerIndex() + Long.BYTES), buffer);
        return ByteBufUtil.getBytes(bytes);
    }

    Answer read(long ledger, long entry) throws Exception {
        return read(ledger, entry, BookieProtocol.FLAG_NONE, null);
    }

    /** What a recovering client sends first. */
    Answer fence(long ledger, byte[] password) throws Exception {
        return read(ledger, BookieProtocol.LAST_ADD_CONFIRMED,
                BookieProtocol.FLAG_DO_FENCING | BookieProtocol.FLAG_HIGH_PRIORITY, password);
    }
}

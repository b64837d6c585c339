package walkeeper.interop;

import com.google.protobuf.UnsafeByteOperations;
import java.lang.reflect.Field;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.bookkeeper.proto.BookkeeperProtocol.AddRequest;
import org.apache.bookkeeper.proto.BookkeeperProtocol.BKPacketHeader;
import org.apache.bookkeeper.proto.BookkeeperProtocol.OperationType;
import org.apache.bookkeeper.proto.BookkeeperProtocol.ProtocolVersion;
import org.apache.bookkeeper.proto.BookkeeperProtocol.Request;
import org.apache.bookkeeper.proto.PerChannelBookieClient;

/** What the requests of BookKeeper's client have around a payload. */
final class Frames {
    private static final int LENGTH = 4;
    private static final int MASTER_KEY = 20;

    /** The ids of ledger and entry, what is confirmed, the ledger's length, and a CRC32C. */
    private static final int ENTRY = 4 * 8 + 4;

    /** The transaction ids of version 3 have three bytes from here to 2^21. */
    private static final long TRANSACTIONS = 1 << 14;

    private Frames() {}

    /** The largest payload that the client can add to this ledger as one of its first 128 entries. */
    static int largestEntry(Protocol protocol, long ledger) throws Exception {
        int around = protocol == Protocol.V2 ? 4 + MASTER_KEY : aroundBody(ledger);
        return Cluster.FRAME_SIZE_MAX - LENGTH - around - ENTRY;
    }

    /** Protobuf's numbers are as long as they are large. */
    private static int aroundBody(long ledger) throws Exception {
        Field transactions = PerChannelBookieClient.class.getDeclaredField("txnIdGenerator");
        transactions.setAccessible(true);
        ((AtomicLong) transactions.get(null)).accumulateAndGet(TRANSACTIONS, Math::max);
        byte[] body = new byte[Cluster.FRAME_SIZE_MAX / 2];
        Request request = Request.newBuilder()
                .setHeader(BKPacketHeader.newBuilder().setVersion(ProtocolVersion.VERSION_THREE)
                        .setOperation(OperationType.ADD_ENTRY).setTxnId(TRANSACTIONS))
                .setAddRequest(AddRequest.newBuilder().setLedgerId(ledger).setEntryId(0)
                        .setMasterKey(UnsafeByteOperations.unsafeWrap(new byte[MASTER_KEY]))
                        .setBody(UnsafeByteOperations.unsafeWrap(body)))
                .build();
        return request.getSerializedSize() - body.length;
    }
}

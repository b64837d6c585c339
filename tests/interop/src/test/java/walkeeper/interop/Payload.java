package walkeeper.interop;

import java.util.Random;

/** Bytes of an entry that name it: two entries, or two sizes, never have the same. */
final class Payload {
    private Payload() {}

    static byte[] of(long ledger, long entry, int size) {
        byte[] bytes = new byte[size];
        new Random(ledger * 1_000_003 + entry * 31 + size).nextBytes(bytes);
        return bytes;
    }

    /** A size for an entry: mostly small, now and then some kilobytes. */
    static int size(long entry) {
        return entry % 17 == 3 ? 20_000 : 1 + (int) (entry * 37 % 700);
    }

    static byte[] of(long ledger, long entry) {
        return of(ledger, entry, size(entry));
    }
}

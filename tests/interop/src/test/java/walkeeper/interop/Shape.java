package walkeeper.interop;

import java.util.Arrays;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.LedgerHandle;

/** How many bookies of each make there are, and how ledgers lie on them. */
enum Shape {
    ONE(1, 0, 1, 1, 1),
    THREE(3, 0, 3, 2, 2),
    FIVE(5, 0, 5, 3, 2),
    MIXED(2, 2, 4, 3, 2);

    final int walkeeper;
    final int java;
    final int ensemble;
    final int writeQuorum;
    final int ackQuorum;

    Shape(int walkeeper, int java, int ensemble, int writeQuorum, int ackQuorum) {
        this.walkeeper = walkeeper;
        this.java = java;
        this.ensemble = ensemble;
        this.writeQuorum = writeQuorum;
        this.ackQuorum = ackQuorum;
    }

    /** Those of -Dshapes. */
    static Shape[] chosen() {
        return Arrays.stream(System.getProperty("shapes").split(",")).map(Shape::valueOf).toArray(Shape[]::new);
    }

    /** No bookie has all entries, where there are several; each that must have one has acknowledged it. */
    LedgerHandle striped(BookKeeper client) throws Exception {
        return Ledgers.create(client, ensemble, writeQuorum, writeQuorum);
    }

    /** Every bookie has every entry; more than half of them do when it is acknowledged. */
    LedgerHandle majority(BookKeeper client) throws Exception {
        return Ledgers.create(client, ensemble, ensemble, ensemble / 2 + 1);
    }

    /** Every bookie has every entry when it is acknowledged. */
    LedgerHandle everywhere(BookKeeper client) throws Exception {
        return Ledgers.create(client, ensemble, ensemble, ensemble);
    }
}

import java.nio.charset.StandardCharsets;
import org.apache.bookkeeper.client.api.BookKeeper;
import org.apache.bookkeeper.conf.ClientConfiguration;

/** What is written, the same each time it is asked for, and the client that both programs use: Apache BookKeeper's. */
final class Orders {
    static final byte[] PASSWORD = "orders".getBytes(StandardCharsets.UTF_8);

    private static final String[] THINGS = {"lamp", "chair", "kettle", "bicycle", "book", "piano"};

    private Orders() {}

    /** The bytes of an order; a line. */
    static byte[] order(long number) {
        long mixed = (number + 1) * 0x9E3779B97F4A7C15L;
        mixed = (mixed ^ (mixed >>> 31)) * 0xBF58476D1CE4E5B9L;
        int pieces = 1 + (int) (mixed >>> 60);
        String thing = THINGS[(int) ((mixed >>> 32) % THINGS.length)];
        return ("order " + number + ": " + pieces + " x " + thing + ", paid with card " + Long.toHexString(mixed) + '\n')
                .getBytes(StandardCharsets.UTF_8);
    }

    static BookKeeper client(String metadata, String protocol) throws Exception {
        ClientConfiguration settings = new ClientConfiguration();
        settings.setMetadataServiceUri(metadata);
        settings.setUseV2WireProtocol(protocol.equals("v2"));
        settings.setThrottleValue(0); // its default lets 5,000 requests a second through
        return BookKeeper.newBuilder(settings).build();
    }

    /** Tells run.py: one line, at once. */
    static synchronized void tell(String line) {
        System.out.println(line);
        System.out.flush();
    }

    /** run.py holds standard input open: when that ends, nobody looks on any more. */
    static void endWithStandardInput() {
        Thread watch = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {}
            } catch (java.io.IOException gone) {
                // As good as its end.
            }
            Runtime.getRuntime().halt(3);
        });
        watch.setDaemon(true);
        watch.start();
    }
}

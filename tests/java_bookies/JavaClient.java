import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.zip.CRC32;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.BookKeeperAdmin;
import org.apache.bookkeeper.client.EnsemblePlacementPolicy.PlacementPolicyAdherence;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.client.RackawareEnsemblePlacementPolicy;
import org.apache.bookkeeper.client.api.DigestType;
import org.apache.bookkeeper.client.api.LedgerEntries;
import org.apache.bookkeeper.client.api.LedgerEntry;
import org.apache.bookkeeper.client.api.ReadHandle;
import org.apache.bookkeeper.client.api.WriteHandle;
import org.apache.bookkeeper.conf.ClientConfiguration;
import org.apache.bookkeeper.conf.ServerConfiguration;
import org.apache.bookkeeper.net.BookieId;

/**
 * Apache BookKeeper's client, told what to do over standard input. An order is a line, and its answer is one: {@code ok WORDS}, or
 * {@code failed NAME} with the class of BookKeeper's exception. Handles are known by the numbers that their orders answer.
 *
 * <p>The payload of entry e with n bytes is the first n bytes of "e/e/e/…". A password is hexadecimal, "-" is the empty one.
 */
final class JavaClient {
    private static final int IN_FLIGHT_BYTES = 16 << 20;

    private final String metadata;
    private final BookKeeper plain;
    private final BookKeeper telling;
    private final List<Object> handles = new ArrayList<>();

    private JavaClient(String metadata) throws Exception {
        this.metadata = metadata;
        plain = client(0);
        telling = client(10);
    }

    /** usage: JavaClient METADATA-URI; the cluster is made where there is none */
    public static void main(String[] arguments) throws Exception {
        ServerConfiguration server = new ServerConfiguration();
        server.setMetadataServiceUri(arguments[0]);
        boolean made = BookKeeperAdmin.initNewCluster(server);
        JavaClient client = new JavaClient(arguments[0]);
        System.out.println("ok " + made);
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String order = orders.readLine(); order != null; order = orders.readLine()) {
            String answer;
            try {
                answer = "ok " + client.obey(order.split(" "));
            } catch (ExecutionException | CompletionException wrong) {
                answer = "failed " + name(wrong.getCause());
            } catch (BKException wrong) {
                answer = "failed " + name(wrong);
            }
            System.out.println(answer.trim());
            System.out.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static String name(Throwable wrong) {
        wrong.printStackTrace();
        return wrong.getClass().getSimpleName();
    }

    private BookKeeper client(int explicitLacMilliseconds) throws Exception {
        ClientConfiguration settings = new ClientConfiguration();
        settings.setMetadataServiceUri(metadata);
        settings.setThrottleValue(0); // its default lets 5,000 requests a second through
        settings.setEnsemblePlacementPolicy(Named.class);
        settings.setExplictLacInterval(explicitLacMilliseconds);
        return new BookKeeper(settings);
    }

    /** Takes the bookies that the ledger's custom metadata name. */
    public static final class Named extends RackawareEnsemblePlacementPolicy {
        @Override
        public PlacementResult<List<BookieId>> newEnsemble(
                int ensembleSize,
                int writeQuorum,
                int ackQuorum,
                Map<String, byte[]> customMetadata,
                Set<BookieId> excluded) {
            List<BookieId> chosen = new ArrayList<>();
            for (String name : new String(customMetadata.get("bookies"), StandardCharsets.UTF_8).split(",")) {
                chosen.add(BookieId.parse(name));
            }
            return PlacementResult.of(chosen, PlacementPolicyAdherence.MEETS_STRICT);
        }
    }

    private String obey(String[] words) throws Exception {
        switch (words[0]) {
            case "create": // BOOKIES ACK-QUORUM DIGEST PASSWORD TELLS-LACS: the handle and the ledger
                return create(words[1], number(words[2]), words[3], words[4], Boolean.parseBoolean(words[5]));
            case "add": // HANDLE SIZE...: the last entry's id
                return add(words);
            case "open": // LEDGER DIGEST PASSWORD RECOVERS: the handle, the LAC and the length
                return open(Long.parseLong(words[1]), words[2], words[3], Boolean.parseBoolean(words[4]));
            case "lac": // HANDLE: asks the bookies
                return "" + reader(words[1]).readLastAddConfirmedAsync().get();
            case "read": // HANDLE FIRST LAST: the size and the CRC-32 of each entry
                return read(reader(words[1]).readAsync(number(words[2]), number(words[3])).get());
            case "unconfirmed": // the same, whatever the LAC
                return read(reader(words[1]).readUnconfirmedAsync(number(words[2]), number(words[3])).get());
            case "close": // HANDLE
                ((org.apache.bookkeeper.client.api.Handle) handles.get(number(words[1]))).close();
                return "";
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private ReadHandle reader(String handle) {
        return (ReadHandle) handles.get(number(handle));
    }

    private String kept(Object handle, String facts) {
        handles.add(handle);
        return handles.size() - 1 + " " + facts;
    }

    private String create(String bookies, int ackQuorum, String digest, String password, boolean tells) throws Exception {
        int size = bookies.split(",").length;
        WriteHandle made = (tells ? telling : plain)
                .newCreateLedgerOp()
                .withEnsembleSize(size)
                .withWriteQuorumSize(size)
                .withAckQuorumSize(ackQuorum)
                .withDigestType(DigestType.valueOf(digest))
                .withPassword(bytes(password))
                .withCustomMetadata(new HashMap<>(Map.of("bookies", bookies.getBytes(StandardCharsets.UTF_8))))
                .execute()
                .get();
        return kept(made, "" + made.getId());
    }

    private String add(String[] words) throws Exception {
        WriteHandle writer = (WriteHandle) handles.get(number(words[1]));
        long next = ((LedgerHandle) writer).getLastAddPushed() + 1;
        CompletableFuture<Long> last = CompletableFuture.completedFuture(-1L);
        int inFlight = 0;
        for (int at = 2; at < words.length; at++) {
            byte[] payload = payload(next++, number(words[at]));
            last = writer.appendAsync(payload);
            inFlight += payload.length;
            if (inFlight > IN_FLIGHT_BYTES) {
                last.get();
                inFlight = 0;
            }
        }
        return "" + last.get();
    }

    private String open(long ledger, String digest, String password, boolean recovers) throws Exception {
        ReadHandle made = plain.newOpenLedgerOp()
                .withLedgerId(ledger)
                .withDigestType(DigestType.valueOf(digest))
                .withPassword(bytes(password))
                .withRecovery(recovers)
                .execute()
                .get();
        return kept(made, made.getLastAddConfirmed() + " " + made.getLength());
    }

    private static String read(LedgerEntries found) {
        StringBuilder told = new StringBuilder();
        try (LedgerEntries entries = found) {
            for (LedgerEntry entry : entries) {
                byte[] payload = entry.getEntryBytes();
                CRC32 sum = new CRC32();
                sum.update(payload);
                told.append(payload.length).append(' ').append(sum.getValue()).append(' ');
            }
        }
        return told.toString();
    }

    private static byte[] payload(long entry, int size) {
        byte[] pattern = (entry + "/").getBytes(StandardCharsets.UTF_8);
        byte[] made = Arrays.copyOf(pattern, size);
        for (int at = pattern.length; at < size; at++) {
            made[at] = made[at - pattern.length];
        }
        return made;
    }

    private static int number(String word) {
        return Integer.parseInt(word);
    }

    private static byte[] bytes(String password) {
        return password.equals("-") ? new byte[0] : java.util.HexFormat.of().parseHex(password);
    }
}

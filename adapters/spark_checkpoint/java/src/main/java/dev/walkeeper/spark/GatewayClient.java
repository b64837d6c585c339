package dev.walkeeper.spark;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.io.InterruptedIOException;
import java.net.SocketTimeoutException;
import java.nio.ByteBuffer;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedDeque;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileAlreadyExistsException;

/**
 * Asks gateways, any of which may serve a root. One for a list of gateways and a process; any thread may use it.
 *
 * <p>A change whose outcome is not known is asked for again as the same operation, so it is made once. When a method
 * returns, the change is durable. When it throws what {@link RefusedException#asHadoops} gives, nothing was changed. When
 * no gateway answers within {@code walkeeper.gateway.timeout.ms} and the wait for one answer, it throws an IOException, and
 * the outcome is unknown. So it is behind the InterruptedIOException by which an interrupt of the thread ends the wait.
 */
final class GatewayClient {
  static final String GATEWAYS = "walkeeper.gateways";
  private static final String TOKEN = "walkeeper.gateway.token";
  private static final String TIMEOUT_MS = "walkeeper.gateway.timeout.ms";
  private static final String TLS = "walkeeper.gateway.tls";

  private static final int PUT_MAX = 1024 * 1024 - 64 * 1024;
  private static final int CHUNK = 512 * 1024;
  private static final long ANSWER_MS = 30_000;
  private static final int PAUSE_MS_MAX = 1_000;
  private static final int IDLE_MAX = 64;

  private static final ConcurrentMap<String, GatewayClient> CLIENTS = new ConcurrentHashMap<>();
  private static final byte[] PROCESS = new byte[16];
  private static final AtomicLong OPERATIONS = new AtomicLong();

  static {
    new SecureRandom().nextBytes(PROCESS);
  }

  /** Of {@link #get}. */
  record Content(FileEntry file, byte[] bytes) {}

  @FunctionalInterface
  private interface Exchange<T> {
    T with(Connection connection) throws IOException;
  }

  final String gateways;
  private final List<Endpoint> endpoints;
  private final String token;
  private final boolean tls;
  private final long timeoutMs;
  private final long answerMs;
  private final ConcurrentLinkedDeque<Connection> idle = new ConcurrentLinkedDeque<>();
  private volatile int preferred;

  private GatewayClient(String gateways, List<Endpoint> endpoints, String token, boolean tls, long timeoutMs) {
    this.gateways = gateways;
    this.endpoints = endpoints;
    this.token = token;
    this.tls = tls;
    this.timeoutMs = timeoutMs;
    // One that hangs leaves time for the next.
    this.answerMs = Math.max(1, Math.min(ANSWER_MS, timeoutMs / endpoints.size()));
  }

  /** Of the gateways that an authority names; null: those of the configuration. */
  static GatewayClient of(String authority, Configuration conf) throws IOException {
    String gateways = authority == null || authority.isEmpty() ? conf.getTrimmed(GATEWAYS, "") : authority;
    gateways = gateways.replace(" ", "");
    if (gateways.isEmpty()) {
      throw new IOException("no gateway is known: set " + GATEWAYS + ", or write walkeeper://HOST:PORT/...");
    }
    String token = conf.getTrimmed(TOKEN, "");
    boolean tls = conf.getBoolean(TLS, false);
    long timeoutMs = conf.getTimeDuration(TIMEOUT_MS, 60_000, java.util.concurrent.TimeUnit.MILLISECONDS);
    String found = gateways;
    List<Endpoint> endpoints = new ArrayList<>();
    for (String text : gateways.split(",")) {
      endpoints.add(Endpoint.parse(text));
    }
    return CLIENTS.computeIfAbsent(
        String.join("\n", gateways, token, Boolean.toString(tls), Long.toString(timeoutMs)),
        key -> new GatewayClient(found, endpoints, token, tls, timeoutMs));
  }

  // ---- what is asked for ----

  /** Makes the directory and owns it from then on; the epoch that its changes carry. */
  long acquire(String path, String owner) throws IOException {
    byte[] body = new Frame().raw(operation()).text(path).text(owner).done();
    return call(path, 2, body).getLong();
  }

  /** Publishes the bytes as a file, whole. {@code replaces} false: FileAlreadyExistsException where the path is taken. */
  void put(String path, WriteBuffer buffer, boolean replaces, long epoch) throws IOException {
    buffer.finish();
    byte[] operation = operation();
    if (buffer.size() > PUT_MAX) {
      exchange(path, connection -> upload(connection, operation, path, buffer, replaces, epoch));
      return;
    }
    byte[] content;
    try (InputStream in = buffer.read()) {
      content = in.readAllBytes();
    }
    call(path, 3, new Frame().raw(operation).text(path).u64(epoch).flag(replaces).bytes(content).done());
  }

  private static Void upload(
      Connection connection, byte[] operation, String path, WriteBuffer buffer, boolean replaces, long epoch)
      throws IOException {
    long upload = answered(connection.call(10, new Frame().text(path).done())).getLong();
    try (InputStream in = buffer.read()) {
      long offset = 0;
      for (byte[] chunk = in.readNBytes(CHUNK); chunk.length > 0; chunk = in.readNBytes(CHUNK)) {
        answered(connection.call(11, new Frame().u64(upload).u64(offset).bytes(chunk).done()));
        offset += chunk.length;
      }
    } catch (RefusedException refused) {
      connection.call(13, new Frame().u64(upload).done()); // the connection is kept, and has room for few uploads
      throw refused;
    }
    Frame publish = new Frame().raw(operation).u64(upload).text(path).u64(epoch).flag(replaces);
    answered(connection.call(12, publish.done())); // ends the upload, whatever is answered
    return null;
  }

  /** At most {@code size} bytes from {@code offset} on; perhaps fewer. */
  Content get(String path, long offset, int size) throws IOException {
    ByteBuffer body;
    try {
      body = call(path, 4, new Frame().text(path).u64(offset).u32(size).done());
    } catch (FileAlreadyExistsException directory) {
      throw new FileNotFoundException(directory.getMessage());
    }
    return new Content(Frame.entry("", body), Frame.bytes(body));
  }

  FileEntry stat(String path) throws IOException {
    return stat(path, 0);
  }

  /** As the owner: FencedException where another has taken the directory over. */
  FileEntry stat(String path, long epoch) throws IOException {
    return Frame.entry("", call(path, 5, new Frame().text(path).u64(epoch).done()));
  }

  /** What is in a directory, by name. */
  List<FileEntry> list(String path) throws IOException {
    List<FileEntry> found = new ArrayList<>();
    String after = "";
    boolean more;
    do {
      ByteBuffer page = call(path, 6, new Frame().text(path).text(after).done());
      more = page.get() == 1;
      for (int left = page.getInt(); left > 0; left--) {
        after = Frame.text(page);
        found.add(Frame.entry(after, page));
      }
    } while (more);
    return found;
  }

  void mkdir(String path, long epoch) throws IOException {
    call(path, 7, new Frame().raw(operation()).text(path).u64(epoch).done());
  }

  /** Whether something was there. */
  boolean delete(String path, boolean recursive, long epoch) throws IOException {
    return call(path, 8, new Frame().raw(operation()).text(path).u64(epoch).flag(recursive).done()).get() == 1;
  }

  void rename(String from, String to, boolean replaces, long epoch) throws IOException {
    call(from, 9, new Frame().raw(operation()).text(from).text(to).u64(epoch).flag(replaces).done());
  }

  // ---- how it is asked ----

  private static byte[] operation() {
    return ByteBuffer.allocate(24).put(PROCESS).putLong(OPERATIONS.incrementAndGet()).array();
  }

  private ByteBuffer call(String path, int code, byte[] body) throws IOException {
    return exchange(path, connection -> answered(connection.call(code, body)));
  }

  private static ByteBuffer answered(Connection.Answer answer) throws RefusedException {
    if (answer.status() != Status.OK) {
      throw new RefusedException(answer.status(), Frame.text(answer.body()));
    }
    return answer.body();
  }

  /** Until a gateway has answered for good: they are asked in turn, and where each says that another has it, one takes it. */
  private <T> T exchange(String path, Exchange<T> exchange) throws IOException {
    long begun = System.nanoTime();
    int at = preferred;
    for (long pauseMs = 20; ; pauseMs = Math.min(2 * pauseMs, PAUSE_MS_MAX)) {
      int disowned = -1;
      boolean perhapsOwned = false;
      for (int asked = 0; asked < endpoints.size(); asked++, at = (at + 1) % endpoints.size()) {
        IOException reason;
        try {
          T found = attempt(endpoints.get(at), exchange);
          preferred = at;
          return found;
        } catch (RefusedException refused) {
          if (refused.status == Status.NOT_OWNER) {
            disowned = at;
          } else if (refused.status == Status.UNAVAILABLE || refused.status == Status.GONE) {
            perhapsOwned = true;
          } else {
            throw refused.asHadoops();
          }
          reason = refused;
        } catch (IOException unknown) {
          stopWhereInterrupted(unknown);
          reason = unknown;
        }
        if (System.nanoTime() - begun >= timeoutMs * 1_000_000) {
          throw new IOException(
              path + ": no gateway of " + gateways + " answered for good in " + timeoutMs + " ms; the last said: " + reason,
              reason);
        }
      }
      if (disowned >= 0 && !perhapsOwned) {
        take(path, endpoints.get(disowned));
        at = disowned;
      }
      pause(pauseMs);
    }
  }

  /** A kept connection breaks where the gateway was started again since, and hangs where the way to it is gone. */
  private <T> T attempt(Endpoint endpoint, Exchange<T> exchange) throws IOException {
    for (Connection kept = idleTo(endpoint); kept != null; kept = idleTo(endpoint)) {
      try {
        return use(kept, exchange);
      } catch (RefusedException refused) {
        throw refused;
      } catch (SocketTimeoutException hung) {
        dropIdle(endpoint); // they would hang one after the other; the next attempt connects
        throw hung;
      } catch (IOException broken) {
        stopWhereInterrupted(broken);
      }
    }
    return use(Connection.open(endpoint, token, tls, answerMs), exchange);
  }

  private <T> T use(Connection connection, Exchange<T> exchange) throws IOException {
    try {
      T found = exchange.with(connection);
      keep(connection);
      return found;
    } catch (RefusedException refused) {
      keep(connection);
      throw refused;
    } catch (IOException | RuntimeException wrong) {
      connection.close();
      throw wrong;
    }
  }

  private Connection idleTo(Endpoint endpoint) {
    for (Connection connection : idle) {
      if (connection.endpoint.equals(endpoint) && idle.remove(connection)) {
        return connection;
      }
    }
    return null;
  }

  private void dropIdle(Endpoint endpoint) {
    for (Connection kept = idleTo(endpoint); kept != null; kept = idleTo(endpoint)) {
      kept.close();
    }
  }

  private void keep(Connection connection) {
    if (idle.size() < IDLE_MAX) {
      idle.addFirst(connection);
    } else {
      connection.close();
    }
  }

  /** None of the gateways that answer has the root: this one takes it over. Where it cannot, the next round tells. */
  private void take(String path, Endpoint endpoint) throws IOException {
    try {
      attempt(endpoint, connection -> answered(connection.call(14, new Frame().text(path).done())));
    } catch (IOException untaken) {
      stopWhereInterrupted(untaken);
    }
  }

  private static void pause(long ms) throws InterruptedIOException {
    try {
      Thread.sleep(ms);
    } catch (InterruptedException stop) {
      Thread.currentThread().interrupt();
      throw new InterruptedIOException("interrupted while a gateway was waited for");
    }
  }

  /** Spark takes an InterruptedIOException for the end of a query that it stopped, and others for its failure. */
  private static void stopWhereInterrupted(IOException cause) throws InterruptedIOException {
    if (Thread.currentThread().isInterrupted()) {
      InterruptedIOException stop = new InterruptedIOException("interrupted while a gateway was asked");
      stop.initCause(cause);
      throw stop;
    }
  }
}

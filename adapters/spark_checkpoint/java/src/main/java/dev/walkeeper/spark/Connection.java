package dev.walkeeper.spark;

import java.io.BufferedInputStream;
import java.io.Closeable;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.net.StandardProtocolFamily;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.SocketChannel;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.SSLSocketFactory;

/**
 * One connection to a gateway, which has said hello. One request at a time.
 *
 * <p>A call ends by its answer, by an interrupt of the thread, or when its limit is over, also where the gateway does not
 * read. Behind an IOException the connection is closed, and whether the gateway did what was asked is unknown.
 */
final class Connection implements Closeable {
  private static final int MAGIC = 0x574B4757;
  private static final int VERSION = 1;
  private static final int FRAME_MAX = 4 * 1024 * 1024;
  private static final int CONNECT_MS = 5_000;
  private static final ScheduledThreadPoolExecutor LIMITS = limits();

  final Endpoint endpoint;
  private final SocketChannel channel;
  private final long limitMs;
  private DataInputStream in;
  private OutputStream out;
  private int number;
  private volatile boolean overdue;

  /** What a gateway answered. */
  record Answer(int status, ByteBuffer body) {}

  @FunctionalInterface
  private interface Work<T> {
    T done() throws IOException;
  }

  private Connection(Endpoint endpoint, SocketChannel channel, long limitMs) {
    this.endpoint = endpoint;
    this.channel = channel;
    this.limitMs = limitMs;
  }

  /** RefusedException: the gateway does not know the token, or the version. {@code limitMs} counts for each call. */
  static Connection open(Endpoint endpoint, String token, boolean tls, long limitMs) throws IOException {
    SocketChannel channel =
        endpoint.path() != null ? SocketChannel.open(StandardProtocolFamily.UNIX) : SocketChannel.open();
    Connection made = new Connection(endpoint, channel, limitMs);
    made.limited(() -> made.connect(tls));
    Answer hello = made.call(1, new Frame().u32(MAGIC).u32(VERSION).text(token).done());
    if (hello.status() != Status.OK) {
      made.close();
      throw new RefusedException(hello.status(), Frame.text(hello.body()));
    }
    return made;
  }

  private Void connect(boolean tls) throws IOException {
    InputStream input = Channels.newInputStream(channel);
    out = Channels.newOutputStream(channel);
    if (endpoint.path() != null) {
      channel.connect(endpoint.address());
    } else {
      channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
      channel.socket().connect(endpoint.address(), CONNECT_MS);
      if (tls) {
        Socket secured = secured(channel.socket());
        input = secured.getInputStream();
        out = secured.getOutputStream();
      }
    }
    in = new DataInputStream(new BufferedInputStream(input, 64 * 1024));
    return null;
  }

  /** The token is shown only to who has a certificate for this host. */
  private SSLSocket secured(Socket plain) throws IOException {
    SSLSocketFactory factory = (SSLSocketFactory) SSLSocketFactory.getDefault();
    SSLSocket secured = (SSLSocket) factory.createSocket(plain, endpoint.host(), endpoint.port(), true);
    SSLParameters parameters = secured.getSSLParameters();
    parameters.setEndpointIdentificationAlgorithm("HTTPS");
    secured.setSSLParameters(parameters);
    secured.startHandshake();
    return secured;
  }

  /** Sends a request, and waits for its answer. */
  Answer call(int code, byte[] body) throws IOException {
    number++;
    ByteBuffer frame = ByteBuffer.allocate(9 + body.length);
    frame.putInt(body.length + 5).putInt(number).put((byte) code).put(body);
    return limited(() -> {
      out.write(frame.array());
      out.flush();
      int length = in.readInt();
      if (length < 5 || length > FRAME_MAX || in.readInt() != number) {
        throw new EOFException(endpoint + " answers what was not asked");
      }
      int status = in.readUnsignedByte();
      byte[] answer = new byte[length - 5];
      in.readFully(answer);
      return new Answer(status, ByteBuffer.wrap(answer));
    });
  }

  private <T> T limited(Work<T> work) throws IOException {
    Future<?> limit = LIMITS.schedule(this::expire, limitMs, TimeUnit.MILLISECONDS);
    try {
      return work.done();
    } catch (IOException | RuntimeException wrong) {
      close();
      if (overdue) {
        throw new SocketTimeoutException(endpoint + " did not answer in " + limitMs + " ms");
      }
      throw wrong;
    } finally {
      limit.cancel(false);
    }
  }

  private void expire() {
    overdue = true;
    close();
  }

  /** Below TLS, which would wait until its last words are written. */
  @Override
  public void close() {
    try {
      channel.close();
    } catch (IOException ignored) {
      // Nothing is wanted of it any more.
    }
  }

  private static ScheduledThreadPoolExecutor limits() {
    ScheduledThreadPoolExecutor made = new ScheduledThreadPoolExecutor(1, work -> {
      Thread thread = new Thread(work, "walkeeper-gateway-limits");
      thread.setDaemon(true);
      return thread;
    });
    made.setRemoveOnCancelPolicy(true);
    return made;
  }
}

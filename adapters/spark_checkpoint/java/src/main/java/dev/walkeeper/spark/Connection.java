package dev.walkeeper.spark;

import java.io.BufferedInputStream;
import java.io.Closeable;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.SocketChannel;
import javax.net.ssl.SSLSocketFactory;

/** One connection to a gateway, which has said hello. One request at a time; after an IOException it is closed. */
final class Connection implements Closeable {
  private static final int MAGIC = 0x574B4757;
  private static final int VERSION = 1;
  private static final int FRAME_MAX = 4 * 1024 * 1024;
  private static final int CONNECT_MS = 5_000;

  final String endpoint;
  private final Closeable socket;
  private final DataInputStream in;
  private final OutputStream out;
  private int number;

  /** What a gateway answered. */
  record Answer(int status, ByteBuffer body) {}

  Connection(String endpoint, String token, boolean tls, int answerMs) throws IOException {
    this.endpoint = endpoint;
    InputStream input;
    if (endpoint.startsWith("unix:")) {
      SocketChannel channel = SocketChannel.open(UnixDomainSocketAddress.of(endpoint.substring("unix:".length())));
      socket = channel;
      input = Channels.newInputStream(channel);
      out = Channels.newOutputStream(channel);
    } else {
      Socket made = connected(endpoint, tls, answerMs);
      socket = made;
      input = made.getInputStream();
      out = made.getOutputStream();
    }
    in = new DataInputStream(new BufferedInputStream(input, 64 * 1024));
    try {
      Answer hello = call(1, new Frame().u32(MAGIC).u32(VERSION).text(token).done());
      if (hello.status() != Status.OK) {
        throw new RefusedException(hello.status(), Frame.text(hello.body()));
      }
    } catch (IOException | RuntimeException wrong) {
      close();
      throw wrong;
    }
  }

  private static Socket connected(String endpoint, boolean tls, int answerMs) throws IOException {
    int colon = endpoint.lastIndexOf(':');
    if (colon < 1) {
      throw new IOException(endpoint + " is no address of a gateway: HOST:PORT, or unix:PATH");
    }
    String host = endpoint.substring(0, colon).replaceAll("^\\[|\\]$", "");
    int port = Integer.parseInt(endpoint.substring(colon + 1));
    Socket plain = new Socket();
    try {
      plain.setTcpNoDelay(true);
      plain.setSoTimeout(answerMs);
      plain.connect(new InetSocketAddress(host, port), CONNECT_MS);
      return tls ? ((SSLSocketFactory) SSLSocketFactory.getDefault()).createSocket(plain, host, port, true) : plain;
    } catch (IOException | RuntimeException wrong) {
      plain.close();
      throw wrong;
    }
  }

  /** Sends a request, and waits for its answer. */
  Answer call(int code, byte[] body) throws IOException {
    number++;
    ByteBuffer frame = ByteBuffer.allocate(9 + body.length);
    frame.putInt(body.length + 5).putInt(number).put((byte) code).put(body);
    try {
      out.write(frame.array());
      out.flush();
      int length = in.readInt();
      int request = in.readInt();
      int status = in.readUnsignedByte();
      if (length < 5 || length > FRAME_MAX || request != number) {
        throw new EOFException(endpoint + " answers what was not asked");
      }
      return new Answer(status, ByteBuffer.wrap(in.readNBytes(length - 5)));
    } catch (IOException wrong) {
      close();
      throw wrong;
    }
  }

  @Override
  public void close() {
    try {
      socket.close();
    } catch (IOException ignored) {
      // Nothing is wanted of it any more.
    }
  }
}

package dev.walkeeper.spark;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.net.UnixDomainSocketAddress;
import java.net.UnknownHostException;

/** Where a gateway listens: {@code HOST:PORT}, an IPv6 host in brackets, or {@code unix:PATH}. {@code path} null: TCP. */
record Endpoint(String text, String host, int port, String path) {
  private static final String UNIX = "unix:";

  /** An IOException says what is wrong with it: no gateway is asked. */
  static Endpoint parse(String text) throws IOException {
    if (text.startsWith(UNIX) && text.length() > UNIX.length()) {
      return new Endpoint(text, null, 0, text.substring(UNIX.length()));
    }
    int colon = text.lastIndexOf(':');
    if (colon > 0 && text.substring(colon + 1).matches("[0-9]{1,5}")) {
      int port = Integer.parseInt(text.substring(colon + 1));
      if (port <= 65_535) {
        return new Endpoint(text, text.substring(0, colon).replaceAll("^\\[|\\]$", ""), port, null);
      }
    }
    throw new IOException("\"" + text + "\" is no address of a gateway: HOST:PORT, or unix:PATH");
  }

  /** A host is looked up anew each time. */
  SocketAddress address() throws UnknownHostException {
    if (path != null) {
      return UnixDomainSocketAddress.of(path);
    }
    InetSocketAddress found = new InetSocketAddress(host, port);
    if (found.isUnresolved()) {
      throw new UnknownHostException(host);
    }
    return found;
  }

  @Override
  public String toString() {
    return text;
  }
}

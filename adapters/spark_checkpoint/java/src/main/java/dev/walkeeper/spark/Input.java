package dev.walkeeper.spark;

import java.io.EOFException;
import java.io.IOException;
import org.apache.hadoop.fs.FSExceptionMessages;
import org.apache.hadoop.fs.FSInputStream;
import org.apache.hadoop.fs.FileSystem;

/** Reads a file in pieces of 1 MiB. A file that is replaced meanwhile is not read on. */
final class Input extends FSInputStream {
  private static final int PIECE = 1024 * 1024;

  private final GatewayClient client;
  private final String name;
  private final FileSystem.Statistics statistics;
  private final FileEntry file;
  private byte[] piece;
  private long pieceAt;
  private long at;
  private boolean closed;

  Input(GatewayClient client, String name, FileSystem.Statistics statistics) throws IOException {
    this.client = client;
    this.name = name;
    this.statistics = statistics;
    GatewayClient.Content first = client.get(name, 0, PIECE);
    file = first.file();
    piece = first.bytes();
  }

  @Override
  public synchronized int read() throws IOException {
    byte[] one = new byte[1];
    return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
  }

  @Override
  public synchronized int read(byte[] into, int offset, int count) throws IOException {
    checkOpen();
    java.util.Objects.checkFromIndexSize(offset, count, into.length);
    if (count == 0) {
      return 0;
    }
    if (at >= file.size()) {
      return -1;
    }
    if (at < pieceAt || at >= pieceAt + piece.length) {
      GatewayClient.Content next = client.get(name, at, PIECE);
      if (next.file().version() != file.version()) {
        throw new IOException(name + " was replaced while it was read");
      }
      if (next.bytes().length == 0) {
        throw new EOFException(name + " ends at " + at + " of " + file.size() + " bytes");
      }
      piece = next.bytes();
      pieceAt = at;
    }
    int from = (int) (at - pieceAt);
    int taken = Math.min(count, piece.length - from);
    System.arraycopy(piece, from, into, offset, taken);
    at += taken;
    if (statistics != null) {
      statistics.incrementBytesRead(taken);
    }
    return taken;
  }

  @Override
  public synchronized void seek(long position) throws IOException {
    checkOpen();
    if (position < 0) {
      throw new EOFException(FSExceptionMessages.NEGATIVE_SEEK);
    }
    if (position > file.size()) {
      throw new EOFException(FSExceptionMessages.CANNOT_SEEK_PAST_EOF);
    }
    at = position;
  }

  @Override
  public synchronized long getPos() throws IOException {
    checkOpen();
    return at;
  }

  @Override
  public boolean seekToNewSource(long target) {
    return false;
  }

  @Override
  public synchronized int available() throws IOException {
    checkOpen();
    return (int) Math.min(Integer.MAX_VALUE, file.size() - at);
  }

  @Override
  public synchronized void close() {
    closed = true;
    piece = new byte[0];
  }

  private void checkOpen() throws IOException {
    if (closed) {
      throw new IOException(FSExceptionMessages.STREAM_IS_CLOSED);
    }
  }
}

package dev.walkeeper.spark;

import java.io.BufferedOutputStream;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;

/** The bytes of a file that is not published yet: in memory, and above 4 MiB in a temporary file of this process. */
final class WriteBuffer extends OutputStream {
  private static final int MEMORY_MAX = 4 * 1024 * 1024;

  private ByteArrayOutputStream memory = new ByteArrayOutputStream(4096);
  private Path spilled;
  private OutputStream file;
  private long size;
  private IOException failure;

  @Override
  public void write(int value) throws IOException {
    write(new byte[] {(byte) value}, 0, 1);
  }

  @Override
  public void write(byte[] bytes, int offset, int count) throws IOException {
    if (memory == null && file == null) {
      throw new IOException("this file was closed or cancelled");
    }
    try {
      if (file == null && size + count > MEMORY_MAX) {
        spilled = Files.createTempFile("walkeeper-", ".part");
        file = new BufferedOutputStream(Files.newOutputStream(spilled), 64 * 1024);
        memory.writeTo(file);
        memory = null;
      }
      (file == null ? memory : file).write(bytes, offset, count);
      size += count;
    } catch (IOException wrong) {
      failure = wrong;
      throw wrong;
    }
  }

  /** All bytes are there. IOException: a write had failed, and what is there must not be published. */
  void finish() throws IOException {
    if (failure != null) {
      throw new IOException("a write to this file had failed: " + failure.getMessage(), failure);
    }
    if (file != null) {
      file.flush();
    }
  }

  long size() {
    return size;
  }

  /** Behind {@link #finish}, from the first byte on; it may be read several times. */
  InputStream read() throws IOException {
    if (file == null) {
      return new ByteArrayInputStream(memory.toByteArray());
    }
    return Files.newInputStream(spilled);
  }

  /** Lets go of the bytes. */
  @Override
  public void close() throws IOException {
    memory = null;
    if (file != null) {
      OutputStream ended = file;
      file = null;
      try {
        ended.close();
      } finally {
        Files.deleteIfExists(spilled);
      }
    }
  }
}

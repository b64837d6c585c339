package dev.walkeeper.spark;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.ByteArrayInputStream;
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

  @Override
  public void write(int value) throws IOException {
    write(new byte[] {(byte) value}, 0, 1);
  }

  @Override
  public void write(byte[] bytes, int offset, int count) throws IOException {
    if (memory == null && file == null) {
      throw new IOException("this file was closed or cancelled");
    }
    if (file == null && size + count > MEMORY_MAX) {
      spilled = Files.createTempFile("walkeeper-", ".part");
      file = Files.newOutputStream(spilled);
      memory.writeTo(file);
      memory = null;
    }
    (file == null ? memory : file).write(bytes, offset, count);
    size += count;
  }

  long size() {
    return size;
  }

  /** From the first byte on; it may be read several times. */
  InputStream read() throws IOException {
    if (file == null) {
      return new ByteArrayInputStream(memory.toByteArray());
    }
    file.flush();
    return Files.newInputStream(spilled);
  }

  /** Lets go of the bytes. */
  @Override
  public void close() throws IOException {
    memory = null;
    if (file != null) {
      file.close();
      file = null;
      Files.deleteIfExists(spilled);
    }
  }
}

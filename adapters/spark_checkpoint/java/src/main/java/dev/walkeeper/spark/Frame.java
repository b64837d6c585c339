package dev.walkeeper.spark;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

/** The body of a request, field by field (docs/formats/gateway_protocol.md). */
final class Frame {
  private final ByteArrayOutputStream bytes = new ByteArrayOutputStream(256);

  Frame raw(byte[] given) {
    bytes.write(given, 0, given.length);
    return this;
  }

  Frame flag(boolean value) {
    bytes.write(value ? 1 : 0);
    return this;
  }

  Frame u32(int value) {
    return raw(ByteBuffer.allocate(4).putInt(value).array());
  }

  Frame u64(long value) {
    return raw(ByteBuffer.allocate(8).putLong(value).array());
  }

  Frame text(String value) {
    return bytes(value.getBytes(StandardCharsets.UTF_8));
  }

  Frame bytes(byte[] given) {
    return u32(given.length).raw(given);
  }

  byte[] done() {
    return bytes.toByteArray();
  }

  static String text(ByteBuffer body) {
    byte[] taken = new byte[body.getInt()];
    body.get(taken);
    return new String(taken, StandardCharsets.UTF_8);
  }

  static byte[] bytes(ByteBuffer body) {
    byte[] taken = new byte[body.getInt()];
    body.get(taken);
    return taken;
  }

  static FileEntry entry(String name, ByteBuffer body) {
    boolean isDirectory = body.get() == 1;
    return new FileEntry(name, isDirectory, body.getLong(), body.getLong(), body.getLong());
  }
}

package dev.walkeeper.spark;

/** What a gateway answers (docs/formats/gateway_protocol.md). */
final class Status {
  static final int OK = 0;
  static final int NOT_FOUND = 1;
  static final int EXISTS = 2;
  static final int NOT_EMPTY = 3;
  static final int IS_A_DIRECTORY = 4;
  static final int NOT_A_DIRECTORY = 5;
  static final int FENCED = 6;
  static final int NOT_OWNER = 7;
  static final int UNAVAILABLE = 9;
  static final int GONE = 12;

  private Status() {}
}

package dev.walkeeper.spark;

import java.io.IOException;

/** Another driver has taken the checkpoint over; its text names it. Nothing was changed, and trying again does not help. */
public final class FencedException extends IOException {
  private static final long serialVersionUID = 1L;

  FencedException(String message) {
    super(message);
  }
}

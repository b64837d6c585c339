package dev.walkeeper.spark;

import java.io.FileNotFoundException;
import java.io.IOException;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.ParentNotDirectoryException;
import org.apache.hadoop.fs.PathIsNotEmptyDirectoryException;

/** A gateway answered a request by another status than ok. */
final class RefusedException extends IOException {
  private static final long serialVersionUID = 1L;
  final int status;

  RefusedException(int status, String message) {
    super(message);
    this.status = status;
  }

  /** The exception that callers of Hadoop's interfaces expect of a change; of a read, a directory is none. */
  IOException asHadoops() {
    return switch (status) {
      case Status.NOT_FOUND -> new FileNotFoundException(getMessage());
      case Status.EXISTS, Status.IS_A_DIRECTORY -> new FileAlreadyExistsException(getMessage());
      case Status.NOT_EMPTY -> new PathIsNotEmptyDirectoryException(getMessage());
      case Status.NOT_A_DIRECTORY -> new ParentNotDirectoryException(getMessage());
      case Status.FENCED -> new FencedException(getMessage());
      default -> this;
    };
  }
}

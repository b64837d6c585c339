package walkeeper.interop;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.StandardCopyOption;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Stream;
import org.apache.commons.io.FileUtils;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Which directories of this machine are in walkeeper, and where: {@code file:/tmp/a} is {@code walkeeper:///here/tmp/a}.
 *
 * <p>Tests look into such a directory and change files there without Hadoop. So each change in walkeeper is copied to the
 * directory when it is made, and before walkeeper is asked for a file, what a test did to its copy is done to the file.
 */
public final class Mapping {
  private static final String ROOT = "/here";
  private static final Set<String> DIRECTORIES = ConcurrentHashMap.newKeySet();
  private static final Map<java.nio.file.Path, String> COPIES = new HashMap<>();

  private Mapping() {}

  /** From now on it is in walkeeper, with what a test has put there. */
  static void add(Path directory, Configuration conf) throws IOException {
    if (has(directory) || !DIRECTORIES.add(directory.toUri().getPath())) {
      return;
    }
    java.nio.file.Path found = local(directory);
    if (Files.isDirectory(found)) {
      try (Stream<java.nio.file.Path> below = Files.walk(found)) {
        for (java.nio.file.Path each : below.filter(Files::isRegularFile).toList()) {
          takeChange(each, files(conf));
        }
      }
    }
  }

  public static boolean has(Path path) {
    for (Path at = path; at != null; at = at.getParent()) {
      if (DIRECTORIES.contains(at.toUri().getPath())) {
        return true;
      }
    }
    return false;
  }

  public static FileSystem files(Configuration conf) throws IOException {
    return FileSystem.get(URI.create("walkeeper:///"), conf);
  }

  /** Where it is in walkeeper. */
  public static Path there(Path here) {
    return new Path("walkeeper", null, ROOT + here.toUri().getPath());
  }

  static Path here(Path there) {
    return new Path("file", null, there.toUri().getPath().substring(ROOT.length()));
  }

  public static FileStatus here(FileStatus there) {
    there.setPath(here(there.getPath()));
    return there;
  }

  /** The same, for who is about to ask: with what a test did to the copies of this file, or of the files of this directory. */
  public static Path looked(Path here, Configuration conf) throws IOException {
    synchronized (COPIES) {
      java.nio.file.Path copy = local(here);
      takeChange(copy, files(conf));
      for (java.nio.file.Path each : List.copyOf(COPIES.keySet())) {
        if (copy.equals(each.getParent())) {
          takeChange(each, files(conf));
        }
      }
      if (Files.isDirectory(copy)) {
        try (Stream<java.nio.file.Path> children = Files.list(copy)) {
          for (java.nio.file.Path each : children.toList()) {
            takeChange(each, files(conf));
          }
        }
      }
    }
    return there(here);
  }

  /** What walkeeper has at this path is copied, or gone. */
  public static void changed(Path here, Configuration conf) throws IOException {
    synchronized (COPIES) {
      java.nio.file.Path copy = local(here);
      FileStatus status = statusOf(there(here), files(conf));
      if (status == null) {
        COPIES.keySet().removeIf(each -> each.startsWith(copy));
        FileUtils.deleteQuietly(copy.toFile());
      } else if (status.isDirectory()) {
        Files.createDirectories(copy);
      } else {
        Files.createDirectories(copy.getParent());
        try (InputStream in = files(conf).open(there(here))) {
          Files.copy(in, copy, StandardCopyOption.REPLACE_EXISTING);
        }
        COPIES.put(copy, stamp(copy));
      }
    }
  }

  private static void takeChange(java.nio.file.Path copy, FileSystem files) throws IOException {
    synchronized (COPIES) {
      Path there = there(new Path(copy.toUri()));
      if (Files.isRegularFile(copy) && !stamp(copy).equals(COPIES.get(copy))) {
        try (OutputStream out = files.create(there, true)) {
          Files.copy(copy, out);
        }
        COPIES.put(copy, stamp(copy));
      } else if (!Files.exists(copy) && COPIES.remove(copy) != null) {
        files.delete(there, false);
      }
    }
  }

  private static FileStatus statusOf(Path there, FileSystem files) throws IOException {
    try {
      return files.getFileStatus(there);
    } catch (FileNotFoundException absent) {
      return null;
    }
  }

  private static java.nio.file.Path local(Path here) {
    return java.nio.file.Path.of(here.toUri().getPath());
  }

  private static String stamp(java.nio.file.Path copy) throws IOException {
    return Files.size(copy) + " " + Files.getLastModifiedTime(copy);
  }
}

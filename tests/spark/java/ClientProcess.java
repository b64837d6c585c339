import dev.walkeeper.spark.WalkeeperCheckpointFileManager;
import java.io.BufferedReader;
import java.io.Closeable;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Collectors;
import java.util.zip.CRC32;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileContext;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Options.Rename;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream;

/**
 * Uses the Java client as java_client.py asks for. A line of input is a number, an action and its arguments, with tabs
 * between them; the line of output that answers it has the number, "returned" or the class of an exception, and a text.
 * Each action has a thread. What it makes (a file system, a manager, a stream) is named by its number.
 */
final class ClientProcess {
  private static final Map<String, Object> MADE = new ConcurrentHashMap<>();
  private static final Map<String, Thread> THREADS = new ConcurrentHashMap<>();

  private ClientProcess() {}

  public static void main(String[] arguments) throws IOException {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      String[] words = line.split("\t", -1);
      Thread thread = new Thread(() -> act(words));
      thread.setDaemon(true);
      THREADS.put(words[0], thread);
      thread.start();
    }
    System.exit(0);
  }

  private static void act(String[] words) {
    String outcome = "returned";
    String text;
    try {
      text = String.valueOf(done(words[0], words[1], Arrays.copyOfRange(words, 2, words.length)));
    } catch (Throwable error) {
      outcome = error.getClass().getSimpleName();
      text = String.valueOf(error.getMessage());
    }
    System.out.println(words[0] + "\t" + outcome + "\t" + text.replace('\n', ' '));
    System.out.flush();
  }

  private static Object done(String number, String action, String[] given) throws Exception {
    return switch (action) {
      case "interrupt" -> {
        THREADS.get(given[0]).interrupt();
        yield "";
      }

      case "file system" -> made(number, FileSystem.newInstance(new Path("walkeeper:///").toUri(), settings(given, 0)));
      case "create" -> made(number, files(given).create(path(given), Boolean.parseBoolean(given[2])));
      case "open" -> made(number, files(given).open(path(given)));
      case "exists" -> files(given).exists(path(given));
      case "mkdirs" -> files(given).mkdirs(path(given));
      case "delete" -> files(given).delete(path(given), Boolean.parseBoolean(given[2]));
      case "list" -> names(files(given).listStatus(path(given)));
      case "read" -> {
        try (FSDataInputStream in = files(given).open(path(given))) {
          yield sum(in.readAllBytes());
        }
      }
      case "rename over" -> {
        FileContext.getFileContext(files(given).getUri(), files(given).getConf())
            .rename(path(given), new Path(given[2]), Rename.OVERWRITE);
        yield "";
      }

      case "manager" -> made(number, new WalkeeperCheckpointFileManager(path(given), settings(given, 2)));
      case "create checkpoint directory" -> ((CheckpointFileManager) MADE.get(given[0])).createCheckpointDirectory();
      case "create atomic" -> {
        boolean overwrites = Boolean.parseBoolean(given[2]);
        yield made(number, ((CheckpointFileManager) MADE.get(given[0])).createAtomic(path(given), overwrites));
      }
      case "cancel" -> {
        ((CancellableFSDataOutputStream) MADE.get(given[0])).cancel();
        yield "";
      }

      case "write" -> {
        ((OutputStream) MADE.get(given[0])).write(content(Integer.parseInt(given[1])));
        yield "";
      }
      case "read on" -> sum(((FSDataInputStream) MADE.get(given[0])).readNBytes(Integer.parseInt(given[1])));
      case "close" -> {
        ((Closeable) MADE.get(given[0])).close();
        yield "";
      }
      default -> throw new IllegalArgumentException(action);
    };
  }

  private static String made(String number, Object made) {
    MADE.put(number, made);
    return number;
  }

  private static FileSystem files(String[] given) {
    return (FileSystem) MADE.get(given[0]);
  }

  private static Path path(String[] given) {
    return new Path(given[1]);
  }

  private static Configuration settings(String[] given, int from) {
    Configuration made = new Configuration();
    for (String each : Arrays.copyOfRange(given, from, given.length)) {
      made.set(each.substring(0, each.indexOf('=')), each.substring(each.indexOf('=') + 1));
    }
    return made;
  }

  private static String names(FileStatus[] listed) {
    return Arrays.stream(listed).map(each -> each.getPath().getName()).collect(Collectors.joining(" "));
  }

  private static byte[] content(int size) {
    byte[] made = new byte[size];
    for (int i = 0; i < size; i++) {
      made[i] = (byte) (31 * i + size);
    }
    return made;
  }

  private static String sum(byte[] bytes) {
    CRC32 sum = new CRC32();
    sum.update(bytes);
    return bytes.length + " " + sum.getValue();
  }
}

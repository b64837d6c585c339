package dev.walkeeper.spark;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.InetAddress;
import java.net.URI;
import java.net.UnknownHostException;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;
import org.apache.spark.SparkEnv;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;

/**
 * What Spark keeps checkpoints by. Of {@code walkeeper:} paths each file is one durable put; all other paths go to the
 * manager that Spark would take, as the setting counts for every path of a session.
 *
 * <p>{@link #createCheckpointDirectory} takes the directory over, and Spark calls it once at the start of a query. Managers
 * that are made later for this query find the epoch in their configuration, and keep it: a query that was taken over does
 * not become the owner by the epoch of the next one.
 */
public final class WalkeeperCheckpointFileManager implements CheckpointFileManager {
  private static final String KEY = "spark.sql.streaming.checkpointFileManagerClass";

  private final CheckpointFileManager other;
  private final Path root;
  private final WalkeeperFileSystem files;
  private final Configuration conf;
  private volatile long epoch;

  public WalkeeperCheckpointFileManager(Path path, Configuration conf) throws IOException {
    URI uri = path.toUri().getScheme() == null ? FileSystem.getDefaultUri(conf) : path.toUri();
    if (!WalkeeperFileSystem.SCHEME.equals(uri.getScheme())) {
      Configuration without = new Configuration(conf);
      without.unset(KEY);
      other = CheckpointFileManager.create(path, without);
      root = path;
      files = null;
      this.conf = null;
      return;
    }
    other = null;
    files = (WalkeeperFileSystem) path.getFileSystem(conf);
    root = files.makeQualified(path);
    this.conf = conf;
    epoch = Epochs.of(files.client().gateways, WalkeeperFileSystem.name(root), conf);
  }

  @Override
  public CancellableFSDataOutputStream createAtomic(Path path, boolean overwriteIfPossible) {
    return other != null ? other.createAtomic(path, overwriteIfPossible) : new Output(path, overwriteIfPossible);
  }

  @Override
  public FSDataInputStream open(Path path) {
    return other != null ? other.open(path) : plainly(() -> files.open(path));
  }

  @Override
  public FileStatus[] list(Path path, PathFilter filter) {
    return other != null ? other.list(path, filter) : plainly(() -> files.listStatus(path, filter));
  }

  @Override
  public void mkdirs(Path path) {
    if (other != null) {
      other.mkdirs(path);
    } else {
      plainly(() -> {
        files.client().mkdir(name(path), epochOf(path));
        return null;
      });
    }
  }

  /** Spark looks before it puts: a query that was taken over is told so here, and not that a file is there. */
  @Override
  public boolean exists(Path path) {
    return other != null ? other.exists(path) : plainly(() -> {
      try {
        files.client().stat(name(path), epoch);
        return true;
      } catch (FileNotFoundException absent) {
        return false;
      }
    });
  }

  @Override
  public void delete(Path path) {
    if (other != null) {
      other.delete(path);
    } else {
      plainly(() -> files.client().delete(name(path), true, epochOf(path)));
    }
  }

  @Override
  public boolean isLocal() {
    return other != null && other.isLocal();
  }

  /** Makes this query the owner: changes of an earlier one are refused from now on. */
  @Override
  public Path createCheckpointDirectory() {
    return other != null ? other.createCheckpointDirectory() : plainly(() -> {
      String name = name(root);
      epoch = files.client().acquire(name, owner());
      Epochs.owned(files.client().gateways, name, epoch);
      return root;
    });
  }

  @Override
  public void close() {
    if (other != null) {
      other.close();
    }
  }

  private String name(Path path) {
    return WalkeeperFileSystem.name(files.makeQualified(path));
  }

  private long epochOf(Path path) {
    return epoch != 0 ? epoch : Epochs.of(files.client().gateways, name(path), conf);
  }

  private static String owner() {
    String host;
    try {
      host = InetAddress.getLocalHost().getHostName();
    } catch (UnknownHostException unknown) {
      host = "an unknown host";
    }
    SparkEnv spark = SparkEnv.get();
    String application = spark == null
        ? ""
        : ", Spark application " + spark.conf().get("spark.app.name", "?") + " (" + spark.conf().get("spark.app.id", "?") + ")";
    return "process " + ProcessHandle.current().pid() + " on " + host + application + " at "
        + Instant.now().truncatedTo(ChronoUnit.SECONDS);
  }

  /** A file that becomes visible, whole, when it is closed. */
  private final class Output extends CancellableFSDataOutputStream {
    private final WriteBuffer buffer;
    private final Path path;
    private final boolean replaces;
    private boolean done;

    Output(Path path, boolean replaces) {
      this(path, replaces, new WriteBuffer());
    }

    private Output(Path path, boolean replaces, WriteBuffer buffer) {
      super(buffer);
      this.buffer = buffer;
      this.path = path;
      this.replaces = replaces;
    }

    @Override
    public synchronized void close() throws IOException {
      if (done) {
        return;
      }
      done = true;
      try {
        flush();
        files.client().put(name(path), buffer, replaces, epochOf(path));
      } finally {
        buffer.close();
      }
    }

    @Override
    public synchronized void cancel() {
      done = true;
      plainly(() -> {
        buffer.close();
        return null;
      });
    }
  }

  @FunctionalInterface
  private interface Call<T> {
    T made() throws IOException;
  }

  /** Spark's interface declares no exceptions, and expects IOExceptions. */
  private static <T> T plainly(Call<T> call) {
    try {
      return call.made();
    } catch (IOException error) {
      throw WalkeeperCheckpointFileManager.<RuntimeException>unchecked(error);
    }
  }

  @SuppressWarnings("unchecked")
  private static <E extends Throwable> E unchecked(Throwable error) throws E {
    throw (E) error;
  }
}

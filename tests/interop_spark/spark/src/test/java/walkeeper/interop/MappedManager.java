package walkeeper.interop;

import dev.walkeeper.spark.WalkeeperCheckpointFileManager;
import java.io.IOException;
import java.util.Arrays;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;

/** For suites that know temporary directories of this machine alone: what they keep in one is in walkeeper ({@link Mapping}). */
public final class MappedManager implements CheckpointFileManager {
  private final CheckpointFileManager walkeeper;
  private final Configuration conf;

  public MappedManager(Path path, Configuration conf) throws IOException {
    this.conf = conf;
    Mapping.add(path, conf);
    walkeeper = new WalkeeperCheckpointFileManager(Mapping.there(path), conf);
  }

  @Override
  public CancellableFSDataOutputStream createAtomic(Path path, boolean overwriteIfPossible) {
    return new Output(path, walkeeper.createAtomic(looked(path), overwriteIfPossible));
  }

  @Override
  public FSDataInputStream open(Path path) {
    return walkeeper.open(looked(path));
  }

  @Override
  public FileStatus[] list(Path path, PathFilter filter) {
    return Arrays.stream(walkeeper.list(looked(path), there -> filter.accept(Mapping.here(there))))
        .map(Mapping::here)
        .toArray(FileStatus[]::new);
  }

  @Override
  public void mkdirs(Path path) {
    walkeeper.mkdirs(looked(path));
    changed(path);
  }

  @Override
  public boolean exists(Path path) {
    return walkeeper.exists(looked(path));
  }

  @Override
  public void delete(Path path) {
    walkeeper.delete(looked(path));
    changed(path);
  }

  @Override
  public boolean isLocal() {
    return walkeeper.isLocal();
  }

  @Override
  public Path createCheckpointDirectory() {
    Path made = Mapping.here(walkeeper.createCheckpointDirectory());
    changed(made);
    return made;
  }

  private Path looked(Path path) {
    try {
      return Mapping.looked(path, conf);
    } catch (IOException error) {
      throw MappedManager.<RuntimeException>unchecked(error);
    }
  }

  private void changed(Path path) {
    try {
      Mapping.changed(path, conf);
    } catch (IOException error) {
      throw MappedManager.<RuntimeException>unchecked(error);
    }
  }

  @SuppressWarnings("unchecked")
  private static <E extends Throwable> E unchecked(Throwable error) throws E {
    throw (E) error;
  }

  private final class Output extends CancellableFSDataOutputStream {
    private final Path path;
    private final CancellableFSDataOutputStream out;

    Output(Path path, CancellableFSDataOutputStream out) {
      super(out);
      this.path = path;
      this.out = out;
    }

    @Override
    public void close() throws IOException {
      out.close();
      Mapping.changed(path, conf);
    }

    @Override
    public void cancel() {
      out.cancel();
    }
  }
}

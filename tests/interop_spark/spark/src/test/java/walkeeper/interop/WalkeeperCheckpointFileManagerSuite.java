package walkeeper.interop;

import dev.walkeeper.spark.WalkeeperCheckpointFileManager;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.CheckpointFileManagerTests;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;
import scala.Function1;
import scala.runtime.BoxedUnit;

/** Spark's tests of a manager of checkpoints, of ours. */
public final class WalkeeperCheckpointFileManagerSuite extends CheckpointFileManagerTests {
  static Path newPath() {
    return new Path("walkeeper:///suite/" + UUID.randomUUID());
  }

  @Override
  public CheckpointFileManager createManager(Path path) {
    try {
      return new WalkeeperCheckpointFileManager(path, new Configuration());
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  @Override
  public void withTempHadoopPath(Function1<Path, BoxedUnit> test) {
    test.apply(newPath());
  }

  /** There are none. */
  @Override
  public void checkLeakingCrcFiles(Path path) {}
}

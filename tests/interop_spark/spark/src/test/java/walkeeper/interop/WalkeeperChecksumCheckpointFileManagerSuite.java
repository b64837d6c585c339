package walkeeper.interop;

import dev.walkeeper.spark.WalkeeperCheckpointFileManager;
import java.io.IOException;
import java.io.UncheckedIOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.ChecksumCheckpointFileManagerSuite;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;
import scala.Function1;
import scala.runtime.BoxedUnit;

/** Spark's tests of its manager of files with checksums, over ours. */
public final class WalkeeperChecksumCheckpointFileManagerSuite extends ChecksumCheckpointFileManagerSuite {
  @Override
  public CheckpointFileManager createNoChecksumManager(Path path) {
    try {
      return new WalkeeperCheckpointFileManager(path, new Configuration());
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  @Override
  public void withTempHadoopPath(Function1<Path, BoxedUnit> test) {
    test.apply(WalkeeperCheckpointFileManagerSuite.newPath());
  }

  /** There are none, but for those that are under test. */
  @Override
  public void checkLeakingCrcFiles(Path path) {}
}

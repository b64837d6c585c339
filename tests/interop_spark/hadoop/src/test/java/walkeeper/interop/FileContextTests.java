package walkeeper.interop;

import java.net.URI;
import org.apache.hadoop.fs.FCStatisticsBaseTest;
import org.apache.hadoop.fs.FileContext;
import org.apache.hadoop.fs.FileContextCreateMkdirBaseTest;
import org.apache.hadoop.fs.FileContextMainOperationsBaseTest;
import org.apache.hadoop.fs.FileContextTestHelper;
import org.apache.hadoop.fs.FileContextURIBase;
import org.apache.hadoop.fs.FileContextUtilBase;
import org.apache.hadoop.fs.FileSystem.Statistics;
import org.apache.hadoop.fs.UnsupportedFileSystemException;
import org.junit.jupiter.api.Assertions;
import org.junit.jupiter.api.BeforeEach;

/** Hadoop's tests of a FileContext. */
final class FileContextTests {
  private FileContextTests() {}

  private static FileContext context() throws UnsupportedFileSystemException {
    return FileContext.getFileContext(WalkeeperContract.FILES, WalkeeperContract.configuration());
  }

  static final class CreateMkdir extends FileContextCreateMkdirBaseTest {
    @BeforeEach
    @Override
    public void setUp() throws Exception {
      fc = context();
      super.setUp();
    }

    @Override
    protected FileContextTestHelper createFileContextHelper() {
      return new FileContextTestHelper("/created");
    }
  }

  static final class MainOperations extends FileContextMainOperationsBaseTest {
    @BeforeEach
    @Override
    public void setUp() throws Exception {
      fc = context();
      super.setUp();
    }

    @Override
    protected FileContextTestHelper createFileContextHelper() {
      return new FileContextTestHelper("/context");
    }

    @Override
    protected boolean listCorruptedBlocksSupported() {
      return false;
    }
  }

  static final class Uris extends FileContextURIBase {
    @BeforeEach
    @Override
    public void setUp() throws Exception {
      fc1 = context();
      fc2 = fc1;
      super.setUp();
    }
  }

  static final class Util extends FileContextUtilBase {
    @BeforeEach
    @Override
    public void setUp() throws Exception {
      fc = context();
      super.setUp();
    }
  }

  static final class Counted extends FCStatisticsBaseTest {
    @BeforeEach
    void open() throws Exception {
      fc = context();
      FileContext.clearStatistics(); // of the other classes
      fc.mkdir(fileContextTestHelper.getTestRootPath(fc, "test"), FileContext.DEFAULT_PERM, true);
    }

    @Override
    protected void verifyReadBytes(Statistics stats) {
      Assertions.assertEquals(2 * blockSize, stats.getBytesRead());
    }

    @Override
    protected void verifyWrittenBytes(Statistics stats) {
      Assertions.assertEquals(blockSize, stats.getBytesWritten());
    }

    @Override
    protected URI getFsUri() {
      return WalkeeperContract.FILES;
    }
  }
}

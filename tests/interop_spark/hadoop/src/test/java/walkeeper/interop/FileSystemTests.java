package walkeeper.interop;

import org.apache.hadoop.fs.FSMainOperationsBaseTest;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FileSystemContractBaseTest;
import org.junit.jupiter.api.BeforeEach;

/** Hadoop's older tests of a FileSystem. */
final class FileSystemTests {
  private FileSystemTests() {}

  static final class Contract extends FileSystemContractBaseTest {
    @BeforeEach
    void open() throws Exception {
      fs = FileSystem.newInstance(WalkeeperContract.FILES, WalkeeperContract.configuration()); // it knows a working directory
    }

    @Override
    protected String getDefaultWorkingDirectory() {
      return "/";
    }

    @Override
    protected boolean rootDirTestEnabled() {
      return true;
    }
  }

  static final class MainOperations extends FSMainOperationsBaseTest {
    MainOperations() {
      super("/main");
    }

    @Override
    protected FileSystem createFileSystem() throws Exception {
      return FileSystem.get(WalkeeperContract.FILES, WalkeeperContract.configuration());
    }
  }
}

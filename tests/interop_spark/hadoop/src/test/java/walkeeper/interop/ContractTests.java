package walkeeper.interop;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.contract.AbstractContractBulkDeleteTest;
import org.apache.hadoop.fs.contract.AbstractContractContentSummaryTest;
import org.apache.hadoop.fs.contract.AbstractContractCopyFromLocalTest;
import org.apache.hadoop.fs.contract.AbstractContractCreateTest;
import org.apache.hadoop.fs.contract.AbstractContractDeleteTest;
import org.apache.hadoop.fs.contract.AbstractContractGetFileStatusTest;
import org.apache.hadoop.fs.contract.AbstractContractMkdirTest;
import org.apache.hadoop.fs.contract.AbstractContractOpenTest;
import org.apache.hadoop.fs.contract.AbstractContractRenameTest;
import org.apache.hadoop.fs.contract.AbstractContractRootDirectoryTest;
import org.apache.hadoop.fs.contract.AbstractContractSeekTest;
import org.apache.hadoop.fs.contract.AbstractContractVectoredReadTest;
import org.apache.hadoop.fs.contract.AbstractFSContract;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.MethodSource;

/** Hadoop's contract of a FileSystem, a class for each part of it. */
final class ContractTests {
  private ContractTests() {}

  static final class BulkDelete extends AbstractContractBulkDeleteTest {
    @Override
    protected AbstractFSContract createContract(Configuration conf) {
      return new WalkeeperContract(conf);
    }
  }

  static final class ContentSummary extends AbstractContractContentSummaryTest {
    @Override
    protected AbstractFSContract createContract(Configuration conf) {
      return new WalkeeperContract(conf);
    }
  }

  static final class CopyFromLocal extends AbstractContractCopyFromLocalTest {
    @Override
    protected AbstractFSContract createContract(Configuration conf) {
      return new WalkeeperContract(conf);
    }
  }

  static final class Create extends AbstractContractCreateTest {
    @Override
    protected AbstractFSContract createContract(Configuration conf) {
      return new WalkeeperContract(conf);
    }
  }

  static final class Delete extends AbstractContractDeleteTest {
    @Override
    protected AbstractFSContract createContract(Configuration conf) {
      return new WalkeeperContract(conf);
    }
  }

  static final class GetFileStatus extends AbstractContractGetFileStatusTest {
    @Override
    protected AbstractFSContract createContract(Configuration conf) {
      return new WalkeeperContract(conf);
    }
  }

  static final class Mkdir extends AbstractContractMkdirTest {
    @Override
    protected AbstractFSContract createContract(Configuration conf) {
      return new WalkeeperContract(conf);
    }
  }

  static final class Open extends AbstractContractOpenTest {
    @Override
    protected AbstractFSContract createContract(Configuration conf) {
      return new WalkeeperContract(conf);
    }
  }

  static final class Rename extends AbstractContractRenameTest {
    @Override
    protected AbstractFSContract createContract(Configuration conf) {
      return new WalkeeperContract(conf);
    }
  }

  static final class RootDirectory extends AbstractContractRootDirectoryTest {
    @Override
    protected AbstractFSContract createContract(Configuration conf) {
      return new WalkeeperContract(conf);
    }
  }

  static final class Seek extends AbstractContractSeekTest {
    @Override
    protected AbstractFSContract createContract(Configuration conf) {
      return new WalkeeperContract(conf);
    }
  }

  @ParameterizedClass(name = "{0}")
  @MethodSource("params")
  static final class VectoredRead extends AbstractContractVectoredReadTest {
    VectoredRead(String bufferType) {
      super(bufferType);
    }

    @Override
    protected AbstractFSContract createContract(Configuration conf) {
      return new WalkeeperContract(conf);
    }
  }
}

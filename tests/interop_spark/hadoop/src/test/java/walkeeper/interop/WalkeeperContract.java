package walkeeper.interop;

import java.io.IOException;
import java.net.URI;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.contract.AbstractFSContract;

/** Files behind the gateway of the property {@code gateway.address}; what they do is in contract/walkeeper.xml. */
final class WalkeeperContract extends AbstractFSContract {
  static final String OPTIONS = "contract/walkeeper.xml";
  static final URI FILES = URI.create("walkeeper:///");

  WalkeeperContract(Configuration conf) {
    super(conf);
    addConfResource(OPTIONS);
  }

  /** What a FileSystem or a FileContext of {@link #FILES} needs. */
  static Configuration configuration() {
    Configuration made = new Configuration();
    made.addResource(OPTIONS);
    return made;
  }

  @Override
  public FileSystem getTestFileSystem() throws IOException {
    return FileSystem.get(FILES, getConf());
  }

  @Override
  public String getScheme() {
    return "walkeeper";
  }

  @Override
  public Path getTestPath() {
    return new Path("/contract");
  }
}

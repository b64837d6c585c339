package dev.walkeeper.spark;

import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.DelegateToFileSystem;

/** {@link WalkeeperFileSystem} for users of FileContext. */
public final class WalkeeperFs extends DelegateToFileSystem {
  public WalkeeperFs(URI uri, Configuration conf) throws IOException, URISyntaxException {
    super(uri, new WalkeeperFileSystem(), conf, WalkeeperFileSystem.SCHEME, false);
  }

  @Override
  public int getUriDefaultPort() {
    return 0;
  }
}

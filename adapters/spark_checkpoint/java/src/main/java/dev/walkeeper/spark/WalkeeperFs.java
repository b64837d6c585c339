package dev.walkeeper.spark;

import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.fs.Path;

/** {@link WalkeeperFileSystem} for users of FileContext. */
public final class WalkeeperFs extends DelegateToFileSystem {
  public WalkeeperFs(URI uri, Configuration conf) throws IOException, URISyntaxException {
    super(uri, new WalkeeperFileSystem(), conf, WalkeeperFileSystem.SCHEME, false);
  }

  /** In one step; Hadoop's own deletes what is there first. */
  @Override
  public void renameInternal(Path from, Path to, boolean overwrites) throws IOException {
    checkPath(from);
    checkPath(to);
    ((WalkeeperFileSystem) fsImpl).rename(from, to, overwrites ? Options.Rename.OVERWRITE : Options.Rename.NONE);
  }
}

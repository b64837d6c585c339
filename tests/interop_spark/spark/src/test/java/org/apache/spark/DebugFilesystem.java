package org.apache.spark;

import java.io.IOException;
import java.util.Arrays;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;
import walkeeper.interop.Mapping;

/** In place of Spark's class of this name, which all its suites have for local files: some directories are in walkeeper. */
public class DebugFilesystem extends LocalFileSystem {
  private FileSystem walkeeper() throws IOException {
    return Mapping.files(getConf());
  }

  private Path looked(Path path) throws IOException {
    return Mapping.looked(path, getConf());
  }

  private void changed(Path path) throws IOException {
    Mapping.changed(path, getConf());
  }

  @Override
  public FSDataInputStream open(Path path, int bufferSize) throws IOException {
    return Mapping.has(path) ? walkeeper().open(looked(path), bufferSize) : super.open(path, bufferSize);
  }

  @Override
  public FSDataOutputStream create(
      Path path,
      FsPermission permission,
      boolean overwrite,
      int bufferSize,
      short replication,
      long blockSize,
      Progressable progress)
      throws IOException {
    if (!Mapping.has(path)) {
      return super.create(path, permission, overwrite, bufferSize, replication, blockSize, progress);
    }
    return new FSDataOutputStream(walkeeper().create(looked(path), overwrite), null) {
      @Override
      public void close() throws IOException {
        super.close();
        changed(path);
      }
    };
  }

  @Override
  public boolean rename(Path from, Path to) throws IOException {
    if (!Mapping.has(from)) {
      return super.rename(from, to);
    }
    boolean renamed = walkeeper().rename(looked(from), looked(to));
    changed(to);
    changed(from);
    return renamed;
  }

  @Override
  public boolean delete(Path path, boolean recursive) throws IOException {
    if (!Mapping.has(path)) {
      return super.delete(path, recursive);
    }
    boolean deleted = walkeeper().delete(looked(path), recursive);
    changed(path);
    return deleted;
  }

  @Override
  public FileStatus[] listStatus(Path path) throws IOException {
    return Mapping.has(path)
        ? Arrays.stream(walkeeper().listStatus(looked(path))).map(Mapping::here).toArray(FileStatus[]::new)
        : super.listStatus(path);
  }

  @Override
  public boolean mkdirs(Path path, FsPermission permission) throws IOException {
    return Mapping.has(path) ? mkdirs(path) : super.mkdirs(path, permission);
  }

  @Override
  public boolean mkdirs(Path path) throws IOException {
    if (!Mapping.has(path)) {
      return super.mkdirs(path);
    }
    boolean made = walkeeper().mkdirs(looked(path));
    changed(path);
    return made;
  }

  @Override
  public FileStatus getFileStatus(Path path) throws IOException {
    return Mapping.has(path) ? Mapping.here(walkeeper().getFileStatus(looked(path))) : super.getFileStatus(path);
  }
}

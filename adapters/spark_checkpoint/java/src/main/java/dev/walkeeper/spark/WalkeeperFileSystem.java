package dev.walkeeper.spark;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.URI;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.fs.ParentNotDirectoryException;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathIsNotEmptyDirectoryException;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;

/**
 * Files behind a gateway: {@code walkeeper:///root/a/b} behind those of {@code walkeeper.gateways}, or
 * {@code walkeeper://host:port/root/a/b}. A file becomes visible, whole and durable, when it is closed. There is no append.
 */
public final class WalkeeperFileSystem extends FileSystem {
  static final String SCHEME = "walkeeper";
  private static final long BLOCK_SIZE = 64L * 1024 * 1024;
  private static final FsPermission FILE = new FsPermission((short) 0644);
  private static final FsPermission DIRECTORY = new FsPermission((short) 0755);

  private final String user = System.getProperty("user.name", "");
  private URI uri;
  private Path workingDirectory;
  private GatewayClient client;

  @Override
  public void initialize(URI name, Configuration conf) throws IOException {
    super.initialize(name, conf);
    setConf(conf);
    String authority = name.getAuthority();
    client = GatewayClient.of(authority, conf);
    uri = URI.create(SCHEME + "://" + (authority == null ? "/" : authority));
    workingDirectory = new Path("/").makeQualified(uri, null);
  }

  GatewayClient client() {
    return client;
  }

  /** The path as the gateway knows it. */
  static String name(Path qualified) {
    return qualified.toUri().getPath();
  }

  private String at(Path path) {
    checkPath(path);
    return name(makeQualified(path));
  }

  private long epoch(String name) {
    return Epochs.of(client.gateways, name, null);
  }

  @Override
  public String getScheme() {
    return SCHEME;
  }

  @Override
  public URI getUri() {
    return uri;
  }

  @Override
  protected int getDefaultPort() {
    return 0;
  }

  @Override
  public String getCanonicalServiceName() {
    return null;
  }

  @Override
  public FSDataInputStream open(Path path, int bufferSize) throws IOException {
    return new FSDataInputStream(new Input(client, at(path), statistics));
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
    String name = at(path);
    try {
      FileEntry there = client.stat(name);
      if (there.isDirectory() || !overwrite) {
        throw new FileAlreadyExistsException(path + " is there already");
      }
    } catch (FileNotFoundException free) {
      for (Path above = makeQualified(path).getParent(); above != null; above = above.getParent()) {
        FileEntry entry = found(name(above));
        if (entry != null && !entry.isDirectory()) {
          throw new ParentNotDirectoryException(above + " is a file");
        }
        if (entry != null) {
          break;
        }
      }
    }
    return new FSDataOutputStream(new Output(name, overwrite), statistics);
  }

  @Override
  public FSDataOutputStream createNonRecursive(
      Path path,
      FsPermission permission,
      java.util.EnumSet<org.apache.hadoop.fs.CreateFlag> flags,
      int bufferSize,
      short replication,
      long blockSize,
      Progressable progress)
      throws IOException {
    Path above = makeQualified(path).getParent();
    if (above != null && found(name(above)) == null) {
      throw new FileNotFoundException(above + " is not there");
    }
    boolean overwrite = flags.contains(org.apache.hadoop.fs.CreateFlag.OVERWRITE);
    return create(path, permission, overwrite, bufferSize, replication, blockSize, progress);
  }

  @Override
  public FSDataOutputStream append(Path path, int bufferSize, Progressable progress) {
    throw new UnsupportedOperationException("a file in walkeeper is written once: there is no append");
  }

  @Override
  public boolean rename(Path from, Path to) throws IOException {
    String source = at(from);
    String target = at(to);
    FileEntry moved = found(source);
    if (moved == null || source.equals("/")) {
      return false;
    }
    FileEntry there = found(target);
    if (there != null && there.isDirectory() && !source.equals(target)) {
      target = (target.equals("/") ? "" : target) + "/" + from.getName();
      there = found(target);
    }
    if (source.equals(target)) {
      return !moved.isDirectory();
    }
    if (there != null || target.startsWith(source + "/")) {
      return false;
    }
    FileEntry above = found(name(new Path(target).getParent()));
    if (above == null || !above.isDirectory()) {
      return false;
    }
    try {
      client.rename(source, target, false, epoch(target));
      return true;
    } catch (FileAlreadyExistsException | FileNotFoundException lost) {
      return false;
    }
  }

  /** In one step, as FileContext wants it. */
  @Override
  @SuppressWarnings("deprecation")
  protected void rename(Path from, Path to, Options.Rename... options) throws IOException {
    boolean replaces = List.of(options).contains(Options.Rename.OVERWRITE);
    String source = at(from);
    String target = at(to);
    if (target.equals("/") || source.equals(target)) {
      client.stat(source);
      throw new FileAlreadyExistsException(to + " is there already");
    }
    client.stat(name(new Path(target).getParent())); // the gateway would make it
    client.rename(source, target, replaces, epoch(target));
  }

  @Override
  public boolean delete(Path path, boolean recursive) throws IOException {
    String name = at(path);
    if (name.equals("/")) {
      if (!recursive && !client.list(name).isEmpty()) {
        throw new PathIsNotEmptyDirectoryException(name);
      }
      return false;
    }
    boolean deleted = client.delete(name, recursive, epoch(name));
    Epochs.forget(client.gateways, name);
    return deleted;
  }

  @Override
  public FileStatus[] listStatus(Path path) throws IOException {
    Path qualified = makeQualified(path);
    String name = at(path);
    FileEntry there = client.stat(name);
    if (!there.isDirectory()) {
      return new FileStatus[] {status(there, qualified)};
    }
    return client.list(name).stream()
        .map(entry -> status(entry, new Path(qualified, new Path(null, null, entry.name()))))
        .toArray(FileStatus[]::new);
  }

  @Override
  public boolean mkdirs(Path path, FsPermission permission) throws IOException {
    String name = at(path);
    if (name.equals("/")) {
      return true;
    }
    client.mkdir(name, epoch(name));
    return true;
  }

  @Override
  public FileStatus getFileStatus(Path path) throws IOException {
    return status(client.stat(at(path)), makeQualified(path));
  }

  @Override
  public void setWorkingDirectory(Path path) {
    workingDirectory = makeQualified(path);
  }

  @Override
  public Path getWorkingDirectory() {
    return workingDirectory;
  }

  @Override
  public Path getHomeDirectory() {
    return makeQualified(new Path("/"));
  }

  @Override
  public long getDefaultBlockSize(Path path) {
    return BLOCK_SIZE;
  }

  private FileEntry found(String name) throws IOException {
    try {
      return client.stat(name);
    } catch (FileNotFoundException | ParentNotDirectoryException absent) {
      return null;
    }
  }

  private FileStatus status(FileEntry entry, Path path) {
    FsPermission permission = entry.isDirectory() ? DIRECTORY : FILE;
    return new FileStatus(
        entry.size(), entry.isDirectory(), 1, BLOCK_SIZE, entry.modifiedMs(), entry.modifiedMs(), permission, user, user, path);
  }

  /** A file that becomes visible when it is closed. */
  private final class Output extends java.io.OutputStream {
    private final WriteBuffer buffer = new WriteBuffer();
    private final String name;
    private final boolean replaces;
    private boolean closed;

    Output(String name, boolean replaces) {
      this.name = name;
      this.replaces = replaces;
    }

    @Override
    public void write(int value) throws IOException {
      buffer.write(value);
    }

    @Override
    public void write(byte[] bytes, int offset, int count) throws IOException {
      buffer.write(bytes, offset, count);
    }

    @Override
    public synchronized void close() throws IOException {
      if (closed) {
        return;
      }
      closed = true;
      try {
        client.put(name, buffer, replaces, epoch(name));
      } finally {
        buffer.close();
      }
    }
  }
}

package walkeeper.interop;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.attribute.BasicFileAttributes;

/** What a directory takes that is in use: files come and go while it is measured. */
final class DiskSpace extends SimpleFileVisitor<Path> {
    private long bytes;

    private DiskSpace() {}

    static long of(Path directory) {
        DiskSpace all = new DiskSpace();
        try {
            Files.walkFileTree(directory, all);
        } catch (IOException wrong) {
            throw new UncheckedIOException(wrong);
        }
        return all.bytes;
    }

    @Override
    public FileVisitResult visitFile(Path file, BasicFileAttributes attributes) {
        bytes += attributes.size();
        return FileVisitResult.CONTINUE;
    }

    @Override
    public FileVisitResult visitFileFailed(Path file, IOException gone) {
        return FileVisitResult.CONTINUE;
    }

    @Override
    public FileVisitResult postVisitDirectory(Path directory, IOException gone) {
        return FileVisitResult.CONTINUE;
    }
}

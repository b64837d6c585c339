package dev.walkeeper.spark;

/** What a gateway says of a file or a directory. {@code version} is another number for each content of a file. */
record FileEntry(String name, boolean isDirectory, long size, long modifiedMs, long version) {}

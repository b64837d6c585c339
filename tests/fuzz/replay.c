/*
 * replay.c: runs a fuzzer over its saved corpus, with any compiler. `fuzz_entry CORPUS_DIRECTORY`
 *
 * Each file is fed once, from a buffer of exactly its size, so that sanitizers see a read past its end. A corpus that
 * is missing or empty fails: it would check nothing.
 */
#include "fuzz.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

static void die(const char *what, const char *name) {
	fprintf(stderr, "%s: %s\n", what, name);
	exit(1);
}

static uint8_t *read_whole(const char *path, size_t *size) {
	FILE *file = fopen(path, "rb");
	if (file == NULL || fseek(file, 0, SEEK_END) != 0)
		die("cannot open", path);
	long end = ftell(file);
	if (end < 0)
		die("cannot tell the size of", path);
	rewind(file);
	*size = (size_t)end;
	uint8_t *bytes = malloc(*size == 0 ? 1 : *size);
	if (bytes == NULL || fread(bytes, 1, *size, file) != *size)
		die("cannot read", path);
	fclose(file);
	return bytes;
}

static void replay(const char *directory, const char *name) {
	char path[4096];
	int length = snprintf(path, sizeof path, "%s/%s", directory, name);
	if (length < 0 || (size_t)length >= sizeof path)
		die("path too long", name);
	size_t size;
	uint8_t *bytes = read_whole(path, &size);
	printf("%s (%zu bytes)\n", name, size);
	fflush(stdout); /* so that the last line names the file that aborts */
	LLVMFuzzerTestOneInput(bytes, size);
	free(bytes);
}

int main(int argc, char **argv) {
	if (argc != 2)
		die("usage", "fuzz_<name> CORPUS_DIRECTORY");
	DIR *directory = opendir(argv[1]);
	if (directory == NULL)
		die("cannot open", argv[1]);
	unsigned files_count = 0;
	for (struct dirent *item; (item = readdir(directory)) != NULL;) {
		if (item->d_name[0] == '.')
			continue;
		replay(argv[1], item->d_name);
		files_count++;
	}
	closedir(directory);
	if (files_count == 0)
		die("the corpus is empty", argv[1]);
	printf("%u files replayed\n", files_count);
	return 0;
}

/*
 * bench_space: how much disk does one hot log hold beside many idle ones?
 *
 * The worst order for space: every idle log's one record is appended between two stretches of the hot log, so that idle
 * records are strewn over all journal files and each would pin one. The hot log is truncated to its last --live bytes
 * as it goes. Samples are taken all along.
 */
#include "bench_log.h"
#include <dirent.h>

typedef struct disk {
	uint64_t bytes; /* allocated, of all files below the directory */
	uint64_t largest_file;
} disk;

static void disk_add(const char *directory, disk *total) {
	DIR *stream = opendir(directory);
	if (stream == NULL)
		return;
	for (struct dirent *entry; (entry = readdir(stream)) != NULL;) {
		char path[4096];
		struct stat found;
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		if (snprintf(path, sizeof path, "%s/%s", directory, entry->d_name) >= (int)sizeof path ||
		    lstat(path, &found) != 0)
			continue; /* unlinked since it was listed */
		if (S_ISDIR(found.st_mode)) {
			disk_add(path, total);
			continue;
		}
		uint64_t bytes = (uint64_t)found.st_blocks * 512;
		total->bytes += bytes;
		if ((uint64_t)found.st_size > total->largest_file)
			total->largest_file = (uint64_t)found.st_size;
	}
	closedir(stream);
}

static void idle_log(wk_namespace *ns, uint64_t number, const uint8_t *payload) {
	char name[32];
	snprintf(name, sizeof name, "idle-%08" PRIu64, number);
	wk_log *log = bench_log_named(ns, name, NULL);
	wk_writer *writer = bench_writer(log);
	wk_append_options options;
	wk_append_options_init(&options);
	wk_error error = {0};
	bench_check(wk_writer_append(writer, payload, 1024, &options, NULL, &error), &error, "append to an idle log");
	bench_check(wk_writer_close(writer, UINT64_MAX, &error), &error, "close the writer");
	wk_log_release(log);
}

static void print_sample(wk_namespace *ns, const char *directory, const char *when, uint64_t live_payload, bool last) {
	wk_stats stats;
	wk_namespace_stats(ns, &stats);
	disk total = {0};
	disk_add(directory, &total);
	printf("{\"when\": \"%s\", \"disk_bytes\": %" PRIu64 ", \"stats_disk_bytes\": %" PRIu64 ", \"live_bytes\": %" PRIu64
	       ", \"live_payload\": %" PRIu64 ", \"largest_file\": %" PRIu64 ", \"journal_files\": %" PRIu64
	       ", \"prepared_files\": %" PRIu64 ", \"entry_logs\": %" PRIu64 ", \"compacted_bytes\": %" PRIu64 "}%s",
	       when, total.bytes, stats.disk_bytes, stats.live_bytes, live_payload, total.largest_file, stats.journal_files,
	       stats.prepared_files, stats.entry_logs, stats.compacted_bytes, last ? "" : ", ");
}

int main(int argc, char **argv) {
	const char *directory = bench_text(argc, argv, "dir", NULL);
	uint64_t idle = bench_number(argc, argv, "idle", 10000), live = bench_number(argc, argv, "live", 64 << 20);
	uint64_t stretch = bench_number(argc, argv, "stretch", 192 << 10); /* of the hot log, between two idle ones */
	uint64_t settle_ns = bench_number(argc, argv, "settle-seconds", 5) * 1000000000U;
	if (idle < 20)
		bench_die("--idle %" PRIu64 ": at least 20, one for each sample", idle);
	uint8_t payload[1024];
	bench_fill(payload, sizeof payload);
	wk_namespace *ns = bench_namespace_open(argc, argv);
	bench_log hot;
	bench_log_open(&hot, ns, "hot", live / 2); /* between live / 2 and live is kept */
	printf("{\"samples\": [");
	for (uint64_t i = 0; i < idle; i++) {
		idle_log(ns, i, payload);
		bench_log_load(&hot, stretch, 1024);
		if (i % (idle / 20) == idle / 20 - 1) /* twenty samples */
			print_sample(ns, directory, "loaded", (i + 1) * 1024 + hot.since_mark + live / 2, false);
	}
	/* The load goes on without new idle logs: what the mover owes must not grow. */
	for (uint64_t done = 0; done < 4 * live; done += stretch)
		bench_log_load(&hot, stretch, 1024);
	print_sample(ns, directory, "steady", idle * 1024 + hot.since_mark + live / 2, false);
	for (uint64_t end = bench_now_ns() + settle_ns; bench_now_ns() < end;) {
		struct timespec pause = {.tv_nsec = 100000000};
		nanosleep(&pause, NULL);
	}
	print_sample(ns, directory, "settled", idle * 1024 + hot.since_mark + live / 2, true);
	printf("]}\n");
	bench_log_close(&hot);
	bench_namespace_close(ns);
	return 0;
}

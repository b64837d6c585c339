/*
 * bench.h: what every driver here shares: arguments, clock, samples, usage of the machine, one line of JSON.
 *
 * A driver measures one cell and prints one JSON object. It knows nothing of walkeeper (bench_log.h does), so the peers
 * use it too. A driver that cannot measure says why on stderr and exits with 1: a wrong number is worse than none.
 */
#ifndef BENCH_H
#define BENCH_H
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

enum {
	BENCH_SAMPLES_MAX = 1 << 22
}; /* 16 MiB of latencies; beyond it a cell counts records but keeps no more samples */

__attribute__((noreturn, format(printf, 1, 2))) static inline void bench_die(const char *format, ...) {
	va_list list;
	va_start(list, format);
	vfprintf(stderr, format, list);
	va_end(list);
	fputc('\n', stderr);
	exit(1);
}

static inline uint64_t bench_now_ns(void) {
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

/* ---- arguments: --name value -------------------------------------------------------------------------- */

static inline const char *bench_text(int argc, char **argv, const char *name, const char *otherwise) {
	for (int i = 1; i + 1 < argc; i += 2)
		if (strncmp(argv[i], "--", 2) == 0 && strcmp(argv[i] + 2, name) == 0)
			return argv[i + 1];
	if (otherwise == NULL)
		bench_die("--%s is missing", name);
	return otherwise;
}

static inline uint64_t bench_number(int argc, char **argv, const char *name, uint64_t otherwise) {
	const char *text = bench_text(argc, argv, name, "");
	if (*text == '\0')
		return otherwise;
	char *end = NULL;
	uint64_t value = strtoull(text, &end, 10);
	if (end == text || *end != '\0')
		bench_die("--%s %s is not a number", name, text);
	return value;
}

/* ---- payload: bytes that no layer below can compress ----------------------------------------------------- */

static inline void bench_fill(void *bytes, size_t size) {
	uint64_t state = 0x9e3779b97f4a7c15U;
	uint8_t *out = bytes;
	for (size_t i = 0; i < size; i++) {
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		out[i] = (uint8_t)(state >> 24);
	}
}

static inline void *bench_allocate(size_t size) {
	void *memory = calloc(1, size);
	if (memory == NULL)
		bench_die("no memory for %zu bytes", size);
	return memory;
}

/* ---- latencies -------------------------------------------------------------------------------------------- */

typedef struct bench_samples {
	uint32_t *ns;
	size_t count;
	size_t max;
	bool sorted;
} bench_samples;

static inline void bench_samples_init(bench_samples *samples, size_t max) {
	*samples = (bench_samples){.ns = bench_allocate(sizeof(uint32_t) * max), .max = max};
	/* Touch the pages now: a page fault inside the measured loop would be counted as latency. */
	memset(samples->ns, 1, sizeof(uint32_t) * max);
}

static inline void bench_samples_add(bench_samples *samples, uint64_t ns) {
	if (samples->count < samples->max)
		samples->ns[samples->count++] = ns > UINT32_MAX ? UINT32_MAX : (uint32_t)ns;
}

static inline int bench_compare(const void *a, const void *b) {
	uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
	return left < right ? -1 : left > right;
}

static inline uint32_t bench_quantile(bench_samples *samples, double q) {
	if (samples->count == 0)
		return 0;
	if (!samples->sorted)
		qsort(samples->ns, samples->count, sizeof(uint32_t), bench_compare);
	samples->sorted = true;
	size_t at = (size_t)(q * (double)samples->count);
	return samples->ns[at < samples->count ? at : samples->count - 1];
}

static inline void bench_print_quantiles(bench_samples *samples) {
	printf("\"samples\": %zu, \"p50_ns\": %u, \"p90_ns\": %u, \"p99_ns\": %u, \"p999_ns\": %u, \"max_ns\": %u, ",
	       samples->count, bench_quantile(samples, 0.5), bench_quantile(samples, 0.9), bench_quantile(samples, 0.99),
	       bench_quantile(samples, 0.999), bench_quantile(samples, 1.0));
}

/* ---- what the machine did: taken twice, printed as a difference --------------------------------------------- */

typedef struct bench_usage {
	uint64_t wall_ns;
	uint64_t process_cpu_ns;
	uint64_t
	    machine_cpu_ns; /* user, nice, system, irq and softirq of all CPUs: kernel threads count too; ticks of 10 ms */
	bool disk_known;    /* the directory's device has a line in /proc/diskstats */
	uint64_t disk_reads, disk_read_bytes, disk_writes, disk_write_bytes, disk_flushes; /* of the whole device */
} bench_usage;

static inline void bench_usage_disk(bench_usage *usage, const char *directory) {
	struct stat stat_of;
	FILE *file = stat(directory, &stat_of) == 0 ? fopen("/proc/diskstats", "r") : NULL;
	if (file == NULL)
		return;
	char line[512];
	while (fgets(line, sizeof line, file) != NULL) {
		unsigned major_of, minor_of;
		uint64_t n[17] = {0};
		int fields = sscanf(line,
		                    "%u %u %*s %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
		                    " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
		                    " %" SCNu64 " %" SCNu64 " %" SCNu64,
		                    &major_of, &minor_of, &n[0], &n[1], &n[2], &n[3], &n[4], &n[5], &n[6], &n[7], &n[8], &n[9],
		                    &n[10], &n[11], &n[12], &n[13], &n[14], &n[15], &n[16]);
		if (fields < 13 || makedev(major_of, minor_of) != stat_of.st_dev)
			continue;
		usage->disk_known = true;
		usage->disk_reads = n[0];
		usage->disk_read_bytes = n[2] * 512;
		usage->disk_writes = n[4];
		usage->disk_write_bytes = n[6] * 512;
		usage->disk_flushes = n[15]; /* kernels from 5.5 on */
	}
	fclose(file);
}

static inline bench_usage bench_usage_now(const char *directory) {
	bench_usage usage = {.wall_ns = bench_now_ns()};
	struct timespec cpu;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
	usage.process_cpu_ns = (uint64_t)cpu.tv_sec * 1000000000U + (uint64_t)cpu.tv_nsec;
	FILE *file = fopen("/proc/stat", "r");
	uint64_t user, nice_, system_, idle, iowait, irq, softirq;
	if (file != NULL &&
	    fscanf(file, "cpu %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &user,
	           &nice_, &system_, &idle, &iowait, &irq, &softirq) == 7)
		usage.machine_cpu_ns = (user + nice_ + system_ + irq + softirq) *
		                       (1000000000U / (uint64_t)sysconf(_SC_CLK_TCK));
	if (file != NULL)
		fclose(file);
	bench_usage_disk(&usage, directory);
	return usage;
}

static inline double bench_seconds(const bench_usage *from, const bench_usage *to) {
	return (double)(to->wall_ns - from->wall_ns) / 1e9;
}

static inline void bench_print_usage(const bench_usage *from, const bench_usage *to) {
	printf("\"seconds\": %.6f, \"process_cpu_ns\": %" PRIu64 ", \"machine_cpu_ns\": %" PRIu64 ", ",
	       bench_seconds(from, to), to->process_cpu_ns - from->process_cpu_ns,
	       to->machine_cpu_ns - from->machine_cpu_ns);
	if (from->disk_known && to->disk_known)
		printf("\"disk_reads\": %" PRIu64 ", \"disk_read_bytes\": %" PRIu64 ", \"disk_writes\": %" PRIu64
		       ", \"disk_write_bytes\": %" PRIu64 ", \"disk_flushes\": %" PRIu64 ", ",
		       to->disk_reads - from->disk_reads, to->disk_read_bytes - from->disk_read_bytes,
		       to->disk_writes - from->disk_writes, to->disk_write_bytes - from->disk_write_bytes,
		       to->disk_flushes - from->disk_flushes);
}
#endif

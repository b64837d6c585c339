/*
 * bookie_read: reads entries from a bookie, and how fast. One connection, one cell a run.
 *
 *   --host 127.0.0.1 --port P --version 2
 *   --first-ledger 1 --ledgers 1 --stride 1 --entries N   ledgers first, first + stride, …, each with entries 0 to N - 1
 *   --batch 0        0: an entry a request. Otherwise batch reads (v2 only) of so many entries
 *   --window 1       so many requests under way
 *   --order in_order or random (single reads only)
 *   --passes 0       all entries so many times, everything measured. 0: again and again for a time:
 *   --warmup-ms 1000 --ms 5000
 *   --pace 0         not more bytes a second than this, where not 0
 *   --server-pid 0   whose CPU time is told, too;   --dir D: the device below it is watched
 *
 * Every entry is compared with what was asked for, and its CRC is computed. In order means: the first ledger to its end,
 * then the next one.
 */
#include "bench_bookie.h"

enum { WINDOW_MAX = 4096 };

typedef struct ask {
	uint64_t began_ns, id;
	int64_t ledger_id, entry_id, count; /* from entry_id on */
	bool under_way;
} ask;

static uint64_t version, first_ledger, ledgers_count, stride, entries_count, batch, window, passes, pace;
static bool is_random;
static bench_link bookie;
static ask asks[WINDOW_MAX];
static uint64_t oldest, newest; /* requests are numbered; those under way are in asks[number % WINDOW_MAX] */
static uint64_t place;          /* the next entry in order: ledger * entries + entry, all passes */
static uint64_t under_way, entries_read, bytes_read, measured_entries, measured_bytes, measured_requests;
static uint64_t measure_from, measure_to, source = 88172645463325252U;
static bench_samples samples;

static uint64_t random_number(void) {
	source ^= source << 13;
	source ^= source >> 7;
	source ^= source << 17;
	return source;
}

static void send_ask(int64_t ledger_id, int64_t entry_id, int64_t count) {
	ask *made = &asks[newest % WINDOW_MAX];
	*made = (ask){bench_now_ns(), newest++, ledger_id, entry_id, count, true};
	const wk_wire_request request = {
	    .version = (uint32_t)version,
	    .header_version = (uint32_t)version,
	    .operation = batch > 0 ? WK_WIRE_BATCH_READ : WK_WIRE_READ,
	    .txn_id = made->id,
	    .ledger_id = ledger_id,
	    .entry_id = entry_id,
	    .max_count = (int32_t)count,
	    .max_size = WK_FRAME_SIZE_MAX,
	    .previous_lac = -1,
	};
	bench_link_ask(&bookie, &request);
	under_way++;
}

static bool has_more(void) {
	return passes == 0 || place < passes * ledgers_count * entries_count;
}

static void ask_next(void) {
	uint64_t all = ledgers_count * entries_count;
	uint64_t at = is_random ? random_number() % all : place % all, entry_id = at % entries_count;
	uint64_t count = batch == 0 ? 1 : entries_count - entry_id < batch ? entries_count - entry_id : batch;
	place += count;
	send_ask((int64_t)(first_ledger + at / entries_count * stride), (int64_t)entry_id, (int64_t)count);
}

/* The request that a reply is to: by its number, or by what v2 says of single reads; most come in order. */
static ask *find(const wk_wire_reply *reply) {
	while (oldest < newest && !asks[oldest % WINDOW_MAX].under_way)
		oldest++;
	for (uint64_t number = oldest; number < newest; number++) {
		ask *each = &asks[number % WINDOW_MAX];
		bool same = version == 3 || batch > 0
		                ? each->id == reply->txn_id
		                : each->ledger_id == reply->ledger_id && each->entry_id == reply->entry_id;
		if (each->under_way && same)
			return each;
	}
	bench_die("entry %" PRId64 " of ledger %" PRId64 " was not asked for", reply->entry_id, reply->ledger_id);
}

/* How many entries a batch has, after each was compared. */
static int64_t check_batch(const wk_wire_reply *reply, const ask *of) {
	size_t done = 0;
	int64_t count = 0;
	while (reply->body_size - done >= 4) {
		const uint8_t *at = reply->body + done;
		size_t size = (size_t)at[0] << 24 | (size_t)at[1] << 16 | (size_t)at[2] << 8 | at[3];
		if (size > reply->body_size - done - 4)
			break;
		bench_entry_check(at + 4, size, of->ledger_id, of->entry_id + count);
		count++;
		done += 4 + size;
	}
	if (done != reply->body_size || count == 0 || count > of->count)
		bench_die("a batch from entry %" PRId64 " of ledger %" PRId64 " has %" PRId64 " entries", of->entry_id,
		          of->ledger_id, count);
	return count;
}

static void heard(bench_link *from, const wk_wire_reply *reply, uint64_t now) {
	(void)from;
	if (reply->code != WK_WIRE_OK || !reply->has_body)
		bench_die("a read of entry %" PRId64 " of ledger %" PRId64 " was answered with %" PRIu32, reply->entry_id,
		          reply->ledger_id, reply->code);
	ask *of = find(reply), asked = *of;
	int64_t count = 1;
	if (batch > 0)
		count = check_batch(reply, of);
	else
		bench_entry_check(reply->body, reply->body_size, of->ledger_id, of->entry_id);
	of->under_way = false;
	under_way--;
	entries_read += (uint64_t)count;
	bytes_read += reply->body_size;
	if (now >= measure_from && now < measure_to) {
		measured_entries += (uint64_t)count;
		measured_bytes += reply->body_size;
		measured_requests++;
		bench_samples_add(&samples, now - asked.began_ns);
	}
	if (count < asked.count) /* the rest of it */
		send_ask(asked.ledger_id, asked.entry_id + count, asked.count - count);
}

static bool is_due(uint64_t now, uint64_t start) {
	if (pace == 0)
		return true;
	uint64_t each = entries_read == 0 ? 1 : bytes_read / entries_read,
	         ahead = under_way * (batch == 0 ? 1 : batch) * each;
	return (double)(bytes_read + ahead) <= (double)pace * (double)(now - start) / 1e9;
}

static void turn(int poller, uint64_t start) {
	uint64_t now = bench_now_ns();
	bool due = true;
	while (under_way < window && newest - oldest < WINDOW_MAX && has_more() && (due = is_due(now, start)))
		ask_next();
	if (bookie.out_size > 0 && !bookie.wants_out)
		bench_link_say(&bookie, poller);
	bench_links_wait(poller, due ? 100000000 : 500000, (uint32_t)version, heard);
}

static void arguments(int argc, char **argv) {
	version = bench_number(argc, argv, "version", 2);
	first_ledger = bench_number(argc, argv, "first-ledger", 1);
	ledgers_count = bench_number(argc, argv, "ledgers", 1);
	stride = bench_number(argc, argv, "stride", 1);
	entries_count = bench_number(argc, argv, "entries", 0);
	batch = bench_number(argc, argv, "batch", 0);
	window = bench_number(argc, argv, "window", 1);
	passes = bench_number(argc, argv, "passes", 0);
	pace = bench_number(argc, argv, "pace", 0);
	is_random = strcmp(bench_text(argc, argv, "order", "in_order"), "random") == 0;
	if ((version != 2 && version != 3) || (batch > 0 && (version != 2 || is_random)) || entries_count == 0 ||
	    ledgers_count == 0 || window == 0 || window > WINDOW_MAX / 2)
		bench_die("v2 or v3, entries to read, at most %d under way; batches over v2 and in order", WINDOW_MAX / 2);
}

int main(int argc, char **argv) {
	arguments(argc, argv);
	uint64_t warmup_ms = bench_number(argc, argv, "warmup-ms", 1000), ms = bench_number(argc, argv, "ms", 5000);
	uint64_t server = bench_number(argc, argv, "server-pid", 0);
	const char *directory = bench_text(argc, argv, "dir", "/");
	bench_samples_init(&samples, BENCH_SAMPLES_MAX);
	int poller = bench_poller();
	bench_link_open(&bookie, bench_text(argc, argv, "host", "127.0.0.1"), bench_text(argc, argv, "port", NULL), poller,
	                1 << 20);
	uint64_t start = bench_now_ns();
	measure_from = start + (passes == 0 ? warmup_ms * 1000000 : 0);
	measure_to = passes == 0 ? measure_from + ms * 1000000 : UINT64_MAX;
	while (bench_now_ns() < measure_from)
		turn(poller, start);
	bench_usage before = bench_usage_now(directory);
	uint64_t server_before = bench_cpu_ns_of(server);
	while (passes == 0 ? bench_now_ns() < measure_to : has_more() || under_way > 0)
		turn(poller, start);
	bench_usage after = bench_usage_now(directory);
	uint64_t server_ns = bench_cpu_ns_of(server) - server_before;
	double seconds = bench_seconds(&before, &after);
	printf("{\"version\": %" PRIu64 ", \"batch\": %" PRIu64 ", \"window\": %" PRIu64 ", \"ledgers\": %" PRIu64
	       ", \"entries\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"requests\": %" PRIu64
	       ", \"entries_per_second\": %.1f, \"bytes_per_second\": %.1f, \"server_cpu_ns\": %" PRIu64
	       ", \"server_ns_per_entry\": %.1f, ",
	       version, batch, window, ledgers_count, measured_entries, measured_bytes, measured_requests,
	       (double)measured_entries / seconds, (double)measured_bytes / seconds, server_ns,
	       measured_entries == 0 ? 0 : (double)server_ns / (double)measured_entries);
	bench_print_quantiles(&samples);
	bench_print_usage(&before, &after);
	printf("\"cpu_seconds\": %.6f}\n", (double)(after.process_cpu_ns - before.process_cpu_ns) / 1e9);
	return 0;
}

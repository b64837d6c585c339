/*
 * bookie_load: adds to a bookie, over protocol v2 or v3, and how long each took. One cell a run.
 *
 *   --host 127.0.0.1 --port P --version 2 --connections 1 --ledgers 1 --first-ledger 1 --size 1024
 *   --window 64      closed loop: so many adds under way, over all connections
 *   --group 0        0: each connection has its share of the window under way. Otherwise connections take turns, so many
 *                    adds each time, and the window is of all together
 *   --rate 0         open loop, where not 0: so many adds a second, each due at its time; the latency counts from then
 *   --warmup-ms 1000 --ms 5000
 *   --entries 0      otherwise: so many adds, all of them measured, in place of a time
 *   --server-pid 0   whose CPU time is told, too
 *   --trace FILE     when each add began and was answered, two numbers of 8 bytes, ns of the monotonic clock
 *
 * A ledger belongs to one connection. What became due in one turn goes to each connection in one send.
 */
#include "bench_bookie.h"

enum { UNDER_WAY_MAX = 1 << 20, NONE = -1 };

typedef struct add {
	uint64_t began_ns;
	int64_t entry_id;
	int32_t next; /* of its ledger, or free */
} add;

typedef struct ledger {
	int64_t next_entry, acknowledged, length;
	int32_t first, last; /* adds under way, in their order, which is also that of the answers */
} ledger;

typedef struct connection {
	bench_link link;
	uint64_t under_way;
	uint64_t next_ledger; /* of its own, counted */
} connection;

static uint64_t version, connections_count, ledgers_count, first_ledger, size, window, group, rate, entries_max;
static connection *connections;
static ledger *ledgers;
static add *adds;
static int32_t free_add;
static int poller;
static uint64_t measure_from, measure_to, measured, under_way, issued, turns_refused;
static uint64_t taking_turn, taken; /* --group: whose turn it is, and what it has had of it */
static uint32_t *dirty;             /* connections with something to send */
static size_t dirty_count;
static uint8_t *payload;
static bench_samples samples;
static FILE *trace;

static void begin_add(uint64_t connection_index, uint64_t began_ns) {
	connection *to = &connections[connection_index];
	uint64_t own = (ledgers_count - connection_index + connections_count - 1) / connections_count;
	uint64_t index = connection_index + to->next_ledger++ % own * connections_count;
	ledger *ledger_of = &ledgers[index];
	int32_t at = free_add;
	free_add = adds[at].next;
	adds[at] = (add){.began_ns = began_ns, .entry_id = ledger_of->next_entry++, .next = NONE};
	if (ledger_of->first == NONE)
		ledger_of->first = at;
	else
		adds[ledger_of->last].next = at;
	ledger_of->last = at;
	ledger_of->length += (int64_t)size;
	const wk_wire_entry header = {(int64_t)(first_ledger + index), adds[at].entry_id, ledger_of->acknowledged,
	                              ledger_of->length};
	const wk_wire_request request = {
	    .version = (uint32_t)version,
	    .header_version = (uint32_t)version,
	    .operation = WK_WIRE_ADD,
	    .txn_id = (uint64_t)at,
	    .ledger_id = header.ledger_id,
	    .entry_id = header.entry_id,
	    .key = BENCH_KEY,
	    .key_size = sizeof BENCH_KEY,
	    .body_size = BENCH_ENTRY_HEAD + size,
	};
	bench_link_room(&to->link, WK_WIRE_HEAD_SIZE_MAX + BENCH_ENTRY_HEAD + size);
	bench_link_ask(&to->link, &request);
	bench_entry_put(to->link.out + to->link.out_size, &header, payload, size);
	to->link.out_size += BENCH_ENTRY_HEAD + size;
	if (!to->link.dirty) {
		to->link.dirty = true;
		dirty[dirty_count++] = (uint32_t)connection_index;
	}
	to->under_way++;
	under_way++;
	issued++;
}

static void end_add(bench_link *link, const wk_wire_reply *reply, uint64_t now) {
	connection *from = (connection *)link;
	uint64_t index = (uint64_t)reply->ledger_id - first_ledger;
	if (reply->operation != WK_WIRE_ADD || reply->code != WK_WIRE_OK || index >= ledgers_count)
		bench_die("an add to ledger %" PRId64 " was answered with %u", reply->ledger_id, reply->code);
	ledger *ledger_of = &ledgers[index];
	int32_t at = ledger_of->first;
	if (at == NONE || adds[at].entry_id != reply->entry_id)
		bench_die("entry %" PRId64 " of ledger %" PRId64 " was answered out of its order", reply->entry_id,
		          reply->ledger_id);
	ledger_of->first = adds[at].next;
	ledger_of->acknowledged = reply->entry_id;
	if (now >= measure_from && now < measure_to) {
		measured++;
		bench_samples_add(&samples, now - adds[at].began_ns);
		if (trace != NULL)
			fwrite((uint64_t[]){adds[at].began_ns, now}, sizeof(uint64_t), 2, trace);
	}
	adds[at].next = free_add;
	free_add = at;
	from->under_way--;
	under_way--;
}

static bool has_more(void) {
	return entries_max == 0 || issued < entries_max;
}

/* What is due now: whatever the window has room for, or what its time has come for. The time of the next, 0: none. */
static uint64_t begin_due(uint64_t now, uint64_t start) {
	if (rate == 0 && group > 0) {
		while (under_way < window && has_more()) {
			begin_add(taking_turn, now);
			if (++taken == group) {
				taken = 0;
				taking_turn = (taking_turn + 1) % connections_count;
			}
		}
		return 0;
	}
	if (rate == 0) {
		for (uint64_t i = 0; i < connections_count; i++) {
			uint64_t share = window / connections_count + (i < window % connections_count);
			while (connections[i].under_way < share && has_more())
				begin_add(i, now);
		}
		return 0;
	}
	while (has_more()) {
		uint64_t due = start + (uint64_t)((double)issued * 1e9 / (double)rate);
		if (due > now)
			return due;
		if (free_add == NONE) { /* it is hopelessly behind; what is due stays due */
			turns_refused++;
			return 0;
		}
		begin_add(issued % connections_count, due);
	}
	return 0;
}

static void turn(bool ending, uint64_t start) {
	uint64_t now = bench_now_ns(), due = ending ? 0 : begin_due(now, start);
	for (size_t i = 0; i < dirty_count; i++)
		if (connections[dirty[i]].link.wants_out)
			connections[dirty[i]].link.dirty = false;
		else
			bench_link_say(&connections[dirty[i]].link, poller);
	dirty_count = 0;
	bench_links_wait(poller, due == 0 ? 100000000 : due - now, (uint32_t)version, end_add);
}

static void arguments(int argc, char **argv) {
	version = bench_number(argc, argv, "version", 2);
	connections_count = bench_number(argc, argv, "connections", 1);
	ledgers_count = bench_number(argc, argv, "ledgers", connections_count);
	first_ledger = bench_number(argc, argv, "first-ledger", 1);
	size = bench_number(argc, argv, "size", 1024);
	window = bench_number(argc, argv, "window", 64);
	group = bench_number(argc, argv, "group", 0);
	rate = bench_number(argc, argv, "rate", 0);
	entries_max = bench_number(argc, argv, "entries", 0);
	if ((version != 2 && version != 3) || connections_count == 0 || ledgers_count < connections_count ||
	    window > UNDER_WAY_MAX || window < (rate == 0 && group == 0 ? connections_count : 0) || size > 5000000)
		bench_die("v2 or v3, a ledger and an add under way for each connection at least");
}

static void prepare(const char *host, const char *port) {
	connections = bench_allocate(connections_count * sizeof *connections);
	dirty = bench_allocate(connections_count * sizeof *dirty);
	ledgers = bench_allocate(ledgers_count * sizeof *ledgers);
	adds = bench_allocate(UNDER_WAY_MAX * sizeof *adds);
	payload = bench_allocate(size + 8);
	bench_fill(payload, size);
	bench_samples_init(&samples, BENCH_SAMPLES_MAX);
	for (uint64_t i = 0; i < ledgers_count; i++)
		ledgers[i] = (ledger){.acknowledged = -1, .first = NONE, .last = NONE};
	for (int32_t i = 0; i < UNDER_WAY_MAX; i++)
		adds[i].next = i + 1 < UNDER_WAY_MAX ? i + 1 : NONE;
	poller = bench_poller();
	for (uint64_t i = 0; i < connections_count; i++)
		bench_link_open(&connections[i].link, host, port, poller, connections_count > 1000 ? 4096 : 65536);
}

int main(int argc, char **argv) {
	arguments(argc, argv);
	uint64_t warmup_ms = bench_number(argc, argv, "warmup-ms", 1000), ms = bench_number(argc, argv, "ms", 5000);
	uint64_t server = bench_number(argc, argv, "server-pid", 0);
	const char *trace_path = bench_text(argc, argv, "trace", "");
	if (*trace_path != '\0' && (trace = fopen(trace_path, "wb")) == NULL)
		bench_die("%s: %s", trace_path, strerror(errno));
	prepare(bench_text(argc, argv, "host", "127.0.0.1"), bench_text(argc, argv, "port", NULL));
	uint64_t start = bench_now_ns();
	measure_from = start + (entries_max == 0 ? warmup_ms * 1000000 : 0);
	measure_to = entries_max == 0 ? measure_from + ms * 1000000 : UINT64_MAX;
	while (bench_now_ns() < measure_from)
		turn(false, start);
	bench_usage before = bench_usage_now("/");
	uint64_t server_before = bench_cpu_ns_of(server);
	while (entries_max == 0 ? bench_now_ns() < measure_to : measured < entries_max)
		turn(false, start);
	bench_usage after = bench_usage_now("/");
	uint64_t server_ns = bench_cpu_ns_of(server) - server_before, late_now = under_way;
	for (uint64_t until = bench_now_ns() + 30000000000; under_way > 0 && bench_now_ns() < until;)
		turn(true, start);
	if (under_way > 0)
		bench_die("%" PRIu64 " adds were not answered within 30 s", under_way);
	if (trace != NULL && (fflush(trace) != 0 || ferror(trace) != 0 || fclose(trace) != 0))
		bench_die("%s: %s", trace_path, strerror(errno));
	printf("{\"version\": %" PRIu64 ", \"connections\": %" PRIu64 ", \"ledgers\": %" PRIu64 ", \"size\": %" PRIu64
	       ", \"window\": %" PRIu64 ", \"rate\": %" PRIu64 ", \"entries\": %" PRIu64
	       ", \"entries_per_second\": %.1f, \"under_way_at_end\": %" PRIu64 ", \"turns_refused\": %" PRIu64
	       ", \"server_cpu_ns\": %" PRIu64 ", \"server_ns_per_entry\": %.1f, ",
	       version, connections_count, ledgers_count, size, window, rate, measured,
	       (double)measured / bench_seconds(&before, &after), late_now, turns_refused, server_ns,
	       measured == 0 ? 0 : (double)server_ns / (double)measured);
	bench_print_quantiles(&samples);
	bench_print_usage(&before, &after);
	printf("\"cpu_seconds\": %.6f}\n", (double)(after.process_cpu_ns - before.process_cpu_ns) / 1e9);
	return 0;
}

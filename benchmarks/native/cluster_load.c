/*
 * cluster_load: adds to one ledger on several bookies, each entry to all of them, confirmed by a quorum. One cell a run.
 *
 *   --ports P,P,P --ack 2 --size 1024 --window 64 --warmup-ms 1000 --ms 5000 --ledger 1
 *   --client ours    libwalkeeper's client (client.h), protocol v3
 *            bare    one thread with an epoll and a socket for each bookie, protocol v2, and nothing else: no
 *                    time-outs, no ensembles, no other thread that waits; what a client is measured against
 *
 * Closed loop: so many adds are not confirmed. The latency of an add counts until it is confirmed, in order.
 */
#include "bench_bookie.h"
#include "walkeeper/client.h"

enum { BOOKIES_MAX = 16, WINDOW_MAX = 16384 };

static uint64_t size, window, ack, ledger_id, measure_from, measure_to, measured;
static uint16_t ports[BOOKIES_MAX];
static uint32_t bookies_count;
static uint64_t began_ns[WINDOW_MAX]; /* of entry e at e mod WINDOW_MAX */
static uint8_t *payload;
static bench_samples samples;

static void confirmed(int64_t entry_id, uint64_t now) {
	if (now < measure_from || now >= measure_to)
		return;
	measured++;
	bench_samples_add(&samples, now - began_ns[entry_id % WINDOW_MAX]);
}

/* ---- the bare client ---- */

static bench_link links[BOOKIES_MAX];
static int64_t next_entry, lac = -1, length;
static uint8_t acks[WINDOW_MAX];
static int poller;

static void bare_begin(uint64_t now) {
	int64_t entry_id = next_entry++;
	acks[entry_id % WINDOW_MAX] = 0;
	began_ns[entry_id % WINDOW_MAX] = now;
	length += (int64_t)size;
	const wk_wire_entry header = {(int64_t)ledger_id, entry_id, lac, length};
	const wk_wire_request request = {
	    .version = WK_WIRE_V2,
	    .header_version = WK_WIRE_V2,
	    .operation = WK_WIRE_ADD,
	    .ledger_id = header.ledger_id,
	    .entry_id = entry_id,
	    .key = BENCH_KEY,
	    .key_size = sizeof BENCH_KEY,
	    .body_size = BENCH_ENTRY_HEAD + size,
	};
	const uint8_t *entry = NULL;
	for (uint32_t i = 0; i < bookies_count; i++) {
		bench_link *to = &links[i];
		bench_link_room(to, WK_WIRE_HEAD_SIZE_MAX + BENCH_ENTRY_HEAD + size);
		bench_link_ask(to, &request);
		if (entry == NULL) /* summed once */
			bench_entry_put(to->out + to->out_size, &header, payload, size);
		else
			memcpy(to->out + to->out_size, entry, BENCH_ENTRY_HEAD + size);
		entry = to->out + to->out_size;
		to->out_size += BENCH_ENTRY_HEAD + size;
	}
}

static void bare_heard(bench_link *from, const wk_wire_reply *reply, uint64_t now) {
	(void)from;
	if (reply->operation != WK_WIRE_ADD || reply->code != WK_WIRE_OK)
		bench_die("an add was answered with %u", reply->code);
	if (reply->entry_id > lac)
		acks[reply->entry_id % WINDOW_MAX]++;
	while (lac + 1 < next_entry && acks[(lac + 1) % WINDOW_MAX] >= ack)
		confirmed(++lac, now);
}

static void bare_turn(bool ending) {
	uint64_t now = bench_now_ns();
	while (!ending && next_entry - lac - 1 < (int64_t)window)
		bare_begin(now);
	for (uint32_t i = 0; i < bookies_count; i++)
		if (!links[i].wants_out)
			bench_link_say(&links[i], poller);
	bench_links_wait(poller, 100000000, WK_WIRE_V2, bare_heard);
}

/* ---- our client ---- */

static wk_client *client;
static wk_handle *handle;

static void check(wk_status status, const wk_error *error) {
	if (status != WK_OK)
		bench_die("%s", error->text);
}

static void ours_begin(void) {
	wk_error error;
	check(wk_client_start(NULL, &client, &error), &error);
	uint32_t numbers[BOOKIES_MAX];
	for (uint32_t i = 0; i < bookies_count; i++) {
		char id[32];
		snprintf(id, sizeof id, "bookie-%" PRIu32, i);
		check(wk_client_bookie(client, id, "127.0.0.1", ports[i], &numbers[i], &error), &error);
	}
	wk_ledger_segment segment = {.bookies = numbers};
	wk_ledger_spec spec = {.ledger_id = (int64_t)ledger_id,
	                       .ensemble_size = bookies_count,
	                       .write_quorum = bookies_count,
	                       .ack_quorum = (uint32_t)ack,
	                       .digest_type = WK_DIGEST_TYPE_CRC32C,
	                       .segments = &segment,
	                       .segments_count = 1,
	                       .last_entry = -1};
	memcpy(spec.master_key, BENCH_KEY, sizeof spec.master_key);
	check(wk_handle_open(client, &spec, WK_HANDLE_WRITE, &handle, &error), &error);
}

static void ours_turn(bool ending) {
	wk_error error;
	int64_t entry_id;
	while (!ending && next_entry - lac - 1 < (int64_t)window) {
		began_ns[next_entry % WINDOW_MAX] = bench_now_ns();
		check(wk_handle_submit(handle, payload, size, UINT64_MAX, &entry_id, &error), &error);
		next_entry = entry_id + 1;
	}
	check(wk_handle_wait(handle, lac + 1, UINT64_MAX, &error), &error);
	wk_handle_state state;
	wk_handle_state_get(handle, &state);
	uint64_t now = bench_now_ns();
	while (lac < state.lac)
		confirmed(++lac, now);
}

/* ---- the run ---- */

static void take_ports(const char *text) {
	while (*text != '\0' && bookies_count < BOOKIES_MAX) {
		char *end;
		ports[bookies_count++] = (uint16_t)strtoul(text, &end, 10);
		text = *end == ',' ? end + 1 : end;
	}
}

int main(int argc, char **argv) {
	size = bench_number(argc, argv, "size", 1024);
	window = bench_number(argc, argv, "window", 64);
	ack = bench_number(argc, argv, "ack", 2);
	ledger_id = bench_number(argc, argv, "ledger", 1);
	take_ports(bench_text(argc, argv, "ports", NULL));
	bool ours = strcmp(bench_text(argc, argv, "client", "ours"), "ours") == 0;
	if (window == 0 || window >= WINDOW_MAX || ack == 0 || ack > bookies_count)
		bench_die("a window below %d, and an ack quorum of the bookies", WINDOW_MAX);
	payload = bench_allocate(size);
	bench_fill(payload, size);
	bench_samples_init(&samples, BENCH_SAMPLES_MAX);
	if (ours) {
		ours_begin();
	} else {
		poller = bench_poller();
		for (uint32_t i = 0; i < bookies_count; i++) {
			char port[16];
			snprintf(port, sizeof port, "%u", ports[i]);
			bench_link_open(&links[i], "127.0.0.1", port, poller, 65536);
		}
	}
	void (*turn)(bool ending) = ours ? ours_turn : bare_turn;
	measure_from = bench_now_ns() + bench_number(argc, argv, "warmup-ms", 1000) * 1000000;
	measure_to = measure_from + bench_number(argc, argv, "ms", 5000) * 1000000;
	while (bench_now_ns() < measure_from)
		turn(false);
	bench_usage before = bench_usage_now("/");
	while (bench_now_ns() < measure_to)
		turn(false);
	bench_usage after = bench_usage_now("/");
	while (lac + 1 < next_entry)
		turn(true);
	printf("{\"client\": \"%s\", \"window\": %" PRIu64 ", \"size\": %" PRIu64 ", \"entries\": %" PRIu64
	       ", \"entries_per_s\": %.1f, ",
	       ours ? "ours" : "bare", window, size, measured, (double)measured / bench_seconds(&before, &after));
	bench_print_quantiles(&samples);
	bench_print_usage(&before, &after);
	printf("\"ok\": true}\n");
	if (ours) {
		wk_handle_close(handle);
		wk_client_release(client);
	}
	return 0;
}

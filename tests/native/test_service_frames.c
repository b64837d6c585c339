/*
 * test_service_frames.c: frames that come piece by piece stay within the memory for what comes in, and who begins them and
 * stops keeps nobody out.
 */
/* ctest labels: one-thread simulated */
#include "bookie_harness.h"
#include "engine/manual.h"

static bookie b;

/* A frame of so many bytes that nobody will ever ask for: a LAC would be refused, an add is taken. */
static void ask_large(peer *p, int64_t entry_id, size_t size) {
	static uint8_t bytes[1 << 20];
	wk_wire_request request = an_entry(5, entry_id, -1, 1, 20, 0);
	memset(bytes, 0, size);
	memcpy(bytes, request.body, request.body_size);
	wk_store_be64(bytes + 24, size - 36);
	wk_wire_digest_put(bytes, size, WK_DIGEST_CRC32C);
	request.body = bytes;
	request.body_size = size;
	ask(p, request);
}

TEST(large_frames_of_many_stay_within_the_memory_for_them) {
	bookie_prepare(&b, new_disk(7));
	b.options.frame_size_max = 512 * 1024;
	b.options.receive_bytes = 8 << 20;
	b.store.in_flight_bytes = 64 << 20;
	b.store.file_size_max = b.store.file_size_min = 8 << 20;
	bookie_serve(&b);
	peer *p[PEERS_MAX];
	for (int i = 0; i < PEERS_MAX; i++) {
		p[i] = bookie_connect(&b);
		ask_large(p[i], i, 400 * 1024);
		ask_large(p[i], 100 + i, 300 * 1024);
	}
	uint64_t most = 0;
	for (int i = 0; i < 3000; i++) {
		bookie_turn(&b, 30000);
		wk_status status = wk_namespace_step(b.ns, &(bool){false}, NULL);
		CHECK_EQ(status, WK_OK);
		most = b.service->input_bytes > most ? b.service->input_bytes : most;
	}
	CHECK(most <= b.options.receive_bytes + b.options.receive_bytes / 16 + b.options.frame_size_max);
	for (int i = 0; i < PEERS_MAX; i++) {
		CHECK(p[i]->open && !p[i]->paused);
		CHECK_EQ(take_reply(p[i]).code, WK_WIRE_OK);
		CHECK_EQ(take_reply(p[i]).code, WK_WIRE_OK);
	}
	CHECK_EQ(b.service->input_bytes, 0);
	CHECK_EQ(b.service->partial_count, 0);
	CHECK_EQ(b.service->large_left, 8);
	bookie_close(&b);
}

TEST(beginnings_of_frames_stay_within_the_memory_for_them) {
	bookie_prepare(&b, new_disk(7));
	b.options.frame_size_max = 128 * 1024;
	b.options.receive_bytes = 256 * 1024;
	bookie_serve(&b);
	for (int i = 0; i < PEERS_MAX; i++) {
		peer *p = bookie_connect(&b);
		ask_large(p, i, 100 * 1024);
		bookie_turn(&b, 60000);
		p->out.size = 0; /* no more comes */
	}
	CHECK(b.service->input_bytes <= 256 * 1024 + 16 * 1024 + 128 * 1024);
	for (int i = 0; i < 3; i++) {
		bookie_wait(&b, 31000);
		bookie_run(&b);
	}
	CHECK_EQ(b.service->input_bytes, 0); /* all of them were closed by then */
	CHECK_EQ(b.service->stats.connections, 0);
	bookie_close(&b);
}

/* A peer that brings so many bytes of a frame of `size` and stops there; the rest is kept in `rest`. */
static peer *begin_frame(int64_t entry_id, size_t size, size_t brings, bytes_queue *rest) {
	peer *p = bookie_connect(&b);
	ask_large(p, entry_id, size);
	if (rest != NULL)
		queue_put(rest, p->out.bytes + brings, p->out.size - brings);
	p->out.size = brings;
	bookie_turn(&b, SIZE_MAX);
	return p;
}

static void finish_frame(peer *p, bytes_queue *rest) {
	queue_put(&p->out, rest->bytes, rest->size);
	free(rest->bytes);
	bookie_run(&b);
	CHECK(p->open && !p->paused);
	CHECK_EQ(take_reply(p).code, WK_WIRE_OK);
}

static void prepare_for_frames(void) {
	bookie_prepare(&b, new_disk(7));
	b.options.frame_size_max = 128 * 1024;
	b.options.receive_bytes = 256 * 1024; /* half of it for what is begun, and one place for a large frame */
	bookie_serve(&b);
}

/* Within a turn: the bytes stay where they are until the next. */
static void arrives(peer *p, size_t size) {
	static uint8_t received[4][128 * 1024];
	static uint32_t at;
	uint8_t *bytes = received[at++ % 4];
	CHECK(size <= sizeof received[0]);
	memcpy(bytes, p->out.bytes, size);
	queue_drop(&p->out, size);
	deliver_event(&b, (wk_net_event){.kind = WK_NET_RECEIVED, .connection = p->id, .bytes = bytes, .size = size});
}

/* While it waits for a place, and then for what it did not read of its answers, half a frame is half a frame. */
TEST(half_a_frame_that_waits_is_not_the_beginning_of_another) {
	prepare_for_frames();
	peer *holder = begin_frame(1, 100 * 1024, 70000, NULL), *p = bookie_connect(&b);
	CHECK_EQ(answer_to(p, an_entry(6, 0, -1, 1, 60000, 0)).code, WK_WIRE_OK);
	b.service->limits.reply_bytes = 1;
	p->deaf = true;
	ask_large(p, 101, 80 * 1024);
	bytes_queue all = p->out;
	p->out = (bytes_queue){0};
	ask(p, a_read(6, 0));
	bookie_run(&b); /* its answer is not taken */
	CHECK(b.service->load.reply_bytes > 0);
	queue_put(&p->out, all.bytes, all.size);
	free(all.bytes);
	ask(p, a_read(6, 0));
	size_t until_read = p->out.size;
	ask(p, an_entry(6, 1, -1, 1, 1000, 0));
	size_t rest = 500;
	arrives(p, 70000);
	bookie_turn(&b, 0);
	CHECK(p->paused);
	arrives(p, until_read - 70000 + rest);
	bookie_turn(&b, 0);
	hear(p);
	deliver_event(&b, b.events[--b.events_count]); /* that it was sent, and in the same batch: */
	arrives(p, p->out.size);
	CHECK_EQ(b.service->stats.protocol_errors, 0);
	b.service->limits.reply_bytes = 1 << 20;
	hang_up(holder);
	bookie_run(&b);
	CHECK_EQ(b.service->stats.protocol_errors, 0);
	CHECK(p->open);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(take_reply(p).code, WK_WIRE_OK);
	bookie_close(&b);
}

TEST(who_begins_frames_in_a_crowd_keeps_nobody_out) {
	prepare_for_frames();
	for (int i = 0; i < 3; i++)
		begin_frame(i, 100 * 1024, 60000, NULL);
	bytes_queue rest = {0};
	peer *late = begin_frame(9, 20000, 13000, &rest);
	finish_frame(late, &rest); /* with no time passing */
	CHECK_EQ(b.service->stats.frame_timeouts, 2);
	bookie_close(&b);
}

TEST(cluster_rule_9_who_begins_frames_and_stops_keeps_others_out_for_a_second) {
	prepare_for_frames();
	for (int i = 0; i < 2; i++)
		begin_frame(i, 100 * 1024, 60000, NULL);
	bytes_queue rest = {0};
	peer *late = begin_frame(9, 20000, 13000, &rest);
	CHECK(late->paused); /* all that there is for beginnings is taken, and not so much more that anybody must go */
	bookie_wait(&b, 500);
	bookie_run(&b);
	CHECK(late->paused && b.service->stats.frame_timeouts == 0);
	bookie_wait(&b, 1000);
	bookie_run(&b);
	finish_frame(late, &rest);
	CHECK(b.service->stats.frame_timeouts > 0);
	bookie_close(&b);
}

TEST(who_begins_a_large_frame_and_stops_keeps_others_out_for_a_second) {
	prepare_for_frames();
	peer *first = begin_frame(1, 100 * 1024, 70000, NULL);
	bytes_queue rest = {0};
	peer *late = begin_frame(9, 100 * 1024, 70000, &rest);
	CHECK(!first->paused && late->paused); /* there is one place */
	bookie_wait(&b, 1500);
	bookie_run(&b);
	bookie_wait(&b, 1500);
	bookie_run(&b);
	CHECK(!first->open);
	finish_frame(late, &rest);
	CHECK_EQ(b.service->stats.frame_timeouts, 1);
	bookie_close(&b);
}

TEST(who_waits_for_a_place_for_a_large_frame_keeps_small_ones_out_for_a_second) {
	prepare_for_frames();
	begin_frame(1, 100 * 1024, 70000, NULL); /* the one place is its */
	for (int i = 0; i < 2; i++)
		begin_frame(2 + i, 100 * 1024, 66000, NULL); /* as much as there is for beginnings */
	bytes_queue rest = {0};
	peer *late = begin_frame(9, 20000, 13000, &rest);
	CHECK(late->paused);
	bookie_wait(&b, 1500);
	bookie_run(&b);
	bookie_wait(&b, 1500);
	bookie_run(&b);
	finish_frame(late, &rest);
	bookie_close(&b);
}

TEST(who_sends_a_large_frame_slowly_goes_for_nobody_who_needs_no_place_of_its) {
	prepare_for_frames();
	bytes_queue rest = {0};
	peer *slow = begin_frame(1, 100 * 1024, 70000, &rest);
	for (int i = 0; i < 2; i++)
		begin_frame(10 + i, 60 * 1024, 60000, NULL);
	peer *late = begin_frame(9, 20000, 13000, NULL);
	CHECK(!slow->paused && late->paused);
	bookie_wait(&b, 1500);
	bookie_run(&b);
	finish_frame(slow, &rest);
	bookie_close(&b);
}

TEST(of_two_with_places_the_slower_one_goes) {
	bookie_prepare(&b, new_disk(7));
	b.options.frame_size_max = 128 * 1024;
	b.options.receive_bytes = 512 * 1024; /* two places */
	bookie_serve(&b);
	peer *slow = begin_frame(1, 100 * 1024, 70000, NULL);
	bookie_wait(&b, 400);
	bytes_queue rest = {0};
	peer *other = begin_frame(2, 100 * 1024, 70000, &rest);
	begin_frame(3, 100 * 1024, 70000, NULL);
	bookie_wait(&b, 1100);
	bookie_run(&b);
	CHECK(!slow->open);
	finish_frame(other, &rest);
	bookie_close(&b);
}

/*
 * Six clients share a place for large frames, each twice as fast as it must be. Who waits is not read, and is not slow
 * for that when its turn comes; nor is it closed while it waits.
 */
TEST(who_waited_for_a_place_has_its_time_when_it_gets_one) {
	enum { FRAME = 4 << 20, BEGINNING = 128 * 1024, A_TICK = 52429, CLIENTS = 6 };
	bookie_prepare(&b, new_disk(7));
	b.options.frame_size_max = FRAME;
	b.options.receive_bytes = 2 * FRAME;
	bookie_serve(&b);
	CHECK_EQ(b.service->large_left, 1);
	static const uint8_t zeros[BEGINNING];
	peer *p[CLIENTS];
	size_t sent[CLIENTS];
	for (int i = 0; i < CLIENTS; i++) {
		uint8_t prefix[4];
		wk_store_be32(prefix, FRAME - 4);
		p[i] = bookie_connect(&b);
		queue_put(&p[i]->out, prefix, sizeof prefix);
		queue_put(&p[i]->out, zeros, sizeof zeros);
		sent[i] = sizeof prefix + sizeof zeros;
		bookie_turn(&b, SIZE_MAX);
	}
	for (int tick = 0; tick < 10 * 90; tick++) {
		bookie_wait(&b, 100);
		for (int i = 0; i < CLIENTS; i++) {
			size_t more = FRAME - sent[i] < A_TICK ? FRAME - sent[i] : A_TICK;
			if (!p[i]->open || p[i]->paused || more == 0)
				continue;
			queue_put(&p[i]->out, zeros, more);
			sent[i] += more;
		}
		bookie_turn(&b, SIZE_MAX);
		bookie_turn(&b, SIZE_MAX);
		CHECK_EQ(b.service->stats.frame_timeouts, 0);
	}
	for (int i = 0; i < CLIENTS; i++)
		CHECK_EQ(sent[i], FRAME);
	bookie_close(&b);
}

int main(void) {
	RUN(large_frames_of_many_stay_within_the_memory_for_them);
	RUN(beginnings_of_frames_stay_within_the_memory_for_them);
	RUN(half_a_frame_that_waits_is_not_the_beginning_of_another);
	RUN(who_begins_frames_in_a_crowd_keeps_nobody_out);
	RUN(cluster_rule_9_who_begins_frames_and_stops_keeps_others_out_for_a_second);
	RUN(who_begins_a_large_frame_and_stops_keeps_others_out_for_a_second);
	RUN(who_waits_for_a_place_for_a_large_frame_keeps_small_ones_out_for_a_second);
	RUN(who_sends_a_large_frame_slowly_goes_for_nobody_who_needs_no_place_of_its);
	RUN(of_two_with_places_the_slower_one_goes);
	RUN(who_waited_for_a_place_has_its_time_when_it_gets_one);
	return check_done();
}

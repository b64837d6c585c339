/* test_client_driven.c: the client turn by turn, on a simulated network: what threads and sockets would hide. */
/* ctest labels: one-thread simulated */
#include "client/link.h"
#include "driven_client.h"

TEST(an_entry_is_confirmed_by_an_ack_quorum) {
	driven d;
	driven_start(&d, 3);
	wk_handle *handle = driven_open(&d, WK_HANDLE_WRITE, 2);
	driven_submit(handle, "hello", 5);
	driven_run(&d, 10 * MS);
	wk_wire_request request;
	wk_handle_state state;
	for (uint32_t at = 0; at < 3; at++) {
		CHECK(driven_asks(&d, at, &request));
		CHECK_EQ(request.operation, WK_WIRE_ADD);
		driven_answer(&d, at, &request, WK_WIRE_OK);
		driven_run(&d, 10 * MS);
		wk_handle_state_get(handle, &state);
		CHECK_EQ(state.lac, at == 0 ? -1 : 0);
	}
	CHECK_EQ(state.length, 5);
	wk_handle_close(handle);
	driven_end(&d);
}

/* The metadata do not name it any more: nobody who recovers the ledger would ask it. */
TEST(an_ack_of_a_bookie_that_was_replaced_does_not_count) {
	driven d;
	driven_start(&d, 4);
	wk_handle *handle = driven_open_on(&d, 3, WK_HANDLE_WRITE, 2);
	driven_submit(handle, "hello", 5);
	driven_run(&d, 10 * MS);
	wk_wire_request late, request;
	CHECK(driven_asks(&d, 0, &late));
	CHECK(driven_asks(&d, 1, &request));
	driven_answer(&d, 1, &request, WK_WIRE_OK);
	driven_run(&d, 10 * MS);
	int64_t first_entry;
	CHECK_EQ(wk_handle_change_begin(handle, &first_entry, NULL), WK_OK);
	CHECK_EQ(first_entry, 0);
	CHECK_EQ(wk_handle_change_commit(handle, 1, (const uint32_t[]){3, 1, 2}, NULL), WK_OK);
	driven_answer(&d, 0, &late, WK_WIRE_OK);
	driven_run(&d, 10 * MS);
	wk_handle_state state;
	wk_handle_state_get(handle, &state);
	CHECK_EQ(state.lac, -1);
	CHECK(driven_asks(&d, 3, &request));
	driven_answer(&d, 3, &request, WK_WIRE_OK);
	driven_run(&d, 10 * MS);
	wk_handle_state_get(handle, &state);
	CHECK_EQ(state.lac, 0);
	wk_handle_close(handle);
	driven_end(&d);
}

/* They were queued for the driver, which had not seen them yet. Their answers come to nobody, and harm nothing. */
TEST(entries_that_nobody_has_sent_when_their_handle_is_closed_are_sent) {
	driven d;
	driven_start(&d, 3);
	wk_handle *handle = driven_open(&d, WK_HANDLE_WRITE, 2);
	driven_submit(handle, "hello", 5);
	wk_handle_close(handle);
	driven_run(&d, 100 * MS);
	wk_wire_request request;
	for (uint32_t at = 0; at < 3; at++) {
		CHECK(driven_asks(&d, at, &request));
		driven_answer(&d, at, &request, WK_WIRE_OK);
	}
	driven_run(&d, 100 * MS);
	driven_end(&d);
}

TEST(a_handle_is_closed_while_its_entries_are_on_their_way) {
	driven d;
	driven_start(&d, 3);
	wk_handle *handle = driven_open(&d, WK_HANDLE_WRITE, 2);
	driven_submit(handle, "hello", 5);
	driven_run(&d, 10 * MS);
	driven_submit(handle, "again", 5);
	wk_handle_close(handle);
	driven_run(&d, 10 * MS);
	wk_wire_request request;
	CHECK(driven_asks(&d, 0, &request));
	CHECK_EQ(request.entry_id, 0);
	driven_answer(&d, 0, &request, WK_WIRE_OK); /* to nobody; the others never answer */
	driven_run(&d, 5 * S);
	driven_end(&d);
}

/* Whatever bookie it missed at first, it is fenced before its "absent" counts. */
TEST(every_read_of_a_recovery_fences) {
	driven d;
	driven_start(&d, 3);
	wk_handle *handle = driven_open(&d, WK_HANDLE_READ, 2);
	wk_operation *operation = wk_recover_begin(handle);
	driven_run(&d, 10 * MS);
	wk_wire_request request;
	for (int phase = 0; phase < 2; phase++)
		for (uint32_t at = 0; at < 3; at++) {
			CHECK(driven_asks(&d, at, &request));
			CHECK_EQ(request.operation, WK_WIRE_READ);
			CHECK_EQ(request.entry_id, phase == 0 ? -1 : 0);
			CHECK((request.flags & WK_WIRE_FENCE) != 0);
			driven_answer(&d, at, &request, at == 2 ? WK_WIRE_IO_ERROR : WK_WIRE_NO_ENTRY);
			driven_run(&d, 10 * MS);
		}
	int64_t last_entry;
	uint64_t length;
	CHECK_EQ(operation->done, 1);
	CHECK_EQ(wk_recover_finish(operation, operation->status, &last_entry, &length, NULL), WK_OK);
	CHECK_EQ(last_entry, -1);
	CHECK_EQ(length, 0);
	wk_handle_close(handle);
	driven_end(&d);
}

/* Entry 0, as a writer has sent it. */
static size_t put_entry(uint8_t *bytes) {
	memset(bytes, 0, 41);
	bytes[7] = LEDGER;
	memset(bytes + 16, 0xff, 8); /* LAC -1 */
	bytes[31] = 5;               /* the length of the ledger */
	memcpy(bytes + 36, "hello", 5);
	wk_wire_digest_put(bytes, 41, WK_DIGEST_CRC32C);
	return 41;
}

TEST(a_recovery_that_cannot_write_does_not_say_that_it_cannot_read) {
	driven d;
	driven_start(&d, 1);
	wk_handle *handle = driven_open(&d, WK_HANDLE_READ, 1);
	wk_operation *operation = wk_recover_begin(handle);
	wk_wire_request request;
	uint8_t entry[64];
	size_t size = put_entry(entry);
	for (int i = 0; i < 2; i++) { /* the last entry, with a fence; then entry 0 */
		driven_run(&d, 10 * MS);
		CHECK(driven_asks(&d, 0, &request));
		CHECK_EQ(request.operation, WK_WIRE_READ);
		driven_answer_with(&d, 0, &request, WK_WIRE_OK, entry, size);
	}
	driven_run(&d, 10 * MS);
	while (driven_asks(&d, 0, &request))
		if (request.operation == WK_WIRE_ADD) {
			CHECK((request.flags & WK_WIRE_RECOVERY) != 0);
			driven_answer(&d, 0, &request, WK_WIRE_READ_ONLY);
			driven_run(&d, 10 * MS);
		}
	CHECK_EQ(operation->done, 1);
	int64_t last_entry;
	uint64_t length;
	wk_error error;
	CHECK_EQ(wk_recover_finish(operation, operation->status, &last_entry, &length, &error), WK_UNAVAILABLE);
	CHECK(strstr(error.text, "too few bookies store what is written again") != NULL);
	wk_handle_close(handle);
	driven_end(&d);
}

/* The kernel may go on with a send behind the close of its connection, until it says that it does not. */
TEST(what_is_being_sent_stays_as_it_is_when_the_client_stops) {
	static uint8_t payload[60000];
	driven d;
	driven_start(&d, 1);
	wk_network_set_window(d.network, 20000);
	wk_handle *handle = driven_open(&d, WK_HANDLE_WRITE, 1);
	memset(payload, 0xa5, sizeof payload);
	driven_submit(handle, payload, sizeof payload);
	played_bookie *bookie = &d.bookies[0];
	for (int i = 0; i < 1000 && bookie->heard_size == 0; i++) {
		driven_turn(&d);
		wk_network_advance(d.network, wk_network_now(d.network) + 10 * US);
		bookie_turn(bookie);
	}
	CHECK(bookie->heard_size > 0 && bookie->heard_size < sizeof payload);
	wk_client_stop(d.client);
	for (int i = 0; i < 100; i++) {
		wk_network_advance(d.network, wk_network_now(d.network) + 10 * US);
		bookie_turn(bookie);
	}
	CHECK(bookie->heard_size > 20000);
	for (size_t i = 1000; i < bookie->heard_size; i++)
		CHECK_EQ(bookie->heard[i], 0xa5);
	wk_handle_close(handle);
	driven_end(&d);
}

/* A bookie that stood still hears of what is wanted, and not of all that was wanted meanwhile. */
TEST(a_request_that_was_given_up_before_it_was_sent_is_not_sent) {
	static const uint8_t payload[60000];
	driven d;
	driven_start(&d, 1);
	wk_network_set_window(d.network, 1000);
	wk_handle *handle = driven_open(&d, WK_HANDLE_WRITE, 1);
	played_bookie *bookie = &d.bookies[0];
	driven_submit(handle, "hello", 5);
	driven_run(&d, 10 * MS);
	wk_wire_request request;
	CHECK(driven_asks(&d, 0, &request));
	CHECK_EQ(bookie->net->operations->pause(bookie->net, bookie->connection), 0);
	driven_submit(handle, payload, sizeof payload);
	driven_run(&d, 10 * MS);
	driven_submit(handle, "late", 4); /* behind an entry that is being sent */
	driven_run(&d, 2 * S);
	CHECK_EQ(bookie->net->operations->resume(bookie->net, bookie->connection), 0);
	wk_operation *operation = wk_read_lac_begin(handle);
	driven_run(&d, 500 * MS);
	CHECK(driven_asks(&d, 0, &request));
	CHECK_EQ(request.operation, WK_WIRE_ADD);
	CHECK_EQ(request.entry_id, 1);
	CHECK(driven_asks(&d, 0, &request));
	CHECK_EQ(request.operation, WK_WIRE_READ_LAC);
	CHECK(!driven_asks(&d, 0, &request));
	int64_t lac;
	CHECK_EQ(wk_read_lac_finish(operation, WK_TIMEOUT, &lac, NULL), WK_TIMEOUT);
	wk_handle_close(handle);
	driven_end(&d);
}

static void all_are_asked_to_wait(driven *d, wk_wire_request *requests) {
	driven_run(d, 10 * MS);
	for (uint32_t at = 0; at < d->bookies_count; at++) {
		CHECK(driven_asks(d, at, &requests[at]));
		CHECK_EQ(requests[at].operation, WK_WIRE_READ);
		CHECK_EQ(requests[at].flags & (WK_WIRE_LONG_POLL | WK_WIRE_PIGGYBACK), WK_WIRE_LONG_POLL | WK_WIRE_PIGGYBACK);
		CHECK_EQ(requests[at].entry_id, -1);
		CHECK_EQ(requests[at].previous_lac, -1);
		CHECK_EQ(requests[at].timeout_ms, 100);
	}
}

TEST(a_wait_ends_with_the_first_bookie_that_knows_more_and_brings_its_entry) {
	driven d;
	driven_start(&d, 3);
	wk_handle *handle = driven_open(&d, WK_HANDLE_READ, 2);
	wk_operation *operation = wk_wait_lac_begin(handle, -1, 100 * MS);
	wk_wire_request requests[3];
	all_are_asked_to_wait(&d, requests);
	driven_answer_poll(&d, 0, &requests[0], -1, NULL, 0);
	driven_answer(&d, 1, &requests[1], WK_WIRE_NO_LEDGER);
	driven_run(&d, 10 * MS);
	CHECK_EQ(operation->done, 0);
	uint8_t bytes[64];
	driven_answer_poll(&d, 2, &requests[2], 4, bytes, put_entry(bytes));
	driven_run(&d, 10 * MS);
	CHECK_EQ(operation->done, 1);
	int64_t lac;
	wk_entries *entry;
	CHECK_EQ(wk_wait_lac_finish(operation, operation->status, &lac, &entry, NULL), WK_OK);
	CHECK_EQ(lac, 4);
	size_t count;
	CHECK_EQ(wk_entries_get(entry, &count)->entry_id, 0);
	CHECK_EQ(count, 1);
	CHECK_EQ(memcmp(wk_entries_get(entry, &count)->payload, "hello", 5), 0);
	wk_entries_release(entry);
	wk_handle_close(handle);
	driven_end(&d);
}

/* The LAC is taken all the same: the entry is read as others are. */
TEST(a_piggy_backed_entry_that_is_damaged_is_not_given) {
	driven d;
	driven_start(&d, 3);
	wk_handle *handle = driven_open(&d, WK_HANDLE_READ, 2);
	wk_operation *operation = wk_wait_lac_begin(handle, -1, 100 * MS);
	wk_wire_request requests[3];
	all_are_asked_to_wait(&d, requests);
	uint8_t bytes[64];
	size_t size = put_entry(bytes);
	bytes[size - 1] ^= 1;
	driven_answer_poll(&d, 1, &requests[1], 0, bytes, size);
	driven_run(&d, 10 * MS);
	int64_t lac;
	wk_entries *entry;
	CHECK_EQ(wk_wait_lac_finish(operation, operation->status, &lac, &entry, NULL), WK_OK);
	CHECK_EQ(lac, 0);
	CHECK(entry == NULL);
	wk_handle_close(handle);
	driven_end(&d);
}

TEST(a_wait_that_brings_nothing_says_whether_anybody_waited) {
	for (int somebody = 0; somebody < 2; somebody++) {
		driven d;
		driven_start(&d, 3);
		wk_handle *handle = driven_open(&d, WK_HANDLE_READ, 2);
		wk_operation *operation = wk_wait_lac_begin(handle, -1, 100 * MS);
		wk_wire_request requests[3];
		all_are_asked_to_wait(&d, requests);
		driven_answer(&d, 0, &requests[0], WK_WIRE_NO_LEDGER);
		driven_answer(&d, 1, &requests[1], WK_WIRE_TOO_MANY_REQUESTS);
		driven_run(&d, 50 * MS);
		CHECK_EQ(operation->done, 0);
		if (somebody)
			driven_answer_poll(&d, 2, &requests[2], -1, NULL, 0);
		else
			driven_answer(&d, 2, &requests[2], WK_WIRE_NO_LEDGER);
		driven_run(&d, 10 * MS);
		CHECK_EQ(operation->done, 1);
		int64_t lac;
		wk_entries *entry;
		CHECK_EQ(wk_wait_lac_finish(operation, operation->status, &lac, &entry, NULL),
		         somebody ? WK_TIMEOUT : WK_UNAVAILABLE);
		wk_handle_close(handle);
		driven_end(&d);
	}
}

/* The read has an entry. */
static void ended(wk_operation *operation) {
	wk_entries *entries;
	CHECK_EQ(operation->done, 1);
	CHECK_EQ(wk_read_finish(operation, operation->status, &entries, NULL), WK_OK);
	wk_entries_release(entries);
}

/* Entry 0 of three bookies is read so often that the latency of each is known: 2 ms. */
static wk_handle *used_reader(driven *d) {
	driven_start(d, 3);
	wk_handle *handle = driven_open(d, WK_HANDLE_READ, 2);
	uint8_t entry[64];
	size_t size = put_entry(entry);
	for (uint32_t i = 0; i < 60; i++) { /* whichever is asked: it is silent at first, so that each has its turn */
		wk_operation *operation = wk_read_begin(handle, 0, 0, 1000);
		driven_run(d, MS);
		wk_wire_request request;
		for (uint32_t at = 0; at < 3; at++)
			if (driven_asks(d, at, &request)) {
				driven_run(d, MS);
				driven_answer_with(d, at, &request, WK_WIRE_OK, entry, size);
			}
		driven_run(d, MS);
		ended(operation);
		d->client->dispatcher->links[i % 3]->silent_until_ns = wk_network_now(d->network) + 10 * MS;
	}
	driven_run(d, 100 * MS);
	for (uint32_t at = 0; at < 3; at++)
		CHECK(wk_dispatcher_latency(d->client->dispatcher, at)->mean_ns < 5 * MS);
	return handle;
}

static void end_used_reader(driven *d, wk_handle *handle) {
	wk_handle_close(handle);
	driven_end(d);
}

TEST(a_read_that_is_late_is_sent_to_a_second_bookie_and_the_first_answer_counts) {
	for (uint32_t first = 0; first < 2; first++) {
		driven d;
		wk_handle *handle = used_reader(&d);
		uint8_t entry[64];
		size_t size = put_entry(entry);
		wk_operation *operation = wk_read_begin(handle, 0, 0, 1000);
		wk_wire_request requests[2];
		driven_run(&d, MS);
		CHECK(driven_asks(&d, 0, &requests[0]));
		CHECK(!driven_asks(&d, 1, &requests[1]));
		driven_run(&d, 30 * MS);
		CHECK(driven_asks(&d, 1, &requests[1]));
		driven_answer_with(&d, first, &requests[first], WK_WIRE_OK, entry, size);
		driven_run(&d, MS);
		CHECK_EQ(operation->done, 1);
		driven_answer_with(&d, 1 - first, &requests[1 - first], WK_WIRE_OK, entry, size);
		driven_run(&d, MS);
		ended(operation);
		end_used_reader(&d, handle);
	}
}

/* Bookies that are all slow get no more than a tenth more; one that hangs for 100 ms is left for the next in any case. */
TEST(speculative_reads_have_a_budget_and_hanging_bookies_are_left_without_it) {
	driven d;
	wk_handle *handle = used_reader(&d);
	d.client->dispatcher->speculation.credit = 0;
	wk_operation *operation = wk_read_begin(handle, 0, 0, 1000);
	wk_wire_request request;
	driven_run(&d, 90 * MS);
	CHECK(driven_asks(&d, 0, &request));
	CHECK(!driven_asks(&d, 1, &request));
	CHECK(!wk_dispatcher_is_silent(d.client->dispatcher, 0));
	driven_run(&d, 20 * MS);
	CHECK(driven_asks(&d, 1, &request));
	CHECK(wk_dispatcher_is_silent(d.client->dispatcher, 0));
	uint8_t entry[64];
	driven_answer_with(&d, 1, &request, WK_WIRE_OK, entry, put_entry(entry));
	driven_run(&d, MS);
	ended(operation);
	end_used_reader(&d, handle);
}

TEST(a_bookie_that_is_much_slower_is_asked_behind_the_others) {
	driven d;
	wk_handle *handle = used_reader(&d);
	for (int i = 0; i < 60; i++)
		wk_latency_seen(&d.client->dispatcher->links[0]->latency, 40 * MS);
	d.client->dispatcher->reads = 0;
	uint32_t slow = 0;
	for (uint32_t i = 0; i < 64; i++) {
		wk_operation *operation = wk_read_begin(handle, 0, 0, 1000);
		driven_run(&d, MS);
		wk_wire_request request;
		uint32_t at = driven_asks(&d, 0, &request) ? 0 : 1;
		slow += at == 0;
		CHECK(at == 0 || driven_asks(&d, 1, &request));
		uint8_t entry[64];
		driven_answer_with(&d, at, &request, WK_WIRE_OK, entry, put_entry(entry));
		driven_run(&d, MS);
		ended(operation);
	}
	CHECK_EQ(slow, 1); /* to see whether it still is */
	end_used_reader(&d, handle);
}

static uint64_t failed_slots(wk_handle *handle) {
	wk_handle_state state;
	wk_handle_state_get(handle, &state);
	return state.failed_slots;
}

/* Java's bookies do, where a burst comes. */
TEST(a_bookie_that_has_too_many_requests_is_asked_again_and_has_not_failed) {
	driven d;
	driven_start(&d, 3);
	wk_handle *handle = driven_open(&d, WK_HANDLE_WRITE, 3);
	driven_submit(handle, "hello", 5);
	driven_run(&d, 5 * MS);
	wk_wire_request request, again;
	for (int i = 0; i < 3; i++) {
		CHECK(driven_asks(&d, 0, &request));
		driven_answer(&d, 0, &request, WK_WIRE_TOO_MANY_REQUESTS);
		driven_run(&d, 5 * MS);
		CHECK(!driven_asks(&d, 0, &again)); /* after a while */
		driven_run(&d, 20 * MS);
	}
	for (uint32_t at = 0; at < 3; at++) {
		CHECK(driven_asks(&d, at, &again));
		CHECK_EQ(again.operation, WK_WIRE_ADD);
		CHECK_EQ(again.entry_id, 0);
		CHECK_EQ(again.body_size, 41);
		driven_answer(&d, at, &again, WK_WIRE_OK);
		CHECK_EQ(failed_slots(handle), 0);
	}
	driven_run(&d, 5 * MS);
	wk_handle_state state;
	wk_handle_state_get(handle, &state);
	CHECK_EQ(state.lac, 0);
	wk_handle_close(handle);
	driven_end(&d);
}

TEST(a_bookie_that_has_too_many_requests_for_as_long_as_an_add_may_take_has_failed) {
	driven d;
	driven_start(&d, 3);
	wk_handle *handle = driven_open(&d, WK_HANDLE_WRITE, 3);
	driven_submit(handle, "hello", 5);
	wk_wire_request request;
	uint64_t began_ns = wk_network_now(d.network);
	while (failed_slots(handle) == 0 && wk_network_now(d.network) < began_ns + 2 * S) {
		driven_run(&d, MS);
		if (driven_asks(&d, 0, &request))
			driven_answer(&d, 0, &request, WK_WIRE_TOO_MANY_REQUESTS);
		for (uint32_t at = 1; at < 3; at++)
			if (driven_asks(&d, at, &request))
				driven_answer(&d, at, &request, WK_WIRE_OK);
	}
	CHECK_EQ(failed_slots(handle), 1);
	uint64_t took_ns = wk_network_now(d.network) - began_ns;
	CHECK(took_ns >= 900 * MS && took_ns <= 1200 * MS);
	wk_handle_close(handle);
	driven_end(&d);
}

/* They have their quorum, and their bytes are gone. */
TEST(a_bookie_that_refuses_an_entry_that_others_have_confirmed_has_failed) {
	driven d;
	driven_start(&d, 3);
	wk_handle *handle = driven_open(&d, WK_HANDLE_WRITE, 2);
	driven_submit(handle, "hello", 5);
	driven_run(&d, 5 * MS);
	wk_wire_request request;
	for (uint32_t left = 3; left > 0; left--) {
		CHECK(driven_asks(&d, left - 1, &request));
		driven_answer(&d, left - 1, &request, left > 1 ? WK_WIRE_OK : WK_WIRE_TOO_MANY_REQUESTS);
		driven_run(&d, 5 * MS);
	}
	CHECK_EQ(failed_slots(handle), 1);
	wk_handle_close(handle);
	driven_end(&d);
}

enum { MANY = 12000, SENT_MAX = 8192 };

/* All that a bookie hears before it hears nothing for a while. */
static uint32_t hear_all(driven *d, wk_wire_request *heard) {
	uint32_t count = 0;
	for (int silent = 0; silent < 50; silent++) {
		driven_run(d, MS);
		for (; count < MANY && driven_asks(d, 0, &heard[count]); count++)
			silent = 0;
	}
	return count;
}

/* Java's bookie refuses what comes where 10,000 requests wait. */
TEST(a_bookie_is_sent_so_many_requests_and_the_rest_when_it_has_answered) {
	static wk_wire_request heard[MANY];
	static uint8_t said[MANY * 64];
	driven d;
	driven_start(&d, 1);
	wk_network_set_window(d.network, 20000);
	wk_handle *handle = driven_open(&d, WK_HANDLE_WRITE, 1);
	for (int i = 0; i < MANY; i++)
		driven_submit(handle, "hello", 5);
	played_bookie *bookie = &d.bookies[0];
	for (int round = 0; round < 2; round++) {
		uint32_t count = hear_all(&d, heard);
		CHECK_EQ(count, round == 0 ? SENT_MAX : MANY - SENT_MAX);
		struct iovec part = {.iov_base = said};
		for (uint32_t i = 0; i < count; i++) {
			wk_wire_reply reply;
			wk_wire_reply_begin(&heard[i], WK_WIRE_OK, &reply);
			part.iov_len += wk_wire_reply_encode(&reply, said + part.iov_len);
		}
		CHECK_EQ(bookie->net->operations->send(bookie->net, bookie->connection, &part, 1), 0);
	}
	driven_run(&d, 500 * MS);
	wk_handle_state state;
	wk_handle_state_get(handle, &state);
	CHECK_EQ(state.lac, MANY - 1);
	wk_handle_close(handle);
	driven_end(&d);
}

static void answer_lac(driven *d, uint32_t at, const wk_wire_request *request, uint32_t code, wk_handle *handle,
                       int64_t lac) {
	played_bookie *bookie = &d->bookies[at];
	wk_frame *packet = wk_lac_frame(&handle->view, lac);
	wk_wire_reply reply;
	wk_wire_reply_begin(request, code, &reply);
	reply.lac = packet->bytes + WK_WIRE_HEAD_SIZE_MAX;
	reply.lac_size = packet->size;
	struct iovec part = {.iov_base = bookie->said, .iov_len = wk_wire_reply_encode(&reply, bookie->said)};
	CHECK_EQ(bookie->net->operations->send(bookie->net, bookie->connection, &part, 1), 0);
	wk_frame_release(packet);
}

/* Java's bookie answers a READ_LAC with an explicit LAC and EIO where it has no entry, and where it cannot read its last. */
TEST(a_bookie_that_has_a_lac_and_no_entry_knows_the_lac) {
	for (int readable = 0; readable < 2; readable++) {
		driven d;
		driven_start(&d, 3);
		wk_handle *handle = driven_open(&d, WK_HANDLE_READ, 2);
		wk_operation *operation = wk_read_lac_begin(handle);
		driven_run(&d, 5 * MS);
		wk_wire_request request;
		for (uint32_t at = 0; at < 3; at++) {
			CHECK(driven_asks(&d, at, &request));
			CHECK_EQ(request.operation, WK_WIRE_READ_LAC);
			if (at == 0)
				answer_lac(&d, 0, &request, WK_WIRE_IO_ERROR, handle, 4);
			else
				driven_answer(&d, at, &request, at == 1 ? WK_WIRE_IO_ERROR : WK_WIRE_NO_ENTRY);
		}
		driven_run(&d, 5 * MS);
		CHECK_EQ(operation->done, 0);
		CHECK(!driven_asks(&d, 1, &request));
		CHECK(driven_asks(&d, 0, &request));
		CHECK_EQ(request.operation, WK_WIRE_READ);
		CHECK_EQ(request.entry_id, -1);
		CHECK_EQ(request.flags, 0); /* the writer goes on */
		driven_answer(&d, 0, &request, readable ? WK_WIRE_NO_ENTRY : WK_WIRE_IO_ERROR);
		driven_run(&d, 5 * MS);
		CHECK_EQ(operation->done, 1);
		int64_t lac = -1;
		wk_status wanted = readable ? WK_OK : WK_UNAVAILABLE;
		CHECK_EQ(wk_read_lac_finish(operation, operation->status, &lac, NULL), wanted);
		CHECK_EQ(lac, readable ? 4 : -1);
		wk_handle_close(handle);
		driven_end(&d);
	}
}

int main(void) {
	RUN(an_entry_is_confirmed_by_an_ack_quorum);
	RUN(an_ack_of_a_bookie_that_was_replaced_does_not_count);
	RUN(entries_that_nobody_has_sent_when_their_handle_is_closed_are_sent);
	RUN(a_handle_is_closed_while_its_entries_are_on_their_way);
	RUN(every_read_of_a_recovery_fences);
	RUN(a_recovery_that_cannot_write_does_not_say_that_it_cannot_read);
	RUN(what_is_being_sent_stays_as_it_is_when_the_client_stops);
	RUN(a_request_that_was_given_up_before_it_was_sent_is_not_sent);
	RUN(a_wait_ends_with_the_first_bookie_that_knows_more_and_brings_its_entry);
	RUN(a_piggy_backed_entry_that_is_damaged_is_not_given);
	RUN(a_wait_that_brings_nothing_says_whether_anybody_waited);
	RUN(a_read_that_is_late_is_sent_to_a_second_bookie_and_the_first_answer_counts);
	RUN(speculative_reads_have_a_budget_and_hanging_bookies_are_left_without_it);
	RUN(a_bookie_that_is_much_slower_is_asked_behind_the_others);
	RUN(a_bookie_that_has_too_many_requests_is_asked_again_and_has_not_failed);
	RUN(a_bookie_that_has_too_many_requests_for_as_long_as_an_add_may_take_has_failed);
	RUN(a_bookie_that_refuses_an_entry_that_others_have_confirmed_has_failed);
	RUN(a_bookie_is_sent_so_many_requests_and_the_rest_when_it_has_answered);
	RUN(a_bookie_that_has_a_lac_and_no_entry_knows_the_lac);
	return check_done();
}

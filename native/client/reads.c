/* reads.c: entries, each from the first bookie of its write set that has it; and the LAC, from all of the last ensemble. */
#include "client/driver.h"
#include "io/clock.h"
#include <stdlib.h>
#include <string.h>

enum { READS_MAX = 1024, WINDOW = 64, FIRST_WINDOW = 8, LAST_ENTRY = -1, READ_LAC = -2, PROBE = 64 };
/* Of a note: whether its request was found to hang. */
enum { GOES_ON = 0, HANGS = 1 };

/* ---- entries ---- */

typedef struct read_slot {
	uint8_t *payload;
	size_t size;
	int64_t lac, length;
	uint64_t tried;     /* indexes of its write set */
	uint64_t silent;    /* those of them that gave no answer */
	uint32_t under_way; /* requests */
	bool again;         /* those that gave no answer were asked once more */
	uint32_t absent;
	bool damaged, ended;
	wk_status status;
} read_slot;

typedef struct wk_read {
	wk_operation operation;
	int64_t first;
	uint32_t count, issued, ended, slots_size;
	uint64_t bytes, max_bytes;
	read_slot slots[];
} wk_read;

struct wk_entries {
	size_t count;
	wk_read_entry entries[];
};

static void destroy_read(wk_operation *operation) {
	wk_read *read = (wk_read *)operation;
	for (uint32_t i = 0; i < read->slots_size; i++)
		free(read->slots[i].payload);
	free(read);
}

static wk_status verdict(const read_slot *slot, uint32_t write_quorum) {
	if (slot->damaged)
		return WK_DAMAGED;
	return slot->absent == write_quorum ? WK_NOT_FOUND : WK_UNAVAILABLE;
}

/* The write set of an entry, as the metadata have it now. */
typedef struct write_set {
	int64_t entry_id;
	const wk_quorum *quorum;
	const uint32_t *ensemble;
} write_set;

static write_set write_set_of(const wk_read *read, int64_t entry_id) {
	const wk_ledger_view *view = &read->operation.handle->view;
	return (write_set){entry_id, &view->quorum, wk_ledger_view_ensemble(view, entry_id)};
}

static uint32_t bookie_of(const write_set *set, uint32_t index) {
	return set->ensemble[wk_quorum_slot(set->quorum, set->entry_id, index)];
}

/* The latency of the best bookie of the write set but those of the indexes `without`; NULL: none was seen. */
static const wk_latency *best_latency(const wk_dispatcher *dispatcher, const write_set *set, uint64_t without) {
	const wk_latency *best = NULL;
	for (uint32_t index = 0; index < set->quorum->write_quorum; index++) {
		uint32_t bookie = bookie_of(set, index);
		const wk_latency *latency = wk_dispatcher_latency(dispatcher, bookie);
		if (!(without >> index & 1) && latency->mean_ns > 0 && !wk_dispatcher_is_silent(dispatcher, bookie) &&
		    (best == NULL || latency->mean_ns < best->mean_ns))
			best = latency;
	}
	return best;
}

/*
 * The index that is asked next: not asked before; of a bookie that answers and is not slow, if there is one, else of one that
 * answers. A slow one is asked first now and then, to see whether it still is. WK_NO_INDEX: none is left.
 */
static int32_t next_index(const wk_dispatcher *dispatcher, const write_set *set, const read_slot *slot) {
	const wk_latency *best = dispatcher->reads % PROBE != 0 ? best_latency(dispatcher, set, 0) : NULL;
	int32_t slow = WK_NO_INDEX, silent = WK_NO_INDEX;
	for (uint32_t index = 0; index < set->quorum->write_quorum; index++) {
		if (slot->tried >> index & 1)
			continue;
		uint32_t bookie = bookie_of(set, index);
		if (wk_dispatcher_is_silent(dispatcher, bookie))
			silent = silent == WK_NO_INDEX ? (int32_t)index : silent;
		else if (best != NULL && wk_latency_is_slow(wk_dispatcher_latency(dispatcher, bookie), best))
			slow = slow == WK_NO_INDEX ? (int32_t)index : slow;
		else
			return (int32_t)index;
	}
	return slow != WK_NO_INDEX ? slow : silent;
}

/*
 * How long a request goes before a bookie that was not asked yet is asked as well. Where all were asked, and where no
 * latency is known, it is the time behind which a bookie hangs.
 */
static uint64_t patience(const wk_dispatcher *dispatcher, const write_set *set, uint64_t asked) {
	const wk_latency *best = best_latency(dispatcher, set, asked);
	return best != NULL ? wk_latency_patience(best) : WK_SPECULATION_NS_MAX;
}

/* Asks the bookie of an index. False: it cannot be asked. */
static bool ask_index(wk_read *read, const write_set *set, read_slot *slot, uint32_t index) {
	wk_operation *operation = &read->operation;
	uint32_t bookie = bookie_of(set, index);
	slot->tried |= UINT64_C(1) << index;
	wk_note note = {.entry_id = set->entry_id,
	                .slot = index,
	                .kind = GOES_ON,
	                .patience_ns = patience(operation->client->dispatcher, set, slot->tried)};
	if (wk_operation_ask_read(operation, bookie, set->entry_id, 0, &note, operation->client->options.read_timeout_ns)) {
		slot->under_way++;
		return true;
	}
	wk_operation_explain(operation, "%s: it cannot be reached",
	                     wk_dispatcher_bookie_id(operation->client->dispatcher, bookie));
	return false;
}

/*
 * Asks the next bookie of its write set. Once all were asked, those that gave no answer are asked once more. Where nobody is
 * left, and nothing is under way, the entry cannot be had.
 */
static void try_next(wk_read *read, uint32_t at) {
	read_slot *slot = &read->slots[at];
	const write_set set = write_set_of(read, read->first + at);
	for (;;) {
		int32_t index = next_index(read->operation.client->dispatcher, &set, slot);
		if (index == WK_NO_INDEX && slot->under_way > 0)
			return;
		if (index == WK_NO_INDEX && !slot->again && slot->silent != 0) {
			slot->again = true;
			slot->tried &= ~slot->silent;
			slot->silent = 0;
			continue;
		}
		if (index == WK_NO_INDEX)
			break;
		if (ask_index(read, &set, slot, (uint32_t)index))
			return;
	}
	slot->status = verdict(slot, set.quorum->write_quorum);
	slot->ended = true;
	read->ended++;
	read->count = at; /* what is behind it is of no use */
}

/*
 * A request is late: another bookie of the write set is asked as well, whichever answers first. The budget of such reads is
 * no limit where a bookie hangs: the read goes on then in any case, and the bookie is asked last for a while.
 */
static uint64_t read_late(wk_asker *asker, wk_note *note) {
	wk_read *read = (wk_read *)asker;
	wk_dispatcher *dispatcher = read->operation.client->dispatcher;
	read_slot *slot = &read->slots[note->entry_id - read->first];
	if (slot->ended || note->kind == HANGS)
		return 0;
	const write_set set = write_set_of(read, note->entry_id);
	bool hangs = note->patience_ns >= WK_SPECULATION_NS_MAX;
	if (hangs) {
		wk_dispatcher_silence(dispatcher, bookie_of(&set, note->slot));
		note->kind = HANGS;
	}
	int32_t index = next_index(dispatcher, &set, slot);
	if (index != WK_NO_INDEX && (hangs || wk_speculation_spend(&dispatcher->speculation)))
		ask_index(read, &set, slot, (uint32_t)index);
	uint64_t waited_ns = note->patience_ns;
	note->patience_ns = WK_SPECULATION_NS_MAX;
	return hangs ? 0 : WK_SPECULATION_NS_MAX - waited_ns;
}

/* Not so many at once that they take more than max_bytes, if all are as large as those that have come. */
static bool has_room(const wk_read *read) {
	uint32_t under_way = read->issued - read->ended;
	if (read->ended == 0)
		return read->issued < FIRST_WINDOW;
	return under_way < WINDOW && read->bytes + under_way * (read->bytes / read->ended) < read->max_bytes;
}

static void issue(wk_read *read) {
	wk_dispatcher *dispatcher = read->operation.client->dispatcher;
	while (read->issued < read->count && (read->issued == 0 || has_room(read))) {
		dispatcher->reads++;
		wk_speculation_earn(&dispatcher->speculation);
		try_next(read, read->issued++);
	}
	if (read->issued == read->ended)
		wk_operation_end(&read->operation, WK_OK);
}

/* NULL: no memory. An empty payload has a place, too. */
static uint8_t *copied(const uint8_t *payload, size_t size) {
	uint8_t *copy = malloc(size > 0 ? size : 1);
	if (copy != NULL && size > 0)
		memcpy(copy, payload, size);
	return copy;
}

static bool keep(read_slot *slot, const wk_wire_entry *entry, const uint8_t *payload, size_t size) {
	slot->payload = copied(payload, size);
	if (slot->payload == NULL)
		return false;
	slot->size = size;
	slot->lac = entry->lac;
	slot->length = entry->length;
	return true;
}

static void read_answered(wk_asker *asker, const wk_note *note, const wk_wire_reply *reply) {
	wk_read *read = (wk_read *)asker;
	wk_operation *operation = &read->operation;
	const wk_ledger_view *view = &operation->handle->view;
	uint32_t at = (uint32_t)(note->entry_id - read->first);
	read_slot *slot = &read->slots[at];
	wk_wire_entry entry;
	const uint8_t *payload;
	size_t size;
	slot->under_way--;
	if (slot->ended)
		return; /* another bookie was first */
	if (reply != NULL && reply->code == WK_WIRE_OK && reply->has_body &&
	    wk_digest_open(&view->digest, reply->body, reply->body_size, view->ledger_id, note->entry_id, &entry, &payload,
	                   &size) == WK_OK &&
	    keep(slot, &entry, payload, size)) {
		slot->ended = true;
		read->ended++;
		read->bytes += size;
		issue(read);
		return;
	}
	uint32_t code = reply != NULL ? reply->code : WK_WIRE_IO_ERROR;
	slot->silent |= reply == NULL ? UINT64_C(1) << note->slot : 0;
	slot->absent += code == WK_WIRE_NO_ENTRY || code == WK_WIRE_NO_LEDGER;
	slot->damaged |= code == WK_WIRE_OK;
	const write_set set = write_set_of(read, note->entry_id);
	wk_operation_explain(operation, "%s: %s",
	                     wk_dispatcher_bookie_id(operation->client->dispatcher, bookie_of(&set, note->slot)),
	                     wk_reply_text(reply));
	try_next(read, at);
	issue(read);
}

static wk_status take_entries(wk_read *read, wk_entries **taken) {
	uint32_t count = 0;
	while (count < read->issued && read->slots[count].ended && read->slots[count].status == WK_OK)
		count++;
	if (count == 0)
		return read->slots[0].status != WK_OK ? read->slots[0].status : WK_UNAVAILABLE;
	wk_entries *entries = malloc(sizeof *entries + count * sizeof *entries->entries);
	if (entries == NULL)
		return WK_NO_MEMORY;
	entries->count = count;
	for (uint32_t i = 0; i < count; i++) {
		read_slot *slot = &read->slots[i];
		entries->entries[i] = (wk_read_entry){.payload = slot->payload,
		                                      .size = slot->size,
		                                      .entry_id = read->first + i,
		                                      .lac = slot->lac,
		                                      .length = slot->length};
		slot->payload = NULL; /* the entries' now */
	}
	*taken = entries;
	return WK_OK;
}

static const char *read_text(wk_status status) {
	switch (status) {
	case WK_NOT_FOUND:
		return "no bookie of its write set has it";
	case WK_DAMAGED:
		return "a bookie has it with a wrong digest, and none has it with the right one";
	case WK_UNAVAILABLE:
		return "no bookie of its write set gives it";
	case WK_CLOSED:
		return "the client was stopped";
	default:
		return wk_status_text(status);
	}
}

wk_operation *wk_read_begin(wk_handle *handle, int64_t first, int64_t last, uint64_t max_bytes) {
	uint32_t count = last - first < READS_MAX ? (uint32_t)(last - first + 1) : READS_MAX;
	wk_read *read = calloc(1, sizeof *read + count * sizeof *read->slots);
	if (read == NULL)
		return NULL;
	wk_client *client = handle->client;
	wk_client_lock(client);
	wk_operation_init(&read->operation, handle, read_answered, destroy_read);
	read->operation.asker.late = read_late;
	read->first = first;
	read->count = read->slots_size = count;
	read->max_bytes = max_bytes;
	if (client->ended)
		wk_operation_end(&read->operation, WK_CLOSED);
	else
		issue(read);
	wk_client_unlock_and_wake(client);
	return &read->operation;
}

wk_status wk_read_finish(wk_operation *operation, wk_status status, wk_entries **entries, wk_error *error) {
	wk_read *read = (wk_read *)operation;
	int64_t ledger_id = operation->handle->ledger_id, first = read->first;
	if (status == WK_OK)
		status = take_entries(read, entries);
	if (status == WK_UNAVAILABLE && operation->client->stops)
		status = WK_CLOSED;
	pthread_mutex_lock(&operation->client->lock);
	if (status != WK_OK)
		wk_client_fail(error, status, ledger_id, first, false, "reading entry %lld of ledger %lld: %s%s%s",
		               (long long)first, (long long)ledger_id, read_text(status),
		               status == WK_UNAVAILABLE && operation->why[0] != 0 ? "; " : "",
		               status == WK_UNAVAILABLE ? operation->why : "");
	pthread_mutex_unlock(&operation->client->lock);
	wk_operation_leave(operation);
	return status;
}

wk_status wk_handle_read(wk_handle *handle, int64_t first, int64_t last, uint64_t max_bytes, uint64_t timeout_ns,
                         wk_entries **entries, wk_error *error) {
	int64_t ledger_id = handle->ledger_id;
	if (first < 0 || last < first)
		return wk_client_fail(error, WK_INVALID, ledger_id, first, false, "there are no entries %lld to %lld",
		                      (long long)first, (long long)last);
	wk_operation *operation = wk_read_begin(handle, first, last, max_bytes);
	if (operation == NULL)
		return wk_client_fail(error, WK_NO_MEMORY, ledger_id, first, false, "no memory for a read");
	return wk_read_finish(operation, wk_operation_wait(operation, timeout_ns), entries, error);
}

const wk_read_entry *wk_entries_get(const wk_entries *entries, size_t *count) {
	*count = entries->count;
	return entries->entries;
}

void wk_entries_release(wk_entries *entries) {
	for (size_t i = 0; i < entries->count; i++)
		free((void *)(uintptr_t)entries->entries[i].payload);
	free(entries);
}

/* ---- the LAC ---- */

typedef struct wk_lac_read {
	wk_operation operation;
	uint64_t answered, known; /* slots */
	int64_t lac;
} wk_lac_read;

static void destroy_lac_read(wk_operation *operation) {
	free(operation);
}

static void lac_known(wk_lac_read *read, uint32_t slot, bool known) {
	const wk_quorum *quorum = &read->operation.handle->view.quorum;
	uint64_t all = quorum->ensemble_size == 64 ? UINT64_MAX : (UINT64_C(1) << quorum->ensemble_size) - 1;
	read->answered |= UINT64_C(1) << slot;
	read->known |= known ? UINT64_C(1) << slot : 0;
	if (wk_quorum_is_covered(quorum, read->known))
		wk_operation_end(&read->operation, WK_OK);
	else if (read->answered == all)
		wk_operation_end(&read->operation, WK_UNAVAILABLE);
}

/* Whether all that the bookie answered is whole; read->lac rises. */
static bool take_lacs(wk_lac_read *read, const wk_wire_reply *reply) {
	const wk_ledger_view *view = &read->operation.handle->view;
	wk_wire_entry entry;
	const uint8_t *payload;
	size_t size;
	int64_t lac = -1;
	if (reply->lac != NULL) {
		if (wk_digest_open_lac(&view->digest, reply->lac, reply->lac_size, view->ledger_id, &lac) != WK_OK)
			return false;
		read->lac = lac > read->lac ? lac : read->lac;
	}
	if (!reply->has_body)
		return true;
	if (wk_digest_open(&view->digest, reply->body, reply->body_size, view->ledger_id, -1, &entry, &payload, &size) !=
	    WK_OK)
		return false;
	read->lac = entry.lac > read->lac ? entry.lac : read->lac;
	return true;
}

static bool ask_lac(wk_lac_read *read, uint32_t slot, uint32_t bookie, int64_t entry_id) {
	wk_note note = {.entry_id = entry_id, .slot = slot, .kind = bookie};
	return wk_operation_ask_read(&read->operation, bookie, entry_id, 0, &note,
	                             read->operation.client->options.read_timeout_ns);
}

/*
 * Java's bookie that was told the LAC and has no entry (it took a failed one's place) answers with that LAC, and EIO. It
 * does so as well where it cannot read its last entry: a read of the last entry tells which of the two it is.
 */
static bool look_at_last_entry(wk_lac_read *read, const wk_note *note, const wk_wire_reply *reply) {
	return note->entry_id == READ_LAC && reply != NULL && reply->code == WK_WIRE_IO_ERROR && reply->lac != NULL &&
	       take_lacs(read, reply) && ask_lac(read, note->slot, note->kind, LAST_ENTRY);
}

static void lac_answered(wk_asker *asker, const wk_note *note, const wk_wire_reply *reply) {
	wk_lac_read *read = (wk_lac_read *)asker;
	if (read->operation.done == 0 && look_at_last_entry(read, note, reply))
		return;
	bool known = reply != NULL && (reply->code == WK_WIRE_NO_ENTRY || reply->code == WK_WIRE_NO_LEDGER ||
	                               (reply->code == WK_WIRE_OK && take_lacs(read, reply)));
	if (!known)
		wk_operation_explain(&read->operation, "%s: %s",
		                     wk_dispatcher_bookie_id(read->operation.client->dispatcher, note->kind),
		                     wk_reply_text(reply));
	if (read->operation.done == 0)
		lac_known(read, note->slot, known);
}

static void ask_lacs(wk_lac_read *read) {
	const wk_ledger_view *view = &read->operation.handle->view;
	const uint32_t *ensemble = wk_ledger_view_ensemble(view, INT64_MAX);
	for (uint32_t slot = 0; slot < view->quorum.ensemble_size; slot++) {
		if (!ask_lac(read, slot, ensemble[slot], READ_LAC)) {
			wk_operation_explain(&read->operation, "%s: it cannot be reached",
			                     wk_dispatcher_bookie_id(read->operation.client->dispatcher, ensemble[slot]));
			lac_known(read, slot, false);
		}
	}
}

wk_operation *wk_read_lac_begin(wk_handle *handle) {
	wk_client *client = handle->client;
	wk_lac_read *read = calloc(1, sizeof *read);
	if (read == NULL)
		return NULL;
	wk_client_lock(client);
	wk_operation_init(&read->operation, handle, lac_answered, destroy_lac_read);
	read->lac = wk_ledger_view_last_segment(&handle->view) - 1;
	if (client->ended)
		wk_operation_end(&read->operation, WK_CLOSED);
	else if (handle->view.closed) {
		read->lac = handle->view.last_entry;
		wk_operation_end(&read->operation, WK_OK);
	} else
		ask_lacs(read);
	wk_client_unlock_and_wake(client);
	return &read->operation;
}

wk_status wk_read_lac_finish(wk_operation *operation, wk_status status, int64_t *lac, wk_error *error) {
	wk_lac_read *read = (wk_lac_read *)operation;
	long long ledger_id = operation->handle->ledger_id;
	pthread_mutex_lock(&operation->client->lock);
	if (status == WK_OK)
		*lac = read->lac;
	else
		wk_client_fail(error, status, ledger_id, -1, false, "reading the last entry confirmed of ledger %lld: %s%s%s",
		               ledger_id, status == WK_UNAVAILABLE ? "too few bookies answer" : wk_status_text(status),
		               operation->why[0] != 0 ? "; " : "", operation->why);
	pthread_mutex_unlock(&operation->client->lock);
	wk_operation_leave(operation);
	return status;
}

wk_status wk_handle_read_lac(wk_handle *handle, uint64_t timeout_ns, int64_t *lac, wk_error *error) {
	wk_operation *operation = wk_read_lac_begin(handle);
	if (operation == NULL)
		return wk_client_fail(error, WK_NO_MEMORY, handle->ledger_id, -1, false, "no memory for a read");
	return wk_read_lac_finish(operation, wk_operation_wait(operation, timeout_ns), lac, error);
}

/* ---- the LAC, waited for ---- */

typedef struct wk_lac_wait {
	wk_operation operation;
	int64_t known, lac;
	uint64_t answered; /* slots */
	bool waited;       /* some bookie knows the ledger: it had nothing newer for as long as it was asked to wait */
	wk_entries *entry; /* known + 1; NULL: no bookie gave it */
} wk_lac_wait;

static void destroy_lac_wait(wk_operation *operation) {
	wk_lac_wait *wait = (wk_lac_wait *)operation;
	if (wait->entry != NULL)
		wk_entries_release(wait->entry);
	free(wait);
}

static void slot_waited(wk_lac_wait *wait, uint32_t slot) {
	uint32_t ensemble_size = wait->operation.handle->view.quorum.ensemble_size;
	wait->answered |= UINT64_C(1) << slot;
	if (wait->answered == (ensemble_size == 64 ? UINT64_MAX : (UINT64_C(1) << ensemble_size) - 1))
		wk_operation_end(&wait->operation, wait->waited ? WK_TIMEOUT : WK_UNAVAILABLE);
}

static wk_entries *only_entry(int64_t entry_id, const wk_wire_entry *entry, const uint8_t *payload, size_t size) {
	wk_entries *entries = malloc(sizeof *entries + sizeof *entries->entries);
	uint8_t *copy = copied(payload, size);
	if (entries == NULL || copy == NULL) {
		free(entries);
		free(copy);
		return NULL;
	}
	entries->count = 1;
	entries->entries[0] = (wk_read_entry){
	    .payload = copy, .size = size, .entry_id = entry_id, .lac = entry->lac, .length = entry->length};
	return entries;
}

static void take_piggybacked(wk_lac_wait *wait, const wk_wire_reply *reply) {
	const wk_ledger_view *view = &wait->operation.handle->view;
	wk_wire_entry entry;
	const uint8_t *payload;
	size_t size;
	if (reply->has_body && reply->entry_id == wait->known + 1 &&
	    wk_digest_open(&view->digest, reply->body, reply->body_size, view->ledger_id, wait->known + 1, &entry, &payload,
	                   &size) == WK_OK)
		wait->entry = only_entry(wait->known + 1, &entry, payload, size); /* NULL: it is read as others are */
}

static void wait_answered(wk_asker *asker, const wk_note *note, const wk_wire_reply *reply) {
	wk_lac_wait *wait = (wk_lac_wait *)asker;
	if (wait->operation.done != 0)
		return;
	if (reply == NULL || reply->code != WK_WIRE_OK || !reply->has_max_lac) {
		wk_operation_explain(&wait->operation, "%s: %s",
		                     wk_dispatcher_bookie_id(wait->operation.client->dispatcher, note->kind),
		                     wk_reply_text(reply));
	} else if (reply->max_lac > wait->known) {
		wait->lac = reply->max_lac;
		take_piggybacked(wait, reply);
		wk_operation_end(&wait->operation, WK_OK);
		return;
	} else {
		wait->waited = true;
	}
	slot_waited(wait, note->slot);
}

static void ask_to_wait(wk_lac_wait *wait, uint64_t timeout_ns) {
	wk_client *client = wait->operation.client;
	const wk_ledger_view *view = &wait->operation.handle->view;
	const uint32_t *ensemble = wk_ledger_view_ensemble(view, INT64_MAX);
	for (uint32_t slot = 0; slot < view->quorum.ensemble_size && wait->operation.done == 0; slot++) {
		wk_note note = {.slot = slot, .kind = ensemble[slot]};
		if (wk_operation_ask_long_poll(&wait->operation, ensemble[slot], wait->known, timeout_ns, &note))
			continue;
		wk_operation_explain(&wait->operation, "%s: it cannot be reached",
		                     wk_dispatcher_bookie_id(client->dispatcher, ensemble[slot]));
		slot_waited(wait, slot);
	}
}

wk_operation *wk_wait_lac_begin(wk_handle *handle, int64_t known, uint64_t timeout_ns) {
	wk_client *client = handle->client;
	wk_lac_wait *wait = calloc(1, sizeof *wait);
	if (wait == NULL)
		return NULL;
	wk_client_lock(client);
	wk_operation_init(&wait->operation, handle, wait_answered, destroy_lac_wait);
	wait->known = wait->lac = known;
	if (client->ended)
		wk_operation_end(&wait->operation, WK_CLOSED);
	else if (handle->view.closed) {
		wait->lac = handle->view.last_entry;
		wk_operation_end(&wait->operation, WK_OK);
	} else
		ask_to_wait(wait, timeout_ns);
	wk_client_unlock_and_wake(client);
	return &wait->operation;
}

wk_status wk_wait_lac_finish(wk_operation *operation, wk_status status, int64_t *lac, wk_entries **entry,
                             wk_error *error) {
	wk_lac_wait *wait = (wk_lac_wait *)operation;
	long long ledger_id = operation->handle->ledger_id;
	*entry = NULL;
	pthread_mutex_lock(&operation->client->lock);
	if (status == WK_OK) {
		*lac = wait->lac;
		*entry = wait->entry;
		wait->entry = NULL; /* the caller's now */
	} else {
		wk_client_fail(error, status, ledger_id, -1, false, "waiting for entry %lld of ledger %lld: %s%s%s",
		               (long long)wait->known + 1, ledger_id,
		               status == WK_UNAVAILABLE ? "no bookie tells of it" : wk_status_text(status),
		               status == WK_UNAVAILABLE && operation->why[0] != 0 ? "; " : "",
		               status == WK_UNAVAILABLE ? operation->why : "");
	}
	pthread_mutex_unlock(&operation->client->lock);
	wk_operation_leave(operation);
	return status;
}

wk_status wk_handle_wait_lac(wk_handle *handle, int64_t known, uint64_t timeout_ns, int64_t *lac, wk_entries **entry,
                             wk_error *error) {
	if (known < -1 || known == INT64_MAX)
		return wk_client_fail(error, WK_INVALID, handle->ledger_id, -1, false, "there is no entry behind %lld",
		                      (long long)known);
	wk_operation *operation = wk_wait_lac_begin(handle, known, timeout_ns);
	if (operation == NULL)
		return wk_client_fail(error, WK_NO_MEMORY, handle->ledger_id, -1, false, "no memory for a wait");
	return wk_wait_lac_finish(operation, wk_operation_wait(operation, timeout_ns), lac, entry, error);
}

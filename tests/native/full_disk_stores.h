/*
 * full_disk_stores.h: what is done to a store of ledgers, or to one of logs, and to the model of both (full_disk_churn.h).
 */
#ifndef FULL_DISK_STORES_H
#define FULL_DISK_STORES_H
#include "full_disk_churn.h"

/* ---- adding ---- */

static inline wk_status add_entries(churn *c, size_t h, size_t n, bool deferred, wk_error *error) {
	static uint8_t bytes[SOME][ENTRY_SIZE_MAX];
	wk_add adds[SOME];
	holder *at = &c->holders[h];
	for (size_t i = 0; i < n; i++) {
		int64_t id = at->possible + (int64_t)i;
		adds[i] = an_add(bytes[i], fill(c, h, id, bytes[i]), deferred ? WK_ADD_DEFERRED : 0);
		adds[i].key_size = h & 8 ? 0 : adds[i].key_size;
	}
	wk_status status = wk_ledger_add(c->ns, adds, n, UINT64_MAX, true, error);
	for (size_t i = 0; i < n && adds[i].ticket != 0; i++)
		count(c, h, at->possible++, true);
	return status;
}

static inline const char *name_of(size_t h) {
	static char name[16];
	snprintf(name, sizeof name, "log-%zu", h);
	return name;
}

static inline wk_status open_log(churn *c, size_t h, bool create, wk_error *error) {
	holder *at = &c->holders[h];
	wk_status status = wk_log_open(c->ns, name_of(h), strlen(name_of(h)), create, NULL, &at->log, error);
	if (status == WK_OK)
		check_ok(wk_writer_open(at->log, &at->writer, error), error, "the writer opens");
	at->exists |= status == WK_OK;
	return status;
}

static inline wk_status append_records(churn *c, size_t h, size_t n, bool deferred, wk_error *error) {
	static uint8_t bytes[SOME * ENTRY_SIZE_MAX];
	uint32_t sizes[SOME];
	holder *at = &c->holders[h];
	size_t size = 0;
	if (at->log == NULL) {
		wk_status status = open_log(c, h, true, error);
		if (status != WK_OK)
			return status;
	}
	size_t sent = 0;
	for (; sent < n && size < ENTRY_SIZE_MAX / 2; size += sizes[sent++])
		sizes[sent] = (uint32_t)fill(c, h, at->possible + (int64_t)sent, bytes + size);
	n = sent;
	wk_append_options options;
	wk_append_options_init(&options);
	options.atomic = true;
	options.durability = deferred ? WK_DEFERRED : WK_SYNC;
	wk_position first, last;
	uint64_t ticket;
	wk_status status = wk_writer_append_many(at->writer, bytes, sizes, n, NULL, &options, true, &first, &last, &ticket,
	                                         error);
	if (status == WK_OK)
		CHECK_EQ(first.sequence_id, at->possible);
	for (size_t i = 0; i < n && status == WK_OK; i++)
		count(c, h, at->possible++, true);
	return status;
}

static inline void look_at_deletes(churn *c) {
	if (c->owed <= wk_namespace_durable(c->ns))
		all_deletes_are_done(c);
}

static inline bool add(churn *c, size_t h, size_t n, bool deferred) {
	wk_error error = {0};
	look_at_deletes(c);
	if (c->holders[h].deleting)
		return true;
	c->did = deferred ? "a deferred add" : "an add";
	wk_status status = (c->ledgers ? add_entries : append_records)(c, h, n, deferred, &error);
	check_refused(c, status, &error);
	if (status == WK_OK && !deferred) /* and with it all that was accepted before: one journal, one order */
		all_is_promised(c);
	return status == WK_OK;
}

static inline void release_logs(churn *c) {
	for (size_t h = 0; h < c->holders_count; h++) {
		holder *at = &c->holders[h];
		if (at->writer != NULL)
			wk_writer_close(at->writer, 0, NULL);
		if (at->log != NULL)
			wk_log_release(at->log);
		at->writer = NULL;
		at->log = NULL;
	}
}

/* ---- what frees ---- */

/* Some, in a block together; false: one was refused. */
static inline bool delete_ledgers(churn *c, size_t n) {
	uint64_t ticket = 0;
	wk_error error = {0};
	wk_status status = WK_OK;
	c->did = "a delete";
	look_at_deletes(c);
	for (size_t i = 0; i < n && status == WK_OK; i++) {
		size_t h = chance(c, c->holders_count);
		holder *at = &c->holders[h];
		if (at->possible == 0 || at->deleting)
			continue;
		status = wk_ledger_delete(c->ns, (int64_t)h, UINT64_MAX, &ticket, &error);
		check_refused(c, status, &error);
		at->deleting |= status == WK_OK;
	}
	c->owed = ticket > c->owed ? ticket : c->owed;
	if (ticket != 0 && chance(c, 20) == 0)
		return true; /* who does not wait for them */
	if (ticket != 0) {
		CHECK_EQ(wk_namespace_wait(c->ns, ticket, UINT64_MAX, NULL), WK_OK);
		all_deletes_are_done(c);
	}
	return status == WK_OK;
}

static inline bool delete_log(churn *c, size_t h) {
	holder *at = &c->holders[h];
	wk_error error = {0};
	c->did = "a log's delete";
	if (!at->exists)
		return true;
	wk_status status = wk_log_delete(c->ns, name_of(h), strlen(name_of(h)), &error);
	check_refused(c, status, &error);
	if (status != WK_OK)
		return false;
	if (at->log != NULL) {
		wk_writer_close(at->writer, 0, NULL);
		wk_log_release(at->log);
	}
	at->log = NULL;
	at->writer = NULL;
	forget(c, h);
	return true;
}

static inline bool truncate_log(churn *c, size_t h) {
	holder *at = &c->holders[h];
	wk_error error = {0};
	wk_position to;
	c->did = "a truncation";
	if (at->log == NULL || at->promised <= at->first)
		return true;
	uint64_t n = (uint64_t)(at->promised - at->first);
	int64_t before = at->first + (int64_t)(chance(c, 3) == 0 ? n : 1 + chance(c, n));
	check_ok(wk_log_find(at->log, WK_FIND_SEQUENCE_ID, before, NULL, &to, &error), &error, "the place is found");
	wk_status status = wk_log_truncate(at->log, &to.dlsn, true, &error);
	check_refused(c, status, &error);
	for (; status == WK_OK && at->first < before; at->first++)
		count(c, h, at->first, false);
	return status == WK_OK;
}

static inline bool delete_one(churn *c, size_t h) {
	if (!c->ledgers)
		return delete_log(c, h);
	wk_error error = {0};
	c->did = "a delete";
	if (c->holders[h].possible == 0)
		return true;
	wk_status status = wk_ledger_delete(c->ns, (int64_t)h, UINT64_MAX, NULL, &error);
	check_refused(c, status, &error);
	if (status == WK_OK)
		forget(c, h);
	return status == WK_OK;
}

static inline bool free_some(churn *c) {
	if (c->ledgers)
		return delete_ledgers(c, 1 + chance(c, chance(c, 3) == 0 ? 30 : 5));
	size_t h = chance(c, c->holders_count);
	return chance(c, 4) == 0 ? delete_log(c, h) : truncate_log(c, h);
}

static inline void settle(churn *c) {
	wk_error error = {0};
	c->did = "settling";
	if (c->owed > 0)
		check_ok(wk_namespace_wait(c->ns, c->owed, UINT64_MAX, &error), &error, "deletes");
	all_deletes_are_done(c);
	for (size_t h = 0; h < c->holders_count; h++) {
		const holder *at = &c->holders[h];
		if (c->ledgers && at->possible > at->promised)
			check_ok(wk_ledger_force(c->ns, (int64_t)h, UINT64_MAX, NULL, &error), &error, "a force");
		else if (at->writer != NULL)
			check_ok(wk_writer_flush(at->writer, UINT64_MAX, NULL, &error), &error, "a flush");
	}
	all_is_promised(c);
	CHECK(!stats_of(c->ns).failed);
}
#endif

#include "engine/index/index_snapshot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/index/index_file.h"
#include "engine/index/ledger.h"
#include "engine/index/range.h"
#include "engine/ledger.h"

enum { CHUNK_PAGES = 256, PREFETCH = 8 };
static const uint32_t NOT_THERE = UINT32_MAX;

/* ---- under the lock ---- */

/* The ledger in this slot of the table, or NULL. A million of them are in no cache: those to come are fetched. */
static wk_ledger *ledger_in(const wk_engine *engine, uint32_t slot) {
	uint32_t ahead = slot + PREFETCH;
	if (ahead < engine->ledgers_capacity && engine->ledgers[ahead] != NULL)
		wk_ledger_prefetch(engine->ledgers[ahead], WK_LEDGER_ITSELF);
	return engine->ledgers[slot];
}

static bool make_room(const wk_engine *engine, wk_index_snapshot *moment) {
	size_t ranges = 0;
	for (uint32_t i = 0; i < engine->ledgers_capacity; i++) {
		const wk_ledger *ledger = ledger_in(engine, i);
		ranges += ledger != NULL ? ledger->ranges_count : 0;
	}
	moment->files = malloc((engine->files_count + (size_t)1) * sizeof *moment->files);
	moment->limits = malloc((engine->files_count + (size_t)1) * sizeof *moment->limits);
	moment->ledgers = malloc((engine->states_count + (size_t)1) * sizeof *moment->ledgers);
	if (engine->states_count > 0)
		moment->extents = malloc((engine->ledgers_count + (size_t)1) * sizeof *moment->extents);
	moment->ranges = malloc((ranges + 1) * sizeof *moment->ranges);
	moment->paged = malloc((engine->pager.paged + (size_t)1) * sizeof *moment->paged);
	return moment->files != NULL && moment->limits != NULL && moment->ledgers != NULL && moment->ranges != NULL &&
	       moment->paged != NULL && (moment->extents != NULL || engine->states_count == 0);
}

/* Which of the index's files has this id; NOT_THERE. */
static uint32_t number_of(const wk_index_snapshot *moment, uint64_t id) {
	uint32_t low = 0, high = moment->header.files_count;
	while (low < high) {
		uint32_t middle = (low + high) / 2;
		if (moment->files[middle].file_id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low < moment->header.files_count && moment->files[low].file_id == id ? low : NOT_THERE;
}

static void note_files(const wk_engine *engine, wk_index_snapshot *moment) {
	wk_index_header *header = &moment->header;
	header->replay_sequence = engine->superblock.replay_sequence;
	for (uint32_t i = 0; i < engine->files_count; i++) {
		const wk_store_file *file = engine->files[i];
		if (!wk_index_names(file, header->replay_epoch))
			continue;
		/* What is paged out of a file that was emptied is not taken over. */
		bool counts = file->named_from > 0 && file->named_from < UINT32_MAX && !file->emptied;
		moment->limits[header->files_count] = counts ? (uint32_t)file->named_from : UINT32_MAX;
		moment->files[header->files_count++] = file->footer;
		if (file->kind == WK_FILE_JOURNAL && file->last_sequence > header->replay_sequence)
			header->replay_sequence = file->last_sequence;
	}
}

static void note_paged(const wk_ledger *ledger, wk_index_snapshot *moment) {
	moment->paged[moment->paged_count++] = (wk_range_place){.ledger_id = ledger->id,
	                                                        .first = ledger->ranges.index_first,
	                                                        .count = ledger->ranges.index_count,
	                                                        .limit = ledger->ranges.index_limit};
}

/*
 * The ledger's ranges, and what they do not say of it. Those in journal files from the mark on are found there by the
 * next open: nothing here may say more than the files below do.
 */
static void note_ledger(const wk_engine *engine, wk_ledger *ledger, wk_index_snapshot *moment) {
	int64_t last = ledger->paged ? ledger->ranges.paged_last : -1;
	bool goes_on = false;
	uint64_t mark = moment->header.replay_epoch;
	wk_range *ranges = wk_ranges_in_memory(ledger);
	if (ledger->paged)
		note_paged(ledger, moment);
	else
		ledger->indexed = false; /* until it has a place in this one */
	for (uint32_t i = 0; i < ledger->ranges_count; i++) {
		wk_range *range = &ranges[i];
		goes_on |= range->file->kind == WK_FILE_JOURNAL && range->file->id >= mark;
		if (!wk_index_names(range->file, mark))
			continue;
		range->changed = false;
		moment->ranges[moment->ranges_count++] = (wk_index_range){.ledger_id = ledger->id,
		                                                          .first_entry = range->first_entry,
		                                                          .last_entry = range->last_entry,
		                                                          .bytes = range->bytes,
		                                                          .file = number_of(moment, range->file->id),
		                                                          .count = range->count,
		                                                          .dead = range->dead,
		                                                          .runs_count = range->runs_count,
		                                                          .start = range->start,
		                                                          .uncounted = range->uncounted};
		last = range->last_entry > last ? range->last_entry : last;
	}
	/* Of a ledger without state its ranges say all that an open needs: ten thousand idle logs cost 56 bytes each. */
	if (moment->extents == NULL)
		return;
	moment->extents[moment->extents_count++] = (wk_ledger_extent){
	    .ledger_id = ledger->id,
	    .last_entry = goes_on ? last : ledger->last_entry,
	    .first_live = ledger->first_live,
	    /* a block under construction is in the length before it is in a run */
	    .length = goes_on || engine->sealing ? 0 : ledger->length,
	};
}

bool wk_index_snapshot_collect(wk_engine *engine, uint64_t mark, wk_index_snapshot *moment) {
	*moment = (wk_index_snapshot){.header = {.generation = engine->index.generation_last + 1, .replay_epoch = mark}};
	memcpy(moment->header.directory_id, engine->superblock.directory_id, sizeof moment->header.directory_id);
	if (!make_room(engine, moment))
		return false;
	note_files(engine, moment);
	moment->header.ledgers_count = wk_ledger_states_copy(engine, moment->ledgers);
	for (uint32_t i = 0; i < engine->ledgers_capacity; i++) {
		wk_ledger *ledger = ledger_in(engine, i);
		if (ledger != NULL)
			note_ledger(engine, ledger, moment);
	}
	if (moment->paged_count > 0) {
		moment->source = engine->pager.source;
		wk_index_source_begin(moment->source);
	}
	return true;
}

void wk_index_snapshot_free(wk_engine *engine, wk_index_snapshot *moment) {
	if (moment->source != NULL)
		wk_index_source_end(engine, moment->source);
	free(moment->files);
	free(moment->limits);
	free(moment->ledgers);
	free(moment->extents);
	free(moment->ranges);
	free(moment->paged);
	free(moment->places);
}

/* ---- in order ---- */

static int by_ledger(const void *a, const void *b) {
	const wk_range_place *x = a, *y = b;
	return (x->ledger_id > y->ledger_id) - (x->ledger_id < y->ledger_id);
}

static int state_order(const void *a, const void *b) {
	const wk_index_ledger *x = a, *y = b;
	return (x->ledger_id > y->ledger_id) - (x->ledger_id < y->ledger_id);
}

static int extent_order(const void *a, const void *b) {
	const wk_ledger_extent *x = a, *y = b;
	return (x->ledger_id > y->ledger_id) - (x->ledger_id < y->ledger_id);
}

static int range_order(const void *a, const void *b) {
	const wk_index_range *x = a, *y = b;
	if (x->ledger_id != y->ledger_id)
		return x->ledger_id < y->ledger_id ? -1 : 1;
	if (x->first_entry != y->first_entry)
		return x->first_entry < y->first_entry ? -1 : 1;
	return (x->file > y->file) - (x->file < y->file);
}

static void sort(void *list, size_t count, size_t size, int (*order)(const void *, const void *)) {
	if (count > 1)
		qsort(list, count, size, order);
}

/* The states of ledgers without entries keep what the copy of a state says: none. */
static void put_in_order(wk_index_snapshot *moment) {
	uint32_t count = moment->header.ledgers_count, at = 0;
	sort(moment->ledgers, count, sizeof *moment->ledgers, state_order);
	sort(moment->extents, moment->extents_count, sizeof *moment->extents, extent_order);
	for (uint32_t i = 0; i < moment->extents_count; i++) {
		const wk_ledger_extent *extent = &moment->extents[i];
		while (at < count && moment->ledgers[at].ledger_id < extent->ledger_id)
			at++;
		if (at == count || moment->ledgers[at].ledger_id != extent->ledger_id)
			continue;
		moment->ledgers[at].last_entry = extent->last_entry;
		moment->ledgers[at].first_live = extent->first_live;
		moment->ledgers[at].length = extent->length;
	}
	sort(moment->paged, moment->paged_count, sizeof *moment->paged, by_ledger);
	sort(moment->ranges, moment->ranges_count, sizeof *moment->ranges, range_order);
}

/* ---- the pages, one behind the other ---- */

typedef struct output {
	wk_engine *engine;
	wk_index_snapshot *moment;
	wk_file *handle;
	uint8_t *bytes;
	size_t size; /* of these, not yet written */
	uint64_t at; /* where they go */
	int result;
	/* the page of ranges under way */
	wk_index_range ranges[WK_INDEX_PAGE_RANGES];
	uint32_t ranges_count;
} output;

static void flush(output *out) {
	if (out->result == 0 && out->size > 0)
		out->result = (int)out->engine->io->operations->pwrite(out->engine->io, out->handle, out->bytes, out->size,
		                                                       out->at, 0);
	out->result = out->result > 0 ? 0 : out->result;
	out->at += out->size;
	out->size = 0;
}

/* Room for the page at *offset. */
static uint8_t *next_page(output *out, uint64_t *offset) {
	if (out->size == CHUNK_PAGES * WK_PAGE_SIZE)
		flush(out);
	*offset = out->at + out->size;
	out->size += WK_PAGE_SIZE;
	return out->bytes + out->size - WK_PAGE_SIZE;
}

static void put_files_and_ledgers(output *out) {
	const wk_index_header *header = &out->moment->header;
	uint64_t offset;
	for (uint32_t i = 0, count; i < header->files_count; i += count) {
		count = header->files_count - i < WK_INDEX_PAGE_FILES ? header->files_count - i : WK_INDEX_PAGE_FILES;
		uint8_t *page = next_page(out, &offset);
		wk_index_encode_files(header, out->moment->files + i, count, offset, page);
	}
	for (uint32_t i = 0, count; i < header->ledgers_count; i += count) {
		count = header->ledgers_count - i < WK_INDEX_PAGE_LEDGERS ? header->ledgers_count - i : WK_INDEX_PAGE_LEDGERS;
		uint8_t *page = next_page(out, &offset);
		wk_index_encode_ledgers(header, out->moment->ledgers + i, count, offset, page);
	}
}

static void end_page_of_ranges(output *out) {
	uint64_t offset;
	if (out->ranges_count == 0)
		return;
	uint8_t *page = next_page(out, &offset);
	wk_index_encode_ranges(&out->moment->header, out->ranges, out->ranges_count, offset, page);
	out->ranges_count = 0;
}

static void put_range(output *out, const wk_index_range *range) {
	if (out->moment->header.ranges_count == UINT32_MAX) {
		out->result = -EFBIG;
		return;
	}
	out->ranges[out->ranges_count++] = *range;
	out->moment->header.ranges_count++;
	if (out->ranges_count == WK_INDEX_PAGE_RANGES)
		end_page_of_ranges(out);
}

/* ---- ranges, by ledger ---- */

typedef struct merge {
	output *out;
	wk_index_stream stream; /* of what is paged out */
	uint32_t *numbers;      /* the older index's files, in the new one */
	const wk_range_place *paged, *paged_end;
	const wk_index_range *own, *own_end;
} merge;

static bool note_place(wk_index_snapshot *moment, wk_range_place place) {
	if (moment->places_count == moment->places_capacity) {
		size_t capacity = moment->places_capacity == 0 ? 64 : moment->places_capacity * 2;
		wk_range_place *places = realloc(moment->places, capacity * sizeof *places);
		if (places == NULL)
			return false;
		moment->places = places;
		moment->places_capacity = capacity;
	}
	moment->places[moment->places_count++] = place;
	return true;
}

/* The next range of the paged ledger from number *at on that is taken over; false: none. */
static bool next_paged(merge *m, const wk_range_place *paged, uint32_t *at, wk_index_range *range) {
	const wk_index_snapshot *moment = m->out->moment;
	for (; *at < paged->first + paged->count && m->out->result == 0; ++*at) {
		const wk_index_range *found;
		wk_status status = wk_index_stream_at(m->out->engine, &m->stream, *at, &found, NULL);
		if (status != WK_OK) {
			m->out->result = status == WK_NO_MEMORY ? -ENOMEM : -EIO;
			m->out->moment->failed_before_use = true;
			return false;
		}
		assert(found->ledger_id == paged->ledger_id);
		uint32_t number = m->numbers[found->file];
		if (number == NOT_THERE || moment->limits[number] > paged->limit)
			continue;
		*range = *found;
		range->file = number;
		++*at;
		return true;
	}
	return false;
}

/* All ranges of the ledger with the lowest id. */
static void put_ledger(merge *m) {
	output *out = m->out;
	bool is_paged = m->paged < m->paged_end && (m->own == m->own_end || m->paged->ledger_id <= m->own->ledger_id);
	wk_range_place place = {.ledger_id = is_paged ? m->paged->ledger_id : m->own->ledger_id,
	                        .first = out->moment->header.ranges_count};
	uint32_t at = is_paged ? m->paged->first : 0;
	wk_index_range older;
	bool has_older = is_paged && next_paged(m, m->paged, &at, &older);
	while (out->result == 0) {
		bool has_own = m->own < m->own_end && m->own->ledger_id == place.ledger_id;
		if (!has_own && !has_older)
			break;
		if (has_older && (!has_own || range_order(&older, m->own) < 0)) {
			put_range(out, &older);
			has_older = next_paged(m, m->paged, &at, &older);
		} else {
			put_range(out, m->own++);
			place.fresh++;
		}
	}
	place.count = out->moment->header.ranges_count - place.first;
	if ((is_paged || place.count > 1) && !note_place(out->moment, place))
		out->result = out->result == 0 ? -ENOMEM : out->result;
	out->moment->places_of_paged += is_paged;
	m->paged += is_paged;
}

static void put_ranges(output *out) {
	wk_index_snapshot *moment = out->moment;
	merge *m = calloc(1, sizeof *m);
	uint32_t older_files = moment->source != NULL ? moment->source->header.files_count : 0;
	uint32_t *numbers = malloc((older_files + (size_t)1) * sizeof *numbers);
	if (m == NULL || numbers == NULL) {
		free(m);
		free(numbers);
		out->result = -ENOMEM;
		return;
	}
	for (uint32_t i = 0; i < older_files; i++)
		numbers[i] = number_of(moment, moment->source->file_ids[i]);
	*m = (merge){.out = out,
	             .stream = {.source = moment->source},
	             .numbers = numbers,
	             .paged = moment->paged,
	             .paged_end = moment->paged + moment->paged_count,
	             .own = moment->ranges,
	             .own_end = moment->ranges + moment->ranges_count};
	while (out->result == 0 && (m->paged < m->paged_end || m->own < m->own_end))
		put_ledger(m);
	end_page_of_ranges(out);
	wk_index_stream_free(&m->stream);
	free(numbers);
	free(m);
}

static void put_all(output *out) {
	wk_index_snapshot *moment = out->moment;
	moment->header.ranges_count = 0;
	moment->places_count = moment->places_of_paged = 0;
	out->at = WK_PAGE_SIZE;
	put_files_and_ledgers(out);
	put_ranges(out);
	flush(out);
	out->at = 0; /* it says how many ranges there were */
	out->size = WK_PAGE_SIZE;
	wk_index_encode_header(&moment->header, out->bytes);
	flush(out);
}

int wk_index_snapshot_write(wk_engine *engine, wk_index_snapshot *moment, const char *path, bool there) {
	const struct wk_io_operations *io = engine->io->operations;
	output *out = malloc(sizeof *out);
	uint8_t *bytes = aligned_alloc(WK_PAGE_SIZE, CHUNK_PAGES * WK_PAGE_SIZE);
	wk_file *handle = NULL;
	int result = out != NULL && bytes != NULL
	                 ? io->open(engine->io, path, WK_IO_WRITE | WK_IO_DIRECT | (there ? 0 : WK_IO_CREATE), &handle)
	                 : -ENOMEM;
	if (result == 0) {
		put_in_order(moment);
		*out = (output){.engine = engine, .moment = moment, .handle = handle, .bytes = bytes};
		put_all(out);
		result = out->result;
		const wk_index_header *header = &moment->header;
		if (result == 0 && there)
			result = io->truncate(engine->io, handle,
			                      wk_index_size(header->files_count, header->ledgers_count, header->ranges_count));
		if (result == 0)
			result = io->sync(engine->io, handle);
		io->close(engine->io, handle);
	}
	free(out);
	free(bytes);
	return result;
}

/* view.c: the metadata of a ledger, as the client keeps them. */
#include "client/driver.h"
#include <stdlib.h>
#include <string.h>

static wk_status check(const wk_ledger_spec *spec, const wk_quorum *quorum, uint32_t bookies, wk_error *error) {
	int64_t id = spec->ledger_id;
	if (id < 0)
		return wk_client_fail(error, WK_INVALID, -1, -1, false, "a ledger id is not negative");
	if (!wk_quorum_is_valid(quorum))
		return wk_client_fail(error, WK_INVALID, id, -1, false,
		                      "ensemble, write quorum and ack quorum are %u, %u, %u: each is at most the one before, "
		                      "all at least 1, and %d at most",
		                      quorum->ensemble_size, quorum->write_quorum, quorum->ack_quorum, WK_SLOTS_MAX);
	if (spec->digest_type < WK_DIGEST_TYPE_CRC32 || spec->digest_type > WK_DIGEST_TYPE_DUMMY)
		return wk_client_fail(error, WK_INVALID, id, -1, false, "there is no digest type %u", spec->digest_type);
	if (spec->segments_count == 0 || spec->segments[0].first_entry != 0)
		return wk_client_fail(error, WK_INVALID, id, -1, false, "the first segment of ledger %lld begins at entry 0",
		                      (long long)id);
	for (uint32_t s = 0; s < spec->segments_count; s++) {
		const wk_ledger_segment *segment = &spec->segments[s];
		if (s > 0 && segment->first_entry <= spec->segments[s - 1].first_entry)
			return wk_client_fail(error, WK_INVALID, id, -1, false, "the segments of ledger %lld are not in order",
			                      (long long)id);
		for (uint32_t i = 0; i < quorum->ensemble_size; i++) {
			if (segment->bookies[i] >= bookies)
				return wk_client_fail(error, WK_INVALID, id, -1, false, "there is no bookie %u", segment->bookies[i]);
			for (uint32_t j = 0; j < i; j++)
				if (segment->bookies[i] == segment->bookies[j])
					return wk_client_fail(error, WK_INVALID, id, -1, false,
					                      "a bookie is twice in an ensemble of ledger %lld", (long long)id);
		}
	}
	return WK_OK;
}

wk_status wk_ledger_view_make(wk_ledger_view *view, const wk_ledger_spec *spec, uint32_t bookies, wk_error *error) {
	*view = (wk_ledger_view){.ledger_id = spec->ledger_id,
	                         .quorum = {spec->ensemble_size, spec->write_quorum, spec->ack_quorum},
	                         .digest = {.type = spec->digest_type},
	                         .segments_count = spec->segments_count,
	                         .closed = spec->closed,
	                         .last_entry = spec->closed ? spec->last_entry : -1};
	wk_status status = check(spec, &view->quorum, bookies, error);
	if (status != WK_OK)
		return status;
	memcpy(view->master_key, spec->master_key, sizeof view->master_key);
	memcpy(view->digest.mac_key, spec->mac_key, sizeof view->digest.mac_key);
	size_t ensemble = spec->ensemble_size;
	view->first_entries = malloc(spec->segments_count * sizeof *view->first_entries);
	view->bookies = malloc(spec->segments_count * ensemble * sizeof *view->bookies);
	if (view->first_entries == NULL || view->bookies == NULL) {
		wk_ledger_view_free(view);
		return wk_client_fail(error, WK_NO_MEMORY, spec->ledger_id, -1, false, "no memory for a ledger's metadata");
	}
	for (uint32_t s = 0; s < spec->segments_count; s++) {
		view->first_entries[s] = spec->segments[s].first_entry;
		memcpy(view->bookies + s * ensemble, spec->segments[s].bookies, ensemble * sizeof *view->bookies);
	}
	return WK_OK;
}

void wk_ledger_view_free(wk_ledger_view *view) {
	free(view->first_entries);
	free(view->bookies);
	view->first_entries = NULL;
	view->bookies = NULL;
}

const uint32_t *wk_ledger_view_ensemble(const wk_ledger_view *view, int64_t entry_id) {
	uint32_t s = view->segments_count - 1;
	while (s > 0 && view->first_entries[s] > entry_id)
		s--;
	return view->bookies + (size_t)s * view->quorum.ensemble_size;
}

int64_t wk_ledger_view_last_segment(const wk_ledger_view *view) {
	return view->first_entries[view->segments_count - 1];
}

wk_status wk_ledger_view_extend(wk_ledger_view *view, int64_t first_entry, const uint32_t *ensemble) {
	uint32_t s = view->segments_count;
	size_t size = view->quorum.ensemble_size;
	if (view->first_entries[s - 1] == first_entry) {
		s--; /* nothing was written to the ensemble that the last segment had */
	} else {
		int64_t *first_entries = realloc(view->first_entries, (s + 1) * sizeof *first_entries);
		view->first_entries = first_entries != NULL ? first_entries : view->first_entries;
		uint32_t *bookies = realloc(view->bookies, (s + 1) * size * sizeof *bookies);
		view->bookies = bookies != NULL ? bookies : view->bookies;
		if (first_entries == NULL || bookies == NULL)
			return WK_NO_MEMORY;
		view->segments_count++;
	}
	view->first_entries[s] = first_entry;
	memcpy(view->bookies + s * size, ensemble, size * sizeof *ensemble);
	return WK_OK;
}

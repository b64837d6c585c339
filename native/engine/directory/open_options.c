#include "engine/directory/open_options.h"

static const uint64_t ns_per_s = 1000000000, COMMIT_WAIT_NS_MAX = 60000000000;
enum { FIRST_FILE_SIZE = 4 * 1024 * 1024, READ_BYTES_MIN = 4 * 1024 * 1024, SORT_MEMORY_MAX = 512 * 1024 * 1024 };

void wk_open_options_init(wk_open_options *options) {
	*options = (wk_open_options){
	    .create = true,
	    .lock_timeout_ns = 10 * ns_per_s,
	    .file_size_min = FIRST_FILE_SIZE,
	    .file_size_max = 64 * 1024 * 1024,
	    .block_size_max = 512 * 1024,
	    .memtable_bytes = 8 * 1024 * 1024,
	    .cache_bytes = 8 * 1024 * 1024,
	    .range_bytes = 64 * 1024 * 1024,
	    .in_flight_bytes = 8 * 1024 * 1024,
	    .read_bytes = 256 * 1024 * 1024,
	    .deferred_delay_ns = 100 * 1000 * 1000,
	    .confirm_delay_ns = 100 * 1000 * 1000,
	    .compact_rate = 64 * 1024 * 1024,
	    .minor_percent = 20,
	    .major_percent = 80,
	    .minor_interval_ns = 3600 * ns_per_s,
	    .major_interval_ns = 86400 * ns_per_s,
	    .sort_memory = 128 * 1024 * 1024,
	    .sort_wait_ns = 60 * ns_per_s,
	    .sort_gain = 4,
	};
}

/* No file has less than nothing alive. */
static bool resolve_percent(uint32_t *percent) {
	*percent = *percent == UINT32_MAX ? 0 : *percent;
	return *percent <= 100;
}

wk_status wk_open_options_resolve(const wk_open_options *given, wk_open_options *options, wk_error *error) {
	wk_open_options defaults;
	wk_open_options_init(&defaults);
	*options = given != NULL ? *given : defaults;
#define DEFAULT(field) options->field = options->field != 0 ? options->field : defaults.field
	DEFAULT(file_size_min);
	DEFAULT(file_size_max);
	DEFAULT(block_size_max);
	DEFAULT(memtable_bytes);
	DEFAULT(cache_bytes);
	DEFAULT(range_bytes);
	DEFAULT(in_flight_bytes);
	DEFAULT(read_bytes);
	DEFAULT(deferred_delay_ns);
	DEFAULT(confirm_delay_ns);
	DEFAULT(compact_rate);
	DEFAULT(minor_percent);
	DEFAULT(major_percent);
	DEFAULT(minor_interval_ns);
	DEFAULT(major_interval_ns);
	DEFAULT(sort_memory);
	DEFAULT(sort_wait_ns);
	DEFAULT(sort_gain);
#undef DEFAULT
	if (!resolve_percent(&options->minor_percent) || !resolve_percent(&options->major_percent))
		return wk_fail(error, WK_INVALID,
		               "minor_percent is %u, major_percent %u: they must be 1 to 100, or UINT32_MAX for never",
		               options->minor_percent, options->major_percent);
	if (options->commit_wait_ns > COMMIT_WAIT_NS_MAX)
		return wk_fail(error, WK_INVALID,
		               "commit_wait_ns is %llu: it must be at most a minute, as every append waits it",
		               (unsigned long long)options->commit_wait_ns);
	if (options->blocks_in_flight > WK_BLOCKS_IN_FLIGHT_MAX)
		return wk_fail(error, WK_INVALID, "blocks_in_flight is %u: it must be 1 to %d", options->blocks_in_flight,
		               WK_BLOCKS_IN_FLIGHT_MAX);
	if (options->file_size_min < 64 * 1024 || options->file_size_min % WK_BLOCK_ALIGNMENT != 0 ||
	    options->file_size_max % WK_BLOCK_ALIGNMENT != 0 || options->file_size_max < options->file_size_min ||
	    options->file_size_max > 2147483648u)
		return wk_fail(error, WK_INVALID,
		               "journal files from %llu to %llu bytes: sizes must be multiples of 4096 between 64 KiB and 2 "
		               "GiB, the first not the larger",
		               (unsigned long long)options->file_size_min, (unsigned long long)options->file_size_max);
	/* A usual block must fit the reserve beside a footer, or a full disk could not even be freed. */
	if (options->block_size_max > options->file_size_min / 2)
		options->block_size_max = options->file_size_min / 2 / WK_BLOCK_ALIGNMENT * WK_BLOCK_ALIGNMENT;
	if (options->block_size_max < WK_BLOCK_ALIGNMENT || options->block_size_max > 4 * 1024 * 1024)
		return wk_fail(error, WK_INVALID, "block_size_max is %llu: it must be 4 KiB to 4 MiB",
		               (unsigned long long)options->block_size_max);
	/* Two batches of one buffer each always fit, and a buffer is a read, an entry or a block. */
	if (options->read_bytes < READ_BYTES_MIN || options->read_bytes < 3 * options->block_size_max)
		return wk_fail(error, WK_INVALID,
		               "read_bytes is %llu: it must be at least 4 MiB, and three times block_size_max",
		               (unsigned long long)options->read_bytes);
	if (options->sort_memory > SORT_MEMORY_MAX && options->sort_memory != UINT64_MAX)
		return wk_fail(error, WK_INVALID, "sort_memory is %llu: it must be at most 512 MiB, or UINT64_MAX for never",
		               (unsigned long long)options->sort_memory);
	if (options->kind > WK_KIND_LEDGERS)
		return wk_fail(error, WK_INVALID, "kind is %u: 0 logs, 1 ledgers", options->kind);
	if (options->on_damage > WK_ON_DAMAGE_SKIP)
		return wk_fail(error, WK_INVALID, "on_damage is %u: 0 stop, 1 point_in_time, 2 skip", options->on_damage);
	if (options->kind == WK_KIND_LEDGERS && (options->on_damage == WK_ON_DAMAGE_POINT_IN_TIME || options->read_only))
		return wk_fail(
		    error, WK_UNSUPPORTED,
		    "a ledger store is opened for writing, and with on_damage stop or skip: what came behind a loss is "
		    "other ledgers', and is kept");
	return WK_OK;
}

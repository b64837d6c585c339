/*
 * test_full_disk_churn.c: stores of ledgers and of logs on a disk that is full again and again, while processes are
 * killed, the power goes, single calls find no space, and somebody else takes space and gives it back.
 *
 * What was acknowledged is there, and what was deleted is not, behind every open; what frees is not refused for ever; a
 * disk that is mostly dead takes appends; nothing stops the journal; at the end all space but a few files is given back.
 */
/* ctest labels: one-thread */
#include "full_disk_look.h"
#include "sim/faulty.h"

enum {
	SEEDS = 24,
	ROUNDS = 2500,
	STEP_MS = 50,
	PATIENCE = 1200,   /* the keeper's steps until a disk that is mostly dead must take appends */
	TRIES = 200,       /* of what frees */
	LIVE_PERCENT = 10, /* of a disk of some ten files: each may hold a little more than the mover can take */
	FILES_MIN = 10     /* fit the disk that somebody else leaves */
};

static uint64_t refusals, refused_frees;
static uint64_t lowest_percent; /* live where appends were refused for long */

/* ---- lives of the process ---- */

/* One call may be told that there is no space: then the next open succeeds. */
static void open_it(churn *c) {
	wk_error error = {0};
	bool refused_once = refuses_in > 0;
	c->ns = NULL;
	wk_status status = wk_open_on(c->io, "store", &c->options, &c->ns, &error);
	if (status != WK_OK && refused_once && refuses_in == 0 && error.system_error == ENOSPC) {
		wk_faulty_kill(c->disk);
		status = wk_open_on(c->io, "store", &c->options, &c->ns, &error);
	}
	check_ok(status, &error, "the store opens");
	refused_engine = c->ns->engine;
}

enum end { CLOSED, KILLED, POWER_CUT };

static void begin_again(churn *c, enum end end) {
	wk_error error = {0};
	if (end == CLOSED) {
		release_logs(c);
		check_ok(wk_close(c->ns, UINT64_MAX, &error), &error, "the store closes");
		all_is_promised(c);
		all_deletes_are_done(c);
	} else {
		wk_abandon(c->ns);
		release_logs(c);
		end == KILLED ? wk_faulty_kill(c->disk) : wk_faulty_crash(c->disk, check_random(&c->seed));
	}
	refused_engine = NULL;
	c->owed = 0;
	if (used(c) > c->capacity)
		set_capacity(c, used(c)); /* what was unlinked came back */
	open_it(c);
	look(c);
}

/* ---- a full disk ---- */

static uint64_t live_percent(const churn *c) {
	return c->live * 100 / c->capacity;
}

/* A small one: the reserve for it fits the smallest disk. */
static bool takes_small_one(churn *c) {
	return add(c, 4 * chance(c, c->holders_count / 4), 1, false);
}

static void must_take_appends(churn *c) {
	bool taken = false;
	for (int i = 0; i < PATIENCE && !taken; i += 10) {
		keep(c, 10, STEP_MS);
		taken = takes_small_one(c);
	}
	CHECK(taken);
}

/* Appends were refused: they are accepted again where so little of the disk is live, or once enough was freed. */
static void make_room(churn *c) {
	uint64_t percent_wanted = chance(c, 60);
	refusals++;
	for (int tries = TRIES; tries > 0;) {
		if (live_percent(c) < LIVE_PERCENT) {
			must_take_appends(c);
			return;
		}
		if (live_percent(c) < percent_wanted) {
			keep(c, 100, STEP_MS);
			if (takes_small_one(c))
				return;
			lowest_percent = live_percent(c) < lowest_percent ? live_percent(c) : lowest_percent;
		}
		bool freed = free_some(c);
		refused_frees += !freed;
		tries = freed ? TRIES : tries - 1;
		if (!freed || chance(c, 3) == 0)
			keep(c, 1 + (int)chance(c, 20), STEP_MS);
	}
	CHECK(false); /* what frees was refused for ever */
}

/* ---- the churn ---- */

static void somebody_takes_or_gives_back(churn *c) {
	if (c->capacity == c->base && used(c) >= FILES_MIN * c->unit && chance(c, 2) == 0)
		set_capacity(c, used(c));
	else if (used(c) <= c->base)
		set_capacity(c, c->base);
}

static void do_something(churn *c) {
	uint64_t what = chance(c, 1000);
	if (what < 700) {
		if (!add(c, chance(c, c->holders_count), 1 + chance(c, SOME), chance(c, 3) == 0))
			make_room(c);
	} else if (what < 730) {
		refused_frees += !free_some(c);
	} else if (what < 900) {
		keep(c, 1 + (int)chance(c, 20), 1 + chance(c, 200));
	} else if (what < 920) {
		settle(c);
	} else if (what < 940) {
		settle(c);
		look(c);
	} else if (what < 965) {
		refuses_in = 1 + chance(c, 6);
	} else if (what < 976) {
		somebody_takes_or_gives_back(c);
	} else {
		begin_again(c, what < 982 ? CLOSED : what < 990 ? KILLED : POWER_CUT);
	}
}

static void delete_everything(churn *c) {
	for (size_t h = 0; h < c->holders_count; h++) {
		int tries = TRIES;
		while (!delete_one(c, h) && --tries > 0)
			keep(c, 20, STEP_MS);
		CHECK(tries > 0);
		keep(c, 20, STEP_MS);
	}
	CHECK_EQ(c->live, 0);
}

/* What a process before this one kept back is not counted where there is nothing to free. */
static uint64_t uncounted(churn *c, const char *name, uint64_t counted) {
	int64_t size = wk_faulty_file_size(c->disk, name);
	return counted == 0 && size > 0 ? (uint64_t)size : 0;
}

static void ends_small(churn *c) {
	refuses_in = 0;
	settle(c);
	delete_everything(c);
	must_take_appends(c);
	set_capacity(c, (uint64_t)1 << 40);
	begin_again(c, chance(c, 2) ? CLOSED : KILLED);
	delete_everything(c);
	keep(c, PATIENCE, STEP_MS);
	const wk_engine *engine = c->ns->engine;
	CHECK_EQ(used(c), stats_of(c->ns).disk_bytes +
	                      uncounted(c, "store/entries/prepared-output.wkp", engine->output_reserve) +
	                      uncounted(c, "store/entries/prepared-index.wkp", engine->index.reserve));
	CHECK(used(c) <= 6 * c->options.file_size_max + (1 << 20));
}

static void churn_by(uint64_t seed) {
	static churn c;
	c = (churn){.seed = seed, .io = new_disk(seed), .ledgers = seed % 2 == 0};
	c.disk = wk_faulty_of(c.io);
	c.holders_count = c.ledgers ? HOLDERS : HOLDERS / 6;
	refuse_some(c.io);
	c.options = store_options();
	c.options.kind = c.ledgers ? WK_KIND_LEDGERS : WK_KIND_LOGS;
	c.options.file_size_min = (uint64_t)(64 * 1024) << chance(&c, 3);
	c.options.file_size_max = c.options.file_size_min << chance(&c, 3);
	c.options.sync_method = chance(&c, 2) ? WK_SYNC_DSYNC : WK_SYNC_WRITE_THEN_SYNC;
	c.options.range_bytes = chance(&c, 3) == 0; /* 1: ranges are paged out */
	wk_faulty_set_flush_on_dsync(c.disk, chance(&c, 2));
	uint64_t least = c.ledgers ? 256 * 1024 : 512 * 1024; /* the reserve becomes a file, too */
	c.unit = c.options.file_size_max > least ? c.options.file_size_max : least;
	c.base = (FILES_MIN + 2 + chance(&c, 12)) * c.unit;
	set_capacity(&c, c.base);
	open_it(&c);
	for (int round = 0; round < ROUNDS; round++)
		do_something(&c);
	ends_small(&c);
	wk_abandon(c.ns);
	release_logs(&c);
	c.io->operations = plain_operations;
	c.io->operations->destroy(c.io);
}

/* Arguments: [SEEDS [SEED]]. */
int main(int argc, char **argv) {
	static char where[64];
	uint64_t seeds = argc > 1 ? strtoull(argv[1], NULL, 10) : SEEDS / CHECK_PART;
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : check_seed((uint64_t)time(NULL));
	check_test_name = where;
	lowest_percent = 100;
	for (uint64_t i = 0; i < seeds; i++) {
		snprintf(where, sizeof where, "seed %llu", (unsigned long long)(seed + i));
		churn_by(seed + i);
	}
	printf("%llu seeds: appends refused %llu times, for long with %llu %% live and more; %llu frees refused\n",
	       (unsigned long long)seeds, (unsigned long long)refusals, (unsigned long long)lowest_percent,
	       (unsigned long long)refused_frees);
	CHECK(refusals > 0 || seeds < SEEDS / 4);
	check_test_name = "a disk that is full again and again";
	check_passed(check_checks_count);
	return check_done();
}

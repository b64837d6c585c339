/*
 * refused_opens.h: what an open asks the machine for is refused, one thing after the other: each allocation, each read,
 * each open of a file. It answers so, and never that something is damaged; and the next open finds everything.
 *
 * Behind a workload's header: `try_open` opens the directory on this disk, and abandons it; `look_again` looks whether
 * all is there.
 */
#ifndef REFUSED_OPENS_H
#define REFUSED_OPENS_H
#include "sheltered_disk.h"
#include "sim/faulty.h"
#include <errno.h>

static wk_status try_open(const workload *w, wk_io *io, wk_error *error);
static void look_again(const workload *w, wk_io *io);

enum refused_kind { MEMORY, OPENS, READS, REFUSED_KINDS };

static const char *const kind_names[REFUSED_KINDS] = {"allocation", "open", "read"};

static void refuse(wk_faulty *disk, enum refused_kind kind, uint64_t number) {
	if (kind == MEMORY)
		let_memory_run_out((long)number, 1);
	else
		wk_faulty_fail(disk, kind == READS ? WK_FAULT_READ : WK_FAULT_OPEN, number, kind == READS ? EIO : EMFILE,
		               false);
}

static bool was_refused(wk_faulty *disk, enum refused_kind kind, uint64_t number) {
	bool ran_out = memory_ran_out();
	wk_faulty_heal(disk);
	if (kind == MEMORY)
		return ran_out;
	return wk_faulty_calls(disk, kind == READS ? WK_FAULT_READ : WK_FAULT_OPEN) > number;
}

/* false: an open asks for no such thing. */
static bool refuse_one(const workload *w, enum refused_kind kind, uint64_t number) {
	wk_io *io;
	wk_error error = {0};
	CHECK_EQ(wk_faulty_image(w->disk, wk_faulty_trace_length(w->disk), 1, &io), 0);
	wk_faulty *disk = wk_faulty_of(io);
	shelter(io);
	refuse(disk, kind, number);
	wk_status status = try_open(w, io, &error);
	bool refused = was_refused(disk, kind, number);
	io->operations = plain;
	if (status != WK_OK) {
		if (!refused || status != (kind == MEMORY ? WK_NO_MEMORY : WK_IO))
			printf("%s %llu, status %d: %s\n", kind_names[kind], (unsigned long long)number, (int)status, error.text);
		CHECK(refused);
		CHECK_EQ(status, kind == MEMORY ? WK_NO_MEMORY : WK_IO);
		CHECK_EQ(error.status, status);
		CHECK(error.text[0] != 0);
	}
	look_again(w, io);
	io->operations->destroy(io);
	return refused;
}

/* Of these kinds, in their order. */
static void refuse_each(const workload *w, int kinds) {
	for (int kind = MEMORY; kind < kinds; kind++) {
		uint64_t number = 0;
		while (refuse_one(w, (enum refused_kind)kind, number))
			number++;
		CHECK(number > 3);
	}
}
#endif

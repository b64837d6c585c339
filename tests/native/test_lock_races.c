/*
 * test_lock_races.c: two processes open a directory at once. One of them has it then, and the other waits for it; and what a
 * process has locked is what the names in the directory lead to, whatever came of them while it waited.
 *
 * Each has an io of its own, so that the two share nothing in this process: they are as two processes.
 */
#include "engine/directory/directory.h"
#include "small_directory.h"
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/file.h>

enum { MAKER, OTHER, PROCESSES };
static const uint64_t LONG_NS = 30000000000u; /* much more than either needs */

typedef struct process {
	wk_io *io;
	wk_namespace *ns;
	wk_error error;
	wk_status status;
	pthread_t thread;
	wk_file *root; /* the superblock, where it is open to be written */
} process;

static char place[64];
static char journal[100]; /* a directory for the journal alone; empty: there is none */
static uint64_t patience_ns;
static process processes[PROCESSES];
static struct wk_io_operations hooked[PROCESSES];
static const struct wk_io_operations *plain;
static _Atomic bool other_has_root, root_is_refused;

static void await(_Atomic bool *what) {
	while (!*what)
		nap_ms(1);
}

static void open_as(int which) {
	process *p = &processes[which];
	wk_open_options options;
	wk_open_options_init(&options);
	options.lock_timeout_ns = patience_ns;
	options.journal = journal[0] != 0 ? journal : NULL;
	p->error = (wk_error){0};
	p->status = wk_open_on(p->io, place, &options, &p->ns, &p->error);
}

static void *open_other(void *context) {
	open_as(OTHER);
	return context;
}

static void start_other(void) {
	CHECK_EQ(pthread_create(&processes[OTHER].thread, NULL, open_other, NULL), 0);
}

static void begin(void) {
	snprintf(place, sizeof place, "%s", temporary());
	other_has_root = root_is_refused = false;
	journal[0] = 0;
	patience_ns = LONG_NS;
	for (int i = 0; i < PROCESSES; i++) {
		processes[i] = (process){0};
		CHECK_EQ(wk_io_psync_new(&processes[i].io), 0);
		plain = processes[i].io->operations;
		hooked[i] = *plain;
		processes[i].io->operations = &hooked[i];
	}
}

static void must_have_opened(int which) {
	check_ok(processes[which].status, &processes[which].error, "the directory opens");
}

static void close_of(int which) {
	close_all(processes[which].ns, NULL, NULL);
}

static void end(void) {
	for (int i = 0; i < PROCESSES; i++)
		processes[i].io->operations->destroy(processes[i].io);
	remove_tree(place);
}

/* ---- a directory is made ---- */

static bool names_root(const char *path) {
	size_t size = strlen(path);
	return size > 11 && strcmp(path + size - 11, "/superblock") == 0;
}

static int open_and_note(wk_io *io, const char *path, uint32_t flags, wk_file **file) {
	int result = plain->open(io, path, flags, file);
	process *p = &processes[io == processes[MAKER].io ? MAKER : OTHER];
	if (result == 0 && names_root(path) && (flags & WK_IO_WRITE) != 0)
		p->root = *file;
	return result;
}

/* The superblock is there, and has no lock yet: the other one takes it. */
static int lock_behind_other(wk_io *io, wk_file *file, bool exclusive) {
	bool is_root = exclusive && file == processes[MAKER].root;
	if (is_root && !root_is_refused) {
		start_other();
		await(&other_has_root);
	}
	int result = plain->lock(io, file, exclusive);
	root_is_refused = root_is_refused || (is_root && result == -EWOULDBLOCK);
	return result;
}

/* Of the superblock at once, of the file `lock` only when the maker has met that. */
static int lock_root_first(wk_io *io, wk_file *file, bool exclusive) {
	bool is_root = file == processes[OTHER].root;
	if (!is_root)
		await(&root_is_refused);
	int result = plain->lock(io, file, exclusive);
	if (is_root && result == 0)
		other_has_root = true;
	return result;
}

TEST(who_makes_a_directory_and_who_comes_then_do_not_wait_for_each_other) {
	begin();
	hooked[MAKER].open = open_and_note;
	hooked[MAKER].lock = lock_behind_other;
	hooked[OTHER].open = open_and_note;
	hooked[OTHER].lock = lock_root_first;
	open_as(MAKER);
	must_have_opened(MAKER);
	CHECK(root_is_refused);
	close_of(MAKER);
	pthread_join(processes[OTHER].thread, NULL);
	must_have_opened(OTHER);
	close_of(OTHER);
	end();
}

/* ---- a name leads elsewhere ---- */

static int lock_and_tell_of_refusals(wk_io *io, wk_file *file, bool exclusive) {
	int result = plain->lock(io, file, exclusive);
	root_is_refused = root_is_refused || (exclusive && result == -EWOULDBLOCK);
	return result;
}

static int locked(const char *name) {
	int file = open(below(place, name), O_RDWR);
	CHECK(file >= 0);
	CHECK_EQ(flock(file, LOCK_EX | LOCK_NB), 0);
	return file;
}

/* The same bytes in another file. */
static void replace_file(const char *name) {
	size_t size;
	uint8_t *bytes = read_file(below(place, name), &size);
	CHECK_EQ(unlink(below(place, name)), 0);
	write_file(below(place, name), bytes, size);
	free(bytes);
}

static void must_be_locked(const char *name) {
	int file = open(below(place, name), O_RDWR);
	CHECK(file >= 0);
	CHECK(flock(file, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK);
	close(file);
}

TEST(a_file_that_is_replaced_while_its_lock_is_waited_for_is_locked_where_the_name_leads) {
	static const char *const names[] = {"superblock", "lock"};
	for (int i = 0; i < 2; i++) {
		begin();
		make_small(place, 1);
		int holder = locked(names[i]);
		hooked[OTHER].lock = lock_and_tell_of_refusals;
		start_other();
		await(&root_is_refused);
		replace_file(names[i]);
		close(holder);
		pthread_join(processes[OTHER].thread, NULL);
		must_have_opened(OTHER);
		must_be_locked("superblock");
		must_be_locked("lock");
		close_of(OTHER);
		end();
	}
}

/* ---- a directory is closed ---- */

static void close_and_let_other_open(wk_io *io, wk_file *file) {
	bool is_root = file == processes[MAKER].root;
	plain->close(io, file);
	if (is_root && processes[OTHER].ns == NULL)
		open_as(OTHER);
}

/* Nobody is told that another directory has the journal: the superblock is the last of the locks that are let go of. */
TEST(who_comes_when_the_superblock_is_let_go_of_finds_no_other_lock) {
	begin();
	snprintf(journal, sizeof journal, "%s-journal", place);
	hooked[MAKER].open = open_and_note;
	open_as(MAKER);
	must_have_opened(MAKER);
	hooked[MAKER].close = close_and_let_other_open;
	patience_ns = 1;
	close_of(MAKER);
	must_have_opened(OTHER);
	close_of(OTHER);
	end();
	remove_tree(journal);
}

int main(void) {
	RUN(who_makes_a_directory_and_who_comes_then_do_not_wait_for_each_other);
	RUN(a_file_that_is_replaced_while_its_lock_is_waited_for_is_locked_where_the_name_leads);
	RUN(who_comes_when_the_superblock_is_let_go_of_finds_no_other_lock);
	return check_done();
}

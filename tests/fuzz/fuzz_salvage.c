/*
 * Checked: a small directory is damaged by what the input says, and opened by one that accepts loss. Whatever stands
 * there, that comes to an end without a read outside the bytes; where nothing but the checksums was damaged to (no
 * block was sealed again), it succeeds, what is read is what was appended, and the next open needs no policy any more.
 *
 * Byte 0: bit 0 the policy (skip, point_in_time), bit 1 check_all, bit 2 read-only (a rehearsal), bit 3 a directory that
 * was closed. Then eight bytes for each damage: the file, what is done to it, where (3 bytes, little-endian), three
 * bytes for it.
 */
#include "../native/small_wal.h"
#include "core/bytes.h"
#include "core/journal_block_layout.h"
#include "fuzz.h"
#include "sim/faulty.h"

enum { DAMAGE_SIZE = 8, DAMAGES_MAX = 24, ZERO_UNIT = 512 };
enum damage { STORE, ZEROS, TURN, COPY_BLOCK, CUT, REMOVE, SEAL_AGAIN, DAMAGES };

static subject subjects[2];

static const subject *subject_of(bool closed) {
	subject *s = &subjects[closed];
	if (s->files_count == 0)
		make(s, 1, closed);
	return s;
}

static void store(wk_io *io, const char *path, const uint8_t *bytes, size_t size, uint64_t offset) {
	wk_file *handle;
	if (io->operations->open(io, path, WK_IO_WRITE, &handle) != 0)
		return; /* removed */
	io->operations->pwrite(io, handle, bytes, size, offset, 0);
	io->operations->close(io, handle);
}

static void cut(wk_io *io, const char *path, uint64_t size) {
	wk_file *handle;
	if (io->operations->open(io, path, WK_IO_WRITE, &handle) != 0)
		return;
	io->operations->truncate(io, handle, size);
	io->operations->close(io, handle);
}

/*
 * The block there gets the checksum of what it holds now, with its padding cleared. Not by wk_block_seal, which is for
 * what may be written: what stands there may be anything a header can say.
 */
static void seal_again(wk_io *io, const char *path, uint64_t offset) {
	static uint8_t bytes[FILE_BYTES];
	wk_block_header header;
	int64_t got = wk_faulty_read_file(wk_faulty_of(io), path, bytes, sizeof bytes, offset);
	if (got < WK_BLOCK_HEADER_SIZE || wk_block_peek(bytes, (size_t)got, &header) != WK_OK || header.size > got)
		return;
	memset(bytes + header.used, 0, header.size - header.used);
	wk_store_le32(bytes + CRC_AT, wk_crc32c(bytes + PREVIOUS_CRC_AT, header.size - PREVIOUS_CRC_AT));
	store(io, path, bytes, header.size, offset);
}

/* Whether what vouches for the bytes was left as damage leaves it. */
static bool inflict(const subject *s, wk_io *io, const uint8_t *what) {
	const file *f = &s->files[1 + what[0] % (s->files_count - 1)]; /* without the superblock nothing is to be had */
	uint64_t at = (what[2] | (uint64_t)what[3] << 8 | (uint64_t)what[4] << 16) % f->size;
	uint64_t block = at / WK_BLOCK_ALIGNMENT * WK_BLOCK_ALIGNMENT;
	static const uint8_t zeros[ZERO_UNIT * 256];
	switch (what[1] % DAMAGES) {
	case STORE:
		store(io, f->path, what + 5, 3, at);
		break;
	case ZEROS:
		store(io, f->path, zeros, ZERO_UNIT * (1 + (size_t)what[5]), at);
		break;
	case TURN:
		wk_faulty_flip(wk_faulty_of(io), f->path, at, what[5] % 8);
		break;
	case COPY_BLOCK: /* of the same file: a write that went astray */
		store(io, f->path, f->bytes + (uint64_t)what[5] * WK_BLOCK_ALIGNMENT % f->size, WK_BLOCK_ALIGNMENT, block);
		break;
	case CUT:
		cut(io, f->path, at);
		break;
	case REMOVE:
		io->operations->unlink(io, f->path);
		break;
	default:
		seal_again(io, f->path, block);
		return false;
	}
	return true;
}

/* Every log to its end. */
static void read_all(wk_namespace *ns, bool honest, bool checked) {
	char *all;
	size_t size;
	uint64_t logs;
	wk_error error;
	if (wk_log_names(ns, "", 0, &all, &size, &logs, &error) != WK_OK)
		return;
	for (const char *name = all; logs > 0; logs--, name += strlen(name) + 1) {
		wk_log *log;
		wk_reader *reader = NULL;
		wk_batch *batch;
		int64_t next = -1;
		size_t which = strcmp(name, names[0]) == 0 ? 0 : strcmp(name, names[1]) == 0 ? 1 : LOGS;
		if (wk_log_open(ns, name, strlen(name), false, NULL, &log, &error) != WK_OK)
			continue;
		wk_status status = wk_reader_open(log, NULL, &reader, &error);
		while (status == WK_OK && (status = wk_reader_next(reader, 1000, 1 << 20, 0, &batch, &error)) == WK_OK) {
			size_t count;
			const wk_record *records = wk_batch_records(batch, &count);
			for (size_t i = 0; i < count; i++) {
				const wk_record *record = &records[i];
				CHECK(next < 0 || record->at.sequence_id == next);
				next = record->at.sequence_id + (record->kind == WK_RECORD_GAP ? (int64_t)record->gap_count : 1);
				if (record->kind == WK_RECORD_GAP || which == LOGS || !honest)
					continue;
				CHECK_EQ(record->size, size_of(which, record->at.sequence_id));
				CHECK(memcmp(record->payload, payload_of_record(which, record->at.sequence_id), record->size) == 0);
			}
			wk_batch_release(batch);
		}
		if (honest)
			CHECK(status == WK_END || (status == WK_DAMAGED && !checked));
		if (reader != NULL)
			wk_reader_release(reader);
		wk_log_release(log);
	}
	wk_free(all);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
	if (size < 1)
		return 0;
	uint32_t policy = bytes[0] & 1 ? WK_ON_DAMAGE_SKIP : WK_ON_DAMAGE_POINT_IN_TIME;
	bool check_all = bytes[0] & 2, reads = bytes[0] & 4, honest = true;
	const subject *s = subject_of(bytes[0] & 8);
	wk_io *io;
	CHECK_EQ(wk_faulty_image(s->w.disk, 0, 1, &io), 0);
	for (size_t at = 1, count = 0; at + DAMAGE_SIZE <= size && count < DAMAGES_MAX; at += DAMAGE_SIZE, count++)
		honest &= inflict(s, io, bytes + at);
	wk_open_options options = manual_options(FILE_BYTES);
	options.on_damage = policy;
	options.check_all = check_all;
	options.read_only = reads;
	wk_namespace *ns;
	wk_error error;
	wk_status status = wk_open_on(io, "wal", &options, &ns, &error);
	if (status != WK_OK && honest)
		printf("%s\n", error.text);
	CHECK(status == WK_OK || !honest);
	if (status == WK_OK) {
		read_all(ns, honest, check_all && !reads);
		status = wk_close(ns, UINT64_MAX, &error);
		CHECK_EQ(status, WK_OK);
		options.on_damage = WK_ON_DAMAGE_STOP;
		status = wk_open_on(io, "wal", &options, &ns, &error);
		if (status != WK_OK && honest && !reads)
			printf("%s\n", error.text);
		CHECK(status == WK_OK || reads || !honest);
		if (status == WK_OK)
			wk_abandon(ns);
	}
	io->operations->destroy(io);
	return 0;
}

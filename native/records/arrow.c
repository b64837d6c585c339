/*
 * arrow.c: a batch as an Arrow record batch, by the Arrow C data interface
 * (arrow.apache.org/docs/format/CDataInterface.html).
 */
#include <stdlib.h>
#include <string.h>

#include "records/batch.h"

/* The two structures of the interface, whose layout is fixed for ever. */
struct ArrowSchema {
	const char *format, *name, *metadata;
	int64_t flags, n_children;
	struct ArrowSchema **children, *dictionary;
	void (*release)(struct ArrowSchema *);
	void *private_data;
};
struct ArrowArray {
	int64_t length, null_count, offset, n_buffers, n_children;
	const void **buffers;
	struct ArrowArray **children, *dictionary;
	void (*release)(struct ArrowArray *);
	void *private_data;
};

enum { NUMBERS = 5, COLUMNS = NUMBERS + 1 };
static const char *const NAMES[COLUMNS] = {"segment", "entry_id", "slot", "sequence_id", "txid", "payload"};

static void release_schema(struct ArrowSchema *schema) {
	for (int64_t i = 0; i < schema->n_children; i++)
		if (schema->children[i]->release != NULL)
			schema->children[i]->release(schema->children[i]);
	free(schema->private_data);
	schema->release = NULL;
}

static void release_child_schema(struct ArrowSchema *schema) {
	schema->release = NULL;
}

static wk_status make_schema(struct ArrowSchema *schema) {
	struct block {
		struct ArrowSchema children[COLUMNS];
		struct ArrowSchema *pointers[COLUMNS];
	} *block = calloc(1, sizeof *block);
	if (block == NULL)
		return WK_NO_MEMORY;
	for (int i = 0; i < COLUMNS; i++) {
		block->children[i] = (struct ArrowSchema){
		    .format = i < NUMBERS ? "l" : "Z", .name = NAMES[i], .release = release_child_schema};
		block->pointers[i] = &block->children[i];
	}
	*schema = (struct ArrowSchema){.format = "+s",
	                               .name = "",
	                               .n_children = COLUMNS,
	                               .children = block->pointers,
	                               .release = release_schema,
	                               .private_data = block};
	return WK_OK;
}

/* Everything of the array is one allocation; consumers may move children out, so it is counted. */
typedef struct array_block {
	struct ArrowArray children[COLUMNS];
	struct ArrowArray *pointers[COLUMNS];
	const void *buffers[COLUMNS][3];
	const void *no_validity[1];
	void *memory[COLUMNS + 1];
	_Atomic uint32_t references;
} array_block;

static void drop(array_block *block) {
	if (atomic_fetch_sub(&block->references, 1) != 1)
		return;
	for (int i = 0; i <= COLUMNS; i++)
		free(block->memory[i]);
	free(block);
}

static void release_child(struct ArrowArray *array) {
	array_block *block = array->private_data;
	array->release = NULL;
	drop(block);
}

static void release_array(struct ArrowArray *array) {
	array_block *block = array->private_data;
	for (int64_t i = 0; i < array->n_children; i++)
		if (array->children[i]->release != NULL)
			array->children[i]->release(array->children[i]);
	array->release = NULL;
	drop(block);
}

static void fill_numbers(const wk_batch *batch, int64_t *columns[NUMBERS]) {
	for (size_t i = 0; i < batch->count; i++) {
		const wk_position *at = &batch->records[i].at;
		columns[0][i] = at->dlsn.segment;
		columns[1][i] = at->dlsn.entry_id;
		columns[2][i] = at->dlsn.slot;
		columns[3][i] = at->sequence_id;
		columns[4][i] = at->txid;
	}
}

static void fill_payloads(const wk_batch *batch, int64_t *offsets, uint8_t *bytes) {
	int64_t at = 0;
	for (size_t i = 0; i < batch->count; i++) {
		offsets[i] = at;
		memcpy(bytes + at, batch->records[i].payload, batch->records[i].size);
		at += (int64_t)batch->records[i].size;
	}
	offsets[batch->count] = at;
}

static wk_status make_array(const wk_batch *batch, struct ArrowArray *array) {
	array_block *block = calloc(1, sizeof *block);
	if (block == NULL)
		return WK_NO_MEMORY;
	atomic_init(&block->references, COLUMNS + 1);
	bool failed = false;
	int64_t *numbers[NUMBERS];
	for (int i = 0; i < NUMBERS; i++) {
		block->memory[i] = numbers[i] = malloc((batch->count + 1) * sizeof(int64_t));
		failed |= numbers[i] == NULL;
	}
	int64_t *offsets = block->memory[NUMBERS] = malloc((batch->count + 1) * sizeof(int64_t));
	uint8_t *bytes = block->memory[COLUMNS] = malloc(batch->bytes + 1);
	if (failed || offsets == NULL || bytes == NULL) {
		atomic_store(&block->references, 1);
		drop(block);
		return WK_NO_MEMORY;
	}
	fill_numbers(batch, numbers);
	fill_payloads(batch, offsets, bytes);
	for (int i = 0; i < COLUMNS; i++) {
		bool is_payload = i == NUMBERS;
		block->buffers[i][1] = block->memory[i];
		block->buffers[i][2] = is_payload ? bytes : NULL;
		block->children[i] = (struct ArrowArray){.length = (int64_t)batch->count,
		                                         .n_buffers = is_payload ? 3 : 2,
		                                         .buffers = block->buffers[i],
		                                         .release = release_child,
		                                         .private_data = block};
		block->pointers[i] = &block->children[i];
	}
	*array = (struct ArrowArray){.length = (int64_t)batch->count,
	                             .n_buffers = 1,
	                             .buffers = block->no_validity,
	                             .n_children = COLUMNS,
	                             .children = block->pointers,
	                             .release = release_array,
	                             .private_data = block};
	return WK_OK;
}

wk_status wk_batch_to_arrow(const wk_batch *batch, void *schema, void *array) {
	wk_status status = make_schema(schema);
	if (status != WK_OK)
		return status;
	status = make_array(batch, array);
	if (status != WK_OK)
		release_schema(schema);
	return status;
}

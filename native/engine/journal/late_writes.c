#include "engine/journal/late_writes.h"

#include "engine/index.h"

/* Blocks under way stand in the last files: each in another one at worst, and one is prepared. */
enum { FILES_MAX = WK_BLOCKS_IN_FLIGHT_MAX + 1 };

void wk_late_writes_await(wk_engine *engine) {
	uint32_t left = FILES_MAX;
	for (uint32_t i = engine->files_count; i > 0 && left > 0; i--) {
		wk_store_file *file = engine->files[i - 1];
		if (file->kind != WK_FILE_JOURNAL || file->size == 0)
			continue;
		left--;
		if (wk_store_file_use(engine, file) == 0) /* who writes to it will say what is wrong */
			(void)engine->io->operations->await_writes(engine->io, file->handle);
	}
}

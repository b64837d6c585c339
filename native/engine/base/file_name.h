/* file_name.h: what a journal file or entry log is called on the disk; in texts too, so that it can be found. Private. */
#ifndef WK_ENGINE_FILE_NAME_H
#define WK_ENGINE_FILE_NAME_H
#include <stdint.h>

typedef struct wk_file_name {
	char text[40]; /* "journal/0000000000000014.wkj", below the directory */
} wk_file_name;

/* `kind`: WK_FILE_JOURNAL or WK_FILE_ENTRY_LOG. */
wk_file_name wk_file_name_of(uint64_t id, uint32_t kind);
#endif

/*
 * directory.h: opening and closing a directory: lock, registry of open ones, fork. Private.
 */
#ifndef WK_ENGINE_DIRECTORY_H
#define WK_ENGINE_DIRECTORY_H
#include "engine/engine.h"

/*
 * The engine of the directory, shared with whoever has it open in this process. `io` NULL: one is made as options
 * say; else it is borrowed (tests).
 */
wk_status wk_directory_open(const char *path, const wk_open_options *options, wk_io *io, wk_engine **engine,
                            wk_error *error);
/* One user less; the last one closes. */
wk_status wk_directory_close(wk_engine *engine, uint64_t timeout_ns, wk_error *error);

/* WK_INVALID, and what it is, where the directory is not of this kind (namespace.c). */
wk_status wk_check_kind(const wk_engine *engine, uint32_t kind, wk_error *error);

/* WK_UNSUPPORTED: a network file system, which was not allowed. */
wk_status wk_directory_check_file_system(wk_engine *engine, const char *path, wk_error *error);

void wk_directory_abandon(wk_engine *engine);

/* Tests: a namespace on a borrowed io (the faulty disk). The io must outlive it. */
wk_status wk_open_on(wk_io *io, const char *path, const wk_open_options *options, wk_namespace **ns, wk_error *error);
/* Tests: forgets everything without a word to the disk, as a kill would. The io is left alone. */
void wk_abandon(wk_namespace *ns);
#endif

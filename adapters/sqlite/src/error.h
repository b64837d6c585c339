/* error.h: fills a wk_error. */
#ifndef WK_SQLITE_ERROR_H
#define WK_SQLITE_ERROR_H
#include "walkeeper/log.h"

/* Returns `status`. `error` may be NULL. */
wk_status wk_database_fail(wk_error *error, wk_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* A system call failed with errno at path + suffix; `what` was being done. WK_EXISTS, WK_NO_SPACE, else WK_IO. */
wk_status wk_database_fail_system(wk_error *error, const char *what, const char *path, const char *suffix);
#endif

/* error.h: filling a wk_error. Private. */
#ifndef WK_ENGINE_ERROR_H
#define WK_ENGINE_ERROR_H
#include "walkeeper/log.h"

/* What helps where a ledger store is damaged: salvage, and opens that accept loss, are for logs. */
#define WK_LEDGERS_REMEDY "have this store's ledgers repaired from their other copies"

/* Fills *error (may be NULL) and returns status, so that a failure is one statement. */
wk_status wk_fail(wk_error *error, wk_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The same for a call of the seam that returned -errno: the text ends with what the kernel said. */
wk_status wk_fail_io(wk_error *error, int result, const char *format, ...) __attribute__((format(printf, 3, 4)));
/*
 * No write and no sync failed: there was no space, no descriptor or no memory for it, and what was asked may be asked
 * again.
 */
bool wk_error_is_shortage(const wk_error *error);
void wk_error_clear(wk_error *error);
#endif

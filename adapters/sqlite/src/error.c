#include "error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

wk_status wk_database_fail(wk_error *error, wk_status status, const char *format, ...) {
	if (error == NULL)
		return status;
	*error = (wk_error){
	    .status = status, .ledger_id = -1, .entry_id = -1, .sequence_id = -1, .txid = -1, .holder_pid = -1};
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(error->text, sizeof error->text, format, arguments);
	va_end(arguments);
	return status;
}

wk_status wk_database_fail_system(wk_error *error, const char *what, const char *path, const char *suffix) {
	int number = errno;
	bool full = number == ENOSPC || number == EDQUOT;
	wk_status status = number == EEXIST ? WK_EXISTS : full ? WK_NO_SPACE : WK_IO;
	wk_database_fail(error, status, "%s %s%s: %s", what, path, suffix, strerror(number));
	if (error != NULL)
		error->system_error = number;
	return status;
}

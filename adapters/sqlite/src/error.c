#include "error.h"

#include <stdarg.h>
#include <stdio.h>

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

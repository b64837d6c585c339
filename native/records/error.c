#include "records/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void wk_error_clear(wk_error *error) {
	if (error == NULL)
		return;
	error->status = WK_OK;
	error->system_error = 0;
	error->outcome_unknown = false;
	error->ledger_id = error->entry_id = error->sequence_id = error->txid = error->holder_pid = -1;
	error->durable_count = 0;
	error->text[0] = 0; /* not all of it: each append comes here */
}

wk_status wk_fail(wk_error *error, wk_status status, const char *format, ...) {
	if (error == NULL)
		return status;
	wk_error_clear(error);
	error->status = status;
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(error->text, sizeof error->text, format, arguments);
	va_end(arguments);
	return status;
}

/* What a person can do about an errno that storage meets. */
static const char *hint(int code) {
	switch (code) {
	case ENOSPC:
		return "; free some space";
	case EDQUOT:
		return "; the quota is used up";
	case EACCES:
	case EPERM:
		return "; check the owner and the permissions of the directory";
	case EROFS:
		return "; the file system is mounted read-only, perhaps after a disk error (see dmesg)";
	case EIO:
	case ENODATA:
	case EREMOTEIO:
		return "; the device failed (see dmesg and smartctl)";
	case ENXIO:
		return "; a pipe, a socket or a device stands there in place of a file";
	case ELOOP:
		return "; a symbolic link stands there in place of a file: move what it names there";
	case EMFILE:
	case ENFILE:
		return "; raise the limit of open files (ulimit -n)";
	default:
		return "";
	}
}

wk_status wk_fail_io(wk_error *error, int result, const char *format, ...) {
	int code = result < 0 ? -result : result;
	wk_status status = code == ENOSPC || code == EDQUOT ? WK_NO_SPACE : code == ENOMEM ? WK_NO_MEMORY : WK_IO;
	if (error == NULL)
		return status;
	wk_error_clear(error);
	error->status = status;
	error->system_error = code;
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(error->text, sizeof error->text, format, arguments);
	va_end(arguments);
	size_t used = strlen(error->text);
	char reason[96];
	snprintf(error->text + used, sizeof error->text - used, ": %s%s", strerror_r(code, reason, sizeof reason),
	         hint(code));
	return status;
}

bool wk_error_is_shortage(const wk_error *error) {
	bool own_memory = error->status == WK_NO_MEMORY &&
	                  error->system_error == 0; /* the kernel's may have been a sync's */
	return error->status == WK_NO_SPACE || own_memory || error->system_error == EMFILE || error->system_error == ENFILE;
}

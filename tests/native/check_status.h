/* check_status.h: the status of a call, checked with its error; and the counters of a namespace. */
#ifndef CHECK_STATUS_H
#define CHECK_STATUS_H
#include "check.h"
#include "walkeeper/log.h"

static inline void check_ok(wk_status status, const wk_error *error, const char *what) {
	check_count();
	if (status != WK_OK) {
		printf("%s: status %d: %s\n", what, (int)status, error->text);
		check_failed(__FILE__, __LINE__, what);
	}
}

static inline wk_stats stats_of(wk_namespace *ns) {
	wk_stats stats;
	wk_namespace_stats(ns, &stats);
	return stats;
}
#endif

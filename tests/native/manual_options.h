/*
 * manual_options.h: how tests open a directory in which nothing happens but what they do.
 */
#ifndef MANUAL_OPTIONS_H
#define MANUAL_OPTIONS_H
#include "engine/manual.h"
#include "walkeeper/log.h"

static inline wk_open_options manual_options(uint64_t file_size) {
	wk_open_options options;
	wk_open_options_init(&options);
	options.internal = WK_OPEN_MANUAL;
	options.file_size_min = options.file_size_max = file_size;
	options.sync_method = WK_SYNC_DSYNC;
	return options;
}

#endif

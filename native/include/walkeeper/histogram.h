/* histogram.h: how often values were how large, to a factor of two. */
#ifndef WALKEEPER_HISTOGRAM_H
#define WALKEEPER_HISTOGRAM_H
#include "walkeeper/core.h"

enum { WK_HISTOGRAM_BUCKETS = 40 };

/* Bucket 0 counts the value 0, bucket i the values from 2^(i-1) up to 2^i - 1; the last bucket counts all larger values too. */
typedef struct wk_histogram {
	uint64_t count, sum;
	uint64_t buckets[40]; /* WK_HISTOGRAM_BUCKETS */
} wk_histogram;

WK_API void wk_histogram_count(wk_histogram *histogram, uint64_t value);
#endif

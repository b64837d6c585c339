#include "walkeeper/histogram.h"

void wk_histogram_count(wk_histogram *histogram, uint64_t value) {
	uint32_t bucket = 0;
	for (uint64_t rest = value; rest > 0 && bucket < WK_HISTOGRAM_BUCKETS - 1; rest >>= 1)
		bucket++;
	histogram->buckets[bucket]++;
	histogram->count++;
	histogram->sum += value;
}

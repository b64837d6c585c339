/*
 * append_rules.h: what an append must keep whatever the log is on: sizes, txids, what an error tells of a batch. Pure;
 * a refusal means that nothing was written. Private.
 */
#ifndef WK_RECORDS_APPEND_RULES_H
#define WK_RECORDS_APPEND_RULES_H
#include "walkeeper/log.h"

/* WK_TOO_LARGE where no record holds `size` bytes. */
wk_status wk_append_check_size(size_t size, wk_error *error);
/* All records of an append_many: WK_INVALID, WK_TOO_LARGE, WK_TXID. txids may be NULL. */
wk_status wk_append_check_many(const uint32_t *sizes, size_t count, const int64_t *txids, wk_error *error);
/* *total: the bytes of the records with their heads, in one entry. WK_TOO_LARGE where none holds them. */
wk_status wk_append_check_atomic(const uint32_t *sizes, size_t count, size_t *total, wk_error *error);
/*
 * `source`: enum wk_txid_source. WK_TXID where `txid` (-1: the clock is to choose it) does not come from there, or is
 * below the last one (-1: there is none).
 */
wk_status wk_append_check_txid(const char *log, uint32_t source, int64_t last, int64_t txid, wk_error *error);
/* An append_many, not atomic, failed behind `accepted` of its records; `durable` is the last sequence id known so. */
void wk_append_report_prefix(wk_error *error, const wk_position *first, int64_t durable, size_t accepted);
#endif

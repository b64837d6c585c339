/*
 * hosted_digest.c: which digest a hosted ledger's entries have, and whether an entry has it. The rules are in
 * walkeeper/hosted.h.
 *
 * No request names a ledger's digest, so the first entry tells it. Only what can be verified is ever refused: that an
 * entry has neither CRC says nothing against it while the ledger may have a MAC, whose key the bookie has not, or none.
 */
#include "core/hosted.h"
#include "core/wire.h"

static uint8_t learned_from(const uint8_t *entry, size_t size) {
	if (wk_wire_digest_matches(entry, size, WK_DIGEST_CRC32C))
		return WK_DIGEST_CRC32C;
	if (wk_wire_digest_matches(entry, size, WK_DIGEST_CRC32))
		return WK_DIGEST_CRC32;
	return WK_DIGEST_DUMMY;
}

wk_digest_verdict wk_hosted_verify(wk_hosted_ledger *ledger, const uint8_t *entry, size_t size) {
	if (ledger->digest == WK_DIGEST_UNKNOWN) {
		ledger->digest = learned_from(entry, size);
		return WK_DIGEST_ACCEPT;
	}
	if (ledger->digest != WK_DIGEST_CRC32 && ledger->digest != WK_DIGEST_CRC32C)
		return WK_DIGEST_ACCEPT;
	return wk_wire_digest_matches(entry, size, ledger->digest) ? WK_DIGEST_ACCEPT : WK_DIGEST_MISMATCH;
}

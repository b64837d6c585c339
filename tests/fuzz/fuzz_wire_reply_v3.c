/* Checked: wire_payloads.h, of replies of v3. */
#include "wire_payloads.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
	wire_check_reply(bytes, size, WK_WIRE_V3);
	return 0;
}

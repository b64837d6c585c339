/* Checked: wire_payloads.h, of requests on a new connection, where v3 is tried first. */
#include "wire_payloads.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
	wire_check_request(bytes, size, WK_WIRE_V3);
	return 0;
}

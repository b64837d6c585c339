/* Checked: wire_payloads.h, of requests on a connection that speaks v2, and of the beginnings of frames. */
#include "wire_payloads.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
	wire_check_request(bytes, size, WK_WIRE_V2);
	wire_check_frame(bytes, size);
	return 0;
}

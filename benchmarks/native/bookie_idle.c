/*
 * bookie_idle --port P --connections N: holds so many connections, of which each asked for something once, until its
 * standard input ends. When all are there it prints a line.
 */
#include "bench_bookie.h"

int main(int argc, char **argv) {
	const char *host = bench_text(argc, argv, "host", "127.0.0.1"), *port = bench_text(argc, argv, "port", NULL);
	uint64_t count = bench_number(argc, argv, "connections", 1000);
	const wk_wire_request request = {
	    .version = 2,
	    .header_version = 2,
	    .operation = WK_WIRE_READ,
	    .ledger_id = INT64_MAX, /* nobody has it */
	    .previous_lac = -1,
	};
	uint8_t head[WK_WIRE_HEAD_SIZE_MAX], answer[256];
	size_t size = wk_wire_request_encode(&request, head);
	for (uint64_t i = 0; i < count; i++) {
		int fd = bench_dial(host, port);
		if (send(fd, head, size, MSG_NOSIGNAL) != (ssize_t)size || recv(fd, answer, sizeof answer, 0) <= 0)
			bench_die("connection %" PRIu64 " is not served: %s", i, strerror(errno));
	}
	printf("{\"connections\": %" PRIu64 "}\n", count);
	fflush(stdout);
	while (getchar() != EOF)
		;
	return 0;
}

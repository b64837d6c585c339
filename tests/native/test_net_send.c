/* test_net_send.c: what the kernel is given of a send at a time. */
#include "check.h"
#include "io/net_send.h"

enum { BYTES = 1 << 20 };

/* However much of each piece is taken, all bytes go, in order, and never more than a piece at once. */
TEST(a_send_goes_in_pieces_whatever_the_kernel_takes) {
	static uint8_t bytes[BYTES];
	uint64_t random = check_seed(5);
	for (int round = 0; round < 500; round++) {
		struct iovec parts[WK_NET_PARTS_MAX];
		uint32_t count = 1 + (uint32_t)(check_random(&random) % WK_NET_PARTS_MAX);
		size_t total = 0;
		for (uint32_t i = 0; i < count; i++) {
			static const size_t sizes[] = {
			    0, 1, 28, 4096, WK_NET_PIECE_MAX - 1, WK_NET_PIECE_MAX, WK_NET_PIECE_MAX + 1, 300000};
			size_t size = sizes[check_random(&random) % (sizeof sizes / sizeof *sizes)];
			size = size < BYTES - total ? size : BYTES - total;
			parts[i] = (struct iovec){bytes + total, size};
			total += size;
		}
		wk_net_send send;
		wk_net_send_load(&send, parts, count);
		if (total == 0) {
			CHECK_EQ(send.message.msg_iovlen, 0);
			continue;
		}
		size_t sent = 0;
		for (bool over = false; !over;) {
			const struct msghdr *piece = wk_net_send_piece(&send);
			size_t size = 0;
			for (size_t i = 0; i < piece->msg_iovlen; i++) {
				CHECK(piece->msg_iov[i].iov_base == bytes + sent + size);
				size += piece->msg_iov[i].iov_len;
			}
			CHECK(size > 0 && size <= WK_NET_PIECE_MAX);
			size_t taken = check_random(&random) % 3 == 0 ? check_random(&random) % (size + 1) : size;
			over = wk_net_send_advance(&send, taken);
			sent += taken;
			CHECK_EQ(over, sent == total);
		}
	}
}

int main(void) {
	RUN(a_send_goes_in_pieces_whatever_the_kernel_takes);
	return check_done();
}

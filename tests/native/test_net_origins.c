/* test_net_origins.c: connections are counted with the address that they come from. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "check.h"
#include "io/net_origins.h"

static wk_net_origin of(const char *text) {
	struct sockaddr_in v4 = {.sin_family = AF_INET};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
	if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
		return wk_net_origin_of((struct sockaddr *)&v4);
	CHECK_EQ(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
	return wk_net_origin_of((struct sockaddr *)&v6);
}

TEST(a_network_of_64_bits_is_one_address) {
	CHECK(of("10.0.0.1") != of("10.0.0.2"));
	CHECK(of("10.0.0.1") == of("::ffff:10.0.0.1")); /* as a listener for both sees it */
	CHECK(of("2001:db8:0:1::1") == of("2001:db8:0:1:2:3:4:5"));
	CHECK(of("2001:db8:0:1::1") != of("2001:db8:0:2::1"));
	CHECK(of("fe80::1") != of("fe80::2"));
	CHECK(of("fe80::ffff:c0a8:5") != of("192.168.0.5")); /* who chooses its own address chooses nobody else's */
	CHECK(of("64:ff9b::a00:1") == of("10.0.0.1") && of("64:ff9b::a00:2") != of("10.0.0.1"));
	CHECK(of("0.0.0.0") != 0 && of("::1") != 0 && of("::2") == of("::1"));
	CHECK_EQ(wk_net_origin_of(&(struct sockaddr){.sa_family = AF_UNIX}), 0);
}

TEST(one_more_than_the_limit_is_refused) {
	wk_net_origins origins = {.max = 2, .seed = 7};
	wk_net_origin a = of("10.0.0.1"), b = of("10.0.0.2");
	CHECK_EQ(wk_net_origins_enter(&origins, a), 0);
	CHECK_EQ(wk_net_origins_enter(&origins, a), 0);
	CHECK_EQ(wk_net_origins_enter(&origins, a), -EMFILE);
	CHECK_EQ(wk_net_origins_enter(&origins, b), 0);
	wk_net_origins_leave(&origins, a);
	CHECK_EQ(wk_net_origins_enter(&origins, a), 0);
	CHECK_EQ(wk_net_origins_enter(&origins, a), -EMFILE);
	for (int i = 0; i < 5; i++)
		CHECK_EQ(wk_net_origins_enter(&origins, 0), 0); /* whose address is not known is not counted */
	wk_net_origins_leave(&origins, 0);
	wk_net_origins_free(&origins);
}

TEST(without_a_limit_nobody_is_counted) {
	wk_net_origins origins = {0};
	for (int i = 0; i < 1000; i++)
		CHECK_EQ(wk_net_origins_enter(&origins, of("10.0.0.1")), 0);
	CHECK(origins.slots == NULL);
	wk_net_origins_leave(&origins, of("10.0.0.1"));
}

/* Against a plain array, with few homes, so that many stand beside each other. */
TEST(whoever_comes_and_goes_the_counts_are_right) {
	enum { ORIGINS = 3000, MAX = 3 };
	static uint32_t counts[ORIGINS];
	uint64_t random = check_seed(11);
	wk_net_origins origins = {.max = MAX, .seed = random};
	uint32_t there = 0;
	for (int step = 0; step < 200000; step++) {
		uint32_t who = (uint32_t)(check_random(&random) % ORIGINS);
		bool comes = check_random(&random) % 4 < (step / 50000 % 2 == 0 ? 3 : 1); /* more and more, then fewer */
		if (comes) {
			CHECK_EQ(wk_net_origins_enter(&origins, who + 1), counts[who] == MAX ? -EMFILE : 0);
			there += counts[who] == 0;
			counts[who] += counts[who] < MAX;
		} else if (counts[who] > 0) {
			wk_net_origins_leave(&origins, who + 1);
			there -= --counts[who] == 0;
		}
		CHECK_EQ(origins.used, there);
	}
	for (uint32_t who = 0; who < ORIGINS; who++)
		for (; counts[who] > 0; counts[who]--)
			wk_net_origins_leave(&origins, who + 1);
	CHECK_EQ(origins.used, 0);
	for (uint32_t i = 0; i < origins.capacity; i++)
		CHECK_EQ(origins.slots[i].origin, 0);
	wk_net_origins_free(&origins);
}

int main(void) {
	RUN(a_network_of_64_bits_is_one_address);
	RUN(one_more_than_the_limit_is_refused);
	RUN(without_a_limit_nobody_is_counted);
	RUN(whoever_comes_and_goes_the_counts_are_right);
	return check_done();
}

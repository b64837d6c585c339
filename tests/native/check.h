/*
 * check.h: the vocabulary of the native tests. A test is a program; a TEST is a situation, named in words.
 *
 *	TEST(a_short_entry_is_refused) { CHECK_EQ(wk_entry_decode(bytes, 35, &entry), WK_CORRUPT); }
 *	int main(void) {
 *		RUN(a_short_entry_is_refused);
 *		return check_done();
 *	}
 *
 * The first failed CHECK prints where, what and in which TEST, and ends the program with 1: what follows a broken
 * belief proves nothing. A TEST that is not RUN is a compiler warning. SKIP ends the program with 77 and a reason.
 */
#ifndef CHECK_H
#define CHECK_H
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *check_test_name = "main";
static unsigned check_tests_count;
static unsigned long check_checks_count;

#define TEST(name) static void name(void)

#define RUN(name)                                   \
	do {                                            \
		check_test_name = #name;                    \
		unsigned long before_ = check_checks_count; \
		name();                                     \
		check_passed(check_checks_count - before_); \
	} while (0)

#define CHECK(condition)                                  \
	do {                                                  \
		check_count();                                    \
		if (!(condition))                                 \
			check_failed(__FILE__, __LINE__, #condition); \
	} while (0)

/* Two integers (or statuses, or booleans) of any type: what was found, then what was expected. */
#define CHECK_EQ(found, expected)                                                                                  \
	do {                                                                                                           \
		check_count();                                                                                             \
		long long found_ = (long long)(found), expected_ = (long long)(expected);                                  \
		if (found_ != expected_) {                                                                                 \
			printf("found %lld (0x%llx), expected %lld (0x%llx)\n", found_, (unsigned long long)found_, expected_, \
			       (unsigned long long)expected_);                                                                 \
			check_failed(__FILE__, __LINE__, #found " == " #expected);                                             \
		}                                                                                                          \
	} while (0)

/* `size` bytes at `found`, written out in lower-case hexadecimal. */
#define CHECK_HEX(found, size, expected)                               \
	do {                                                               \
		check_count();                                                 \
		if (!check_is_hex((found), (size), (expected)))                \
			check_failed(__FILE__, __LINE__, #found " == " #expected); \
	} while (0)

#define SKIP(reason)                     \
	do {                                 \
		printf("skipped: %s\n", reason); \
		exit(77);                        \
	} while (0)

/* Atomic, as a test's threads may check too. */
static inline void check_count(void) {
	__atomic_fetch_add(&check_checks_count, 1, __ATOMIC_RELAXED);
}

static inline void check_failed(const char *file, int line, const char *what) {
	printf("%s:%d: %s: failed: %s\n", file, line, check_test_name, what);
	fflush(stdout);
	exit(1);
}

/* A test that checked nothing cannot fail, so it must not pass. */
static inline void check_passed(unsigned long checks_count) {
	if (checks_count == 0)
		check_failed(__FILE__, __LINE__, "the test checks something");
	check_tests_count++;
	printf("ok %s (%lu checks)\n", check_test_name, checks_count);
	fflush(stdout);
}

static inline int check_done(void) {
	printf("%u tests, %lu checks\n", check_tests_count, check_checks_count);
	return check_tests_count == 0;
}

static inline int check_is_hex(const void *bytes, size_t size, const char *expected) {
	static const char digits[] = "0123456789abcdef";
	int same = strlen(expected) == 2 * size;
	for (size_t i = 0; same && i < size; i++) {
		unsigned byte = ((const unsigned char *)bytes)[i];
		same = expected[2 * i] == digits[byte >> 4] && expected[2 * i + 1] == digits[byte & 15];
	}
	if (!same) {
		printf("found    ");
		for (size_t i = 0; i < size; i++)
			printf("%02x", ((const unsigned char *)bytes)[i]);
		printf("\nexpected %s\n", expected);
	}
	return same;
}

/* Under a sanitizer, slow and asking another question, campaigns go a part of their way. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { CHECK_PART = 4 };
#else
enum { CHECK_PART = 1 };
#endif

/* The seed of a random test: its own, unless WALKEEPER_TEST_SEED names another. */
static inline uint64_t check_seed(uint64_t own) {
	const char *wanted = getenv("WALKEEPER_TEST_SEED");
	return wanted == NULL || *wanted == 0 ? own : strtoull(wanted, NULL, 10);
}

/* A generator that repeats (splitmix64): a test prints or fixes its seed. */
static inline uint64_t check_random(uint64_t *seed) {
	uint64_t x = *seed += 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static inline void check_random_bytes(uint64_t *seed, void *bytes, size_t size) {
	for (size_t i = 0; i < size; i += sizeof(uint64_t)) {
		uint64_t word = check_random(seed);
		memcpy((unsigned char *)bytes + i, &word, size - i < sizeof word ? size - i : sizeof word);
	}
}

/* A copy of exactly `size` bytes on the heap, so that the address sanitizer sees a read one byte too far. */
static inline uint8_t *check_exact_copy(const void *bytes, size_t size) {
	uint8_t *copy = malloc(size == 0 ? 1 : size);
	if (copy == NULL)
		check_failed(__FILE__, __LINE__, "malloc");
	if (size > 0)
		memcpy(copy, bytes, size);
	return copy;
}

static inline void nap_ms(long ms) {
	nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}
#endif

/* clock.h: the machine's clocks and its randomness, for who has no wk_io. Private. */
#ifndef WK_IO_CLOCK_H
#define WK_IO_CLOCK_H
#include <stdint.h>
uint64_t wk_clock_monotonic_ns(void);
uint64_t wk_clock_thread_ns(void); /* processor time of the calling thread */
int64_t wk_clock_wall_ms(void);
uint64_t wk_random_number(void); /* getrandom; nothing that has to be a secret for long */
#endif

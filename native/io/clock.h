/* clock.h: the machine's clocks, for who has no wk_io. Private. */
#ifndef WK_IO_CLOCK_H
#define WK_IO_CLOCK_H
#include <stdint.h>
uint64_t wk_clock_monotonic_ns(void);
int64_t wk_clock_wall_ms(void);
#endif

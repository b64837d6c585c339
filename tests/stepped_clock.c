/*
 * stepped_clock.c: a wall clock that is wrong by as many seconds as the file $STEPPED_CLOCK says, for a whole process,
 * where this is preloaded. The monotonic clocks go on as they are.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *seconds;

__attribute__((constructor)) static void look(void) {
	const char *path = getenv("STEPPED_CLOCK");
	int file = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void *found = file >= 0 ? mmap(NULL, sizeof *seconds, PROT_READ, MAP_SHARED, file, 0) : MAP_FAILED;
	seconds = found != MAP_FAILED ? found : NULL;
	if (file >= 0)
		close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
	int result = (int)syscall(SYS_clock_gettime, clock, now);
	if (result == 0 && clock == CLOCK_REALTIME && seconds != NULL)
		now->tv_sec += *seconds;
	return result;
}

/* thread.c: threads of our own. */
#include "io/io.h"
#include <signal.h>

int wk_thread_start(pthread_t *thread, void *(*run)(void *), void *context) {
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before); /* a new thread has its maker's */
	int error = pthread_create(thread, NULL, run, context);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -error;
}

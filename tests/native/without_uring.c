/*
 * without_uring.c: run a program where the kernel forbids io_uring, as many containers do.
 *
 *	without_uring PROGRAM ARGUMENT...
 */
#include "refused_calls.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int count, char **arguments) {
	static const long ring[] = {SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register};
	if (count < 2) {
		fprintf(stderr, "usage: without_uring PROGRAM ARGUMENT...\n");
		return 2;
	}
	int error = refuse_calls(ring, sizeof ring / sizeof *ring, EPERM);
	if (error) {
		printf("skipped: no system call filter may be installed here: %s\n", strerror(-error));
		return 77;
	}
	execvp(arguments[1], arguments + 1);
	fprintf(stderr, "cannot run %s: %s\n", arguments[1], strerror(errno));
	return 127;
}

/* child.h: a test's body in a process of its own. */
#ifndef CHILD_H
#define CHILD_H
#include "check.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs `body` in a child, for what cannot be taken back. It passes where it calls exit(0). */
static void in_a_child(void (*body)(void)) {
	fflush(stdout);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		body();
		exit(0);
	}
	int status;
	CHECK_EQ(waitpid(child, &status, 0), child);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		SKIP("no system call filter may be installed here");
	CHECK_EQ(status, 0);
}
#endif

/*
 * refused_calls.h: the kernel of somebody else, who forbids a few system calls.
 */
#ifndef REFUSED_CALLS_H
#define REFUSED_CALLS_H
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#if defined(__x86_64__)
enum { REFUSED_CALLS_ARCH = (int)AUDIT_ARCH_X86_64 };
#elif defined(__aarch64__)
enum { REFUSED_CALLS_ARCH = (int)AUDIT_ARCH_AARCH64 };
#else
#error "write down this machine's AUDIT_ARCH"
#endif

enum { REFUSED_CALLS_MAX = 8 };

/*
 * From here on these calls fail with `error` in this process and all it starts; there is no way back. Returns 0, or
 * -errno where no filter may be installed.
 */
static inline int refuse_calls(const long *calls, size_t count, int error) {
	struct sock_filter program[REFUSED_CALLS_MAX + 5];
	unsigned short size = 0;
	if (count > REFUSED_CALLS_MAX)
		return -EINVAL;
	uint8_t to_allow = (uint8_t)(count + 1);
	program[size++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
	program[size++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)REFUSED_CALLS_ARCH, 0,
	                                               to_allow);
	program[size++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < count; i++) {
		uint8_t to_refuse = (uint8_t)(count - i);
		program[size++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)calls[i], to_refuse, 0);
	}
	program[size++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	program[size++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
	                                               SECCOMP_RET_ERRNO | ((uint32_t)error & SECCOMP_RET_DATA));
	struct sock_fprog filter = {.len = size, .filter = program};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
		return -errno;
	return 0;
}
#endif

/*
 * descriptor.h: every descriptor that the library makes passes through here, so that none is 0, 1 or 2. Private to
 * native/io.
 *
 * A process may be started with its standard streams closed. The kernel gives the lowest free number, so a file of ours
 * would become "standard error", and whatever prints there would write into the file.
 */
#ifndef WK_IO_DESCRIPTOR_H
#define WK_IO_DESCRIPTOR_H

enum { WK_DESCRIPTOR_MIN = 3 };

/*
 * Occupies the numbers below WK_DESCRIPTOR_MIN that are free. A descriptor that is moved has a low number for a moment,
 * and another thread may print just then; behind this call none ever has one. The occupants are opened with O_PATH and
 * close-on-exec: reading and writing them fails with EBADF, and a program that is executed finds the numbers closed, as if
 * they were free. They stay. Where /dev/null is missing, or no descriptor is to be had, numbers stay free.
 */
void wk_descriptor_occupy_low(void);
/*
 * Takes what a call that makes a descriptor returned, errno included. Returns the descriptor, or a copy of it that is at
 * least WK_DESCRIPTOR_MIN (close-on-exec), and closes the low one. -errno: the call failed, or there is no descriptor to
 * spare for the copy (-EMFILE); nothing stays open.
 */
int wk_descriptor_take(int fd);

struct io_uring;
/* The same for a ring that was just set up and has not been used. On failure the ring is gone. 0, -errno. */
int wk_descriptor_take_ring(struct io_uring *ring);
#endif

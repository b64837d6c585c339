/* event.h: an eventfd, for callers that wait in their own loop. Private. */
#ifndef WK_IO_EVENT_H
#define WK_IO_EVENT_H
/* Non-blocking and closed on exec; -errno on failure. */
int wk_event_new(void);
void wk_event_signal(int fd);
/* Not signalled any more. */
void wk_event_take(int fd);
void wk_event_close(int fd);
#endif

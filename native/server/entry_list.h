/* entry_list.h: which entries of a ledger there are, as its auditor asks for them. Private. */
#ifndef WK_SERVER_ENTRY_LIST_H
#define WK_SERVER_ENTRY_LIST_H
#include "server/service.h"

/* Fills in the job's outcome; its body is the list. WK_TOO_LARGE: half a list would pass for holes. From any thread. */
void wk_entry_list_read(wk_namespace *ns, wk_read_job *job);
#endif

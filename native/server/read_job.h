/* read_job.h: between the pool and what it runs. Private. */
#ifndef WK_SERVER_READ_JOB_H
#define WK_SERVER_READ_JOB_H
#include "server/service.h"

/* What it holds goes. */
void wk_read_job_clear(wk_read_job *job);
/* How many bytes of its entries, each with its size, the frame and the client's limits take, and of how many; the first one
 * whatever its size. */
uint64_t wk_read_job_fit(const wk_read_job *job, uint64_t *fitting);
/* Fills in the job's outcome where memory has what is asked for; false: wk_read_job_run has to say. It waits for no disk. */
bool wk_read_job_try(wk_namespace *ns, wk_read_job *job);
/* Fills in the job's outcome. From any thread. */
void wk_read_job_run(wk_namespace *ns, wk_read_job *job);
#endif

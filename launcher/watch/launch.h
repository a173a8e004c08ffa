/* This process's rank in the launcher's job, known before MPI_Init: by PMIx, which Open MPI itself uses.
 *
 *     struct mt_launch launch;
 *     mt_launch_open(&launch);                                     // alone: one rank
 *     if (!launch.rank) mt_launch_publish(&launch, "...");           // rank 0 publishes a line for the others
 *     else while (!mt_launch_lookup(&launch, line, sizeof line)) pause();
 *     MPI_Init(); ... MPI_Finalize();
 *     mt_launch_close(&launch);
 *
 * One per process. Nothing here blocks on another rank. */
#ifndef MT_LAUNCHER_WATCH_LAUNCH_H
#define MT_LAUNCHER_WATCH_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>

enum { MT_LAUNCH_LINE = 1024 };

struct mt_launch {
    bool launched; /* under a launcher; else rank 0 of 1 */
    int rank, nranks;
    char job[256]; /* the launcher's name for it */
};

void mt_launch_open(struct mt_launch *launch);
void mt_launch_close(struct mt_launch *launch); /* after MPI_Finalize */

/* The host of a rank, as the launcher names it; "" when it does not say. */
void mt_launch_host(const struct mt_launch *launch, int rank, char *host, size_t size);

/* At rank 0: publish a line for the others. At the others: whether it has arrived; if not, ask again after a pause. */
bool mt_launch_publish(const struct mt_launch *launch, const char *line);
bool mt_launch_lookup(const struct mt_launch *launch, char *line, size_t size);

#endif

/* Where this process stands in the launcher's job, before MPI is up: by PMIx, which Open MPI itself starts through.
 *
 *     struct mt_place place;
 *     mt_place_open(&place);                                     // alone: one rank
 *     if (!place.rank) mt_place_publish(&place, "...");           // rank 0 leaves a line for the others
 *     else while (!mt_place_lookup(&place, line, sizeof line)) pause();
 *     MPI_Init(); ... MPI_Finalize();
 *     mt_place_close(&place);
 *
 * One a process. Nothing here blocks on another rank. */
#ifndef MT_LAUNCHER_PLACE_H
#define MT_LAUNCHER_PLACE_H

#include <stdbool.h>
#include <stddef.h>

enum { MT_PLACE_LINE = 1024 };

struct mt_place {
    bool launched; /* under a launcher; else rank 0 of 1 */
    int rank, nranks;
    char job[256]; /* the launcher's name for it */
};

void mt_place_open(struct mt_place *place);
void mt_place_close(struct mt_place *place); /* after MPI_Finalize */

/* The host of a rank, as the launcher calls it; "" when it is not told. */
void mt_place_host(const struct mt_place *place, int rank, char *host, size_t size);

/* At rank 0: a line for the others. At the others: whether it is there; ask again after a pause. */
bool mt_place_publish(const struct mt_place *place, const char *line);
bool mt_place_lookup(const struct mt_place *place, char *line, size_t size);

#endif

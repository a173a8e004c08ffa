/* The line of rank 0 goes two ways: published, where mpirun's own data server is asked for it at any time; and put
 * among what ranks tell each other in MPI_Init, for launchers without such a server (Slurm). */
#include "launcher/place.h"

#include <pmix.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char put_key[] = "motley.place";

void mt_place_open(struct mt_place *place) {
    *place = (struct mt_place){.nranks = 1};
    pmix_proc_t me, all;
    pmix_value_t *value = NULL;
    if (!getenv("PMIX_NAMESPACE") || PMIx_Init(&me, NULL, 0)) return;
    PMIX_LOAD_PROCID(&all, me.nspace, PMIX_RANK_WILDCARD);
    place->launched = true;
    place->rank = (int)me.rank;
    snprintf(place->job, sizeof place->job, "%s", me.nspace);
    if (!PMIx_Get(&all, PMIX_JOB_SIZE, NULL, 0, &value) && value->type == PMIX_UINT32)
        place->nranks = (int)value->data.uint32;
    if (value) PMIX_VALUE_RELEASE(value);
}

void mt_place_close(struct mt_place *place) {
    if (place->launched) PMIx_Finalize(NULL, 0);
    place->launched = false;
}

void mt_place_host(const struct mt_place *place, int rank, char *host, size_t size) {
    host[0] = 0;
    if (!place->launched) return;
    pmix_proc_t proc;
    pmix_info_t info;
    pmix_value_t *value = NULL;
    bool yes = true;
    PMIX_LOAD_PROCID(&proc, place->job, (pmix_rank_t)rank);
    PMIX_INFO_LOAD(&info, PMIX_OPTIONAL, &yes, PMIX_BOOL); /* what is known here, without asking */
    if (!PMIx_Get(&proc, PMIX_HOSTNAME, &info, 1, &value) && value->type == PMIX_STRING)
        snprintf(host, size, "%s", value->data.string);
    if (value) PMIX_VALUE_RELEASE(value);
}

static void published_key(const struct mt_place *place, char *key, size_t size) {
    snprintf(key, size, "%s.%.200s", put_key, place->job);
}

static void forget(pmix_status_t status, void *context) {
    (void)status, (void)context;
}

bool mt_place_publish(const struct mt_place *place, const char *line) {
    static pmix_info_t info; /* kept until the answer comes, if it does */
    char key[PMIX_MAX_KEYLEN + 1];
    if (!place->launched) return false;
    published_key(place, key, sizeof key);
    PMIX_INFO_LOAD(&info, key, line, PMIX_STRING);
    bool published = !PMIx_Publish_nb(&info, 1, forget, NULL);
    pmix_value_t value;
    PMIX_VALUE_LOAD(&value, line, PMIX_STRING);
    bool put = !PMIx_Put(PMIX_GLOBAL, put_key, &value) && !PMIx_Commit();
    PMIX_VALUE_DESTRUCT(&value);
    return published || put;
}

/* Requests that are under way, since an answer may never come. */
static struct {
    atomic_bool asked, found;
    char line[MT_PLACE_LINE];
} lookup;

static void take(const pmix_value_t *value) {
    if (value && value->type == PMIX_STRING && !atomic_load(&lookup.found)) {
        snprintf(lookup.line, sizeof lookup.line, "%s", value->data.string);
        atomic_store(&lookup.found, true);
    }
    atomic_store(&lookup.asked, false);
}

static void was_put(pmix_status_t status, pmix_value_t *value, void *context) {
    (void)context;
    take(status ? NULL : value);
}

static void was_published(pmix_status_t status, pmix_pdata_t *data, size_t count, void *context) {
    (void)context;
    take(status || !count ? NULL : &data[0].value);
}

bool mt_place_lookup(const struct mt_place *place, char *line, size_t size) {
    static unsigned turn;
    static char key[PMIX_MAX_KEYLEN + 1], *keys[] = {key, NULL};
    static pmix_info_t info;
    static pmix_proc_t root;
    if (atomic_load(&lookup.found)) {
        snprintf(line, size, "%s", lookup.line);
        return true;
    }
    if (atomic_exchange(&lookup.asked, true)) return false;
    int refused;
    if (turn++ % 2 == 0) {
        published_key(place, key, sizeof key);
        refused = PMIx_Lookup_nb(keys, NULL, 0, was_published, NULL);
    } else {
        bool yes = true;
        PMIX_LOAD_PROCID(&root, place->job, 0);
        PMIX_INFO_LOAD(&info, PMIX_IMMEDIATE, &yes, PMIX_BOOL); /* a request that waits makes Open MPI 4.1 hang */
        refused = PMIx_Get_nb(&root, put_key, &info, 1, was_put, NULL);
    }
    if (refused) atomic_store(&lookup.asked, false);
    return false;
}

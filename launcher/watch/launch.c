/* Rank 0 passes on its line by two routes: published on mpirun's data server, which answers at any time; and put among
 * the data that ranks exchange in MPI_Init, for launchers without such a server (Slurm). */
#include "launcher/watch/launch.h"

#include <pmix.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/base/wait.h"

static const char put_key[] = "motley.watch";

/* The watch's thread may look up hosts while the main thread closes. */
static pthread_mutex_t in_use = PTHREAD_MUTEX_INITIALIZER;

void mt_launch_open(struct mt_launch *launch) {
    *launch = (struct mt_launch){.nranks = 1};
    pmix_proc_t me, all;
    pmix_value_t *value = NULL;
    if (!getenv("PMIX_NAMESPACE") || PMIx_Init(&me, NULL, 0)) return;
    PMIX_LOAD_PROCID(&all, me.nspace, PMIX_RANK_WILDCARD);
    launch->launched = true;
    launch->rank = (int)me.rank;
    snprintf(launch->job, sizeof launch->job, "%s", me.nspace);
    if (!PMIx_Get(&all, PMIX_JOB_SIZE, NULL, 0, &value) && value->type == PMIX_UINT32)
        launch->nranks = (int)value->data.uint32;
    if (value) PMIX_VALUE_RELEASE(value);
}

void mt_launch_close(struct mt_launch *launch) {
    pthread_mutex_lock(&in_use);
    if (launch->launched) PMIx_Finalize(NULL, 0);
    launch->launched = false;
    pthread_mutex_unlock(&in_use);
}

void mt_launch_host(const struct mt_launch *launch, int rank, char *host, size_t size) {
    pmix_proc_t proc;
    pmix_info_t info;
    pmix_value_t *value = NULL;
    bool yes = true;
    host[0] = 0;
    PMIX_LOAD_PROCID(&proc, launch->job, (pmix_rank_t)rank);
    PMIX_INFO_LOAD(&info, PMIX_OPTIONAL, &yes, PMIX_BOOL); /* local knowledge only, without a request */
    pthread_mutex_lock(&in_use);
    if (launch->launched && !PMIx_Get(&proc, PMIX_HOSTNAME, &info, 1, &value) && value->type == PMIX_STRING)
        snprintf(host, size, "%s", value->data.string);
    if (value) PMIX_VALUE_RELEASE(value);
    pthread_mutex_unlock(&in_use);
}

static void published_key(const struct mt_launch *launch, char *key, size_t size) {
    snprintf(key, size, "%s.%.200s", put_key, launch->job);
}

static void forget(pmix_status_t status, void *context) {
    (void)status, (void)context;
}

bool mt_launch_publish(const struct mt_launch *launch, const char *line) {
    static pmix_info_t info; /* kept until the answer comes, if it does */
    char key[PMIX_MAX_KEYLEN + 1];
    if (!launch->launched) return false;
    published_key(launch, key, sizeof key);
    PMIX_INFO_LOAD(&info, key, line, PMIX_STRING);
    bool published = !PMIx_Publish_nb(&info, 1, forget, NULL);
    pmix_value_t value;
    PMIX_VALUE_LOAD(&value, line, PMIX_STRING);
    bool put = !PMIx_Put(PMIX_GLOBAL, put_key, &value) && !PMIx_Commit();
    PMIX_VALUE_DESTRUCT(&value);
    return published || put;
}

/* The request in flight: static, since its answer may come late or never. Open MPI 4.1 leaves some unanswered, mostly
 * on other hosts than mpirun's: after again_s it is asked again, by the other route. */
static const double again_s = 1;
static struct {
    atomic_bool asked, found;
    double asked_s; /* of the watch's thread alone */
    char line[MT_LAUNCH_LINE];
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

bool mt_launch_lookup(const struct mt_launch *launch, char *line, size_t size) {
    static unsigned turn;
    static char key[PMIX_MAX_KEYLEN + 1], *keys[] = {key, NULL};
    static pmix_info_t info;
    static pmix_proc_t root;
    if (atomic_load(&lookup.found)) {
        snprintf(line, size, "%s", lookup.line);
        return true;
    }
    if (atomic_exchange(&lookup.asked, true) && mt_now_s() - lookup.asked_s < again_s) return false;
    lookup.asked_s = mt_now_s();
    int refused;
    if (turn++ % 2 == 0) {
        published_key(launch, key, sizeof key);
        refused = PMIx_Lookup_nb(keys, NULL, 0, was_published, NULL);
    } else {
        bool yes = true;
        PMIX_LOAD_PROCID(&root, launch->job, 0);
        PMIX_INFO_LOAD(&info, PMIX_IMMEDIATE, &yes, PMIX_BOOL); /* a request that waits makes Open MPI 4.1 hang */
        refused = PMIx_Get_nb(&root, put_key, &info, 1, was_put, NULL);
    }
    if (refused) atomic_store(&lookup.asked, false);
    return false;
}

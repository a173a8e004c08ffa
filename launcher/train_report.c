/* run.json, made at rank 0 from what every rank has counted. */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "launcher/agree.h"
#include "launcher/trainer.h"

void trainer_account(struct trainer *t, double loss) {
    struct mt_run_times times = mt_executor_times(t->executor);
    t->mine.compute_s += times.stream_s[MT_STREAM_COMPUTE];
    t->mine.comm_s += times.stream_s[MT_STREAM_COMM];
    t->mine.wait_s += times.wait_s;
    if (!t->rank) mt_run_add_loss(&t->run, loss);
}

/* A row with its texts, as it travels. */
struct row {
    char host[256], device[256];
    struct mt_run_rank numbers;
};

static void gather_rows(struct trainer *t) {
    struct row mine = {.numbers = t->mine}, *all = t->rank ? NULL : mt_malloc((size_t)t->nranks * sizeof *all);
    struct rusage usage;
    if (!getrusage(RUSAGE_SELF, &usage)) mine.numbers.peak_rss_bytes = usage.ru_maxrss * 1024;
    strncpy(mine.host, mt_agree_host(), sizeof mine.host - 1);
    strncpy(mine.device, mt_device_describe(t->device), sizeof mine.device - 1);
    MPI_Gather(&mine, (int)sizeof mine, MPI_BYTE, all, (int)sizeof mine, MPI_BYTE, 0, t->comm);
    for (int r = 0; r < t->nranks && all; r++) {
        struct mt_run_rank *row = &t->run.ranks[r];
        bool named = row->host[0];
        const char *host = row->host, *device = row->device;
        *row = all[r].numbers;
        row->host = named ? host : mt_arena_strdup(&t->run.arena, all[r].host);
        row->device = named ? device : mt_arena_strdup(&t->run.arena, all[r].device);
    }
    free(all);
}

enum mt_status trainer_report(struct trainer *t, const char *ended, struct mt_err *err) {
    struct mt_run_doc *run = &t->run;
    gather_rows(t);
    run->ended = ended;
    run->train_s = t->train_s;
    double tokens = (double)(run->tokens_per_step * (t->step - t->first_step));
    run->tokens_per_s = t->train_s > 0 ? tokens / t->train_s : 0;
    run->flops_per_s = run->tokens_per_s * mt_model_flops_per_token(&t->planned.model, t->seq);
    enum mt_status st = MT_OK;
    if (t->folder) {
        struct mt_arena arena = MT_ARENA_INIT;
        st = mt_run_write(run, mt_arena_printf(&arena, "%s/run.json", t->folder), err);
        mt_arena_release(&arena);
    }
    return mt_agree_rank0(t->comm, st, err);
}

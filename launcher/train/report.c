/* Times of steps, and run.json, which rank 0 writes from every rank's row; those of idle ranks are there already. */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "launcher/session/agree.h"
#include "launcher/train/internal.h"

enum { UNSTEADY_STEPS = 2 }; /* they touch memory for the first time and fill caches */

static void add_times(struct trainer_series *to, const struct mt_run_times *times, double step_s) {
    mt_series_add(&to->step, step_s);
    mt_series_add(&to->compute, times->stream_s[MT_STREAM_COMPUTE]);
    mt_series_add(&to->comm, times->stream_s[MT_STREAM_COMM]);
    mt_series_add(&to->wait, times->wait_s);
}

/* The first steps count only while there are no others. */
static void account_step(struct trainer *t, const struct mt_run_times *times, double step_s) {
    if (t->step - t->first_step == UNSTEADY_STEPS + 1) {
        memset(&t->steady, 0, sizeof t->steady);
        memset(&t->window, 0, sizeof t->window);
    }
    add_times(&t->steady, times, step_s);
    add_times(&t->window, times, step_s);
}

void mt_trainer_account(struct trainer *t, double loss, double step_s) {
    struct mt_run_times times = mt_executor_times(t->executor);
    account_step(t, &times, step_s);
    t->mine.compute_s += times.stream_s[MT_STREAM_COMPUTE];
    t->mine.comm_s += times.stream_s[MT_STREAM_COMM];
    t->mine.wait_s += times.wait_s;
    if (!t->rank) mt_run_add_loss(&t->run, loss);
}

/* A row with its texts, as it is sent. */
struct row {
    char host[256], device[256];
    struct mt_run_rank numbers;
};

static void gather_rows(struct trainer *t) {
    t->mine.step_compute_s = mt_series_median(&t->steady.compute);
    t->mine.step_comm_s = mt_series_median(&t->steady.comm);
    t->mine.step_wait_s = mt_series_median(&t->steady.wait);
    struct row mine = {.numbers = t->mine}, *all = t->rank ? NULL : mt_malloc((size_t)t->nranks * sizeof *all);
    struct rusage usage;
    if (!getrusage(RUSAGE_SELF, &usage)) mine.numbers.peak_rss_bytes = usage.ru_maxrss * 1024;
    strncpy(mine.host, mt_agree_host(), sizeof mine.host - 1);
    strncpy(mine.device, mt_device_describe(t->device), sizeof mine.device - 1);
    MPI_Gather(&mine, (int)sizeof mine, MPI_BYTE, all, (int)sizeof mine, MPI_BYTE, 0, t->comm);
    for (int r = 0; r < t->nranks && all; r++) {
        struct mt_run_rank *row = &t->run.ranks[t->plan->order[r]];
        bool named = row->host[0];
        const char *host = row->host, *device = row->device;
        *row = all[r].numbers;
        row->host = named ? host : mt_arena_strdup(&t->run.arena, all[r].host);
        row->device = named ? device : mt_arena_strdup(&t->run.arena, all[r].device);
    }
    free(all);
}

/* At rank 0: write the plan next to run.json, for `motley plan --from`. */
static enum mt_status keep_plan(struct trainer *t, struct mt_arena *arena, struct mt_err *err) {
    if (t->plan_kept) return MT_OK;
    enum mt_status st = mt_plan_write(t->plan, mt_arena_printf(arena, "%s/plan.json", t->folder), err);
    t->plan_kept = !st;
    return st;
}

void mt_trainer_say_step(struct trainer *t) {
    if (t->rank || !t->steady.step.count) return;
    struct mt_arena arena = MT_ARENA_INIT;
    t->run.step_s = mt_series_median(&t->steady.step);
    mt_progress_say(&t->progress, "%s", mt_run_step_text(&t->run, &arena));
    mt_arena_release(&arena);
}

enum mt_status mt_trainer_report(struct trainer *t, const char *ended, struct mt_err *err) {
    struct mt_run_doc *run = &t->run;
    gather_rows(t);
    if (!t->rank) mt_run_expect(run, t->plan);
    run->step_s = mt_series_median(&t->steady.step);
    run->ended = ended;
    run->train_s = t->train_s;
    double tokens = (double)(run->tokens_per_step * (t->step - t->first_step));
    run->tokens_per_s = t->train_s > 0 ? tokens / t->train_s : 0;
    run->flops_per_s = run->tokens_per_s * mt_model_flops_per_token(&t->planned.model, t->seq);
    enum mt_status st = MT_OK;
    if (t->folder) {
        struct mt_arena arena = MT_ARENA_INIT;
        st = keep_plan(t, &arena, err);
        if (!st) st = mt_run_write(run, mt_arena_printf(&arena, "%s/run.json", t->folder), err);
        mt_arena_release(&arena);
    }
    return mt_agree_rank0(t->comm, st, err);
}

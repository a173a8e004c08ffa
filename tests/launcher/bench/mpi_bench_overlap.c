/* `motley bench overlap` finds wrong results: a put that is dropped or cut short, a tile that is never computed, a
 * collective that is left out, of f32. Right ones pass, of both types, also with more rows than operands have different
 * ones.
 * ranks: 2 3 */
#include <mpi.h>

#include "launcher/bench/overlap/internal.h"
#include "launcher/session/session.h"
#include "launcher/watch/watch.h"
#include "tests/check.h"

enum wrong { NO_PUT, SHORT_PUT, NO_TILE, NO_COLLECTIVE, NWRONG };

/* Spoil the first variant of a part on the last rank; the index of the variant. */
static int spoil(struct mt_bench_case *c, enum wrong wrong) {
    int i = 0, rank = c->bench->rank, last = c->bench->nranks - 1;
    while (c->variants[i].part != (wrong == NO_COLLECTIVE ? MT_BENCH_SEQUENTIAL : MT_BENCH_OVERLAPPED)) i++;
    struct mt_bench_variant *v = &c->variants[i];
    struct mt_overlap_schedule *s = &v->schedule;
    int j = 0, t = 0;
    while (wrong != NO_COLLECTIVE && !s->puts[j].rows) j++;
    while (wrong != NO_COLLECTIVE && s->tiles[t].kind != MT_TILE_MATMUL) t++;
    if (wrong == NO_COLLECTIVE) v->steps.nsteps = v->steps.nrounds = 0; /* on all ranks */
    if (rank == last && wrong == NO_PUT) s->puts[j].rows = 0;
    if (rank == last && wrong == SHORT_PUT) s->puts[j].rows--;
    if (rank == last && wrong == NO_TILE) s->tiles[t].kind = MT_TILE_COPY, s->tiles[t].rows = 0;
    return i;
}

int main(void) {
    static const int64_t shape[3] = {24, 40, 56}, tall[3] = {1040, 24, 16};
    static const enum mt_type types[] = {MT_F32, MT_BF16};
    const struct mt_watch_options watch = {.heartbeat_s = MT_WATCH_HEARTBEAT_S, .deadline_s = 600};
    struct mt_err err = MT_ERR_INIT;
    CHECK_OK(mt_session_begin(&watch, MT_OK, &err), err);
    for (int type = 0; type < 2; type++) {
        const struct mt_bench_overlap_options options = {
            .device = "cpu", .precision = types[type], .repetitions = 1, .seconds = 0.05, .deadline_s = 300};
        struct mt_bench_overlap bench = {.options = &options, .doc = MT_TABLES_INIT};
        CHECK_OK(mt_bench_overlap_open(&bench, &err), err);
        for (int form = 0; form < MT_OVERLAP_NFORMS; form++)
            for (int wrong = type ? NWRONG : 0; wrong <= NWRONG + 1; wrong++) {
                struct mt_bench_case c;
                const int64_t *extents = wrong > NWRONG ? tall : shape;
                CHECK_OK(mt_bench_case_init(&c, &bench, (enum mt_overlap_form)form, extents, NULL, &err), err);
                if (wrong >= NWRONG) {
                    CHECK_OK(mt_bench_case_check(&c, &err), err);
                } else {
                    const char *name = c.variants[spoil(&c, (enum wrong)wrong)].name;
                    CHECK(mt_bench_case_check(&c, &err) == MT_EBUG, "form %d, wrong %d: passes", form, wrong);
                    CHECK(bench.rank || (strstr(err.text, name) && strstr(err.text, "of the result is")), "%s",
                          err.text);
                }
                mt_bench_case_release(&c);
            }
        mt_bench_overlap_close(&bench);
    }
    return mt_session_end(MT_OK, 0, &err);
}

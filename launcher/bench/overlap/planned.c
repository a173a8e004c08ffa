/* The overlapped GEMMs of a plan, as problems to measure; and the plan that says how each of them ran fastest. */
#include <mpi.h>
#include <string.h>

#include "launcher/bench/overlap/internal.h"
#include "launcher/session/agree.h"
#include "planner/make/make.h"
#include "planner/plan/planned.h"
#include "synth/program/pair.h"

static enum mt_status refuse(const struct mt_bench_overlap *b, const char *what, const char *hint, struct mt_err *err) {
    mt_fail(err, MT_EINPUT, "%s: %s", b->options->plan, what);
    return mt_err_hint(err, "%s", hint);
}

static enum mt_status check_plan(const struct mt_bench_overlap *b, const struct mt_plan *plan, struct mt_err *err) {
    const struct mt_bench_overlap_options *o = b->options;
    if (plan->nranks != plan->nplaces)
        return refuse(b, "some of its ranks take no part", "measure a plan that all ranks take part in (--use all)",
                      err);
    if (plan->nranks != b->nranks) {
        mt_fail(err, MT_EINPUT, "%s: the plan is for %d ranks, but %d were started", o->plan, plan->nranks, b->nranks);
        return mt_err_hint(err, "start it with `mpirun -n %d`, or make a plan with `--ranks %d`", plan->nranks,
                           b->nranks);
    }
    if (o->device && strcmp(o->device, plan->device))
        return mt_fail(err, MT_EINPUT, "--device %s: %s was made for devices of kind %s", o->device, o->plan,
                       plan->device);
    if (plan->decisions.overlapped == MT_OVERLAPPED_NONE)
        return refuse(b, "it has no overlapped GEMMs", "make it with `motley plan --overlap all`", err);
    return MT_OK;
}

/* Among all ranks, in their order; of one type, but for sums that are f32 all the way, as cases are. */
static bool is_case(const struct mt_bench_overlap *b, const struct mt_overlap *p, const int *group) {
    bool sums = p->form != MT_OVERLAP_GATHER && p->out == MT_F32 && p->wire == MT_F32;
    bool all = p->n == b->nranks && p->type == b->precision && (sums || (p->out == p->type && p->wire == p->type));
    for (int r = 0; r < p->n && all; r++) all = group[r] == r && p->rows[r] > 0 && p->shares[r] > 0;
    return all;
}

/* A problem of each shape. Where several have one shape, rows, shares and transposes are those of the first. */
static enum mt_status find_problems(struct mt_bench_overlap *b, const struct mt_program *program, struct mt_err *err) {
    struct mt_pairs pairs;
    int apart = 0;
    mt_pairs_find(program, &b->arena, &pairs);
    b->problems = mt_new(&b->arena, struct mt_overlap, pairs.count);
    b->transposed = (bool(*)[3])mt_new(&b->arena, bool, 3 * pairs.count);
    for (int i = 0; i < pairs.count; i++) {
        struct mt_overlap p;
        int *group, j = 0;
        mt_pair_problem(program, &pairs.items[i], b->rank, &b->arena, &p, &group);
        const struct mt_overlap_choice row = mt_overlap_choice_of(&p);
        while (j < b->nproblems && !mt_overlap_choice_is_for(&row, &b->problems[j])) j++;
        if (!is_case(b, &p, group)) {
            apart++;
        } else if (j == b->nproblems) {
            mt_pair_transposes(program, &pairs.items[i], b->transposed[j]);
            b->problems[b->nproblems++] = p;
        }
    }
    if (apart && !b->rank)
        mt_tables_say(&b->doc,
                      "%d of %d overlapped GEMMs are not measured: they are among fewer ranks, or in several types",
                      apart, pairs.count);
    return b->nproblems ? MT_OK
                        : refuse(b, "none of its GEMMs with a collective is among all ranks and of one type",
                                 "plans by heads and ffn have such GEMMs (`motley plan --strategy tensor`)", err);
}

static enum mt_status open_plan(struct mt_bench_overlap *b, struct mt_err *err) {
    struct mt_planned planned;
    enum mt_status st = mt_plan_read(b->options->plan, &b->plan, err);
    if (st || (st = check_plan(b, b->plan, err))) return st;
    b->precision = b->plan->job.precision, b->tf32 = b->plan->job.tf32;
    b->kind = b->plan->device;
    if ((st = mt_planned_open(b->plan, &planned, err))) return mt_err_context(err, "%s", b->options->plan);
    st = find_problems(b, &planned.program, err);
    mt_planned_release(&planned);
    return st;
}

enum mt_status mt_bench_overlap_read_plan(struct mt_bench_overlap *b, struct mt_err *err) {
    enum mt_status st = mt_agree(MPI_COMM_WORLD, open_plan(b, err), err);
    return st ? st : mt_agree_same(MPI_COMM_WORLD, "the plan", b->plan->hash, err);
}

/* Which problem the row is of; all that are measured have one. */
static int problem_of(const struct mt_bench_overlap *b, const struct mt_overlap_choice *row) {
    int j = 0;
    while (!mt_overlap_choice_is_for(row, &b->problems[j])) j++;
    return j;
}

/* Whether the plan's GEMMs of problem j, whose operands may lie otherwise than those that were measured, can run so. */
static bool serves(const struct mt_bench_overlap *b, int j, const struct mt_overlap_choice *row) {
    struct mt_overlap p = b->problems[j];
    const bool *t = b->transposed[j];
    mt_overlap_choose(&p, row, 1);
    bool all = true;
    for (int r = 0; r < p.n && row->how == MT_OVERLAP_FUSED; r++)
        all &= mt_overlap_fused_serves(&p, r, t[0], t[1], t[2]);
    return all;
}

enum mt_status mt_bench_overlap_write_plan(struct mt_bench_overlap *b, struct mt_err *err) {
    struct mt_plan *plan = b->plan;
    struct mt_decisions *d = &plan->decisions;
    struct mt_overlap_choice *rows = mt_new(&plan->arena, struct mt_overlap_choice, d->noverlaps + b->nlines);
    int count = d->noverlaps;
    if (count) memcpy(rows, d->overlaps, (size_t)count * sizeof *rows);
    for (int l = 0; l < b->nlines; l++) {
        const struct mt_overlap_choice *best = &b->lines[l].row;
        int i = 0, j = problem_of(b, best);
        if (!serves(b, j, best)) {
            mt_tables_say(
                &b->doc, "%s of %lld by %lld by %lld stays as it was: its operands do not lie as one kernel wants them",
                mt_overlap_name(best->form), (long long)best->m, (long long)best->cols, (long long)best->k);
            continue;
        }
        while (i < count && !mt_overlap_choice_is_for(&rows[i], &b->problems[j])) i++;
        rows[i] = *best;
        count += i == count;
    }
    d->overlaps = rows, d->noverlaps = count;
    plan->prediction = NULL; /* of the plan before */
    enum mt_status st = mt_plan_edited(plan, err);
    return st ? st : mt_plan_write(plan, b->options->out, err);
}

/* `motley bench overlap`: the devices, and the cases in turn. */
#include "launcher/bench/overlap/overlap.h"

#include <mpi.h>
#include <stdlib.h>

#include "kernels/base/working.h"
#include "kernels/device/facts.h"
#include "kernels/device/window.h"
#include "launcher/bench/overlap/internal.h"
#include "launcher/flags/files.h"
#include "launcher/session/agree.h"
#include "launcher/session/rank_device.h"
#include "launcher/session/session.h"
#include "launcher/watch/watch.h"

static enum mt_status check_shapes(const struct mt_bench_overlap *b, struct mt_err *err) {
    const struct mt_bench_overlap_options *o = b->options;
    if (b->nranks < 2) {
        mt_fail(err, MT_EINPUT, "there is one rank, and nothing to communicate");
        return mt_err_hint(err, "`mpirun -n N motley bench overlap` has several");
    }
    if (o->shares && o->nshares != b->nranks)
        return mt_fail(err, MT_EINPUT, "--shares: lists %d ranks, but there are %d", o->nshares, b->nranks);
    enum mt_status st = MT_OK;
    int64_t *sizes = mt_calloc((size_t)b->nranks, sizeof *sizes);
    for (int i = 0; i < 2 * o->nshapes && !st; i++)
        st = mt_bench_overlap_divide(b, i % 2 ? "N" : "M", o->shapes[i / 2][i % 2], sizes, err);
    free(sizes);
    return st;
}

static enum mt_status open_streams(struct mt_bench_overlap *b, struct mt_err *err) {
    enum mt_status st = mt_stream_new(b->device, "compute", &b->compute, err);
    if (!st) st = mt_stream_new(b->device, "comm", &b->talk, err);
    if (!st) st = mt_event_new(b->device, &b->computed, err);
    if (!st) st = mt_event_new(b->device, &b->told, err);
    return mt_agree(MPI_COMM_WORLD, st, err);
}

static enum mt_status open_device(struct mt_bench_overlap *b, struct mt_err *err) {
    const struct mt_bench_overlap_options *o = b->options;
    double speed;
    enum mt_status st = mt_rank_device_open(MPI_COMM_WORLD, b->kind, &b->device, err);
    return st ? st : mt_agree(MPI_COMM_WORLD, mt_emulation_apply(&o->emulation, b->rank, b->device, &speed, err), err);
}

static enum mt_status check_files(const struct mt_bench_overlap_options *o, struct mt_err *err) {
    struct mt_files files = {0};
    mt_files_edits(&files, "--plan", o->plan, MT_PLAN_FORMAT);
    mt_files_writes(&files, "--output", o->out, MT_PLAN_FORMAT);
    mt_files_writes(&files, "--json", o->output.path, MT_TABLES_FORMAT);
    return mt_files_check(&files, err);
}

enum mt_status mt_bench_overlap_open(struct mt_bench_overlap *b, struct mt_err *err) {
    const struct mt_bench_overlap_options *o = b->options;
    MPI_Comm_rank(MPI_COMM_WORLD, &b->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &b->nranks);
    enum mt_status st;
    if (o->plan && (st = mt_bench_overlap_read_plan(b, err))) return st; /* agreed */
    st = o->plan ? MT_OK : check_shapes(b, err);
    if (!o->plan)
        b->kind = o->device ? o->device : "cpu", b->precision = o->precision, b->tf32 = o->tf32,
        b->f32_sums = o->f32_sums;
    if (!st) st = mt_emulation_check(&o->emulation, b->nranks, b->kind, err);
    if (!st && !b->rank) st = check_files(o, err);
    if ((st = mt_agree(MPI_COMM_WORLD, st, err))) return st;
    mt_watch_phase(MT_WATCH_SLOW, "opening the device");
    if (!b->device && (st = open_device(b, err))) return st;
    if ((st = open_streams(b, err))) return st;
    if (!b->wire && (st = mt_rank_wire_open(MPI_COMM_WORLD, b->kind, o->deadline_s, &b->wire, err))) return st;
    b->group = mt_new(&b->arena, int, b->nranks);
    for (int r = 0; r < b->nranks; r++) b->group[r] = r;
    return MT_OK;
}

void mt_bench_overlap_close(struct mt_bench_overlap *b) {
    mt_tables_release(&b->doc);
    if (b->poison) mt_device_free(b->device, b->poison);
    mt_comm_free(b->wire);
    if (b->computed) mt_event_free(b->computed);
    if (b->told) mt_event_free(b->told);
    if (b->talk) mt_stream_free(b->talk);
    if (b->compute) mt_stream_free(b->compute);
    mt_device_close(b->device);
    mt_plan_free(b->plan);
    mt_arena_release(&b->arena);
}

/* A GPU's clock falls under load, and stays there for a while. */
static void note_clock(struct mt_bench_case *c) {
    struct mt_device_facts facts = {.bus = ""};
    mt_device_facts(c->bench->device, &facts);
    c->clock_Hz = facts.health.known ? facts.health.sm_clock_Hz : 0;
    MPI_Allreduce(MPI_IN_PLACE, &c->clock_Hz, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
}

enum mt_status mt_bench_overlap_measure(struct mt_bench_overlap *b, enum mt_overlap_form form, const int64_t shape[3],
                                        const struct mt_overlap *of, struct mt_err *err) {
    struct mt_bench_case c;
    enum mt_status st = mt_bench_case_init(&c, b, form, shape, of, err);
    if (!st) mt_bench_case_rounds(&c, b->options->repetitions);
    if (!st) note_clock(&c);
    if (!st) st = mt_bench_case_judge(&c, err);
    if (!st) mt_bench_case_final(&c);
    if (!st) st = mt_bench_case_check_final(&c, err);
    if (!st && !b->rank) {
        mt_bench_case_tell(&c);
        mt_bench_case_note(&c);
        mt_output_tell(&b->options->output, &b->doc);
    }
    mt_bench_case_release(&c);
    if (st && !b->rank)
        mt_err_context(err, "%s %lld,%lld,%lld", mt_overlap_name(form), (long long)shape[0], (long long)shape[1],
                       (long long)shape[2]);
    return st;
}

/* `i` of so many. */
static enum mt_status measure(struct mt_bench_overlap *b, int i, int count, enum mt_overlap_form form,
                              const int64_t shape[3], const struct mt_overlap *of, struct mt_err *err) {
    mt_watch_phase(MT_WATCH_SLOW, "measuring: %s %lld,%lld,%lld", mt_overlap_name(form), (long long)shape[0],
                   (long long)shape[1], (long long)shape[2]);
    if (!b->rank) {
        mt_working_begin("measuring");
        mt_working(i, count, "%lld,%lld,%lld", (long long)shape[0], (long long)shape[1], (long long)shape[2]);
    }
    enum mt_status st = mt_bench_overlap_measure(b, form, shape, of, err);
    if (!b->rank) mt_working_end();
    return st;
}

static enum mt_status measure_all(struct mt_bench_overlap *b, struct mt_err *err) {
    const struct mt_bench_overlap_options *o = b->options;
    enum mt_status st = MT_OK;
    for (int i = 0; i < o->nshapes && !st; i++)
        for (int form = 0; form < MT_OVERLAP_NFORMS && !st; form++)
            if (o->forms >> form & 1u)
                st = measure(b, i, o->nshapes, (enum mt_overlap_form)form, o->shapes[i], NULL, err);
    for (int i = 0; i < b->nproblems && !st; i++) {
        const struct mt_overlap *p = &b->problems[i];
        bool gather = p->form == MT_OVERLAP_GATHER;
        const int64_t shape[3] = {p->m, gather ? p->cols : p->k, gather ? p->k : p->cols};
        st = measure(b, i, b->nproblems, p->form, shape, p, err);
    }
    return st;
}

static void tell_start(struct mt_bench_overlap *b) {
    const struct mt_bench_overlap_options *o = b->options;
    const char *emulated = mt_emulation_text(&o->emulation, &b->arena);
    if (*emulated) mt_emulation_warn(MPI_COMM_WORLD, b->device);
    if (b->rank) return;
    mt_tables_say(&b->doc,
                  "%s, %d ranks%s%s; %s%s; medians of up to %d rounds, on the slowest rank; operands of seed %d",
                  mt_device_describe(b->device), b->nranks, *emulated ? ", " : "", emulated,
                  b->tf32 ? "tf32" : mt_type_name(b->precision), b->f32_sums ? ", sums f32" : "", o->repetitions,
                  MT_BENCH_OVERLAP_SEED);
    mt_output_tell(&o->output, &b->doc);
}

enum mt_status mt_bench_overlap(const struct mt_bench_overlap_options *options, struct mt_err *err) {
    struct mt_bench_overlap b = {.options = options, .doc = MT_TABLES_INIT};
    enum mt_status st = mt_bench_overlap_open(&b, err);
    if (!st) {
        tell_start(&b);
        st = measure_all(&b, err);
    }
    if (!st && !b.rank) mt_bench_overlap_summarise(&b);
    if (!st && options->out)
        st = mt_agree_rank0(MPI_COMM_WORLD, b.rank ? MT_OK : mt_bench_overlap_write_plan(&b, err), err);
    if (!st) st = mt_agree_rank0(MPI_COMM_WORLD, b.rank ? MT_OK : mt_output_end(&options->output, &b.doc, err), err);
    mt_bench_overlap_close(&b);
    return st;
}

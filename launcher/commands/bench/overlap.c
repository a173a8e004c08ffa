/* motley bench overlap: GEMMs and their collectives, in sequence and overlapped. */
#include <argp.h>
#include <errno.h>
#include <string.h>

#include "kernels/base/arena.h"
#include "kernels/overlap/overlap.h"
#include "launcher/bench/overlap/overlap.h"
#include "launcher/commands/command.h"
#include "launcher/flags/flags.h"
#include "launcher/session/session.h"
#include "synth/job/job.h"

enum {
    KEY_DEVICE = 0x2000,
    KEY_SHAPE,
    KEY_FORM,
    KEY_PRECISION,
    KEY_WIRE,
    KEY_SHARES,
    KEY_REPETITIONS,
    KEY_SECONDS,
    KEY_JSON,
    KEY_DEADLINE,
    KEY_EMULATE,
    KEY_PLAN,
    KEY_OUT = 'o',
    MOST_EXTENT = 1 << 24,
};

static const char *const form_names[] = {"gather", "scatter", "reduce", "all"}; /* as enum mt_overlap_form */
enum { NFORMS = sizeof form_names / sizeof *form_names };

struct overlap_flags {
    struct mt_err *err;
    struct mt_arena arena;
    struct mt_bench_overlap_options options;
    int64_t (*shapes)[3];
    int capacity;
};

static const struct argp_option flag_table[] = {
    {"shape", KEY_SHAPE, "M,N,K", 0,
     "an MLP's: [M, K] by [K, N], M gathered, N split; or [M, N] by [N, K], N split; may be repeated", 1},
    {"form", KEY_FORM, "FORM", 0, "gather, scatter, reduce, or all of them [all]; may be repeated", 1},
    {"precision", KEY_PRECISION, "TYPE", 0, MT_PRECISIONS " [bf16 on GPUs, f32 on CPUs]", 1},
    {"wire", KEY_WIRE, "f32", 0,
     "send partial sums, and store sums, as f32, as those of weights' gradients [the precision]", 1},
    {"shares", KEY_SHARES, "5:3", 0, "of M and N that the ranks have, in proportion [even]", 1},
    {"repetitions", KEY_REPETITIONS, "N", 0, "rounds, in which each variant takes a turn, at most [10]", 1},
    {"seconds", KEY_SECONDS, "S", 0,
     "of a shape and form, about: turns and rounds are cut to fit, to five rounds at least [60]", 1},
    {"plan", KEY_PLAN, "FILE", 0,
     "instead of shapes, forms, shares and a precision: the GEMMs that a plan overlaps, of all its ranks", 1},
    {"output", KEY_OUT, "FILE", 0, "with --plan: the plan, in which each of them runs as was fastest", 1},
    MT_OPTION_JSON(KEY_JSON, 1),
    MT_OPTION_DEVICE(KEY_DEVICE, "cpu, or the plan's", 2),
    MT_OPTION_DEADLINE(KEY_DEADLINE, "120", 2),
    MT_OPTION_EMULATE(KEY_EMULATE, 2),
    {0}};

static enum mt_status add_shape(struct overlap_flags *f, const char *text) {
    struct mt_bench_overlap_options *o = &f->options;
    int64_t *extents;
    int count;
    enum mt_status st = mt_flag_ints("--shape", text, 1, MOST_EXTENT, &f->arena, &extents, &count, f->err);
    if (!st && count != 3) st = mt_fail(f->err, MT_EINPUT, "--shape: must be M,N,K, not \"%.60s\"", text);
    if (st) return mt_err_hint(f->err, "as --shape 4096,1024,4096");
    mt_arena_grow(&f->arena, &f->shapes, o->nshapes, &f->capacity, sizeof *f->shapes);
    memcpy(f->shapes[o->nshapes++], extents, sizeof *f->shapes);
    o->shapes = (const int64_t(*)[3])f->shapes;
    return MT_OK;
}

static enum mt_status add_form(struct overlap_flags *f, const char *text) {
    int which;
    enum mt_status st = mt_flag_name("--form", text, form_names, NFORMS, &which, f->err);
    if (!st) f->options.forms |= which == MT_OVERLAP_NFORMS ? ~0u : 1u << which;
    return st;
}

static enum mt_status take_precision(struct overlap_flags *f, const char *text) {
    struct mt_job job;
    int which;
    enum mt_status st = mt_flag_name("--precision", text, mt_precision_names, MT_NPRECISIONS, &which, f->err);
    if (st) return st;
    mt_job_set_precision(&job, text);
    f->options.precision = job.precision, f->options.tf32 = job.tf32;
    return MT_OK;
}

static enum mt_status take_wire(struct overlap_flags *f, const char *text) {
    if (strcmp(text, "f32")) return mt_fail(f->err, MT_EINPUT, "--wire: must be f32, not \"%.60s\"", text);
    f->options.f32_sums = true;
    return MT_OK;
}

/* "5:3": numbers between colons. */
static enum mt_status take_shares(struct overlap_flags *f, const char *text) {
    char *list = mt_arena_strdup(&f->arena, text);
    int64_t *shares;
    if (strchr(text, ',')) return mt_fail(f->err, MT_EINPUT, "--shares: must be as 5:3, not \"%.60s\"", text);
    for (char *c = list; *c; c++)
        if (*c == ':') *c = ',';
    enum mt_status st = mt_flag_ints("--shares", list, 1, MOST_EXTENT, &f->arena, &shares, &f->options.nshares, f->err);
    if (!st) f->options.shares = shares;
    return st;
}

static bool is_operand(const char *word) {
    (void)word;
    return false;
}

static error_t parse(int key, char *text, struct argp_state *state) {
    struct overlap_flags *f = state->input;
    struct mt_bench_overlap_options *o = &f->options;
    enum mt_status st = MT_OK;
    int64_t count;
    switch (key) {
    case KEY_SHAPE: st = add_shape(f, text); break;
    case KEY_FORM: st = add_form(f, text); break;
    case KEY_PRECISION: st = take_precision(f, text); break;
    case KEY_WIRE: st = take_wire(f, text); break;
    case KEY_SHARES: st = take_shares(f, text); break;
    case KEY_REPETITIONS:
        if (!(st = mt_flag_int("--repetitions", text, 1, 10000, &count, f->err))) o->repetitions = (int)count;
        break;
    case KEY_SECONDS: st = mt_flag_seconds("--seconds", text, &o->seconds, f->err); break;
    case KEY_JSON: st = mt_output_flag(text, state, is_operand, &o->output, f->err); break;
    case KEY_DEVICE: st = mt_flag_device(text, &o->device, f->err); break;
    case KEY_EMULATE: st = mt_emulation_parse(text, &f->arena, &o->emulation, f->err); break;
    case KEY_PLAN: st = mt_flag_path("--plan", text, &o->plan, f->err); break;
    case KEY_OUT: st = mt_flag_path("--output", text, &o->out, f->err); break;
    case KEY_DEADLINE: st = mt_flag_seconds("--deadline", text, &o->deadline_s, f->err); break;
    case ARGP_KEY_ARG: st = mt_flag_no_operand(text, f->err); break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return st ? EINVAL : 0;
}

/* With a plan, what the plan says is not said again. */
static enum mt_status check_plan(const struct mt_bench_overlap_options *o, struct mt_err *err) {
    const char *also = o->nshapes                  ? "--shape"
                       : o->forms                  ? "--form"
                       : o->shares                 ? "--shares"
                       : o->precision != MT_NTYPES ? "--precision"
                       : o->f32_sums               ? "--wire"
                                                   : NULL;
    if (!o->plan && o->out) {
        mt_fail(err, MT_EINPUT, "--output: there is no plan to write");
        return mt_err_hint(err, "--plan FILE names one; --json=FILE writes what was measured");
    }
    return o->plan && also ? mt_fail(err, MT_EINPUT, "%s: --plan says that already", also) : MT_OK;
}

int mt_command_bench_overlap(int argc, char **argv) {
    const struct argp argp = {
        .options = flag_table,
        .parser = parse,
        .doc =
            "Measure GEMMs with their collectives, one after the other and overlapped, and how well the choice is "
            "predicted: `mpirun -n RANKS motley bench overlap --shape 1024,2048,1024`.\v"
            "All variants take turns in every round. Times are of the slowest rank, and ratios are taken within a "
            "round. Results are compared with products in f64. Predictions are by the rates of parts, measured in "
            "the same rounds; NCCL in waves is measured, but neither predicted nor chosen. eta is the longer of the "
            "GEMM alone and the fastest collective, copies by copy engines and puts among them, over the whole.\n\n"
            "`motley bench overlap --plan plan.json -o tuned.json` is for a plan by heads, ffn or vocabulary (`motley "
            "plan --strategy tensor --overlap all`): how its GEMMs are overlapped is then what was fastest here, or "
            "that they are not, and no longer what was predicted."};
    struct mt_err err = MT_ERR_INIT;
    struct overlap_flags f = {.err = &err,
                              .options = {.precision = MT_NTYPES, .repetitions = 10, .seconds = 60, .deadline_s = 120}};
    enum mt_status st = mt_flags_parse(&argp, argc, argv, &f, &err);
    struct mt_bench_overlap_options *o = &f.options;
    if (!st) st = check_plan(o, &err);
    if (!o->forms) o->forms = ~0u;
    if (o->precision == MT_NTYPES) o->precision = o->device && !strcmp(o->device, "cuda") ? MT_BF16 : MT_F32;
    if (!st && o->f32_sums && o->precision == MT_F64)
        st = mt_fail(&err, MT_EINPUT, "--wire f32: sums of f64 would be rounded to less than they are of");
    if (!st && !o->nshapes && !o->plan) {
        st = mt_fail(&err, MT_EINPUT, "measure what? Name a shape, or a plan");
        mt_err_hint(&err, "as --shape 4096,1024,4096, or --plan plan.json");
    }
    const struct mt_watch_options watch = {.heartbeat_s = MT_WATCH_HEARTBEAT_S, .deadline_s = o->deadline_s};
    st = mt_session_begin(&watch, st, &err);
    if (!st) st = mt_bench_overlap(o, &err);
    int code = mt_session_end(st, 0, &err);
    mt_arena_release(&f.arena);
    return code;
}

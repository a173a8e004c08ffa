/* motley verify: the checker's proof of a plan's program and of every rank's lowered program, and a run against one
 * rank. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/base/working.h"
#include "kernels/base/text/units.h"
#include "launcher/commands/command.h"
#include "launcher/flags/flags.h"
#include "launcher/flags/output.h"
#include "launcher/verify/numeric.h"
#include "planner/plan/planned.h"
#include "launcher/verify/proxy_plan.h"
#include "synth/check/check.h"

enum { KEY_PROOF = 0x2000, KEY_NUMERIC, KEY_NO_NUMERIC, KEY_SMALL, KEY_STEPS, KEY_JSON };

/* A longer numeric run is only started with --numeric. */
#define MOST_TIME_S 600.0

struct verify_flags {
    struct mt_err *err;
    const char *path;
    bool proof, numeric, no_numeric, small;
    int64_t steps;
    struct mt_output output;
    struct mt_tables doc;
};

static const struct argp_option flag_table[] = {
    {"proof", KEY_PROOF, 0, 0, "print the proof, one line per instruction", 1},
    {"numeric", KEY_NUMERIC, 0, 0, "compare with one rank however long it takes", 2},
    {"no-numeric", KEY_NO_NUMERIC, 0, 0, "do not compare with one rank", 2},
    {"small", KEY_SMALL, 0, 0,
     "run a small model by the same plan: 2 layers, 32 wide, 32 tokens, a vocabulary of 256; splits in proportion", 2},
    {"steps", KEY_STEPS, "N", 0, "training steps to compare [3]", 2},
    MT_OPTION_JSON(KEY_JSON, 1),
    {0}};

static error_t parse(int key, char *text, struct argp_state *state) {
    struct verify_flags *f = state->input;
    switch (key) {
    case KEY_PROOF: f->proof = true; return 0;
    case KEY_NUMERIC: f->numeric = true; return 0;
    case KEY_NO_NUMERIC: f->no_numeric = true; return 0;
    case KEY_SMALL: f->small = true; return 0;
    case KEY_JSON: return mt_output_flag(text, state, NULL, &f->output, f->err) ? EINVAL : 0;
    case KEY_STEPS: return mt_flag_int("--steps", text, 1, 1000000, &f->steps, f->err) ? EINVAL : 0;
    case ARGP_KEY_ARG: return mt_flag_operand("plan", text, &f->path, f->err) ? EINVAL : 0;
    }
    return ARGP_ERR_UNKNOWN;
}

static enum mt_status validate(const struct verify_flags *f) {
    if (!f->path) return mt_fail(f->err, MT_EINPUT, "verify what? Name a plan");
    if (f->no_numeric && (f->numeric || f->small || f->steps))
        return mt_fail(f->err, MT_EINPUT, "--no-numeric excludes --numeric, --small and --steps");
    if (f->proof && f->output.json)
        return mt_fail(f->err, MT_EINPUT, "--json excludes --proof, whose lines are no table");
    return mt_output_check(&f->output, &f->path, 1, f->err);
}

/* Lines as they are known, and a row of figures each. */
static void tell(struct verify_flags *f) {
    mt_output_tell(&f->output, &f->doc);
}

static enum mt_status prove_program(struct verify_flags *f, const struct mt_program *program, FILE *proof,
                                    struct mt_err *err) {
    enum mt_status st = mt_check_program(program, proof, err);
    if (st) return st;
    int ninstrs = 0;
    for (int b = 0; b < MT_NBLOCKS; b++) ninstrs += program->blocks[b].ninstrs;
    mt_tables_say(&f->doc, "program    proven to compute the training graph: %d instructions, %d rank%s", ninstrs,
                  program->nranks, program->nranks == 1 ? "" : "s");
    struct mt_table *t = mt_tables_add_values(&f->doc, "program");
    mt_table_put_text(t, "proof", "proven");
    mt_table_put_real(t, "instructions", MT_UNIT_COUNT, ninstrs);
    mt_table_put_real(t, "ranks", MT_UNIT_COUNT, program->nranks);
    tell(f);
    return MT_OK;
}

/* One rank's lowered program at a time. */
struct lowering {
    const struct mt_program *program;
    const struct mt_lower_options *options;
    struct mt_lowered *low;
    int64_t ninstrs; /* of all so far */
};

static enum mt_status lower_next(void *context, int rank, const struct mt_lowered **lowered, struct mt_err *err) {
    struct lowering *l = context;
    mt_lowered_free(l->low);
    l->low = NULL;
    mt_working(rank, l->program->nranks, "rank %d of %d", rank + 1, l->program->nranks);
    enum mt_status st = mt_lower(l->program, rank, l->options, &l->low, err);
    if (!st) l->ninstrs += l->low->ninstrs;
    *lowered = l->low;
    return st;
}

static enum mt_status prove_lowered(struct verify_flags *f, const struct mt_program *program, FILE *proof,
                                    struct mt_err *err) {
    struct mt_device *device;
    enum mt_status st = mt_device_open("cpu", &device, err);
    if (st) return st;
    struct mt_lower_options options = mt_planned_lower_options(device);
    struct lowering lowering = {.program = program, .options = &options};
    mt_working_begin("proving schedules");
    st = mt_check_each_lowered(program, lower_next, &lowering, &options, proof, err);
    mt_working_end();
    if (!st) {
        mt_tables_say(&f->doc, "schedule   proven on every rank: order, memory and collectives of %lld instructions",
                      (long long)lowering.ninstrs);
        struct mt_table *t = mt_tables_add_values(&f->doc, "schedule");
        mt_table_put_text(t, "proof", "proven");
        mt_table_put_real(t, "instructions", MT_UNIT_COUNT, (double)lowering.ninstrs);
        tell(f);
    }
    mt_lowered_free(lowering.low);
    mt_device_close(device);
    return st;
}

/* Whether the run fits into this machine's memory and into MOST_TIME_S; says why not. */
static enum mt_status is_affordable(struct verify_flags *f, const struct mt_plan *plan, int64_t steps, bool *affordable,
                                    struct mt_err *err) {
    double memory_bytes, time_s;
    char needs[MT_UNITS_TEXT], has[MT_UNITS_TEXT];
    enum mt_status st = mt_numeric_estimate(plan, steps, &memory_bytes, &time_s, err);
    if (st) return st;
    struct mt_device *device;
    if ((st = mt_device_open("cpu", &device, err))) return st;
    double free_bytes = (double)mt_device_memory_bytes(device);
    mt_device_close(device);
    *affordable = memory_bytes <= 0.9 * free_bytes && time_s <= MOST_TIME_S;
    if (*affordable) return MT_OK;
    mt_tables_say_styled(&f->doc, MT_STYLE_WARNING,
                         "numeric    left out: may take %.0f minutes and %s of memory (%s are free)\n"
                         "           --small runs a small model by the same plan, --numeric runs this one anyway",
                         ceil(time_s / 60), mt_units_bytes(memory_bytes, needs), mt_units_bytes(free_bytes, has));
    return MT_OK;
}

static void tell_numeric(struct verify_flags *f, const struct mt_plan *run, int64_t steps,
                         const struct mt_numeric *result) {
    mt_tables_say(&f->doc,
                  "numeric    %lld step%s in fp64, %d rank%s against 1: |dw|/|w| %.2g, worst %s %.2g\n"
                  "           loss %.6f to %.6f, apart by %.2g; replicas apart by %.2g",
                  (long long)steps, steps == 1 ? "" : "s", run->nplaces, run->nplaces == 1 ? "" : "s",
                  result->difference, result->worst_name ? result->worst_name : "-", result->worst, result->first_loss,
                  result->last_loss, result->loss_difference, result->spread);
    struct mt_table *t = mt_tables_add_values(&f->doc, "numeric");
    mt_table_put_text(t, "model", "%s", run->model);
    mt_table_put_real(t, "steps", MT_UNIT_COUNT, (double)steps);
    mt_table_put_real(t, "ranks", MT_UNIT_COUNT, run->nplaces);
    mt_table_put_real(t, "difference", MT_UNIT_NUMBER, result->difference);
    mt_table_put_text(t, "worst_name", "%s", result->worst_name ? result->worst_name : "");
    mt_table_put_real(t, "worst", MT_UNIT_NUMBER, result->worst);
    mt_table_put_real(t, "first_loss", MT_UNIT_NUMBER, result->first_loss);
    mt_table_put_real(t, "last_loss", MT_UNIT_NUMBER, result->last_loss);
    mt_table_put_real(t, "loss_difference", MT_UNIT_NUMBER, result->loss_difference);
    mt_table_put_real(t, "replica_difference", MT_UNIT_NUMBER, result->spread);
}

static enum mt_status run_numeric(struct verify_flags *f, const struct mt_plan *plan, struct mt_err *err) {
    struct mt_plan *small = NULL;
    struct mt_numeric result = {0};
    int64_t steps = f->steps ? f->steps : 3;
    bool affordable = true;
    enum mt_status st = MT_OK;
    if (f->small && (st = mt_proxy_plan_small(plan, &small, err))) return st;
    const struct mt_plan *run = small ? small : plan;
    if (!f->numeric && (st = is_affordable(f, run, steps, &affordable, err))) goto out;
    if (!affordable) goto out;
    st = mt_numeric_run(run, steps, &result, err);
    if (st && st != MT_EPROOF) goto out;
    if (small) mt_tables_say(&f->doc, "numeric    on %s, sequences of %lld", small->model, (long long)small->job.seq);
    tell_numeric(f, run, steps, &result);
out:
    mt_arena_release(&result.arena);
    mt_plan_free(small);
    return st;
}

static enum mt_status verify(struct verify_flags *f, struct mt_err *err) {
    struct mt_plan *plan;
    struct mt_planned planned;
    FILE *proof = f->proof ? stdout : NULL;
    enum mt_status st = mt_plan_read(f->path, &plan, err);
    if (st) return st;
    if (!(st = mt_planned_open(plan, &planned, err))) {
        mt_tables_say(&f->doc, "plan       %s, as it was made: model %s, program %s", plan->hash, plan->model_hash,
                      plan->program_hash);
        struct mt_table *t = mt_tables_add_values(&f->doc, "plan");
        mt_table_put_text(t, "hash", "%s", plan->hash);
        mt_table_put_text(t, "model_hash", "%s", plan->model_hash);
        mt_table_put_text(t, "program_hash", "%s", plan->program_hash);
        tell(f);
        if (!(st = prove_program(f, &planned.program, proof, err))) st = prove_lowered(f, &planned.program, proof, err);
        mt_planned_release(&planned);
        if (!st && !f->no_numeric) st = run_numeric(f, plan, err);
    }
    mt_plan_free(plan);
    return st ? mt_err_context(err, "%s", f->path) : MT_OK;
}

int mt_command_verify(int argc, char **argv) {
    struct mt_err err = MT_ERR_INIT;
    struct verify_flags f = {.err = &err, .doc = MT_TABLES_INIT};
    static const struct argp argp = {
        .options = flag_table,
        .parser = parse,
        .args_doc = "PLAN",
        .doc =
            "Prove that a plan's program computes the training graph and that every rank's lowered program keeps its "
            "order and memory; then compare it with one rank in fp64.\v"
            "Exits with 5 when a proof is refused or the numbers differ."};
    enum mt_status st = mt_flags_parse(&argp, argc, argv, &f, &err);
    if (!st) st = validate(&f);
    if (!st) st = verify(&f, &err);
    struct mt_err ignored = MT_ERR_INIT;
    if (!st)
        st = mt_output_end(&f.output, &f.doc, &err);
    else if (f.doc.count) /* what is proven so far, and numbers that differ */
        mt_output_end(&f.output, &f.doc, &ignored);
    mt_tables_release(&f.doc);
    return st ? mt_command_fail(&err) : 0;
}

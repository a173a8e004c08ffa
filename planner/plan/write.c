/* The plan written as a document, and its hash: over the canonical text without the hash, so that only meaning counts
 * and not how the file is spaced. */
#include <string.h>

#include "kernels/base/text/document.h"
#include "planner/plan/plan.h"

static void write_ranks(const struct mt_plan *p, struct mt_json_out *out) {
    mt_json_open(out, "ranks", '[');
    for (int r = 0; r < p->nranks; r++) {
        mt_json_open_inline(out, NULL, '{');
        mt_json_put_string(out, "host", p->ranks[r].host);
        mt_json_put_string(out, "class", p->ranks[r].class);
        mt_json_put_real(out, "speed", p->ranks[r].speed);
        mt_json_put_int(out, "memory_bytes", p->ranks[r].memory_bytes);
        mt_json_put_int(out, "state_bytes", p->memory[r].state_bytes);
        mt_json_put_int(out, "arena_bytes", p->memory[r].arena_bytes);
        if (p->memory[r].communicator_bytes)
            mt_json_put_int(out, "communicator_bytes", p->memory[r].communicator_bytes);
        if (p->memory[r].window_bytes) mt_json_put_int(out, "window_bytes", p->memory[r].window_bytes);
        if (p->ranks[r].reserved_bytes) mt_json_put_int(out, "reserved_bytes", p->ranks[r].reserved_bytes);
        mt_json_close(out);
    }
    mt_json_close(out);
}

static void write_order(const struct mt_plan *p, struct mt_json_out *out) {
    struct mt_arena arena = MT_ARENA_INIT;
    if (mt_plan_in_order(p)) return;
    int64_t *order = mt_new(&arena, int64_t, p->nplaces);
    for (int i = 0; i < p->nplaces; i++) order[i] = p->order[i];
    mt_json_put_ints(out, "order", order, p->nplaces);
    mt_arena_release(&arena);
}

/* Over hosts: of each host what its ranks that take part have. */
static void write_host_sizes(const struct mt_plan *p, const int64_t *sizes, struct mt_json_out *out) {
    struct mt_arena arena = MT_ARENA_INIT;
    int nhosts, *host = mt_plan_hosts(p, &arena, &nhosts), *place = mt_plan_places(p, &arena);
    int64_t *of_host = mt_new(&arena, int64_t, nhosts);
    for (int r = p->nranks - 1; r >= 0; r--)
        if (place[r] >= 0) of_host[host[r]] = sizes[r];
    mt_json_put_ints(out, "sizes", of_host, nhosts);
    mt_arena_release(&arena);
}

static void write_splits(const struct mt_plan *p, struct mt_json_out *out) {
    mt_json_open(out, "splits", '[');
    for (int s = 0; s < p->nsplits; s++) {
        mt_json_open_inline(out, NULL, '{');
        mt_json_put_string(out, "name", p->splits[s].name);
        mt_json_put_string(out, "label", p->splits[s].label);
        mt_json_put_int(out, "align", p->splits[s].align);
        if (p->splits[s].over != MT_OVER_ALL) mt_json_put_string(out, "over", mt_over_names[p->splits[s].over]);
        if (p->splits[s].over == MT_OVER_HOST)
            write_host_sizes(p, p->splits[s].sizes, out);
        else
            mt_json_put_ints(out, "sizes", p->splits[s].sizes, p->nranks);
        mt_json_close(out);
    }
    mt_json_close(out);
    mt_json_put_ints(out, "micro_batch", p->micro, p->nranks);
}

static void write_levels(const char *split, const struct mt_row_levels *levels, struct mt_json_out *out) {
    if (split && split[0]) mt_json_put_string(out, "split", split);
    if (levels->occurrence > 1) mt_json_put_int(out, "occurrence", levels->occurrence);
    if (levels->ninner == 1) mt_json_put_string(out, "inner", levels->inner[0]);
    if (levels->ninner > 1) {
        mt_json_open_inline(out, "inner", '[');
        for (int i = 0; i < levels->ninner; i++) mt_json_put_string(out, NULL, levels->inner[i]);
        mt_json_close(out);
    }
    if (levels->inner_occurrence > 1) mt_json_put_int(out, "inner_occurrence", levels->inner_occurrence);
}

static void write_rows(const struct mt_decisions *d, struct mt_json_out *out) {
    mt_json_open(out, "rules", '[');
    for (int i = 0; i < d->nrules; i++) {
        mt_json_open_inline(out, NULL, '{');
        mt_json_put_string(out, "pattern", d->rules[i].pattern);
        mt_json_put_string(out, "rule", mt_operators_names[d->rules[i].operators]);
        write_levels(d->rules[i].split, &d->rules[i].levels, out);
        mt_json_close(out);
    }
    mt_json_close(out);
    mt_json_open(out, "storage", '[');
    for (int i = 0; i < d->nstorage; i++) {
        mt_json_open_inline(out, NULL, '{');
        mt_json_put_string(out, "pattern", d->storage[i].pattern);
        mt_json_put_string(out, "layout", mt_state_names[d->storage[i].state]);
        write_levels(d->storage[i].split, &d->storage[i].levels, out);
        mt_json_close(out);
    }
    mt_json_close(out);
}

static void write_collectives(const struct mt_plan *p, struct mt_json_out *out) {
    const struct mt_decisions *d = &p->decisions;
    enum mt_type acc = mt_type_acc(p->job.precision);
    mt_json_open(out, "gradients", '{');
    for (int i = 0; i < MT_NDECISIONS; i++) {
        const struct mt_decision *row = &mt_decision_table[i];
        int value = mt_decision_get(d, (enum mt_decision_id)i);
        if (value >= 0 && value != row->omitted) mt_json_put_string(out, row->name, row->words[value]);
    }
    mt_json_put_int(out, "bucket_bytes", d->bucket_bytes);
    if (d->staging_bytes) mt_json_put_int(out, "staging_bytes", d->staging_bytes);
    mt_json_close(out);
    mt_json_open(out, "collectives", '[');
    for (int i = 0; i < d->nalgorithms; i++) {
        const struct mt_algorithm_row *row = &d->algorithms[i];
        mt_json_open_inline(out, NULL, '{');
        mt_json_put_string(out, "kind", mt_coll_name(row->kind));
        mt_json_put_string(out, "algorithm", row->algorithm);
        if (mt_coll_reduces(row->kind)) {
            mt_json_put_string(out, "wire", mt_type_name(mt_plan_wire(p)));
            mt_json_put_string(out, "acc", mt_type_name(acc));
        }
        if (row->up_to_bytes) mt_json_put_int(out, "up_to_bytes", row->up_to_bytes);
        mt_json_close(out);
    }
    mt_json_close(out);
}

/* A row by which the GEMM and its collective stay apart has a shape and nothing else. */
static void write_overlapped(const struct mt_decisions *d, struct mt_json_out *out) {
    if (!d->noverlaps) return;
    mt_json_open(out, "overlapped", '[');
    for (int i = 0; i < d->noverlaps; i++) {
        const struct mt_overlap_choice *row = &d->overlaps[i];
        mt_json_open_inline(out, NULL, '{');
        mt_json_put_string(out, "form", mt_overlap_form_names[row->form]);
        mt_json_put_int(out, "m", row->m);
        mt_json_put_int(out, "columns", row->cols);
        mt_json_put_int(out, "k", row->k);
        mt_json_put_string(out, "by", mt_overlap_how_names[row->how]);
        if (row->how != MT_OVERLAP_APART) mt_json_put_ints(out, "tile", row->tile, 2);
        if (row->chunk) mt_json_put_int(out, "put_rows", row->chunk);
        if (row->slabs) mt_json_put_int(out, "slabs", row->slabs);
        if (row->engines) mt_json_put_bool(out, "engines", true);
        if (row->joint) mt_json_put_bool(out, "joint", true);
        if (row->mix) mt_json_put_int(out, "mix", row->mix);
        if (row->direct) mt_json_put_bool(out, "direct", true);
        if (row->ngroups) mt_json_put_ints(out, "groups", row->groups, row->ngroups);
        mt_json_close(out);
    }
    mt_json_close(out);
}

static void write_idle(const struct mt_plan_prediction *f, struct mt_json_out *out) {
    if (!f->nidle) return;
    mt_json_open(out, "idle", '[');
    for (int i = 0; i < f->nidle; i++) {
        mt_json_open_inline(out, NULL, '{');
        mt_json_put_int(out, "rank", f->idle[i].rank);
        mt_json_put_string(out, "why", f->idle[i].why);
        if (f->idle[i].step_s > 0) mt_json_put_real(out, "step_s", f->idle[i].step_s);
        mt_json_close(out);
    }
    mt_json_close(out);
}

static void write_prediction(const struct mt_plan *p, struct mt_json_out *out) {
    const struct mt_plan_prediction *f = p->prediction;
    mt_json_open(out, "prediction", '{');
    mt_json_put_real(out, "step_s", f->step_s);
    mt_json_put_real(out, "error", f->error);
    if (f->error_below != f->error) mt_json_put_real(out, "error_below", f->error_below);
    mt_json_put_real(out, "bound_s", f->bound_s);
    mt_json_put_bool(out, "nominal", f->nominal);
    mt_json_open(out, "times", '[');
    for (int r = 0; r < p->nranks; r++) {
        mt_json_open_inline(out, NULL, '{');
        mt_json_put_real(out, "compute_s", f->times[r].compute_s);
        mt_json_put_real(out, "exposed_s", f->times[r].exposed_s);
        mt_json_put_real(out, "idle_s", f->times[r].idle_s);
        mt_json_close(out);
    }
    mt_json_close(out);
    mt_json_open(out, "rejected", '[');
    for (int i = 0; i < f->nrejected; i++) {
        mt_json_open_inline(out, NULL, '{');
        mt_json_put_string(out, "what", f->rejected[i].what);
        mt_json_put_string(out, "why", f->rejected[i].why);
        if (f->rejected[i].step_s > 0) mt_json_put_real(out, "step_s", f->rejected[i].step_s);
        mt_json_close(out);
    }
    mt_json_close(out);
    write_idle(f, out);
    mt_json_close(out);
}

static void write_plan(const void *document, const char *hash, struct mt_json_out *out) {
    const struct mt_plan *p = document;
    mt_json_out_init(out);
    mt_json_open(out, NULL, '{');
    mt_json_put_string(out, "format", MT_PLAN_FORMAT);
    mt_json_put_int(out, "version", MT_PLAN_VERSION);
    if (hash) mt_json_put_string(out, "hash", hash);
    mt_json_put_string(out, "made_by", p->made_by);
    if (strcmp(p->device, "cpu")) mt_json_put_string(out, "device", p->device); /* without it: cpu */
    mt_json_put_string(out, "model", p->model);
    mt_json_put_string(out, "model_hash", p->model_hash);
    mt_json_put_string(out, "program_hash", p->program_hash);
    mt_json_put_string(out, "cluster_hash", p->cluster_hash);
    if (p->hypothetical[0]) mt_json_put_string(out, "hypothetical", p->hypothetical);
    mt_json_put_int(out, "parameters", p->parameters);
    mt_json_put_real(out, "flops_per_step", p->flops_per_step);
    mt_job_write(&p->job, "job", out);
    write_ranks(p, out);
    write_order(p, out);
    write_splits(p, out);
    write_rows(&p->decisions, out);
    write_collectives(p, out);
    write_overlapped(&p->decisions, out);
    if (p->prediction) write_prediction(p, out);
    mt_json_close(out);
}

void mt_plan_hash(const struct mt_plan *plan, char hash[33]) {
    mt_document_hash(plan, write_plan, hash);
}

char *mt_plan_text(struct mt_plan *plan, size_t *length) {
    return mt_document_text(plan, write_plan, plan->hash, length);
}

enum mt_status mt_plan_write(struct mt_plan *plan, const char *path, struct mt_err *err) {
    return mt_document_write(plan, write_plan, plan->hash, path, err);
}

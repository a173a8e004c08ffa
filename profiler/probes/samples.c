/* What probes have measured: added, printed and freed; and what follows from what ranks know of each other. */
#include <string.h>

#include "profiler/probes/internal.h"

bool mt_profile_nvlink(const struct mt_place *from, const struct mt_place *to) {
    for (int i = 0; i < from->facts.npeers; i++)
        if (!strcmp(from->facts.peers[i].bus, to->facts.bus)) return from->facts.peers[i].nvlink;
    return false;
}

int mt_profile_sharing(const struct mt_profile *p, int rank) {
    int sharing = 0;
    for (int q = 0; q < p->nranks; q++) sharing += p->places[q].node == p->places[rank].node;
    return p->gpu ? 1 : sharing;
}

void mt_profile_op(struct mt_profile *p, const struct mt_op_shape *shape, double time_s) {
    int i = p->nops - 1; /* most often the last */
    while (i >= 0 && !mt_op_shape_equal(&p->ops[i].shape, shape)) i--;
    if (i < 0) {
        mt_arena_grow(&p->arena, &p->ops, p->nops, &p->ops_capacity, sizeof *p->ops);
        i = p->nops++;
        p->ops[i] = (struct mt_op_times){.shape = *shape};
    }
    mt_samples_add(&p->ops[i].series, time_s);
}

__attribute__((format(printf, 5, 6))) static void
print_series(FILE *file, int rank, const char *probe, const struct mt_samples *series, const char *format, ...) {
    char what[160];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    for (int i = 0; i < series->count; i++) fprintf(file, "%s,%s,%d,%.9g\n", probe, what, rank, series->values[i]);
}

void mt_profile_print_samples(const struct mt_profile *p, FILE *file) {
    if (!p->rank) fprintf(file, "probe,what,rank,value\n");
    print_series(file, p->rank, "copy_Bps", &p->copy_Bps, "f32");
    print_series(file, p->rank, "overhead_s", &p->overhead_s, "fill");
    for (int i = 0; i < p->nops; i++) {
        const struct mt_op_shape *s = &p->ops[i].shape;
        print_series(file, p->rank, "op_s", &p->ops[i].series, "%s %s %s %lld %lldx%lld", mt_op_info[s->kind].name,
                     s->variant, mt_type_name(s->type), (long long)s->rows, (long long)s->dim[0], (long long)s->dim[1]);
    }
    for (int i = 0; i < p->npairs && !p->rank; i++) {
        const struct mt_pair_times *pair = &p->pairs[i];
        fprintf(file, "pair_latency_s,%d-%d,%d,%.9g\npair_bandwidth_Bps,%d-%d,%d,%.9g\n", pair->a, pair->b, pair->a,
                pair->latency.median, pair->a, pair->b, pair->a, pair->bandwidth.median);
        fprintf(file, "pair_bandwidth_Bps,%d-%d,%d,%.9g\n", pair->b, pair->a, pair->b, pair->reverse.median);
        for (int f = 0; f < MT_CLUSTER_PUTS_FIGURES && pair->puts.signal_s > 0; f++)
            fprintf(file, "pair_put_%s,%d-%d,%d,%.9g\n", mt_cluster_puts_figures[f].name, pair->a, pair->b, pair->a,
                    mt_cluster_puts_figure(&pair->puts, f));
    }
    for (int i = 0; i < p->ncolls && p->coll_times; i++) {
        const struct mt_coll_case *c = &p->colls[i];
        struct mt_coll problem = {.kind = c->algorithm->kind, .n = p->groups[c->group].n, .counts = c->counts};
        problem.wire = c->wire, problem.node = p->groups[c->group].node;
        long long size_bytes = (long long)mt_fit_point(c->algorithm, &problem, 1, 0).size_bytes;
        print_series(file, p->rank, "collective_s", &p->coll_times[i], "%s %s %s %s %lld shares %lld:%lld",
                     p->groups[c->group].name, mt_coll_name(c->algorithm->kind), c->algorithm->name,
                     mt_type_name(c->wire), size_bytes, (long long)c->counts[0], (long long)c->counts[1]);
    }
}

void mt_profile_release_samples(struct mt_profile *p) {
    for (int i = 0; i < p->nops; i++) mt_samples_release(&p->ops[i].series);
    for (int i = 0; i < p->ncolls && p->coll_times; i++) mt_samples_release(&p->coll_times[i]);
    mt_samples_release(&p->copy_Bps);
    mt_samples_release(&p->overhead_s);
}

/* Devices and classes.
 *
 * A device's speed is from the total time of its operators, interruptions included: other processes or a quota stop a
 * device for milliseconds now and then, which medians of short operators do not show. The reference device of a class
 * is the upper median by speed of those that are emulated least. The class's curves are medians of the reference device
 * and of all others whose medians are within a tenth of its (scaled to it), times the cost of interruptions on the
 * reference device. So a slowdown by other processes, a quota or emulation shows in the device's speed, and not in the
 * curves. Where other processes were seen to take time, the errors of speeds and curves are wider by the fraction that
 * they took (disturbed.h). */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/assemble/assemble.h"
#include "profiler/describe/hardware.h"
#include "profiler/measure/disturbed.h"

enum { PARTS = 10 };
#define PAUSE_S 1.0
static const double most_apart = 0.1;

static void make_name(const char *model, const char *suffix, char *name, size_t size) {
    static const char *const left_out[] = {"(r)",       "(tm)", "(c)",     "intel",     "amd",    "cpu",    "core",
                                           "processor", "with", "genuine", "authentic", "nvidia", "geforce"};
    char text[128] = "";
    size_t used = 0;
    for (size_t i = 0; model[i] && model[i] != '@' && i < sizeof text - 1; i++)
        text[i] = (char)tolower((unsigned char)model[i]);
    for (size_t w = 0; w < sizeof left_out / sizeof *left_out; w++)
        for (char *at; (at = strstr(text, left_out[w]));) memset(at, ' ', strlen(left_out[w]));
    size_t room = size - strlen(suffix) - 1;
    for (const char *c = text; *c && used < room; c++) {
        bool letter = isalnum((unsigned char)*c) || *c == '.';
        if (letter)
            name[used++] = *c;
        else if (used && name[used - 1] != '-')
            name[used++] = '-';
    }
    while (used && name[used - 1] == '-') used--;
    if (!used) used = (size_t)snprintf(name, room, "unknown");
    snprintf(name + used, size - used, "%s", suffix);
}

void mt_class_name(const char *model, int threads, char *name, size_t size) {
    char suffix[24];
    snprintf(suffix, sizeof suffix, "-%dt", threads);
    make_name(model, suffix, name, size);
}

void mt_class_name_gpu(const char *model, int multiprocessors, int computing, char *name, size_t size) {
    char suffix[24] = "";
    const char *known = mt_hardware_of_model(model);
    if (computing < multiprocessors) snprintf(suffix, sizeof suffix, "-%dsm", computing);
    if (known)
        snprintf(name, size, "%s%s", known, suffix);
    else
        make_name(model, suffix, name, size);
}

static const struct mt_op_times *find(const struct mt_rank_ops *ops, const struct mt_op_times *like, int near) {
    for (int k = 0; k < ops->nops; k++) { /* most often at the same index */
        const struct mt_op_times *op = &ops->ops[(near + k) % ops->nops];
        const struct mt_op_shape *a = &op->shape, *b = &like->shape;
        if (a->kind == b->kind && a->type == b->type && a->rows == b->rows && a->dim[0] == b->dim[0] &&
            a->dim[1] == b->dim[1] && !strcmp(a->variant, b->variant))
            return op;
    }
    return NULL;
}

/* Speed relative to the reference without interruptions: the median ratio of medians over shapes that both measured. */
static double median_speed(const struct mt_rank_ops *device, const struct mt_rank_ops *reference) {
    double *ratios = mt_malloc((size_t)(device->nops + 1) * sizeof *ratios);
    size_t n = 0;
    for (int i = 0; i < device->nops; i++) {
        const struct mt_op_times *other = find(reference, &device->ops[i], i);
        if (!other) continue;
        ratios[n++] = mt_samples_interval(&other->series).median / mt_samples_interval(&device->ops[i].series).median;
    }
    double speed = n ? mt_median(ratios, n) : 1;
    free(ratios);
    return speed;
}

/* The device's total time / the reference's total by medians, for the same samples; over every PARTS-th shape from
 * `part` on, or over all (part < 0). */
static double slowness(const struct mt_rank_ops *device, const struct mt_rank_ops *reference, int part) {
    double took_s = 0, undisturbed_s = 0;
    for (int i = 0; i < device->nops; i++) {
        const struct mt_samples *series = &device->ops[i].series;
        const struct mt_op_times *other = find(reference, &device->ops[i], i);
        if (!other || (part >= 0 && i % PARTS != part)) continue;
        double undisturbed = mt_samples_interval(&other->series).median, own = mt_samples_interval(series).median;
        for (int k = 0; k < series->count; k++) {
            if (series->values[k] > PAUSE_S + 10 * own) continue; /* the virtual machine was paused */
            took_s += series->values[k];
            undisturbed_s += undisturbed;
        }
    }
    return undisturbed_s > 0 ? took_s / undisturbed_s : 1;
}

/* The speed relative to the reference; *error from the variance over PARTS parts of the shapes. */
static double speed_of(const struct mt_rank_ops *device, const struct mt_rank_ops *reference, double *error) {
    double speed = slowness(reference, reference, -1) / slowness(device, reference, -1), variance = 0;
    for (int part = 0; part < PARTS; part++) {
        double of_part = slowness(reference, reference, part) / slowness(device, reference, part);
        variance += (of_part / speed - 1) * (of_part / speed - 1) / (PARTS - 1);
    }
    *error = fmin(2.26 * sqrt(variance / PARTS), 1); /* t(97.5%, 9) = 2.26 */
    return speed;
}

struct ranked {
    int rank;
    double speed;
};
static int by_speed(const void *left, const void *right) {
    const struct ranked *a = left, *b = right;
    if (a->speed != b->speed) return (a->speed > b->speed) - (a->speed < b->speed);
    return (a->rank < b->rank) - (a->rank > b->rank);
}

/* The upper median by speed, of two devices the faster, of those that are not emulated; if all are, of those that are
 * emulated least. */
static int reference_of(const struct mt_profile *p, const struct mt_device_figures *figures,
                        const struct mt_rank_ops *ops, int class) {
    struct ranked *members = mt_malloc((size_t)p->nranks * sizeof *members);
    double emulated = 0;
    size_t n = 0;
    for (int r = 0; r < p->nranks; r++)
        if (p->places[r].class == class) emulated = fmax(emulated, figures[r].emulated);
    for (int r = 0; r < p->nranks; r++) {
        if (p->places[r].class != class || figures[r].emulated < emulated) continue;
        double error;
        members[n] = (struct ranked){r, n ? speed_of(&ops[r], &ops[members[0].rank], &error) : 1};
        n++;
    }
    qsort(members, n, sizeof *members, by_speed);
    int reference = members[n / 2].rank;
    free(members);
    return reference;
}

static void measure_class(const struct mt_profile *p, const struct mt_device_figures *figures,
                          const struct mt_rank_ops *ops, int c, struct mt_cluster *cluster) {
    struct mt_cluster_class *class = &cluster->classes[c];
    int reference = reference_of(p, figures, ops, c);
    const struct mt_device_figures *of_reference = &figures[reference];
    double stolen = of_reference->load.stolen;
    double interrupted = slowness(&ops[reference], &ops[reference], -1);
    struct mt_curve_builder *curves = mt_curves_new();
    class->memory_bytes = INT64_MAX;
    for (int r = 0; r < p->nranks; r++) {
        struct mt_cluster_device *device = &cluster->devices[r];
        if (device->class != c) continue;
        if (device->memory_bytes < class->memory_bytes) class->memory_bytes = device->memory_bytes;
        device->speed = speed_of(&ops[r], &ops[reference], &device->speed_error);
        if (r != reference) {
            device->speed = mt_disturbed_speed(device->speed, figures[r].emulated / of_reference->emulated,
                                               of_reference->load.stolen);
            device->speed_error = mt_disturbed_error(device->speed_error, figures[r].load.stolen);
        }
        double scale = median_speed(&ops[r], &ops[reference]);
        if (fabs(scale - 1) > most_apart) continue;
        stolen = fmax(stolen, figures[r].load.stolen);
        for (int i = 0; i < ops[r].nops; i++)
            for (int k = 0; k < ops[r].ops[i].series.count; k++)
                mt_curves_sample(curves, &ops[r].ops[i].shape, ops[r].ops[i].series.values[k] * scale * interrupted);
    }
    mt_curves_finish(curves, stolen, cluster, class);
    class->memory_Bps = of_reference->copy_Bps.median;
    class->memory_error = mt_disturbed_error(mt_interval_error(of_reference->copy_Bps), of_reference->load.stolen);
    class->overhead_s = of_reference->overhead_s;
    for (int i = 0; i < ops[reference].nops; i++) {
        const struct mt_op_times *op = &ops[reference].ops[i];
        double rate = op->shape.flops / mt_samples_interval(&op->series).median;
        bool gemm = op->shape.kind == MT_OP_matmul || op->shape.kind == MT_OP_fused_matmul;
        if (gemm && rate > class->flops[op->shape.type]) class->flops[op->shape.type] = rate;
    }
}

/* A class is named for its model and threads. Two models may get one name; the later gets a suffix. */
static void name_class(struct mt_cluster *cluster, int c, const struct mt_place *place) {
    char name[112];
    struct mt_cluster_class *class = &cluster->classes[c];
    if (place->facts.multiprocessors)
        mt_class_name_gpu(class->model, place->facts.multiprocessors, class->threads, name, sizeof name - 16);
    else
        mt_class_name(class->model, class->threads, name, sizeof name - 16);
    class->name = "";
    for (int b = 0; b < c; b++)
        if (!strcmp(cluster->classes[b].name, name)) {
            snprintf(name + strlen(name), 16, "-%d", c);
            break;
        }
    class->name = mt_arena_strdup(&cluster->arena, name);
}

/* A GPU's memory for a job is what is free after the context, kernels and NCCL have taken theirs (reserved_bytes). */
static void add_gpu(struct mt_arena *arena, const struct mt_place *place, const struct mt_device_figures *figures,
                    struct mt_cluster_device *device) {
    const struct mt_device_health *health = &figures->health;
    device->memory_bytes = figures->free_bytes;
    device->gpu = mt_new(arena, struct mt_cluster_gpu, 1);
    *device->gpu = (struct mt_cluster_gpu){.bus = mt_arena_strdup(arena, place->facts.bus),
                                           .from_host_Bps = figures->host_Bps[0],
                                           .to_host_Bps = figures->host_Bps[1],
                                           .sm_clock_Hz = health->sm_clock_Hz,
                                           .sm_clock_most_Hz = health->sm_clock_most_Hz,
                                           .memory_clock_Hz = health->memory_clock_Hz,
                                           .memory_clock_most_Hz = health->memory_clock_most_Hz,
                                           .power_W = health->power_W,
                                           .power_limit_W = health->power_limit_W,
                                           .temperature_C = health->temperature_C};
    /* By differences over short times: other processes come and go. Where there is more now than there was, they went.
     */
    int64_t taken_bytes = place->facts.opened_bytes - figures->free_bytes;
    if (taken_bytes < 0) taken_bytes += place->facts.health.others_bytes;
    device->gpu->reserved_bytes = place->facts.context_bytes + (taken_bytes > 0 ? taken_bytes : 0);
}

void mt_assemble_devices(const struct mt_profile *p, const struct mt_device_figures *figures,
                         const struct mt_rank_ops *ops, struct mt_cluster *cluster) {
    struct mt_arena *arena = &cluster->arena;
    cluster->ndevices = p->nranks;
    cluster->devices = mt_new(arena, struct mt_cluster_device, p->nranks);
    cluster->nclasses = p->nclasses;
    cluster->classes = mt_new(arena, struct mt_cluster_class, p->nclasses);
    for (int r = 0; r < p->nranks; r++) {
        const struct mt_place *place = &p->places[r];
        cluster->devices[r] =
            (struct mt_cluster_device){.node = place->node,
                                       .class = place->class,
                                       .emulated = figures[r].emulated,
                                       .stolen = figures[r].load.stolen,
                                       .memory_bytes = place->room_bytes / mt_profile_sharing(p, r),
                                       .mask = p->gpu ? "" : mt_arena_strdup(arena, place->topology.mask)};
        if (p->gpu) add_gpu(arena, place, &figures[r], &cluster->devices[r]);
        struct mt_cluster_class *class = &cluster->classes[place->class];
        if (class->model) continue;
        *class = (struct mt_cluster_class){.threads = place->threads, .calibration = 1};
        class->kind = mt_arena_strdup(arena, place->kind);
        class->model = mt_arena_strdup(arena, place->model);
        class->capability = place->facts.capability;
        name_class(cluster, place->class, place);
    }
    for (int c = 0; c < p->nclasses; c++) measure_class(p, figures, ops, c, cluster);
}

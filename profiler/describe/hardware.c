/* The table of public figures, and what is derived from it. */
#include "profiler/describe/hardware.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "kernels/base/text/units.h"
#include "kernels/device/facts.h"
#include "profiler/describe/describe.h"

/* Rough relative half-widths of figures that were not measured. */
static const double nominal_memory_error = 0.2, nominal_bandwidth_error = 0.25, nominal_latency_error = 0.5;

static const struct mt_hardware rows[] = {
#define MT_HARDWARE(name, kind, model, capability, threads, memory, f64, f32, bf16, f16, memory_GBps, reached,         \
                    overhead, link, GBps)                                                                              \
    {name,                                                                                                             \
     kind,                                                                                                             \
     model,                                                                                                            \
     capability,                                                                                                       \
     threads,                                                                                                          \
     memory,                                                                                                           \
     {[MT_F64] = f64, [MT_F32] = f32, [MT_BF16] = bf16, [MT_F16] = f16},                                               \
     memory_GBps,                                                                                                      \
     reached,                                                                                                          \
     overhead,                                                                                                         \
     link,                                                                                                             \
     GBps},
#include "profiler/describe/hardware.def"
#undef MT_HARDWARE
};
enum { NROWS = sizeof rows / sizeof rows[0] };

static const struct mt_hardware_link links[] = {
#define NO_PUTS 0, 0, 0, 0, 0, 0
#define PUTS(...) __VA_ARGS__
#define MT_HARDWARE_LINK(name, bits, rate, reached, latency, shared, slows, slowed, puts)                              \
    {name, bits, rate, reached, latency, shared, slows, slowed, puts},
#include "profiler/describe/hardware.def"
#undef MT_HARDWARE_LINK
#undef PUTS
#undef NO_PUTS
};
enum { NLINKS = sizeof links / sizeof links[0], MOST_THREADS = 4096 };

/* The number of threads of a name that ends in "-8t" after `length` characters; 0: it does not. */
static int threads_of(const char *suffix) {
    char digits[8];
    size_t n = strspn(suffix + 1, "0123456789");
    int64_t threads;
    if (suffix[0] != '-' || !n || n >= sizeof digits || strcmp(suffix + 1 + n, "t")) return 0;
    memcpy(digits, suffix + 1, n);
    digits[n] = 0;
    return mt_units_parse_int(digits, &threads) && threads <= MOST_THREADS ? (int)threads : 0;
}

bool mt_hardware_find(const char *name, struct mt_hardware *row) {
    for (int i = 0; i < NROWS; i++) {
        size_t length = strlen(rows[i].name);
        if (strncasecmp(name, rows[i].name, length)) continue;
        *row = rows[i];
        if (!name[length]) return true;
        int threads = strcmp(row->kind, "cpu") ? 0 : threads_of(name + length);
        if (!threads) continue;
        row->threads = threads;
        row->memory_MiB *= threads;
        row->memory_GBps *= threads;
        for (int t = 0; t < MT_NTYPES; t++) row->tflops[t] *= threads;
        return true;
    }
    return false;
}

const char *mt_hardware_of_model(const char *model) {
    for (int i = 0; i < NROWS; i++)
        if (!strcmp(rows[i].model, model)) return rows[i].name;
    return NULL;
}

const struct mt_hardware_link *mt_hardware_link_find(const char *name) {
    for (int i = 0; i < NLINKS; i++) {
        size_t length = strlen(links[i].name);
        if (strncmp(name, links[i].name, length)) continue;
        if (!name[length + strspn(name + length, "0123456789")]) return &links[i];
    }
    return NULL;
}

void mt_hardware_names(struct mt_nearest *near) {
    for (int i = 0; i < NROWS; i++) mt_nearest_add(near, rows[i].name);
}

enum mt_status mt_hardware_hint(const char *name, const struct mt_cluster *measured, struct mt_err *err) {
    char like[200] = "";
    size_t length = strcspn(name, "-_ ");
    int n = 0;
    for (int i = 0; i < NROWS && length > 1; i++) {
        if (strcspn(rows[i].name, "-") != length || strncasecmp(rows[i].name, name, length)) continue;
        size_t used = strlen(like);
        snprintf(like + used, sizeof like - used, "%s%s", n++ ? " or " : "", rows[i].name);
    }
    if (n > 1) return mt_err_hint(err, "%s?", like);
    struct mt_nearest near = mt_nearest_to(name);
    mt_hardware_names(&near);
    for (int i = 0; measured && i < measured->nclasses; i++) mt_nearest_add(&near, measured->classes[i].name);
    return mt_nearest_hint(&near, err, "known: %s", near.list);
}

void mt_hardware_link_names(struct mt_nearest *near) {
    for (int i = 0; i < NLINKS; i++) mt_nearest_add(near, links[i].name);
}

/* The fraction that a measured class reaches of its row's public rates: the mean of ratios over the precisions that
 * both have; 0: it has no row, or is nominal itself. */
static double reached_of(const struct mt_cluster_class *class, struct mt_hardware *is) {
    double sum = 0;
    int n = 0;
    bool found = mt_hardware_find(class->name, is);
    for (int i = 0; i < NROWS && !found; i++)
        if (!strcmp(rows[i].model, class->model)) *is = rows[i], found = true;
    if (!found || class->nominal) return 0;
    for (int t = 0; t < MT_NTYPES; t++)
        if (class->flops[t] > 0 && is->tflops[t] > 0) sum += log(class->flops[t] / (1e12 * is->tflops[t])), n++;
    return n ? exp(sum / n) : 0;
}

static double calibrate(const struct mt_hardware *row, const struct mt_cluster *measured) {
    double sum = 0;
    int n = 0;
    for (int c = 0; measured && c < measured->nclasses; c++) {
        struct mt_hardware is;
        double reached = reached_of(&measured->classes[c], &is);
        if (reached <= 0 || strcmp(is.kind, row->kind)) continue;
        if (!strcmp(is.model, row->model)) return reached;
        sum += log(reached / is.reached);
        n++;
    }
    return row->reached * (n ? exp(sum / n) : 1);
}

struct mt_cluster_class mt_hardware_class(const struct mt_hardware *row, const char *name,
                                          const struct mt_cluster *measured, struct mt_arena *arena) {
    struct mt_cluster_class class = {.name = mt_arena_strdup(arena, name),
                                     .kind = row->kind,
                                     .model = row->model,
                                     .threads = row->threads,
                                     .nominal = true,
                                     .calibration = calibrate(row, measured),
                                     .memory_bytes = (int64_t)(row->memory_MiB * 0x1p20),
                                     .memory_Bps = row->memory_GBps * 1e9,
                                     .memory_error = nominal_memory_error,
                                     .overhead_s = row->overhead_us * 1e-6};
    for (int t = 0; t < MT_NTYPES; t++) class.flops[t] = row->tflops[t] * 1e12;
    return class;
}

double mt_hardware_link_Bps(const struct mt_hardware_link *row, double rate) {
    return rate / (row->bits ? 8 : 1) * row->reached;
}

struct mt_cluster_link mt_hardware_link(const struct mt_hardware_link *row, double rate) {
    double Bps = mt_hardware_link_Bps(row, rate);
    return (struct mt_cluster_link){.name = row->name,
                                    .nominal = true,
                                    .latency_s = row->latency_us * 1e-6,
                                    .latency_error = nominal_latency_error,
                                    .bandwidth_Bps = Bps,
                                    .bandwidth_error = nominal_bandwidth_error,
                                    .shared_Bps = Bps * row->shared,
                                    .compute_slowdown = row->compute_slowdown,
                                    .comm_slowdown = row->comm_slowdown,
                                    .copy_Bps = rate * row->engines_reach,
                                    .puts = {row->copy_us * 1e-6, rate * row->blocks_reach, row->signal_us * 1e-6,
                                             row->put_compute_slowdown, row->put_slowdown}};
}

static void add_hardware(struct mt_tables *out) {
    struct mt_table *t = mt_tables_add(out, "hardware", "hardware",
                                       "public peak rates of GEMM in flop/s; reached: the fraction that large GEMMs "
                                       "typically reach; NAME-Nt: N cores of a cpu");
    mt_table_column(t, "name", "name", MT_UNIT_TEXT);
    mt_table_column(t, "model", "model", MT_UNIT_TEXT);
    for (int type = 0; type < MT_I32; type++) {
        const char *name = mt_type_name((enum mt_type)type);
        mt_table_column(t, mt_arena_printf(&out->arena, "%s_flops", name), name, MT_UNIT_QUANTITY);
    }
    mt_table_column(t, "memory_bytes", "memory", MT_UNIT_BYTES);
    mt_table_column(t, "memory_Bps", "streaming", MT_UNIT_BPS);
    mt_table_column(t, "reached", "reached", MT_UNIT_NUMBER)->decimals = 2;
    mt_table_columns(t, {"link", "link", MT_UNIT_TEXT}, {"link_Bps", "one way", MT_UNIT_BPS},
                     {"cannot_run", "", MT_UNIT_TEXT});
    for (int i = 0; i < NROWS; i++) {
        const struct mt_hardware *row = &rows[i];
        bool runs = row->capability == 0 || row->capability >= MT_CAPABILITY_LEAST;
        mt_table_row(t);
        mt_cell_text(t, "%s", row->name);
        mt_cell_text(t, "%s", row->model);
        for (int type = 0; type < MT_I32; type++) mt_cell_positive(t, row->tflops[type] * 1e12);
        mt_cell_int(t, (int64_t)(row->memory_MiB * 0x1p20));
        mt_cell_real(t, row->memory_GBps * 1e9);
        mt_cell_real(t, row->reached);
        mt_cell_text(t, "%s", row->link);
        mt_cell_real(t, row->link_GBps * 1e9);
        mt_cell_text(t, runs ? "" : "cannot run here: kernels need sm_%d", MT_CAPABILITY_LEAST);
        mt_cell_style(t, MT_STYLE_WARNING);
    }
}

static void add_links(struct mt_tables *out) {
    struct mt_table *t = mt_tables_add(out, "links", "links", "");
    mt_table_column(t, "link", "link", MT_UNIT_TEXT);
    mt_table_column(t, "default_Bps", "default", MT_UNIT_ANY);
    mt_table_column(t, "reached", "reached", MT_UNIT_NUMBER)->decimals = 2;
    mt_table_column(t, "latency_s", "latency", MT_UNIT_SECONDS);
    for (int i = 0; i < NLINKS; i++) {
        mt_table_row(t);
        mt_cell_text(t, "%s", links[i].name);
        mt_cell_measure(t, links[i].rate, links[i].bits ? MT_UNIT_BITPS : MT_UNIT_BPS);
        mt_cell_real(t, links[i].reached);
        mt_cell_real(t, links[i].latency_us * 1e-6);
    }
}

void mt_hardware_tables(struct mt_tables *out) {
    add_hardware(out);
    add_links(out);
}

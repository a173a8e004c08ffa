/* Which classes have kernels, and for which precisions. */
#include "profiler/describe/runs.h"

#include <stdarg.h>
#include <string.h>

#include "kernels/device/facts.h"
#include "profiler/describe/hardware.h"

int mt_cluster_class_capability(const struct mt_cluster_class *class) {
    struct mt_hardware row;
    const char *name = mt_hardware_of_model(class->model);
    if (class->capability || strcmp(class->kind, "cuda")) return class->capability;
    return mt_hardware_find(name ? name : class->name, &row) ? row.capability : 0;
}

static bool no(char why[MT_RUNS_TEXT], const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool no(char why[MT_RUNS_TEXT], const char *format, ...) {
    va_list args;
    va_start(args, format);
    if (why) vsnprintf(why, MT_RUNS_TEXT, format, args);
    va_end(args);
    return false;
}

bool mt_cluster_class_has_kernels(const struct mt_cluster_class *class, char why[MT_RUNS_TEXT]) {
    int sm = mt_cluster_class_capability(class);
    if (!sm || sm >= MT_CAPABILITY_LEAST) return true;
    return no(why, "%.60s: has compute capability %d.%d, and kernels need %d.%d (sm_%d)", class->name, sm / 10, sm % 10,
              MT_CAPABILITY_LEAST / 10, MT_CAPABILITY_LEAST % 10, MT_CAPABILITY_LEAST);
}

bool mt_cluster_class_runs(const struct mt_cluster_class *class, enum mt_type precision, bool tf32,
                           char why[MT_RUNS_TEXT]) {
    if (!mt_cluster_class_has_kernels(class, why)) return false;
    if (strcmp(class->kind, "cuda")) return true;
    int sm = mt_cluster_class_capability(class);
    if (precision == MT_F64) return no(why, "%.60s: f64 runs on CPUs only", class->name);
    if ((precision != MT_BF16 && !tf32) || !sm || sm >= MT_CAPABILITY_BF16) return true;
    return no(why, "%.60s: has compute capability %d.%d, and %s needs %d.%d (sm_%d)", class->name, sm / 10, sm % 10,
              tf32 ? "tf32" : "bf16", MT_CAPABILITY_BF16 / 10, MT_CAPABILITY_BF16 % 10, MT_CAPABILITY_BF16);
}

/* Times of operators by rates, calibrated where the rates are public ones. */
#include "profiler/cluster/nominal.h"

#include <math.h>
#include <string.h>

/* Rough relative half-widths. */
static const double rates_error = 0.5;         /* rates and no curve */
static const double nominal_error = 0.25;      /* added where the rates are public ones; */
static const double calibrated_error = 0.12;   /* instead of both: of operators with a row of their own; */
static const double other_device_error = 0.13; /* added where the device is not that of the rows */

enum { MT_OP_OTHERS = MT_NOPS };
enum type_group { HALF, WIDE, ANY };

static const struct calibration {
    int op;
    const char *variant;
    enum type_group types;
    double compute, memory, extra_s;
} calibrations[] = {
#define MT_CALIBRATION(op, variant, types, compute, memory, extra_us)                                                  \
    {MT_OP_##op, variant, types, compute, memory, 1e-6 * (extra_us)},
#include "profiler/cluster/calibration.def"
};

static bool matches(const struct calibration *row, const struct mt_op_shape *shape) {
    enum type_group group = mt_type_is_half(shape->type) ? HALF : WIDE;
    return (row->op == (int)shape->kind || row->op == MT_OP_OTHERS) && (row->types == ANY || row->types == group) &&
           strstr(shape->variant, row->variant);
}

/* The last row matches everything. */
static const struct calibration *calibration_of(const struct mt_op_shape *shape) {
    const struct calibration *row = calibrations;
    while (!matches(row, shape)) row++;
    return row;
}

/* The class's GEMM rate for a type; if it has none, that of another type. TF32 runs at half the rate of bf16. */
static double rate_of(const struct mt_cluster_class *class, const struct mt_op_shape *shape) {
    static const enum mt_type order[] = {MT_F32, MT_F64, MT_BF16, MT_F16};
    bool tf32 = shape->type == MT_F32 && strstr(shape->variant, "+tf32");
    if (tf32 && class->nominal && class->flops[MT_BF16] > 0) return class->flops[MT_BF16] / 2;
    if (class->flops[shape->type] > 0) return class->flops[shape->type];
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        if (class->flops[order[i]] > 0) return class->flops[order[i]];
    return 0;
}

/* Of attention's time two thirds are for exponentials, with heads of 64: one for each pair of positions. */
static double exponentials(const struct mt_op_shape *shape) {
    return (1 + 2 * 64.0 / (double)shape->dim[1]) / 3;
}

double mt_class_rates_s(const struct mt_cluster_class *class, const struct mt_op_shape *shape, double *error) {
    bool gpu = class->nominal && !strcmp(class->kind, "cuda");
    double scale = class->nominal && class->calibration > 0 ? class->calibration : 1;
    double flops = rate_of(class, shape) * scale, Bps = class->memory_Bps * scale;
    double compute_s = flops > 0 ? shape->flops / flops : 0, memory_s = Bps > 0 ? shape->bytes / Bps : 0;
    if (!gpu) {
        *error = rates_error + (class->nominal ? nominal_error : 0);
        return class->overhead_s + fmax(compute_s, memory_s);
    }
    const struct calibration *row = calibration_of(shape);
    bool attention = row->op == MT_OP_attention || row->op == MT_OP_attention_grad;
    double calibrated_s = row->compute * compute_s * (attention ? exponentials(shape) : 1) + row->memory * memory_s;
    *error = calibrated_error + (strcmp(class->model, "NVIDIA H200") ? other_device_error : 0);
    return fmax(class->overhead_s + row->extra_s, 0) + fmax(compute_s, calibrated_s);
}

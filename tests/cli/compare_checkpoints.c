/* compare_checkpoints A B STEPS_TIMES_LR [MOST [PREFIX]]: how far the parameters of two checkpoints are apart, or what
 * else has names that begin with PREFIX ("adamw.m.").
 *
 * Prints ||a - b|| / ||b|| over all of them and the worst tensor's max |a - b| / max(||b||_inf, lr steps); exits with 1
 * when either is above MOST [1e-10] or the files do not hold the same tensors. */
#include "launcher/checkpoint/checkpoint.h"
#include "tests/check.h"

static double *values_of(const struct mt_safetensors *file, const struct mt_saved *tensor) {
    struct mt_err err = MT_ERR_INIT;
    double *values = malloc((size_t)tensor->count * sizeof *values);
    void *raw = malloc((size_t)tensor->size_bytes);
    CHECK_OK(mt_safetensors_read(file, tensor, 0, tensor->size_bytes, raw, &err), err);
    mt_type_convert(MT_F64, values, tensor->type, raw, tensor->count);
    free(raw);
    return values;
}

static bool is_compared(const struct mt_saved *tensor, const char *prefix) {
    if (prefix) return !strncmp(tensor->name, prefix, strlen(prefix));
    bool state = !strncmp(tensor->name, "adamw.", 6) || !strncmp(tensor->name, "sgd.", 4);
    return !state && tensor->readable && tensor->type != MT_I32;
}

int main(int argc, char **argv) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_safetensors *a, *b;
    CHECK(argc >= 4 && argc <= 6, "usage: compare_checkpoints A B STEPS_TIMES_LR [MOST [PREFIX]]");
    double reach = strtod(argv[3], NULL), most = argc > 4 ? strtod(argv[4], NULL) : 1e-10;
    double norm = 0, difference = 0, worst = 0;
    CHECK_OK(mt_checkpoint_open_pair(argv[1], &a, &err), err);
    CHECK_OK(mt_checkpoint_open_pair(argv[2], &b, &err), err);
    CHECK_EQ(a->ntensors, b->ntensors);
    for (int t = 0; t < b->ntensors; t++) {
        const struct mt_saved *y = &b->tensors[t], *x = mt_safetensors_find(a, y->name);
        CHECK(x && x->count == y->count, "%s is in both", y->name);
        if (!is_compared(y, argc > 5 ? argv[5] : NULL)) continue;
        double *p = values_of(a, x), *q = values_of(b, y), largest = 0, apart = 0;
        for (int64_t i = 0; i < y->count; i++) {
            norm += q[i] * q[i];
            difference += (p[i] - q[i]) * (p[i] - q[i]);
            largest = fmax(largest, fabs(q[i]));
            apart = fmax(apart, fabs(p[i] - q[i]));
        }
        worst = fmax(worst, apart / fmax(largest, reach));
        free(p);
        free(q);
    }
    CHECK(norm > 0, "nothing of that name");
    double relative = sqrt(difference / norm);
    printf("they differ by %.2g of their norm, the worst tensor by %.2g\n", relative, worst);
    mt_safetensors_close(a);
    mt_safetensors_close(b);
    return relative <= most && worst <= most ? 0 : 1;
}

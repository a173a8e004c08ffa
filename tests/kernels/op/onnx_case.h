/* The node cases that ONNX ships: one operator with attributes, its inputs and the outputs it must give.
 *
 *     struct onnx_case c;
 *     if (onnx_case_open(FOLDER "/test_relu", &c)) onnx_case_read(FOLDER "/test_relu", &c);
 *     onnx_case_free(&c); */
#ifndef MT_TESTS_KERNELS_OP_ONNX_CASE_H
#define MT_TESTS_KERNELS_OP_ONNX_CASE_H

#include <stdint.h>

#include "onnx.pb-c.h"
#include "tests/check.h"

#define ONNX_MAX 8

/* A dense array as doubles; `type` is one of ONNX__TENSOR_PROTO__DATA_TYPE__*. */
struct array {
    int type, naxes;
    int64_t extent[ONNX_MAX], count;
    double *v;
};

struct onnx_case {
    const char *name; /* of the folder */
    Onnx__ModelProto *model;
    const Onnx__NodeProto *node;
    int nin, nout;
    struct array in[ONNX_MAX], out[ONNX_MAX]; /* null v: left out */
};

static inline uint8_t *read_file(const char *path, size_t *length) {
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    fseek(f, 0, SEEK_END);
    *length = (size_t)ftell(f);
    rewind(f);
    uint8_t *data = malloc(*length + 1);
    CHECK(fread(data, 1, *length, f) == *length, "%s", path);
    fclose(f);
    return data;
}

static inline double raw_element(int type, const void *raw, int64_t i) {
    switch (type) {
    case ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT: return (double)((const float *)raw)[i];
    case ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE: return ((const double *)raw)[i];
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT64: return (double)((const int64_t *)raw)[i];
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT32: return ((const int32_t *)raw)[i];
    case ONNX__TENSOR_PROTO__DATA_TYPE__BOOL: return ((const uint8_t *)raw)[i];
    case ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16: {
        uint32_t bits = (uint32_t)((const uint16_t *)raw)[i] << 16;
        float f;
        memcpy(&f, &bits, sizeof f);
        return (double)f;
    }
    default: return NAN;
    }
}

/* Values that are not raw stand in a field of their type; 16-bit ones as whole numbers. */
static inline double field_element(const Onnx__TensorProto *t, int64_t i) {
    if (t->n_float_data) return (double)t->float_data[i];
    if (t->n_double_data) return t->double_data[i];
    if (t->n_int64_data) return (double)t->int64_data[i];
    if (t->data_type == ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16)
        return raw_element(t->data_type, (const uint16_t[]){(uint16_t)t->int32_data[i]}, 0);
    return t->n_int32_data ? (double)t->int32_data[i] : NAN;
}

static inline bool array_read(const char *folder, const char *what, int index, struct array *a) {
    char path[1024];
    size_t length;
    snprintf(path, sizeof path, "%s/test_data_set_0/%s_%d.pb", folder, what, index);
    uint8_t *data = read_file(path, &length);
    if (!data) return false;
    Onnx__TensorProto *t = onnx__tensor_proto__unpack(NULL, length, data);
    CHECK(t && t->n_dims <= ONNX_MAX, "%s", path);
    *a = (struct array){.type = t->data_type, .naxes = (int)t->n_dims, .count = 1};
    for (int i = 0; i < a->naxes; i++) a->count *= a->extent[i] = t->dims[i];
    a->v = malloc((size_t)(a->count + 1) * sizeof(double));
    for (int64_t i = 0; i < a->count; i++)
        a->v[i] = t->has_raw_data ? raw_element(t->data_type, t->raw_data.data, i) : field_element(t, i);
    onnx__tensor_proto__free_unpacked(t, NULL);
    free(data);
    return true;
}

/* The operator; false if the folder has not just one. */
static inline bool onnx_case_open(const char *folder, struct onnx_case *c) {
    char path[1024];
    size_t length;
    *c = (struct onnx_case){.name = strrchr(folder, '/') + 1};
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    uint8_t *data = read_file(path, &length);
    if (!data) return false;
    c->model = onnx__model_proto__unpack(NULL, length, data);
    free(data);
    if (!c->model || !c->model->graph || c->model->graph->n_node != 1) return false;
    c->node = c->model->graph->node[0];
    c->nin = (int)c->node->n_input, c->nout = (int)c->node->n_output;
    return c->nin <= ONNX_MAX && c->nout <= ONNX_MAX;
}

/* Its inputs and outputs. */
static inline void onnx_case_read(const char *folder, struct onnx_case *c) {
    int files = 0;
    for (int i = 0; i < c->nin; i++)
        if (*c->node->input[i]) CHECK(array_read(folder, "input", files++, &c->in[i]), "%s: input %d", folder, i);
    for (int i = 0; i < c->nout; i++) CHECK(array_read(folder, "output", i, &c->out[i]), "%s: output %d", folder, i);
}

static inline void onnx_case_free(struct onnx_case *c) {
    for (int i = 0; i < ONNX_MAX; i++) free(c->in[i].v), free(c->out[i].v);
    if (c->model) onnx__model_proto__free_unpacked(c->model, NULL);
}

static inline const Onnx__AttributeProto *onnx_attribute(const struct onnx_case *c, const char *name) {
    for (size_t i = 0; i < c->node->n_attribute; i++)
        if (!strcmp(c->node->attribute[i]->name, name)) return c->node->attribute[i];
    return NULL;
}
static inline int64_t onnx_int(const struct onnx_case *c, const char *name, int64_t preset) {
    const Onnx__AttributeProto *a = onnx_attribute(c, name);
    return a ? a->i : preset;
}
static inline double onnx_float(const struct onnx_case *c, const char *name, double preset) {
    const Onnx__AttributeProto *a = onnx_attribute(c, name);
    return a ? (double)a->f : preset;
}
/* A text, into `to`. */
static inline const char *onnx_text(const struct onnx_case *c, const char *name, const char *preset, char to[64]) {
    const Onnx__AttributeProto *a = onnx_attribute(c, name);
    snprintf(to, 64, "%.*s", a ? (int)a->s.len : 63, a ? (const char *)a->s.data : preset);
    return to;
}

#endif

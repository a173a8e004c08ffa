/* Every operator that the CUDA device has, on random data of many shapes, against plain C in f64 on the same numbers;
 * exact kinds against plain C in their own type, bit by bit. Outputs and scratch are poisoned before, everything runs
 * twice and must give the same bits, whole values and boxes of them, with outputs apart and in the memory of inputs,
 * and no byte outside the outputs may change. All failures are listed, then a line for each kind.
 *
 *     test_cuda_operators [small] [KIND or TYPE...]     (small: tiny and ragged sizes only, for slow tools) */
#include <stdarg.h>

#include "kernels/base/arena.h"
#include "kernels/device/device.h"
#include "tests/kernels/op/samples.h"

enum { APART = 256 /* bytes of poison between tensors, at least */, MOST_TOLD = 5 /* failures of a kind */ };
static const double limits[MT_NTYPES] = {[MT_F32] = 1e-5, [MT_BF16] = 1e-2, [MT_F16] = 2e-3};

/* Sizes in addition to those of samples.h, by the letters there. */
static const struct {
    const char *name;
    int64_t extent[sizeof size_letters - 1]; /* a b c k m n x y z e v s h d 2 3 7 t g r u */
} more_sizes[] = {
    {"1024 x 768", {64, 4, 3, 768, 512, 768, 32, 32, 768, 768, 8192, 256, 12, 64, 2, 3, 7, 256, 4, 3, 12}},
    {"wide", {3, 2, 2, 1024, 264, 520, 3, 37, 4100, 8192, 1032, 192, 2, 128, 2, 3, 7, 200, 2, 2, 4}},
    {"middling", {5, 3, 4, 96, 48, 40, 17, 29, 1604, 1600, 1000, 100, 5, 32, 2, 3, 7, 132, 5, 1, 10}},
    {"many rows", {2, 2, 2, 40, 64, 48, 67, 256, 96, 104, 100, 64, 2, 16, 2, 3, 7, 64, 1, 4, 3}},
    {"large vocabulary", {2, 2, 2, 8, 8, 8, 2, 24, 40, 16, 50304, 16, 1, 16, 2, 3, 7, 24, 1, 1, 1}},
    {"no rows", {0, 0, 2, 5, 7, 3, 0, 4, 6, 11, 13, 9, 3, 8, 2, 3, 7, 9, 3, 2, 6}},
};
enum { NMORE = sizeof more_sizes / sizeof *more_sizes };
static const char *const sizes_text[NSIZES] = {"tiny", "ragged"};

static bool wanted_types[MT_NTYPES], small;
static struct mt_device *device;
static struct mt_stream *stream;
static char *arena;
static int64_t arena_bytes;

static struct tally {
    int calls, unsupported, failed;
    double worst[MT_NTYPES]; /* by the activation type */
} tallies[MT_NOPS];

/* One call as it is run: of a sample, in a type, on a box or not, in the inputs' memory or not. */
struct trial {
    const struct sample *sample;
    const char *sizes;
    enum mt_type type;
    const struct cut *cut;
    bool in_place;
};

static void report_failure(const struct trial *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void report_failure(const struct trial *t, const char *format, ...) {
    struct tally *tally = &tallies[t->sample->spec->kind];
    if (++tally->failed > MOST_TOLD) return;
    va_list arguments;
    va_start(arguments, format);
    printf("FAILED %s, %s, %s%s%s: ", sample_text(t->sample), mt_type_name(t->type), t->sizes, t->cut ? ", a box" : "",
           t->in_place ? ", in place" : "");
    vprintf(format, arguments);
    printf("\n");
    va_end(arguments);
    fflush(stdout);
}

/* ---- memory: an image of the arena on the host, inputs and outputs with poison around them ---- */

struct image {
    struct mt_tensor t[MT_MAX_IN + MT_MAX_OUT]; /* data: in `bytes` */
    int64_t at[MT_MAX_IN + MT_MAX_OUT];
    char *bytes;
    int64_t size_bytes;
};

static int64_t tensor_bytes(const struct mt_tensor *t) {
    return mt_tensor_count(t) * mt_type_size(t->type);
}

static void image_make(const struct trial *t, struct image *image) {
    const struct sample *s = t->sample;
    struct mt_tensor own[MT_MAX_IN + MT_MAX_OUT];
    *image = (struct image){.size_bytes = APART};
    for (int o = 0; o < s->nin + s->nout; o++) {
        own[o] = image->t[o] = sample_tensor(s, o, t->type, t->cut);
        int place = o < s->nin ? -1 : sample_info(s)->in_place[o - s->nin];
        if (t->in_place && place >= 0 && place < s->nin) {
            image->at[o] = image->at[place];
        } else {
            image->at[o] = image->size_bytes;
            image->size_bytes += (tensor_bytes(&own[o]) + APART - 1) / APART * APART + APART;
        }
    }
    image->bytes = memset(mt_malloc((size_t)image->size_bytes), 0xff, (size_t)image->size_bytes);
    for (int o = s->nin + s->nout - 1; o >= 0; o--) { /* inputs last: over outputs in their place */
        if (own[o].data) memcpy(image->bytes + image->at[o], own[o].data, (size_t)tensor_bytes(&own[o]));
        image->t[o].data = image->bytes + image->at[o];
        free(own[o].data);
    }
}

/* Overwrites the outputs of `image` with those of another of the same trial. */
static void take_outputs(const struct trial *t, struct image *image, const struct image *from) {
    for (int o = t->sample->nin; o < t->sample->nin + t->sample->nout; o++)
        memcpy(image->bytes + image->at[o], from->bytes + image->at[o], (size_t)tensor_bytes(&image->t[o]));
}

/* ---- running ---- */

/* Runs on the device; `result` gets the arena afterwards. False: the reason was reported, or it is not supported. */
static bool run_on_device(const struct trial *t, const struct image *before, struct image *result) {
    const struct sample *s = t->sample;
    struct mt_err err = MT_ERR_INIT;
    struct mt_tensor there[MT_MAX_IN + MT_MAX_OUT];
    for (int o = 0; o < s->nin + s->nout; o++) {
        there[o] = before->t[o];
        there[o].data = arena + before->at[o];
    }
    struct mt_call call = call_of(s->spec->kind, &s->spec->attr, &s->clock, s->nin, there, s->nout, there + s->nin);
    if (mt_call_check(&call, &err)) return report_failure(t, "%s", err.text), false;
    const struct mt_backend *backend = mt_device_backend(device, &call);
    if (!backend || !backend->supports(&call)) {
        tallies[s->spec->kind].unsupported++;
        return false;
    }
    int64_t scratch_bytes = backend->scratch_bytes(&call), all_bytes = before->size_bytes + scratch_bytes + APART;
    if (all_bytes > arena_bytes)
        return report_failure(t, "wants %lld bytes of scratch", (long long)scratch_bytes), false;
    if (scratch_bytes) call.scratch = arena + before->size_bytes;
    char *bytes = memset(mt_malloc((size_t)all_bytes), 0xff, (size_t)all_bytes);
    memcpy(bytes, before->bytes, (size_t)before->size_bytes);
    enum mt_status st = mt_device_copy_in(device, arena, bytes, all_bytes, &err);
    if (!st) {
        mt_stream_op(stream, backend, &call, NULL);
        st = mt_stream_sync(stream, 120, &err);
    }
    if (!st) st = mt_device_copy_out(device, bytes, arena, all_bytes, &err);
    bool beyond = false;
    for (int64_t i = all_bytes - APART; i < all_bytes; i++) beyond = beyond || (unsigned char)bytes[i] != 0xff;
    if (st)
        report_failure(t, "%s", err.text);
    else if (beyond)
        report_failure(t, "writes beyond its scratch of %lld bytes", (long long)scratch_bytes);
    *result = *before;
    result->bytes = bytes;
    for (int o = 0; o < s->nin + s->nout; o++) result->t[o].data = bytes + before->at[o];
    if (!st) return true;
    free(bytes);
    return false;
}

/* ---- comparing ---- */

/* What is beyond f16 must become infinite. */
static void bound(enum mt_type type, double *want, int64_t n) {
    for (int64_t i = 0; type == MT_F16 && i < n; i++)
        if (fabs(want[i]) >= 65520) want[i] = copysign(INFINITY, want[i]);
}

/* |got - want| / |want| over all elements; infinities must be equal. */
static double difference(const double *got, const double *want, int64_t n, int64_t *first, double limit) {
    double squares = 0, off = 0;
    *first = -1;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(want[i])) squares += want[i] * want[i];
    double rms = n ? sqrt(squares / (double)n) : 0;
    for (int64_t i = 0; i < n; i++) {
        if (got[i] == want[i]) continue;
        double d = fabs(got[i] - want[i]);
        if (*first < 0 && !(d <= limit * (rms + fabs(want[i])))) *first = i;
        off += d * d;
    }
    if (off == 0) return 0;
    off = sqrt(off) / sqrt(squares);
    return off == off ? off : INFINITY;
}

static void compare(const struct trial *t, const struct image *got, double **want, bool bits) {
    const struct sample *s = t->sample;
    struct tally *tally = &tallies[s->spec->kind];
    for (int o = 0; o < s->nout; o++) {
        const struct mt_tensor *y = &got->t[s->nin + o];
        int64_t n = mt_tensor_count(y), at = -1;
        double *values = mt_malloc((size_t)(n + 1) * sizeof(double)), limit = limits[t->type], each = limit;
        /* What is stored in fewer bits is at times rounded to the neighbour. */
        if (mt_type_size(y->type) < mt_type_size(t->type)) limit *= 10, each = fmax(each, limits[y->type]);
        for (int64_t i = 0; i < n; i++) values[i] = mt_type_load(y->type, y->data, i);
        if (bits) {
            for (int64_t i = 0; i < n && at < 0; i++)
                if (memcmp(&values[i], &want[o][i], sizeof(double))) at = i;
            if (at >= 0)
                report_failure(t, "output %d [%lld] of %lld is %.9g, and %.9g in plain C: not the same bits", o,
                               (long long)at, (long long)n, values[at], want[o][at]);
        } else {
            double *bounded = memcpy(mt_malloc((size_t)(n + 1) * sizeof(double)), want[o], (size_t)n * sizeof(double));
            bound(y->type, bounded, n);
            double off = difference(values, bounded, n, &at, each);
            free(bounded);
            tally->worst[t->type] = fmax(tally->worst[t->type], off);
            if (!(off <= limit) && at >= 0)
                report_failure(t, "output %d is off by %.3g; [%lld] of %lld is %.9g, not %.9g", o, off, (long long)at,
                               (long long)n, values[at], want[o][at]);
            else if (!(off <= limit))
                report_failure(t, "output %d is off by %.3g", o, off);
        }
        free(values);
    }
}

static void run_trial(const struct trial *t, double **want, double **same) {
    struct image before, once, twice;
    struct tally *tally = &tallies[t->sample->spec->kind];
    image_make(t, &before);
    if (before.size_bytes > arena_bytes) {
        report_failure(t, "is too large for the test's memory");
    } else if (run_on_device(t, &before, &once)) {
        tally->calls++;
        compare(t, &once, want, false);
        if (same) compare(t, &once, same, true);
        if (run_on_device(t, &before, &twice)) {
            if (memcmp(once.bytes, twice.bytes, (size_t)before.size_bytes)) report_failure(t, "the second run differs");
            free(twice.bytes);
        }
        take_outputs(t, &before, &once);
        int64_t i = 0;
        while (i < before.size_bytes && before.bytes[i] == once.bytes[i]) i++;
        if (i < before.size_bytes) {
            int operand = 0;
            for (int o = 0; o < t->sample->nin + t->sample->nout; o++)
                if (before.at[o] <= i && before.at[o] >= before.at[operand]) operand = o;
            report_failure(t, "writes outside its outputs: byte %lld from operand %d on",
                           (long long)(i - before.at[operand]), operand);
        }
        free(once.bytes);
    }
    free(before.bytes);
}

/* A device has no f64. */
static bool has_f64(const struct sample *s, enum mt_type type) {
    for (int o = 0; o < s->nin + s->nout; o++)
        if (sample_type(s, o, type) == MT_F64) return true;
    return false;
}

static void run_types(const struct sample *s, const char *sizes, const struct cut *cut) {
    static const enum mt_type types[] = {MT_F32, MT_BF16, MT_F16};
    double *want[MT_MAX_OUT], *same[MT_MAX_OUT];
    sample_outputs(s, want), sample_outputs(s, same);
    sample_run(s, MT_F64, cut, want);
    for (int i = 0; i < 3; i++) {
        struct trial t = {s, sizes, types[i], cut, false};
        bool exact = sample_info(s)->exact, places = false;
        if (has_f64(s, t.type) || !wanted_types[t.type]) continue;
        if (exact) sample_run(s, t.type, cut, same);
        for (int o = 0; o < s->nout; o++) places = places || sample_info(s)->in_place[o] >= 0;
        run_trial(&t, want, exact ? same : NULL);
        t.in_place = true;
        if (places) run_trial(&t, want, exact ? same : NULL);
    }
    outputs_free(s, want), outputs_free(s, same);
}

/* The middle third of all that can be split; fixed extents cannot. */
static struct cut middle(const struct sample *s) {
    struct cut cut;
    for (int l = 0; l < 128; l++) {
        bool whole = (l >= '0' && l <= '9') || (s->spec->whole && l && strchr(s->spec->whole, l));
        cut.lo[l] = whole ? 0 : s->extent[l] / 3;
        cut.hi[l] = whole ? s->extent[l] : s->extent[l] * 2 / 3;
    }
    return cut;
}

static void run_spec(const struct spec *spec) {
    enum { SEED = 11 };
    for (int sizes = 0; sizes < NSIZES + (small ? 0 : NMORE); sizes++) {
        struct sample s;
        bool more = sizes >= NSIZES;
        sample_make(spec, more ? 0 : sizes, SEED, &s);
        for (int i = 0; more && size_letters[i]; i++)
            s.extent[(int)size_letters[i]] = more_sizes[sizes - NSIZES].extent[i];
        if (spec->kind == MT_OP_rotary) s.extent['u'] += s.extent['u'] % 2; /* pairs */
        const char *text = more ? more_sizes[sizes - NSIZES].name : sizes_text[sizes];
        sample_fill(&s, SEED);
        run_types(&s, text, NULL);
        struct cut cut = middle(&s);
        if (sizes <= NSIZES) run_types(&s, text, &cut);
        sample_free(&s);
    }
}

/* ---- calls that are one ---- */

enum { MERGED = 75 };

/* One of the calls: sizes of every sort, some without elements; operands apart, sums in one place. */
static void place_one(const struct spec *spec, int i, enum mt_type type, struct sample *s, struct mt_tensor *in,
                      struct mt_tensor *out, char *bytes, int64_t *top) {
    static const int64_t widths[] = {768, 1, 0, 4099, 31, 20000, 7};
    static int64_t sum_at;
    sample_make(spec, 0, 1, s);
    s->extent['x'] = i % 3 + 1, s->extent['y'] = i % 5 + 1, s->extent['z'] = widths[i % 7];
    sample_fill(s, (uint64_t)i);
    for (int o = 0; o < s->nin + s->nout; o++) {
        struct mt_tensor *t = o < s->nin ? &in[o] : &out[o - s->nin], own = sample_tensor(s, o, type, NULL);
        bool sum = spec->kind == MT_OP_sq_norm_add && o > 0;
        int64_t at = sum && i ? sum_at : *top;
        if (at == *top) *top += (tensor_bytes(&own) + APART - 1) / APART * APART + APART;
        if (sum) sum_at = at;
        if (own.data && !(sum && (i || o > 1))) memcpy(bytes + at, own.data, (size_t)tensor_bytes(&own));
        free(own.data);
        *t = own;
        t->data = own.data ? arena + at : NULL;
    }
}

/* `bytes` in the arena, the call or each of its parts, and the arena's bytes then. */
static void run_calls(const struct mt_call *all, bool apart, const char *bytes, char *after, int64_t size_bytes) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_call one[MERGED];
    CHECK_OK(mt_device_copy_in(device, arena, bytes, size_bytes, &err), err);
    for (int i = 0; i < (apart ? MERGED : 1); i++) {
        one[i] = apart ? mt_call_nth(all, i) : *all;
        CHECK_OK(mt_call_check(&one[i], &err), err);
        mt_stream_op(stream, mt_device_backend(device, &one[i]), &one[i], NULL);
    }
    CHECK_OK(mt_stream_sync(stream, 120, &err), err);
    CHECK_OK(mt_device_copy_out(device, after, arena, size_bytes, &err), err);
}

static void run_merged(const struct spec *spec, enum mt_type type) {
    static struct mt_tensor in[MERGED * MT_MAX_IN], out[MERGED * MT_MAX_OUT];
    static struct mt_attr attr[MERGED];
    struct sample s;
    int64_t top = APART, most = INT64_C(128) << 20;
    char *bytes = memset(mt_malloc((size_t)most), 0xff, (size_t)most), *apart = mt_malloc((size_t)most),
         *merged = mt_malloc((size_t)most);
    sample_make(spec, 0, 1, &s);
    int nin = s.nin, nout = s.nout;
    sample_free(&s);
    for (int i = 0; i < MERGED; i++) {
        place_one(spec, i, type, &s, in + i * nin, out + i * nout, bytes, &top);
        attr[i] = spec->attr;
        attr[i].decay += 0.01 * i, attr[i].lr_scale += i % 2;
        CHECK(top <= most && s.nin == nin && s.nout == nout);
        sample_free(&s);
    }
    struct mt_call all = {spec->kind, attr, nin, nout, in, out, &s.clock, NULL, "merged", MERGED};
    run_calls(&all, true, bytes, apart, top);
    run_calls(&all, false, bytes, merged, top);
    struct trial t = {&s, "many calls as one", type, NULL, false};
    int64_t i = 0;
    tallies[spec->kind].calls++;
    if (spec->kind == MT_OP_sq_norm_add) { /* its sum is cut up otherwise */
        int64_t at = (char *)out[0].data - arena;
        double x = mt_type_load(MT_F32, apart + at, 0), y = mt_type_load(MT_F32, merged + at, 0);
        if (!(fabs(x - y) <= 1e-6 * fabs(x))) report_failure(&t, "%g, and %g one by one", y, x);
        memcpy(merged + at, apart + at, sizeof(float));
    }
    while (i < top && apart[i] == merged[i]) i++;
    if (i < top) report_failure(&t, "byte %lld is another than of calls one by one", (long long)i);
    free(bytes), free(apart), free(merged);
}

static bool parse_type(const char *name, enum mt_type *type) {
    int t = 0;
    while (t < MT_NTYPES && strcmp(name, mt_type_name((enum mt_type)t))) t++;
    *type = (enum mt_type)t;
    return t < MT_NTYPES;
}

static bool wanted(const char *kind, int argc, char **argv) {
    bool any = true;
    for (int i = 1; i < argc; i++) {
        enum mt_type type;
        if (!strcmp(argv[i], kind)) return true;
        any = any && (parse_type(argv[i], &type) || !strcmp(argv[i], "small"));
    }
    return any;
}

static void take_types(int argc, char **argv) {
    enum mt_type type;
    bool named = false;
    for (int i = 1; i < argc; i++) {
        if (parse_type(argv[i], &type)) wanted_types[type] = named = true;
        small = small || !strcmp(argv[i], "small");
    }
    for (int t = 0; t < MT_NTYPES && !named; t++) wanted_types[t] = true;
}

static int report(void) {
    int failed = 0;
    printf("%-18s %6s %10s %10s %10s\n", "", "calls", "f32", "bf16", "f16");
    for (int k = 0; k < MT_NOPS; k++) {
        const struct tally *t = &tallies[k];
        if (!t->calls && !t->unsupported && !t->failed) continue;
        printf("%-18s %6d %10.2g %10.2g %10.2g", mt_op_info[k].name, t->calls, t->worst[MT_F32], t->worst[MT_BF16],
               t->worst[MT_F16]);
        if (t->unsupported) printf("  %d not supported", t->unsupported);
        if (t->failed) printf("  %d FAILED", t->failed);
        printf("\n");
        failed += t->failed;
    }
    printf("%d failures\n", failed);
    return failed ? 1 : 0;
}

int main(int argc, char **argv) {
    struct mt_err err = MT_ERR_INIT;
    setenv("MOTLEY_TUNE", "off", 0); /* what tuning finds has tests of its own; here it would take minutes */
    if (mt_device_open("cuda", &device, &err)) {
        printf("skipped: %s\n", err.text);
        return 77;
    }
    printf("%s\n", mt_device_describe(device));
    take_types(argc, argv);
    void *memory;
    arena_bytes = INT64_C(1) << 30;
    CHECK_OK(mt_device_alloc(device, arena_bytes, &memory, &err), err);
    CHECK_OK(mt_stream_new(device, "compute", &stream, &err), err);
    arena = memory;
    for (int i = 0; i < NSPECS; i++)
        if (wanted(mt_op_info[specs[i].kind].name, argc, argv)) {
            run_spec(&specs[i]);
            bool merges = mt_device_merges(device, specs[i].kind) && specs[i].attr.to != MT_F64;
            if (merges) run_merged(&specs[i], MT_F32);
            if (merges && specs[i].kind == MT_OP_cast) run_merged(&specs[i], MT_BF16);
        }
    int status = report();
    mt_stream_free(stream);
    mt_device_free(device, memory);
    mt_device_close(device);
    return status;
}

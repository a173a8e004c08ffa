/* Device code compiles, without a GPU: every source, as its first row in variants.def has it, for every architecture;
 * for those in between, which know all instructions of an older one, as far as the compiler's front end goes. Every row
 * for one of them, of many variants of a kernel some to the end, and these with f16 for bf16 through the front end.
 * For that one the first variant of each kernel is optimised, as where it runs; what else goes to the end is so as
 * little as the compiler can, which assembles the same instructions in a third of the time. NVRTC is taken as it is
 * found, and needs no headers here. The work is divided among as many processes as there are processors.
 *
 * With MOTLEY_ALL_ARCHITECTURES=1, and where there is a GPU, every row is compiled for every architecture, with f16
 * too, and all is optimised: many times as long. */
#include <limits.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/device/device.h"
#include "tests/check.h"
#include "tests/kernels/cuda/jit/nvrtc.h"

static const int architectures[] = {75, 80, 86, 89, 90, 100, 120}, of_all_rows = 90;
enum { NARCHITECTURES = sizeof architectures / sizeof *architectures, SKIPPED = 77 };

static const struct row {
    const char *source, *definitions, *name;
    int least_sm, most_sm;
} rows[] = {
#define MT_CUDA_KERNEL(source, definitions, name, least_sm) {#source, definitions, #name, least_sm, INT_MAX},
#define MT_CUDA_KERNEL_ON(source, definitions, name, sm) {#source, definitions, #name, sm, sm},
#include "kernels/cuda/tune/variants.def"
    /* Of tests. */
    MT_CUDA_KERNEL(primitives, "-DLEVEL=BLOCK", primitives, 75)
        MT_CUDA_KERNEL(primitives, "-DLEVEL=BLOCK", wait_in_vain, 75)
            MT_CUDA_KERNEL(primitives, "-DLEVEL=WARP", primitives, 75)
                MT_CUDA_KERNEL(primitives, "-DLEVEL=WARP", wait_in_vain, 75)
                    MT_CUDA_KERNEL(primitives, "-DLEVEL=THREAD", primitives, 75)
                        MT_CUDA_KERNEL(primitives, "-DLEVEL=THREAD", wait_in_vain, 75)
#undef MT_CUDA_KERNEL
#undef MT_CUDA_KERNEL_ON
                            {NULL, NULL, NULL, 0, 0}};

/* Architectures between two others that assemble: no instruction that kernels have begins with them. */
static bool is_between(int sm) {
    return sm == 86 || sm == 89 || sm == 100;
}

/* The device code of the module, and of tests: names as kernels are asked for by, and files. */
static const struct {
    const char *name, *path;
    bool header;
} sources[] = {
#define MT_CUDA_SOURCE(name, path) {#name, path, false},
#define MT_CUDA_HEADER(name, path) {#name, path, true},
#include "kernels/cuda/jit/sources.def"
#undef MT_CUDA_SOURCE
#undef MT_CUDA_HEADER
    {"primitives", "tests/kernels/cuda/window/primitives.cu", false}};
enum { NSOURCES = sizeof sources / sizeof *sources };

static const char *path_of(const char *name) {
    int s = 0;
    while (s < NSOURCES && strcmp(sources[s].name, name)) s++;
    CHECK(s < NSOURCES, "%s", name);
    return sources[s].path;
}

static char *read_code(const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", MOTLEY_SOURCE, path_of(name));
    return nvrtc_read(path);
}

static bool is_for(const struct row *row, int sm) {
    return sm >= row->least_sm && sm <= row->most_sm;
}

static bool compile_all; /* whatever there is */

enum depth { FRONT_END, BINARY, OPTIMISED };
static const char *const options_of[] = {"--fdevice-syntax-only", "--Ofast-compile=max", NULL};
static enum depth of_others = OPTIMISED; /* how far code goes that differs from a row in its type */
static enum depth of_most = OPTIMISED;   /* how far that goes of which a variant is optimised */

/* Whether the compiler can leave out what it does beyond this: those before CUDA 12.8 cannot. */
static bool stops_at(enum depth depth) {
    program made;
    const char *option = options_of[depth];
    CHECK_EQ(nvrtc.create(&made, "", "empty.cu", 0, NULL, NULL), 0);
    bool stops = !nvrtc.compile(made, 1, &option);
    nvrtc.destroy(&made);
    return stops;
}

/* Returns whether there was no error. */
static bool compile(const struct row *row, const char *definitions, const char *text, int sm, enum depth depth) {
    char architecture[64], words[4096], file[256];
    const char *options[64] = {architecture, "--std=c++17", "-default-device", "-I" MOTLEY_SOURCE};
    int noptions = 4;
    if (options_of[depth]) options[noptions++] = options_of[depth];
    nvrtc_architecture(sm, architecture);
    snprintf(words, sizeof words, "%s", definitions);
    snprintf(file, sizeof file, "%s.cu", row->source);
    for (char *rest = words, *word; (word = strtok_r(rest, " ", &rest)) && noptions < 64;) options[noptions++] = word;
    program made;
    CHECK_EQ(nvrtc.create(&made, text, file, 0, NULL, NULL), 0);
    bool failed = nvrtc.compile(made, noptions, options);
    size_t log_size = 0, size = 0;
    CHECK_EQ(nvrtc.log_size(made, &log_size), 0);
    char *log = calloc(1, log_size + 1);
    CHECK_EQ(nvrtc.log(made, log), 0);
    if (failed) fprintf(stderr, "%s.cu [%s] for sm_%d: %s\n", row->source, definitions, sm, log);
    char *binary = NULL;
    if (!failed && depth != FRONT_END) {
        CHECK_EQ(nvrtc.binary_size(made, &size), 0);
        binary = malloc(size);
        CHECK_EQ(nvrtc.binary(made, binary), 0);
    }
    for (const struct row *r = row; r->source && binary; r++) { /* a kernel's code has a section of its name */
        char section[256];
        int length = snprintf(section, sizeof section, ".text.%s", r->name);
        if (strcmp(r->source, row->source) || strcmp(r->definitions, row->definitions) || !is_for(r, sm)) continue;
        if (memmem(binary, size, section, (size_t)length + 1)) continue;
        fprintf(stderr, "%s.cu [%s] for sm_%d: has no kernel %s\n", row->source, definitions, sm, r->name);
        failed = true;
    }
    free(binary);
    free(log);
    nvrtc.destroy(&made);
    return !failed;
}

/* Whether this is the first row of its source that the architecture is not too old for: the first of all, or of those
 * with its definitions. */
static bool leads(const struct row *row, int sm, bool of_all) {
    if (!is_for(row, sm)) return false;
    for (const struct row *r = rows; r < row; r++)
        if (!strcmp(r->source, row->source) && (of_all || !strcmp(r->definitions, row->definitions)) && is_for(r, sm))
            return false;
    return true;
}

/* Variants of a row's kernel before it. */
static int variants_before(const struct row *row) {
    int before = 0;
    for (const struct row *r = rows; r < row; r++)
        before += !strcmp(r->source, row->source) && !strcmp(r->name, row->name) && r->most_sm == row->most_sm &&
                  leads(r, of_all_rows, false);
    return before;
}
/* Whether the row is one of many variants of its kernel, of which the first three and then a fifth are assembled. */
static bool is_one_of_many(const struct row *row) {
    int before = variants_before(row);
    return before >= 3 && before % 5;
}

/* As written; and with f16 where a row says bf16, if it is the turn of all rows. */
static bool compile_halves(const struct row *row, const char *text, int sm) {
    char other[4096] = "";
    bool less = sm == of_all_rows ? is_one_of_many(row) : is_between(sm) && row->least_sm != row->most_sm;
    enum depth depth = less ? of_others : sm != of_all_rows || variants_before(row) ? of_most : OPTIMISED;
    bool well = compile(row, row->definitions, text, sm, compile_all ? OPTIMISED : depth);
    const char *rest = row->definitions;
    if (!compile_all && (sm != of_all_rows || less)) return well;
    for (const char *at; (at = strstr(rest, "bf16")); rest = at + 4)
        snprintf(other + strlen(other), sizeof other - strlen(other), "%.*sf16", (int)(at - rest), rest);
    if (rest == row->definitions) return well;
    snprintf(other + strlen(other), sizeof other - strlen(other), "%s", rest);
    return compile(row, other, text, sm, of_others) && well;
}

/* Part `me` of `n` of the work; returns whether all was well. */
static bool work(int me, int n) {
    bool well = true;
    int turn = 0;
    char *prelude = read_code("prelude");
    for (const struct row *row = rows; row->source; row++)
        for (int a = 0; a < NARCHITECTURES; a++) {
            int sm = architectures[a];
            bool all_rows = compile_all || sm == of_all_rows || row->least_sm == row->most_sm;
            if (!knows(sm) || !leads(row, sm, !all_rows) || turn++ % n != me) continue;
            char *code = read_code(row->source), *text = nvrtc_text(prelude, row->source, code);
            well = compile_halves(row, text, sm) && well;
            free(text);
            free(code);
        }
    free(prelude);
    return well;
}

/* A source without a row would be compiled on a GPU for the first time. */
static bool all_listed(void) {
    bool well = true;
    for (int s = 0; s < NSOURCES; s++) {
        const struct row *row = rows;
        while (row->source && strcmp(row->source, sources[s].name)) row++;
        if (row->source || sources[s].header) continue;
        fprintf(stderr, "%s has no row in kernels/cuda/tune/variants.def\n", sources[s].name);
        well = false;
    }
    return well;
}

int main(void) {
#ifdef MOTLEY_SANITIZE
    printf("nothing of ours runs here: see the test without sanitizers\n");
    return SKIPPED;
#endif
    if (!open_nvrtc()) {
        printf("NVRTC is not here: %s\n", nvrtc_missing());
        return SKIPPED;
    }
    struct mt_device *device = NULL;
    struct mt_err err = MT_ERR_INIT;
    compile_all = getenv("MOTLEY_ALL_ARCHITECTURES") || !mt_device_open("cuda", &device, &err);
    mt_device_close(device);
    if (!compile_all && stops_at(BINARY)) of_others = of_most = BINARY;
    if (!compile_all && stops_at(FRONT_END)) of_others = FRONT_END;
    bool well = all_listed();
    int n = (int)sysconf(_SC_NPROCESSORS_ONLN);
    for (int me = 0; me < n; me++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (!child) _exit(!work(me, n));
    }
    int status;
    while (wait(&status) > 0) well = well && status == 0;
    CHECK(well, "see above");
    return 0;
}

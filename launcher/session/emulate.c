/* Parsing --emulate, and applying it to a device. */
#include "launcher/session/emulate.h"

#include <string.h>

#include "kernels/base/log.h"
#include "launcher/flags/flags.h"

static const double least_speed = 0.01;
enum { MOST_MULTIPROCESSORS = 1 << 16 };

static enum mt_status parse_speeds(const char *text, struct mt_arena *arena, struct mt_emulation *e,
                                   struct mt_err *err) {
    enum mt_status st = mt_flag_reals("--emulate speed", text, arena, &e->speeds, &e->nspeeds, err);
    for (int i = 0; i < e->nspeeds && !st; i++)
        if (!(e->speeds[i] >= least_speed && e->speeds[i] <= 1)) {
            mt_fail(err, MT_EINPUT, "--emulate speed: is %g, but must be from %g to 1", e->speeds[i], least_speed);
            st = mt_err_hint(err, "1 is the device's own speed; it can be made slower, not faster");
        }
    return st;
}

static enum mt_status parse_multiprocessors(const char *text, struct mt_arena *arena, struct mt_emulation *e,
                                            struct mt_err *err) {
    return mt_flag_ints("--emulate sm", text, 1, MOST_MULTIPROCESSORS, arena, &e->multiprocessors, &e->nmultiprocessors,
                        err);
}

static const struct {
    const char *key;
    enum mt_status (*parse)(const char *, struct mt_arena *, struct mt_emulation *, struct mt_err *);
} kinds[] = {{"speed=", parse_speeds}, {"sm=", parse_multiprocessors}};

enum mt_status mt_emulation_parse(const char *text, struct mt_arena *arena, struct mt_emulation *emulation,
                                  struct mt_err *err) {
    *emulation = (struct mt_emulation){0};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        size_t length = strlen(kinds[k].key);
        if (strncmp(text, kinds[k].key, length)) continue;
        struct mt_emulation e = {0};
        enum mt_status st = kinds[k].parse(text + length, arena, &e, err);
        if (!st) *emulation = e;
        return st;
    }
    mt_fail(err, MT_EINPUT, "--emulate: \"%.60s\" does not begin with \"speed=\" or \"sm=\"", text);
    return mt_err_hint(err, "as speed=1,0.5, or multiprocessors of GPUs, sm=132,64: one for each rank, or one for all");
}

enum mt_status mt_emulation_check(const struct mt_emulation *emulation, int nranks, const char *kind,
                                  struct mt_err *err) {
    int count = emulation->nspeeds + emulation->nmultiprocessors;
    const char *what = emulation->nspeeds ? "speed" : "sm";
    if (count > 1 && count != nranks) {
        mt_fail(err, MT_EINPUT, "--emulate %s: gives %d %s, but there %s %d rank%s", what, count,
                emulation->nspeeds ? "speeds" : "counts", nranks == 1 ? "is" : "are", nranks, nranks == 1 ? "" : "s");
        return mt_err_hint(err, "give one for each rank, or one for all");
    }
    if (!emulation->nmultiprocessors || !strncmp(kind, "cuda", 4)) return MT_OK;
    mt_fail(err, MT_EINPUT, "--emulate sm: a device of kind %s has no multiprocessors", kind);
    return mt_err_hint(err, "use --device cuda; or on CPUs speed=, the fraction of its own speed that each rank gets");
}

static double speed_of(const struct mt_emulation *emulation, int rank) {
    if (!emulation->nspeeds) return 1;
    return emulation->speeds[emulation->nspeeds == 1 ? 0 : rank];
}

enum mt_status mt_emulation_apply(const struct mt_emulation *emulation, int rank, struct mt_device *device,
                                  double *speed, struct mt_err *err) {
    int which = emulation->nmultiprocessors == 1 ? 0 : rank, all;
    *speed = speed_of(emulation, rank);
    if (emulation->nmultiprocessors) {
        enum mt_status st = mt_device_emulate_sms(device, (int)emulation->multiprocessors[which], err);
        if (st) return mt_err_context(err, "--emulate sm");
    } else {
        mt_device_emulate(device, *speed);
    }
    int computing = mt_device_multiprocessors(device, &all);
    if (all) *speed = (double)computing / all;
    return MT_OK;
}

static bool is_emulated(const struct mt_emulation *emulation) {
    for (int i = 0; i < emulation->nspeeds; i++)
        if (emulation->speeds[i] != 1) return true;
    return emulation->nmultiprocessors > 0;
}

const char *mt_emulation_text(const struct mt_emulation *emulation, struct mt_arena *arena) {
    enum { SHOWN = 8 };
    if (!is_emulated(emulation)) return "";
    bool speeds = emulation->nspeeds > 0;
    int count = speeds ? emulation->nspeeds : emulation->nmultiprocessors;
    const char *text =
        mt_arena_printf(arena, "emulated %s%s", speeds ? "speed" : "multiprocessors", speeds && count > 1 ? "s" : "");
    for (int i = 0; i < count && i < SHOWN; i++)
        text = mt_arena_printf(arena, "%s%s %g", text, i ? "," : "",
                               speeds ? emulation->speeds[i] : (double)emulation->multiprocessors[i]);
    return count > SHOWN ? mt_arena_printf(arena, "%s, ...", text) : text;
}

void mt_emulation_tell_error(MPI_Comm comm, const struct mt_device *device) {
    double exact_s = mt_device_emulated_exact_s(device);
    int rank;
    MPI_Comm_rank(comm, &rank);
    MPI_Reduce(rank ? &exact_s : MPI_IN_PLACE, &exact_s, 1, MPI_DOUBLE, MPI_MAX, 0, comm);
    if (!rank && exact_s > MT_EMULATED_EXACT_S)
        mt_log(MT_LOG_WARN,
               "on this machine emulated times are exact to %.0f%% for operators of %.0f us or more only: shorter ones "
               "take longer than they should",
               100 * MT_EMULATED_ERROR, 1e6 * exact_s);
}

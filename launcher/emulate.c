/* What --emulate says. */
#include "launcher/emulate.h"

#include <string.h>

#include "launcher/flags.h"

static const double least_speed = 0.01;

enum mt_status mt_emulation_parse(const char *text, struct mt_arena *arena, struct mt_emulation *emulation,
                                  struct mt_err *err) {
    static const char key[] = "speed=";
    enum mt_status st;
    *emulation = (struct mt_emulation){0};
    if (strncmp(text, key, strlen(key))) {
        mt_fail(err, MT_EINPUT, "--emulate: \"%.60s\" does not begin with \"%s\"", text, key);
        return mt_err_hint(err, "as speed=1,0.5: one for each rank, or one for all");
    }
    struct mt_emulation e;
    if ((st = mt_flag_reals("--emulate speed", text + strlen(key), arena, &e.speeds, &e.nspeeds, err))) return st;
    for (int i = 0; i < e.nspeeds; i++)
        if (!(e.speeds[i] >= least_speed && e.speeds[i] <= 1)) {
            mt_fail(err, MT_EINPUT, "--emulate speed: is %g, but must be from %g to 1", e.speeds[i], least_speed);
            return mt_err_hint(err, "1 is the device's own speed; it can be made slower, not faster");
        }
    *emulation = e;
    return MT_OK;
}

enum mt_status mt_emulation_check(const struct mt_emulation *emulation, int nranks, struct mt_err *err) {
    if (emulation->nspeeds <= 1 || emulation->nspeeds == nranks) return MT_OK;
    mt_fail(err, MT_EINPUT, "--emulate speed: gives %d speeds, but there %s %d rank%s", emulation->nspeeds,
            nranks == 1 ? "is" : "are", nranks, nranks == 1 ? "" : "s");
    return mt_err_hint(err, "one for each rank, or one for all");
}

double mt_emulation_speed(const struct mt_emulation *emulation, int rank) {
    if (!emulation->nspeeds) return 1;
    return emulation->speeds[emulation->nspeeds == 1 ? 0 : rank];
}

bool mt_emulation_any(const struct mt_emulation *emulation) {
    for (int i = 0; i < emulation->nspeeds; i++)
        if (emulation->speeds[i] != 1) return true;
    return false;
}

const char *mt_emulation_text(const struct mt_emulation *emulation, struct mt_arena *arena) {
    enum { SHOWN = 8 };
    if (!mt_emulation_any(emulation)) return "";
    const char *text =
        mt_arena_printf(arena, "emulated speed%s %g", emulation->nspeeds > 1 ? "s" : "", emulation->speeds[0]);
    for (int i = 1; i < emulation->nspeeds && i < SHOWN; i++)
        text = mt_arena_printf(arena, "%s, %g", text, emulation->speeds[i]);
    return emulation->nspeeds > SHOWN ? mt_arena_printf(arena, "%s, ...", text) : text;
}

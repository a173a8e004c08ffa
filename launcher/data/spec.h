/* What follows --data: [FORMAT:]PATTERN[=WEIGHT], as "corpus.txt", "shards/a*.bin=2", "uint32:tokens.bin".
 *
 *     struct mt_data_spec spec;
 *     if ((st = mt_data_spec_parse("--data", text, &arena, &spec, err))) return st;
 *     for (int i = 0; i < spec.nfiles; i++) ... spec.files[i] ...
 *
 * A text that is the name of a file is that file, whatever is in it. Files of a pattern are in the order of strcmp. */
#ifndef MT_LAUNCHER_DATA_SPEC_H
#define MT_LAUNCHER_DATA_SPEC_H

#include "kernels/base/arena.h"
#include "kernels/base/err.h"

enum mt_data_format {
#define FORMAT(name, what) MT_DATA_##name,
#include "launcher/data/formats.def"
#undef FORMAT
    MT_DATA_NFORMATS,
    MT_DATA_BY_NAME = MT_DATA_NFORMATS, /* none was given */
};

struct mt_data_spec {
    const char *text; /* as given */
    enum mt_data_format format;
    double weight; /* 0: none was given */
    int nfiles;
    char **files;
};

/* MT_EINPUT for a pattern without files, and for a weight that is not above 0. Memory is the arena's. */
enum mt_status mt_data_spec_parse(const char *flag, const char *text, struct mt_arena *arena, struct mt_data_spec *spec,
                                  struct mt_err *err);

/* "text", "jsonl", ... */
const char *mt_data_format_name(enum mt_data_format format);

#endif

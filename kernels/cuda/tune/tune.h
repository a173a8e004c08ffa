/* The tuning file: what was measured on devices, kept between runs as texts under text keys, in tuning.json in the
 * cache folder (jit.h).
 *
 *     const char *value = tune_find(key);
 *     if (value && !usable(value)) wrong = value, value = NULL;
 *     if (!value) value = tune_keep(key, measure(), &(struct tune_facts){.time_s = time_s}, wrong);
 *
 * A key says all that the measurement holds for: device, versions of driver and libraries, operator, types, shape. A
 * value is the caller's to check before it is used: anybody may have written the file.
 *
 * The file is replaced whole and under a lock, merged with what others have put there. A damaged, older or foreign file
 * is ignored with a note, and replaced when something is kept. Nothing here fails but tune_import: where there is no
 * folder to write to, values last as long as the process. Any thread may call; answers live as long as the process. */
#ifndef MT_KERNELS_CUDA_TUNE_TUNE_H
#define MT_KERNELS_CUDA_TUNE_TUNE_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/base/err.h"

/* For readers of the file, and for reports. */
struct tune_facts {
    double time_s;    /* with that value */
    double default_s; /* without tuning; 0: not known */
    double vendor_s;  /* by the vendor's library alone; 0: not known */
    double error;     /* against the default's result, relative in norm */
};

/* The value of a key, or null. The file is read once; what others add to it later is seen by tune_keep. `facts` may be
 * null. */
const char *tune_find(const char *key, struct tune_facts *facts);

/* Keep a measured value. The first value that is kept for a key stays, so that processes which measure at the same time
 * agree: returns the value to use, `value` or that of another process. `wrong` is a value that was found and cannot be
 * used; it is replaced (null: there is none). */
const char *tune_keep(const char *key, const char *value, const struct tune_facts *facts, const char *wrong);

/* All entries whose keys begin with `prefix`, as the text of such a file (the caller's to free), and a hash of their
 * keys and values. */
char *tune_export(const char *prefix, size_t *length);
uint64_t tune_hash(const char *prefix);

/* Import what processes have exported: the value of the first text that has a key replaces ours. Keys must begin with
 * `prefix`; on failure nothing is imported. The epoch changes with each value that is new
 * or replaced by another one. */
enum mt_status tune_import(int count, const char *const *texts, const size_t *lengths, const char *prefix,
                           struct mt_err *err);
unsigned tune_epoch(void);

#endif

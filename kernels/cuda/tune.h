/* What was measured on devices, kept between runs: texts under text keys, in tuning.json in the cache folder
 * ($MOTLEY_CACHE, else $XDG_CACHE_HOME/motley, else ~/.cache/motley).
 *
 *     const char *value = tune_find(key);
 *     if (value && !usable(value)) wrong = value, value = NULL;
 *     if (!value) value = tune_keep(key, measure(), time_s, wrong);
 *
 * A key says all that the measurement holds for: device, versions of driver and libraries, operator, types, shape. A
 * value is the caller's to check before it is used: anybody may have written the file.
 *
 * The file is replaced whole and under a lock, merged with what others have put there. A damaged or foreign file is
 * ignored with a note, and replaced when something is kept. Nothing here fails: where there is no folder to write to,
 * values last as long as the process. Any thread may call; answers live as long as the process. */
#ifndef MT_KERNELS_CUDA_TUNE_H
#define MT_KERNELS_CUDA_TUNE_H

/* The value of a key, or null. The file is read once; what others add to it later is seen by tune_keep. */
const char *tune_find(const char *key);

/* Keep a measured value. Whoever kept one for that key first is right, so that processes which measure at the same
 * time agree: the answer is the value to use, `value` or theirs. `wrong` is a value that was found and is of no use; it
 * is replaced (null: there is none). time_s: what was measured, for people who read the file; at least 0. */
const char *tune_keep(const char *key, const char *value, double time_s, const char *wrong);

#endif

/* Choosing among implementations: measured once for each key, then remembered in this process and in the tuning file
 * (tune.h).
 *
 * A class says what its choices are; a job is one question, of the class's own type:
 *
 *     static const struct cuda_choices tiles = {sizeof(struct id), sizeof(int), key, first, text, parse, measure};
 *     struct job job = {...};
 *     st = cuda_choose(&tiles, queue, &id, &job, &choice, err);
 *
 * Choices, in this order: what this process remembers for `id`; the value of `key` in the tuning file, if `parse` takes
 * it; the winner of `measure`, which is kept in the file. The default, `first`, is taken
 *
 *   - where tuning is off (MOTLEY_TUNE=off, cuda_defaults_only): without a look into the file;
 *   - while the queue's stream is captured, or within a measurement of the same class, where nothing can be measured:
 *     the first call after that measures;
 *   - where the measurement fails: with a warning, until the process ends.
 *
 * What is remembered is forgotten when an import changes the file's values (tune_epoch). One lock is held during a
 * choice, so that measurements do not disturb each other; measuring may itself choose, of other classes too. */
#ifndef MT_KERNELS_CUDA_TUNE_CHOOSE_H
#define MT_KERNELS_CUDA_TUNE_CHOOSE_H

#include "kernels/cuda/driver/driver.h"
#include "kernels/cuda/tune/tune.h"

enum { CUDA_KEY_TEXT = 700, CUDA_CHOICE_TEXT = 200 };

struct cuda_choices {
    size_t id_bytes, choice_bytes; /* ids are compared by their bytes; choices are copied */
    /* The key in the tuning file, all that a choice holds for. False: there is only one candidate. */
    bool (*key)(void *job, char key[CUDA_KEY_TEXT]);
    /* The default. */
    enum mt_status (*first)(void *job, void *choice, struct mt_err *err);
    /* The value in the tuning file, and back: false, choice unchanged, for a text that names no candidate. */
    void (*text)(void *job, const char *key, const void *choice, char text[CUDA_CHOICE_TEXT]);
    bool (*parse)(void *job, const char *key, const char *text, void *choice);
    /* The best candidate. It waits for the queue's stream and takes memory of its own. `choice` is the default before;
     * on failure it is what to take instead. */
    enum mt_status (*measure)(void *job, const char *key, void *choice, struct tune_facts *facts, struct mt_err *err);
};

enum mt_status cuda_choose(const struct cuda_choices *class, const struct cuda_queue *queue, const void *id, void *job,
                           void *choice, struct mt_err *err);

/* Whether only defaults are wanted. MT_EINPUT for a MOTLEY_TUNE that is neither on nor off. */
enum mt_status cuda_untuned(bool *untuned, struct mt_err *err);
/* While set, this thread's choices are the defaults. Returns what it was. */
bool cuda_defaults_only(bool only);

#endif

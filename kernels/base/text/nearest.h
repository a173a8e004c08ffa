/* Which name a word that is none was perhaps meant to be, for the hint of an error:
 *
 *     struct mt_nearest near = mt_nearest_to(word);
 *     for (int i = 0; i < n; i++) mt_nearest_add(&near, names[i]);
 *     mt_fail(err, MT_EINPUT, "there is no model \"%.60s\"", word);
 *     return mt_nearest_hint(&near, err, "models are: %s", near.list);
 *
 * "did you mean gpt2? models are: gpt2, llama, mlp". By the least number of letters that are changed, added, left out
 * or swapped with their neighbour (optimal string alignment), upper and lower case alike; at most a third of the
 * letters may be wrong. A word that a name begins with counts as one such mistake. Of equal names
 * those with the same first letter are nearer, and then the first. */
#ifndef MT_KERNELS_BASE_TEXT_NEAREST_H
#define MT_KERNELS_BASE_TEXT_NEAREST_H

#include <stddef.h>

#include "kernels/base/err.h"

#define MT_NEAREST_LETTERS 64

struct mt_nearest {
    char word[MT_NEAREST_LETTERS]; /* "" where it is too long to be any of them */
    char best[MT_NEAREST_LETTERS]; /* the nearest name, or "" */
    int cost;                      /* of the nearest; less is nearer */
    char list[400];                /* the names, separated by commas; ends with "..." where they are too many */
};

struct mt_nearest mt_nearest_to(const char *word);
struct mt_nearest mt_nearest_to_part(const char *word, size_t length);
void mt_nearest_add(struct mt_nearest *near, const char *name);
/* The index of the word in names[count]; or -1, and all of them have been added. */
int mt_nearest_find(struct mt_nearest *near, const char *const *names, int count);

/* Set the hint: "did you mean X? " if there is one, and then the text. Returns the status that is in `err`. */
enum mt_status mt_nearest_hint(const struct mt_nearest *near, struct mt_err *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif

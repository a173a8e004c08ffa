/* Tokens that were made of text, kept in the cache's folder, so that the next run need not make them.
 *
 *     enum mt_status make(void *context, struct mt_tokens *tokens, struct mt_err *err);
 *     st = mt_kept_tokens(key, make, context, file, err);
 *
 * Processes of a host that want the same tokens wait for the first, which makes them. */
#ifndef MT_LAUNCHER_DATA_KEPT_H
#define MT_LAUNCHER_DATA_KEPT_H

#include "launcher/data/file.h"
#include "launcher/tokenizer/tokenizer.h"

typedef enum mt_status mt_make_tokens(void *context, struct mt_tokens *tokens, struct mt_err *err);

/* Replace a file's content by the tokens of `key` (32 hex digits, of all that they depend on), from the cache if they
 * are there and undamaged, else made, and kept if there is a folder for it. */
enum mt_status mt_kept_tokens(const char *key, mt_make_tokens *make, void *context, struct mt_data_file *file,
                              struct mt_err *err);

#endif

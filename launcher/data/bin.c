/* Files of tokens: llm.c's, with 256 int32 in front (magic, version, the count), and those that are nothing but tokens.
 * llm.c writes 16-bit tokens under 20240520, version 1, and 32-bit ones under 20240801, version 7. */
#include <string.h>

#include "launcher/data/internal.h"

enum { HEADER_INTS = 256 };

static enum mt_status set_tokens(const char *name, size_t header_bytes, size_t token_bytes, struct mt_data_file *file,
                                 struct mt_err *err) {
    size_t bytes = file->size_bytes - header_bytes;
    if (bytes % token_bytes)
        return mt_fail(err, MT_EINPUT, "%s: %zu bytes of tokens of %zu bytes each: a token is cut", name, bytes,
                       token_bytes);
    const void *tokens = (const uint8_t *)file->content + header_bytes;
    if (token_bytes == sizeof(uint16_t))
        file->words = tokens;
    else
        file->longs = tokens;
    file->count = (int64_t)(bytes / token_bytes);
    return MT_OK;
}

static enum mt_status refuse_magic(const char *name, int32_t magic, struct mt_err *err) {
    mt_fail(err, MT_EINPUT, "%s: is no token file of llm.c: it starts with %d, not %d or %d", name, magic,
            MT_DATA_LLMC_MAGIC, MT_DATA_LLMC_WIDE_MAGIC);
    return mt_err_hint(err, "for tokens without a header say uint16:%.100s or uint32:%.100s", name, name);
}

enum mt_status mt_data_open_llmc(const struct data_opening *opening, struct mt_data_file *file, struct mt_err *err) {
    static const struct {
        int32_t magic, version;
        size_t token_bytes;
    } forms[] = {{MT_DATA_LLMC_MAGIC, 1, sizeof(uint16_t)}, {MT_DATA_LLMC_WIDE_MAGIC, 7, sizeof(uint32_t)}};
    const char *name = opening->name;
    const size_t header_bytes = HEADER_INTS * sizeof(int32_t);
    int32_t head[3] = {0, 0, 0};
    memcpy(head, file->content, file->size_bytes < sizeof head ? file->size_bytes : sizeof head);
    int form = head[0] == forms[1].magic;
    if (head[0] != forms[form].magic) return refuse_magic(name, head[0], err);
    if (file->size_bytes < header_bytes)
        return mt_fail(err, MT_EINPUT, "%s: has %zu bytes, fewer than a token file's header of %zu", name,
                       file->size_bytes, header_bytes);
    if (head[1] != forms[form].version)
        return mt_fail(
            err, MT_EINPUT,
            "%s: is a token file of version %d; of those that start with %d only version %d (%zu-bit tokens) "
            "is supported",
            name, head[1], head[0], forms[form].version, 8 * forms[form].token_bytes);
    size_t bytes = file->size_bytes - header_bytes;
    if (head[2] < 0 || bytes != (size_t)head[2] * forms[form].token_bytes)
        return mt_fail(err, MT_EINPUT, "%s: its header says %d tokens, but %zu bytes follow it", name, head[2], bytes);
    return set_tokens(name, header_bytes, forms[form].token_bytes, file, err);
}

/* Whether each `parts` tokens are one number of more bits: half of the first parts are not small, all others are. */
static bool looks_wide(const struct mt_data_file *file, int parts) {
    enum { SEEN = 4096, LEAST = 64, SMALL = 3 };
    int64_t n = file->count < SEEN ? file->count : SEEN, low = 0, high = 0;
    for (int64_t i = 0; i < n; i++) *(i % parts ? &high : &low) += mt_data_token(file, i) > SMALL;
    return n >= LEAST && file->count % parts == 0 && !high && low > n / parts / 2;
}

/* Refuse files that are not just tokens. With a large vocabulary all of their bytes would pass for tokens. */
static enum mt_status refuse_others(const char *name, const struct mt_data_file *file, struct mt_err *err) {
    enum { SEEN = 4096, LEAST = 64 };
    const unsigned char *bytes = file->content;
    size_t n = file->size_bytes < SEEN ? file->size_bytes : SEEN, printed = 0, zeros = 0;
    for (size_t i = 0; i < n; i++) printed += (bytes[i] >= ' ' && bytes[i] < 0x7f) || (bytes[i] >= 9 && bytes[i] <= 13);
    if (n >= LEAST && printed == n) {
        mt_fail(err, MT_EINPUT, "%s: seems to be text, not tokens", name);
        return mt_err_hint(err, "say text:%.200s, or give it another name than .bin", name);
    }
    const size_t header_bytes = HEADER_INTS * sizeof(int32_t), used_bytes = 3 * sizeof(int32_t);
    if (n < header_bytes) return MT_OK;
    for (size_t i = used_bytes; i < header_bytes; i++) zeros += !bytes[i];
    int32_t magic;
    memcpy(&magic, bytes, sizeof magic);
    if (!magic || zeros < header_bytes - used_bytes) return MT_OK;
    mt_fail(err, MT_EINPUT, "%s: seems to have a header as llm.c's, but starts with %d, not %d or %d", name, magic,
            MT_DATA_LLMC_MAGIC, MT_DATA_LLMC_WIDE_MAGIC);
    return mt_err_hint(err, "for tokens without it: tail -c +%zu \"%.200s\" >NEW.bin", header_bytes + 1, name);
}

/* What NumPy writes unless it is told otherwise. */
static enum mt_status refuse_64(const char *name, struct mt_err *err) {
    mt_fail(err, MT_EINPUT, "%s: seems to have 64-bit tokens", name);
    return mt_err_hint(err, "write them again as 16 or 32 bits: tokens.astype(numpy.uint16).tofile(...)");
}

enum mt_status mt_data_open_uint16(const struct data_opening *opening, struct mt_data_file *file, struct mt_err *err) {
    const char *name = opening->name;
    enum mt_status st = refuse_others(name, file, err);
    if (st || (st = set_tokens(name, 0, sizeof(uint16_t), file, err)))
        return *err->hint
                   ? st
                   : mt_err_hint(err, "a file without a header is read as 16-bit tokens, as nanoGPT writes them");
    if (looks_wide(file, 4)) return refuse_64(name, err);
    if (!looks_wide(file, 2)) return MT_OK;
    mt_fail(err, MT_EINPUT, "%s: seems to have 32-bit tokens: read as 16-bit ones, every second is below 4", name);
    return mt_err_hint(err, "say uint32:%.200s", name);
}

enum mt_status mt_data_open_uint32(const struct data_opening *opening, struct mt_data_file *file, struct mt_err *err) {
    const char *name = opening->name;
    enum mt_status st = refuse_others(name, file, err);
    if (!st) st = set_tokens(name, 0, sizeof(uint32_t), file, err);
    return !st && looks_wide(file, 2) ? refuse_64(name, err) : st;
}

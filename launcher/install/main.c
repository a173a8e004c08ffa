/* motley_pages DATE FOLDER: write the manual and the completions of shells, as they are installed below FOLDER. */
#include "launcher/commands/command.h"
#include "launcher/install/page.h"

int main(int argc, char **argv) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_err err = MT_ERR_INIT;
    int count;
    if (argc != 3) {
        mt_fail(&err, MT_EINPUT, "motley_pages DATE FOLDER");
        return mt_command_fail(&err);
    }
    const struct mt_page *pages = mt_pages_read(&arena, &count);
    enum mt_status st = MT_OK;
#define MT_WRITER(name)                                                                                                \
    if (!st) st = mt_write_##name(pages, count, argv[1], argv[2], &err);
#include "launcher/install/writers.def"
#undef MT_WRITER
    mt_arena_release(&arena);
    return st ? mt_command_fail(&err) : 0;
}

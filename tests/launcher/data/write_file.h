/* Files for tests of data, in a folder that goes away. */
#ifndef MT_TESTS_LAUNCHER_DATA_WRITE_FILE_H
#define MT_TESTS_LAUNCHER_DATA_WRITE_FILE_H

#include <unistd.h>

#include "tests/check.h"

static char folder[] = "motley-data-XXXXXX";

/* The path, which is valid until the fourth call after this one. */
static const char *write_file(const char *name, const void *data, size_t size) {
    static char path[4][128];
    static int turn;
    char *p = path[turn = (turn + 1) % 4];
    snprintf(p, sizeof path[0], "%s/%s", folder, name);
    FILE *f = fopen(p, "wb");
    CHECK(f && fwrite(data, 1, size, f) == size);
    fclose(f);
    return p;
}

static int remove_folder(void) {
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

#endif

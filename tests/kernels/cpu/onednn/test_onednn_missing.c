/* Without the module, or with a file that is none, the error names the folders or the file. */
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/op/op.h"
#include "tests/check.h"

static void one(bool broken) {
    char folder[] = "/tmp/motley-test-XXXXXX", path[64];
    CHECK(mkdtemp(folder));
    setenv("MOTLEY_MODULES", folder, 1);
    snprintf(path, sizeof path, "%s/motley_onednn.so", folder);
    if (broken) {
        FILE *file = fopen(path, "w");
        CHECK(file && fputs("not a library\n", file) > 0 && !fclose(file));
    }
    struct mt_err err = MT_ERR_INIT;
    CHECK(!mt_backend_onednn(&err));
    CHECK_EQ(err.status, MT_EMISSING);
    CHECK(strstr(err.text, broken ? path : folder), "%s", err.text);
    struct mt_err again = MT_ERR_INIT;
    CHECK(!mt_backend_onednn(&again) && again.status == MT_EMISSING && !strcmp(again.text, err.text));
    if (broken) CHECK_EQ(unlink(path), 0);
    CHECK_EQ(rmdir(folder), 0);
}

int main(void) {
    for (int broken = 0; broken < 2; broken++) {
        pid_t child = fork(); /* the answer is kept for the life of a process */
        if (!child) {
            one(broken);
            _exit(0);
        }
        int status;
        CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0, "case %d", broken);
    }
    return 0;
}

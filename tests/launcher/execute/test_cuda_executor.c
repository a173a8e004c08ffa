/* Captured programs on one GPU, whole and with a part of its multiprocessors: see captured_round.h. Micro-batches,
 * dropout, two types. */
#include "tests/launcher/execute/captured_round.h"

enum { SKIPPED = 77 };

static void test_model(struct mt_device *device, const char *text, int64_t batch, double dropout, enum mt_type type,
                       int64_t micro) {
    struct mt_graph *g = training_graph_of(text, type, batch, dropout);
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_choice choice;
    struct mt_comm *comm;
    mt_comm_local_new(1, &comm);
    random_choice(&arena, g, 1, false, &choice);
    choice.micro[0] = micro;
    choice.decisions.gradient_wire = g->acc;
    CHECK(captured_compare(g, &choice, 0, device, comm) > 0);
    mt_comm_free(comm);
    mt_arena_release(&arena);
    mt_graph_free(g);
}

int main(void) {
    struct mt_err err = MT_ERR_INIT;
    struct mt_device *device;
    setenv("MOTLEY_TUNE", "off", 0); /* what tuning finds has tests of its own; here it would take minutes */
    if (mt_device_open("cuda", &device, &err)) {
        CHECK_EQ(err.status, MT_EMISSING);
        printf("%s\n", err.text);
        return SKIPPED;
    }
    for (int emulated = 0; emulated < 2; emulated++) {
        if (emulated) CHECK_OK(mt_device_open("cuda", &device, &err), err);
        if (emulated) CHECK_OK(mt_device_emulate_sms(device, 32, &err), err);
        printf("%s\n", mt_device_describe(device));
        const char *small = "gpt2:layers=2,heads=4,embed=32,context=16,vocab=56,bias=1,tied=1";
        test_model(device, small, 8, 0.1, MT_F32, 8);
        test_model(device, small, 8, 0.1, MT_F32, 3); /* two iterations and a last part */
        test_model(device, small, 8, 0, MT_BF16, 2);
        test_model(device, "mlp:context=3,embed=8,hidden=16,layers=2,vocab=9", 9, 0, MT_F32, 2);
        mt_device_close(device);
    }
    return 0;
}

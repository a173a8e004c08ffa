/* A whole profile of three ranks that are threads: every part of the document is there, and says what a device may
 * say. Figures themselves are not checked: the machine is shared with other tests. */
#include "profiler/profile.h"

#include "kernels/base/log.h"
#include "profiler/assemble/assemble.h"
#include "tests/check.h"
#include "tests/profiler/threads.h"

enum { LARGEST_BYTES = 3 << 20 };

static int count_fits(const struct mt_cluster_group *group, enum mt_coll_kind kind, enum mt_type wire) {
    int count = 0;
    for (int f = 0; f < group->nfits; f++) count += group->fits[f].kind == kind && group->fits[f].wire == wire;
    return count;
}

static void check_groups(const struct mt_cluster *c) {
    const struct mt_cluster_group *all = &c->groups[0];
    CHECK_EQ(c->ngroups, 2);
    CHECK_TEXT(all->name, "all");
    CHECK_EQ(all->ndevices, 3);
    CHECK_TEXT(c->groups[1].name, "pair:0-1");
    int64_t largest = 0;
    for (int g = 0; g < c->ngroups; g++)
        for (int f = 0; f < c->groups[g].nfits; f++) {
            const struct mt_coll_fit *fit = &c->groups[g].fits[f];
            CHECK(fit->npoints >= 2, "%s: %d sizes", fit->algorithm, fit->npoints);
            largest = fit->size_bytes[fit->npoints - 1] > largest ? fit->size_bytes[fit->npoints - 1] : largest;
        }
    CHECK_EQ(largest, LARGEST_BYTES);              /* however small the budget is */
    for (int kind = 0; kind < MT_NCOLLS; kind++) { /* every algorithm that can serve three ranks */
        int want = 0;
        const int64_t counts[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
        for (int a = 0; a < mt_coll_nalgorithms; a++) {
            struct mt_coll problem = {(enum mt_coll_kind)kind, MT_SUM, MT_F32, MT_F32, 3, 0, 0, counts, false, NULL};
            want += mt_coll_algorithms[a]->kind == (enum mt_coll_kind)kind && mt_coll_algorithms[a]->applies(&problem);
        }
        bool sums = kind == MT_ALL_REDUCE || kind == MT_REDUCE_SCATTER;
        CHECK_EQ(count_fits(all, (enum mt_coll_kind)kind, MT_F32), want);
        CHECK_EQ(count_fits(all, (enum mt_coll_kind)kind, MT_BF16), sums ? want : 0);
    }
}

static void check_document(const struct mt_cluster *c) {
    struct mt_err err = MT_ERR_INIT;
    CHECK_OK(mt_cluster_check(c, &err), err);
    CHECK_TEXT(c->source, "measured");
    CHECK_EQ(c->ndevices, 3);
    CHECK_EQ(c->nnodes, 1);
    CHECK_EQ(c->nclasses, 1);
    CHECK_EQ(c->npairs, 3);
    CHECK_EQ(c->nlinks, 1);
    CHECK_TEXT(c->links[0].name, "memory");
    CHECK_EQ(c->nodes[0].inside, 0);
    CHECK_EQ(c->network, -1);
    CHECK(c->links[0].shared_Bps > 0 && !c->links[0].nominal, "%g", c->links[0].shared_Bps);
    const struct mt_cluster_class *class = &c->classes[0];
    for (int t = MT_F64; t <= MT_BF16; t++) CHECK(class->flops[t] > 1e6, "%s", mt_type_name((enum mt_type)t));
    CHECK(class->memory_Bps > 1e6 && class->overhead_s > 0 && class->memory_bytes > 0, "%g", class->memory_Bps);
    bool found[MT_NOPS] = {false};
    for (int k = 0; k < class->ncurves; k++)
        for (int op = 0; op < MT_NOPS; op++) found[op] |= !strcmp(class->curves[k].op, mt_op_info[op].name);
    CHECK(found[MT_OP_matmul] && found[MT_OP_fused_matmul] && found[MT_OP_attention_grad] && found[MT_OP_adamw] &&
              found[MT_OP_layer_norm] && found[MT_OP_cross_entropy] && found[MT_OP_embedding_grad],
          "a kind has no curve");
    int reference = 0;
    for (int d = 0; d < 3; d++) {
        reference += c->devices[d].speed == 1;
        CHECK(c->devices[d].memory_bytes > 0 && c->devices[d].mask[0], "device %d", d);
    }
    CHECK(reference >= 1, "no device has speed 1");
    check_groups(c);
    /* Threads of one process have one mask: a warning must say so. */
    bool warned = false;
    for (int w = 0; w < c->nwarnings; w++)
        warned |= strstr(c->warnings[w], "shares") && strstr(c->warnings[w], "rank 0");
    CHECK(warned, "%d warnings", c->nwarnings);
}

static struct mt_comm *wires[3]; /* for what is measured, if apart from what ranks tell each other; else null */

static void profile_rank(struct mt_comm *comm) {
    const struct mt_profile_options options = {
        .wire = wires[comm->rank], .budget_s = 0.5, .emulate = 1, .largest_bytes = LARGEST_BYTES, .deadline_s = 300};
    struct mt_err err = MT_ERR_INIT;
    struct mt_cluster *cluster;
    char *raw;
    CHECK_OK(mt_profile_run(comm, &options, &cluster, &raw, &err), err);
    CHECK_EQ(cluster != NULL, comm->rank == 0);
    CHECK_EQ(raw != NULL, comm->rank == 0);
    if (cluster) {
        check_document(cluster);
        static const char head[] = "probe,what,rank,value\n";
        CHECK(!strncmp(raw, head, strlen(head)), "%.40s", raw);
        static const char *const wanted[] = {"\nop_s,matmul nn f32 ", "\ncollective_s,all AllReduce ring f32 ",
                                             "\npair_latency_s,1-2,1,", "\ncopy_Bps,f32,2,"};
        for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
            CHECK(strstr(raw, wanted[i]), "no \"%s\"", wanted[i]);
    }
    mt_cluster_free(cluster);
    free(raw);
}

static void test_names(void) {
    static const struct {
        const char *model, *name;
        int threads;
    } rows[] = {{"Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz", "xeon-platinum-8481c-4t", 4},
                {"AMD EPYC 7763 64-Core Processor", "epyc-7763-64-64t", 64},
                {"unknown CPU", "unknown-1t", 1},
                {"(R)", "unknown-2t", 2}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char name[96];
        mt_class_name(rows[i].model, rows[i].threads, name, sizeof name);
        CHECK_TEXT(name, rows[i].name);
    }
    static const struct {
        const char *model, *name;
        int all, computing;
    } gpus[] = {{"NVIDIA H100 80GB HBM3", "h100", 132, 132},
                {"NVIDIA H200", "h200-66sm", 132, 66},
                {"NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada-generation", 142, 142},
                {"NVIDIA GeForce GTX 1650", "gtx-1650-8sm", 14, 8}};
    for (size_t i = 0; i < sizeof gpus / sizeof *gpus; i++) {
        char name[96];
        mt_class_name_gpu(gpus[i].model, gpus[i].all, gpus[i].computing, name, sizeof name);
        CHECK_TEXT(name, gpus[i].name);
    }
}

int main(void) {
    mt_log_level(MT_LOG_WARN);
    test_names();
    run_ranks(3, profile_rank);
    mt_comm_local_new(3, wires); /* messages through streams, as GPUs have them */
    run_ranks(3, profile_rank);
    for (int r = 0; r < 3; r++) mt_comm_free(wires[r]);
    return 0;
}

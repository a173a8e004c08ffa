/* NCCL's calls for hierarchical collectives, interpreted on host memory: all ranks run their lists, each call waits for
 * all ranks of its group, and calls of one rank are strictly in order, which is more than a group call promises. So
 * lists that could wait for each other do. Results against sums made element by element, equal bits, the calls of equal
 * nodes, and the bytes that each node sends. */
#include "kernels/coll/nccl_nodes.h"
#include "kernels/coll/reduce.h"
#include "tests/kernels/coll/reference.h"

enum { MAX_RANKS = 17 };

struct rank {
    struct mt_coll problem;
    struct mt_nccl_list list;
    char *data;
    int next; /* call */
};

static const struct mt_nccl_ranks *group_of(const struct rank *rank, const struct mt_nccl_call *call) {
    CHECK(call->group >= 0 && call->group < rank->list.ngroups);
    return &rank->list.groups[call->group];
}

/* Whether all ranks of the group of this rank's next call have it next too. */
static bool all_there(struct rank *ranks, const struct rank *rank) {
    const struct mt_nccl_call *call = &rank->list.calls[rank->next];
    const struct mt_nccl_ranks *group = group_of(rank, call);
    for (int m = 0; m < group->n; m++) {
        const struct rank *other = &ranks[group->places[m]];
        if (other->next == other->list.ncalls) return false;
        const struct mt_nccl_call *theirs = &other->list.calls[other->next];
        const struct mt_nccl_ranks *of = group_of(other, theirs);
        if (of->n != group->n || memcmp(of->places, group->places, (size_t)of->n * sizeof *of->places)) return false;
        CHECK_EQ(of->me, m);
        CHECK(theirs->op == call->op && theirs->root == call->root && theirs->at == call->at &&
                  theirs->count == call->count,
              "members of a group make different calls");
    }
    return true;
}

/* Elements [at, + count): the sum of all members' in the first of them, or in `to`'s; then copied from there. */
static void reduce_to(struct rank *ranks, const struct mt_nccl_ranks *group, int64_t at, int64_t count, int to) {
    const struct mt_coll *p = &ranks[0].problem;
    int64_t size = mt_type_size(p->acc);
    char *sum = malloc((size_t)(count * size) + 1);
    memcpy(sum, ranks[group->places[0]].data + at * size, (size_t)(count * size));
    for (int m = 1; m < group->n; m++)
        mt_coll_reduce(p->reduce, p->acc, sum, p->acc, ranks[group->places[m]].data + at * size, count);
    memcpy(ranks[group->places[to]].data + at * size, sum, (size_t)(count * size));
    free(sum);
}

static void copy_from(struct rank *ranks, const struct mt_nccl_ranks *group, int64_t at, int64_t count, int from) {
    int64_t size = mt_type_size(ranks[0].problem.acc);
    for (int m = 0; m < group->n; m++)
        if (m != from)
            memcpy(ranks[group->places[m]].data + at * size, ranks[group->places[from]].data + at * size,
                   (size_t)(count * size));
}

/* What a ReduceScatter leaves of other members' blocks is not defined. */
static void poison(struct rank *rank, int64_t at, int64_t count) {
    int64_t size = mt_type_size(rank->problem.acc);
    memset(rank->data + at * size, 0xff, (size_t)(count * size));
}

static void do_call(struct rank *ranks, const struct mt_nccl_ranks *group, const struct mt_nccl_call *call) {
    int64_t at = call->at, count = call->count;
    CHECK(count > 0 && call->root >= 0 && call->root < group->n);
    for (int m = 0; m < group->n; m++) {
        int64_t own = at + m * count;
        switch (call->op) {
        case MT_NCCL_ALL_REDUCE:
            if (!m) reduce_to(ranks, group, at, count, 0), copy_from(ranks, group, at, count, 0);
            break;
        case MT_NCCL_REDUCE:
            if (m == call->root) reduce_to(ranks, group, at, count, m);
            break;
        case MT_NCCL_BROADCAST:
            if (m == call->root) copy_from(ranks, group, at, count, m);
            break;
        case MT_NCCL_REDUCE_SCATTER: reduce_to(ranks, group, own, count, m); break;
        case MT_NCCL_ALL_GATHER: copy_from(ranks, group, own, count, m); break;
        }
    }
    for (int m = 0; m < group->n && call->op == MT_NCCL_REDUCE_SCATTER; m++)
        for (int block = 0; block < group->n; block++)
            if (block != m) poison(&ranks[group->places[m]], at + block * count, count);
    for (int m = 0; m < group->n && call->op == MT_NCCL_REDUCE; m++)
        if (m != call->root) poison(&ranks[group->places[m]], at, count);
    for (int m = 0; m < group->n; m++) ranks[group->places[m]].next++;
}

static void run_all(struct rank *ranks, int n) {
    for (bool any = true; any;) {
        any = false;
        for (int r = 0; r < n; r++) {
            if (ranks[r].next == ranks[r].list.ncalls || !all_there(ranks, &ranks[r])) continue;
            const struct mt_nccl_call call = ranks[r].list.calls[ranks[r].next];
            do_call(ranks, group_of(&ranks[r], &call), &call);
            any = true;
        }
    }
    for (int r = 0; r < n; r++) CHECK_EQ(ranks[r].next, ranks[r].list.ncalls); /* else: they wait for each other */
}

/* Elements that a node's ranks take across nodes, added up: each element once, in all. */
static void check_across(const struct rank *ranks, const struct mt_coll *problem) {
    int64_t total = 0, across[MAX_RANKS] = {0};
    for (int r = 0; r < problem->n; r++) {
        const struct mt_nccl_list *list = &ranks[r].list;
        total += problem->counts[r];
        for (int i = list->phase_end[0]; i < list->phase_end[1]; i++) across[problem->node[r]] += list->calls[i].count;
    }
    for (int j = 0; j < MAX_RANKS; j++) CHECK(!across[j] || across[j] == total, "%g", (double)across[j]);
}

static void trial(const struct mt_coll *problem) {
    struct rank ranks[MAX_RANKS] = {0};
    size_t size = (size_t)mt_type_size(problem->acc);
    char name[64];
    snprintf(name, sizeof name, "NCCL's %s", mt_coll_name(problem->kind));
    for (int r = 0; r < problem->n; r++) {
        ranks[r].problem = *problem;
        ranks[r].problem.me = r;
        ranks[r].data = malloc((size_t)reference_size(problem, 0) * size + 1);
        reference_fill(&ranks[r].problem, ranks[r].data, ranks[r].data);
        mt_nccl_list(&ranks[r].problem, &ranks[r].list);
    }
    check_across(ranks, problem);
    run_all(ranks, problem->n);
    for (int r = 0; r < problem->n; r++) {
        reference_check(&ranks[r].problem, ranks[r].data, NULL, name);
        if (reference_replicates(problem->kind))
            CHECK(!memcmp(ranks[r].data, ranks[0].data, (size_t)reference_size(problem, 0) * size),
                  "%s of %d: rank %d has other bits", name, problem->n, r);
    }
    for (int r = 0; r < problem->n; r++) {
        free(ranks[r].data);
        mt_nccl_list_release(&ranks[r].list);
    }
}

static int test_all(void) {
    static const enum mt_type types[] = {MT_F64, MT_F32, MT_BF16};
    int trials = 0, node[MAX_RANKS];
    int64_t counts[MAX_RANKS];
    for (int kind = MT_ALL_REDUCE; kind <= MT_ALL_GATHER; kind++)
        for (int n = 1; n <= MAX_RANKS; n++)
            for (int map = 0; map < REFERENCE_NMAPS; map++)
                for (int shape = 0; shape < REFERENCE_NSHAPES; shape++)
                    for (int t = 0; t < 3; t++) {
                        bool sums = mt_coll_reduces((enum mt_coll_kind)kind);
                        reference_nodes(map, n, node);
                        reference_counts(shape, n, n, t ? 12 : 7, counts);
                        struct mt_coll problem = {.kind = (enum mt_coll_kind)kind,
                                                  .reduce = !sums        ? MT_REDUCE_NONE
                                                            : shape == 1 ? MT_MAX
                                                                         : MT_SUM,
                                                  .wire = types[t],
                                                  .acc = types[t],
                                                  .n = n,
                                                  .counts = counts,
                                                  .node = node};
                        if (!mt_nccl_by_node(&problem)) continue;
                        trial(&problem);
                        trials++;
                    }
    return trials;
}

/* Two nodes of four, even blocks: NCCL's own collectives within nodes, one communicator across them. */
static void test_equal_nodes(void) {
    const int64_t counts[8] = {16, 16, 16, 16, 16, 16, 16, 16};
    const int node[8] = {0, 0, 0, 0, 1, 1, 1, 1};
    struct mt_coll problem = {MT_ALL_REDUCE, MT_SUM, MT_F32, MT_F32, 8, 6, 0, counts, true, node};
    struct mt_nccl_list list;
    mt_nccl_list(&problem, &list);
    CHECK(list.ngroups == 2 && list.ncalls == 3);
    CHECK(list.groups[0].n == 4 && list.groups[0].me == 2 && list.groups[0].places[0] == 4);
    CHECK(list.groups[1].n == 2 && list.groups[1].me == 1 && list.groups[1].places[0] == 2);
    CHECK(list.calls[0].op == MT_NCCL_REDUCE_SCATTER && list.calls[0].count == 32 && list.calls[0].at == 0);
    CHECK(list.calls[1].op == MT_NCCL_ALL_REDUCE && list.calls[1].count == 32 && list.calls[1].at == 64);
    CHECK(list.calls[2].op == MT_NCCL_ALL_GATHER && list.calls[2].count == 32 && list.calls[2].at == 0);
    mt_nccl_list_release(&list);
    problem.kind = MT_REDUCE_SCATTER;
    mt_nccl_list(&problem, &list);
    CHECK(list.ngroups == 2 && list.phase_end[0] == 2 && list.ncalls == 4);
    for (int i = 0; i < 2; i++) CHECK(list.calls[i].op == MT_NCCL_REDUCE_SCATTER && list.calls[i].count == 16);
    for (int i = 2; i < 4; i++) CHECK(list.calls[i].op == MT_NCCL_REDUCE && list.calls[i].root == i - 2);
    mt_nccl_list_release(&list);
}

/* 8 + 4 + 2: slices nest, so that each interval is a rank's slice on the largest node. */
static void test_ragged_nodes(void) {
    int64_t counts[14];
    int node[14];
    for (int r = 0; r < 14; r++) counts[r] = 1000 + r % 3, node[r] = r < 8 ? 0 : r < 12 ? 1 : 2;
    for (int r = 0; r < 14; r++) {
        struct mt_coll problem = {MT_ALL_REDUCE, MT_SUM, MT_F32, MT_F32, 14, r, 0, counts, true, node};
        struct mt_nccl_list list;
        mt_nccl_list(&problem, &list);
        CHECK_EQ(list.phase_end[1] - list.phase_end[0], r < 8 ? 1 : r < 12 ? 2 : 4);
        mt_nccl_list_release(&list);
    }
    struct mt_coll other = {MT_BROADCAST, MT_REDUCE_NONE, MT_F32, MT_F32, 14, 0, 0, counts, true, node};
    CHECK(!mt_nccl_by_node(&other));
    other.kind = MT_ALL_REDUCE, other.node = NULL;
    CHECK(!mt_nccl_by_node(&other));
}

int main(void) {
    int trials = test_all();
    printf("seed %llu: %d problems\n", (unsigned long long)reference_seed, trials);
    CHECK(trials > 2000);
    test_equal_nodes();
    test_ragged_nodes();
    return 0;
}

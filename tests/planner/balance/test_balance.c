/* Balance against brute force on small random problems, and against itself, relaxed, on larger ones. */
#include "planner/balance/balance.h"

#include "kernels/base/arena.h"
#include "planner/balance/internal.h"
#include "planner/lp/lp.h"
#include "tests/check.h"
#include "tests/planner/balance/balance_cases.h"

static struct mt_err err;

/* All divisions, rank by rank, by a table of every rank's times. */
struct brute {
    const struct mt_balance *p;
    int64_t extent[2];
    double *t;   /* [((class (extent[0] + 1) + x0) (extent[1] + 1) + x1) nstages + stage] */
    bool *holds; /* [(class (extent[0] + 1) + x0) (extent[1] + 1) + x1] */
    double best_s;
    int64_t tried;
};

static int64_t place(const struct brute *w, int class, const int64_t *x) {
    return (class * (w->extent[0] + 1) + x[0]) * (w->extent[1] + 1) + x[1];
}

/* A rank's own times and memory, by a problem of it alone. */
static void tabulate(struct brute *w, struct mt_arena *arena) {
    const struct mt_balance *p = w->p;
    for (int s = 0; s < 2; s++) w->extent[s] = s < p->nsplits ? p->splits[s].extent : 0;
    int64_t n = p->nclasses * (w->extent[0] + 1) * (w->extent[1] + 1);
    w->t = mt_new(arena, double, n * p->nstages);
    w->holds = mt_new(arena, bool, n);
    for (int c = 0; c < p->nclasses; c++)
        for (int64_t x0 = 0; x0 <= w->extent[0]; x0++)
            for (int64_t x1 = 0; x1 <= w->extent[1]; x1++) {
                struct mt_balance alone = *p;
                alone.nranks = 1, alone.class = &c;
                int64_t x[2] = {x0, x1}, at = place(w, c, x);
                w->holds[at] = isfinite(mt_balance_time(&alone, x, w->t + at * p->nstages));
            }
}

static void all(struct brute *w, int rank, const int64_t *left, const double *so_far) {
    const struct mt_balance *p = w->p;
    int64_t x[2];
    for (x[0] = 0; x[0] <= left[0]; x[0]++) {
        if (rank == p->nranks - 1) x[0] = left[0];
        int64_t a0 = p->splits[0].align;
        if (x[0] % a0 && x[0] % a0 != left[0] % a0) continue;
        for (x[1] = 0; x[1] <= left[1]; x[1]++) {
            if (rank == p->nranks - 1) x[1] = left[1];
            int64_t a1 = p->nsplits > 1 ? p->splits[1].align : 1;
            if (x[1] % a1 && x[1] % a1 != left[1] % a1) continue;
            int64_t at = place(w, p->class[rank], x), rest[2] = {left[0] - x[0], left[1] - x[1]};
            if (!w->holds[at]) continue;
            double t[4], sum = 0;
            for (int k = 0; k < p->nstages; k++) sum += t[k] = fmax(so_far[k], w->t[at * p->nstages + k]);
            if (rank + 1 < p->nranks) {
                all(w, rank + 1, rest, t);
                continue;
            }
            w->tried++;
            if (sum < w->best_s) w->best_s = sum;
        }
    }
}

static double brute_force(const struct mt_balance *p, struct mt_arena *arena, int64_t *tried) {
    struct brute w = {.p = p, .best_s = INFINITY};
    double none[4] = {0};
    tabulate(&w, arena);
    all(&w, 0, w.extent, none);
    *tried += w.tried;
    return w.best_s;
}

static double beyond(double step_s, double best_s) {
    return best_s > 0 ? step_s / best_s - 1 : step_s;
}

static void check_shares(const struct mt_balance *p, const struct mt_balanced *out) {
    double stage_s[MT_BALANCE_MOST_STAGES], sum = 0;
    CHECK_NEAR(mt_balance_time(p, out->sizes, stage_s), out->step_s, 0);
    for (int k = 0; k < p->nstages; k++) {
        CHECK_NEAR(out->stage_s[k], stage_s[k], 0);
        sum += stage_s[k];
    }
    CHECK_NEAR(sum, out->step_s, 1e-12 * sum);
    for (int s = 0; s < p->nsplits; s++) {
        int64_t total = 0, ragged = 0;
        for (int r = 0; r < p->nranks; r++) {
            int64_t x = out->sizes[s * p->nranks + r];
            CHECK(x >= 0);
            total += x, ragged += x % p->splits[s].align != 0;
        }
        CHECK_EQ(total, p->splits[s].extent);
        CHECK(ragged <= 1);
    }
    CHECK(out->step_s <= out->even_s && out->step_s <= out->proportional_s && out->bound_s <= out->step_s);
}

static struct case_shape small_shape(struct draws *d) {
    struct case_shape shape = {.memory = 0.5, .points = 4 + (int)below(d, 21)};
    shape.nranks = 2 + (int)below(d, 4);
    shape.nclasses = 1 + (int)below(d, shape.nranks < 3 ? shape.nranks : 3);
    shape.nsplits = 1 + (int)below(d, 2);
    shape.nstages = 1 + (int)below(d, 3);
    static const int64_t most[2][4] = {{24, 24, 24, 24}, {24, 24, 12, 8}};
    shape.extent = most[shape.nsplits - 1][shape.nranks - 2];
    shape.align = below(d, 3) ? 1 : 4;
    return shape;
}

/* Local search alone, from even shares. */
static double searched(const struct mt_balance *p, const int64_t *sizes) {
    struct balance b;
    struct balance_state state = {0};
    CHECK_OK(mt_balance_prepare(&b, p, &err), err);
    mt_balance_state_from(&b, sizes, &state);
    mt_balance_descend(&b, &state, 100000);
    mt_balance_kick(&b, &state, 0, 1000);
    double step_s = state.over > 0 ? INFINITY : state.step_s;
    mt_balance_state_release(&state);
    mt_arena_release(&b.arena);
    return step_s;
}

static void even_shares(const struct mt_balance *p, int64_t *sizes) {
    for (int s = 0; s < p->nsplits; s++) {
        int64_t units = p->splits[s].extent / p->splits[s].align, rest = p->splits[s].extent % p->splits[s].align;
        for (int r = 0; r < p->nranks; r++)
            sizes[s * p->nranks + r] =
                (units / p->nranks + (r < units % p->nranks)) * p->splits[s].align + (r == p->nranks - 1 ? rest : 0);
    }
}

static void against_brute_force(void) {
    int solved = 0, exact = 0, proven = 0, alone = 0, impossible = 0;
    double worst = 0, loosest = 0, worst_alone = 0;
    int64_t tried = 0;
    for (uint64_t seed = 1; solved < 200; seed++) {
        struct mt_arena arena = MT_ARENA_INIT;
        struct draws d = {seed, 0};
        struct case_shape shape = small_shape(&d);
        struct mt_balance p;
        random_case(&arena, &d, &shape, &p);
        double best_s = brute_force(&p, &arena, &tried);
        struct mt_balanced out;
        enum mt_status st = mt_balance_solve(&p, &out, &err);
        if (!isfinite(best_s)) {
            CHECK_EQ(st, MT_EINPUT);
            CHECK(strstr(err.text, "fit into memory"), "%s", err.text);
            impossible++;
        } else {
            CHECK(st == MT_OK, "seed %d: %s", (int)seed, err.text);
            check_shares(&p, &out);
            double gap = beyond(out.step_s, best_s);
            CHECK(gap > -1e-9 && gap <= 0.005, "seed %d: %.9g, but %.9g is possible", (int)seed, out.step_s, best_s);
            CHECK(out.bound_s <= best_s * (1 + 1e-9), "seed %d: bound %g, best %g", (int)seed, out.bound_s, best_s);
            CHECK(!out.exact || gap < 1e-9, "seed %d: %g said to be the least, but %g is", (int)seed, out.step_s,
                  best_s);
            solved++, exact += gap < 1e-9, proven += out.exact;
            worst = fmax(worst, gap), loosest = fmax(loosest, -beyond(out.bound_s, best_s));
            int64_t even[2 * 5];
            even_shares(&p, even);
            double alone_s = searched(&p, even);
            alone += alone_s <= best_s * (1 + 1e-9), worst_alone = fmax(worst_alone, beyond(alone_s, best_s));
            mt_arena_release(&out.arena);
        }
        mt_arena_release(&arena);
    }
    printf(
        "brute force (seeds from 1, %lld divisions): %d of %d equal, worst %.3f%%; %d proven; local search alone %d, "
        "worst %.3f%%; %d do not fit\n",
        (long long)tried, exact, solved, worst * 100, proven, alone, worst_alone * 100, impossible);
    CHECK(exact >= 190, "%d", exact);
    CHECK(impossible > 0);
}

/* One split in one stage by the plain programme over ranks and units left: the least longest time. */
static double bottleneck(const struct mt_balance *p) {
    int64_t extent = p->splits[0].extent;
    double *best = malloc(((size_t)extent + 1) * sizeof *best), *next = malloc(((size_t)extent + 1) * sizeof *next);
    for (int64_t left = 0; left <= extent; left++) best[left] = left ? INFINITY : 0;
    for (int r = 0; r < p->nranks; r++) {
        struct mt_balance alone = *p;
        alone.nranks = 1, alone.class = &p->class[r];
        for (int64_t left = 0; left <= extent; left++) next[left] = INFINITY;
        for (int64_t x = 0; x <= extent; x++) {
            double t = mt_balance_time(&alone, &x, NULL);
            for (int64_t left = x; left <= extent; left++) next[left] = fmin(next[left], fmax(t, best[left - x]));
        }
        double *swap = best;
        best = next, next = swap;
    }
    double step_s = best[extent];
    free(best), free(next);
    return step_s;
}

static void one_split_in_one_stage(void) {
    int equal = 0, proven = 0, cases = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct mt_arena arena = MT_ARENA_INIT;
        struct draws d = {1000 + seed, 0};
        struct case_shape shape = {4 + (int)below(&d, 20), 3, 1, 1, seed % 3 ? 16 : 2, 120, 1, 0.3};
        struct mt_balance p;
        struct mt_balanced out;
        random_case(&arena, &d, &shape, &p);
        double best_s = bottleneck(&p);
        enum mt_status st = mt_balance_solve(&p, &out, &err);
        CHECK_EQ(st, isfinite(best_s) ? MT_OK : MT_EINPUT);
        if (!st) {
            check_shares(&p, &out);
            double gap = beyond(out.step_s, best_s);
            CHECK(gap > -1e-9 && gap <= 0.005 && out.bound_s <= best_s * (1 + 1e-9), "seed %d: %g of %g", (int)seed,
                  out.step_s, best_s);
            CHECK(!out.exact || gap < 1e-9);
            cases++, equal += gap < 1e-9, proven += out.exact;
            mt_arena_release(&out.arena);
        }
        mt_arena_release(&arena);
    }
    printf("one split in one stage: %d of %d equal, %d proven\n", equal, cases, proven);
    CHECK(equal >= cases * 95 / 100 && cases > 25);
}

/* Linear curves: the bound is the extent over all speeds, and shares reach it but for a unit a rank. */
static void linear(int nranks, int nsplits, int64_t *work) {
    static const char *const names[] = {"a", "b", "c", "d"};
    static const double speed[] = {1, 2, 3.5, 0.7};
    const int64_t at[2] = {0, 1000};
    double value[4][2] = {{0}}, zero[8] = {0}, all = 0;
    int64_t none[4] = {0};
    struct mt_share_curve compute[16] = {{0}}, comm[16] = {{0}}, memory[8] = {{0}};
    struct mt_balance_split splits[2] = {{"batch", 50 * nranks, 1}, {"storage", 1000 * nranks, 16}};
    int *class = malloc((size_t)nranks * sizeof *class);
    for (int r = 0; r < nranks; r++) class[r] = r * 7 % 4, all += speed[class[r]];
    for (int c = 0; c < 4; c++) {
        value[c][1] = 1000 / speed[c];
        for (int s = 0; s < nsplits; s++) /* each split has its own stage */
            compute[(s * nsplits + s) * 4 + c] = (struct mt_share_curve){2, at, value[c]};
    }
    struct mt_balance p = {nranks, 4,    nsplits, nsplits, class, splits, names, names, compute,
                           comm,   zero, zero,    memory,  none,  none,   0,     NULL,  60};
    struct mt_balanced out;
    CHECK_OK(mt_balance_solve(&p, &out, &err), err);
    check_shares(&p, &out);
    double bound_s = 0, most_s = 0;
    for (int s = 0; s < nsplits; s++) {
        bound_s += (double)splits[s].extent / all;
        most_s += (double)splits[s].extent / all + (double)splits[s].align / 0.7;
    }
    CHECK(out.step_s <= most_s && out.step_s >= bound_s * (1 - 1e-9), "%g: %g to %g", out.step_s, bound_s, most_s);
    if (!out.exact) CHECK_NEAR(out.bound_s, bound_s, 1e-5 * bound_s);
    *work = out.work;
    mt_arena_release(&out.arena);
    free(class);
}

static void scaling(void) {
    for (int nsplits = 1; nsplits <= 2; nsplits++)
        for (int nranks = 50; nranks <= 1600; nranks *= 2) {
            int64_t work;
            linear(nranks, nsplits, &work);
            printf("%d ranks, %d splits: %lld looked up\n", nranks, nsplits, (long long)work);
            CHECK(work <= 20000 + 4000 * nranks, "%lld", (long long)work);
        }
}

/* The relaxation's bound with a resource a little larger: kind, stage, class as in a binding; percent. */
static double bound_with(const struct mt_balance *given, const struct mt_binding *larger, double percent) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_balance p = *given;
    double less = 1 / (1 + percent / 100);
    int n = p.nstages * p.nsplits * p.nclasses;
    struct mt_share_curve *curves[2] = {mt_arena_memdup(&arena, p.compute, (size_t)n * sizeof *p.compute),
                                        mt_arena_memdup(&arena, p.comm, (size_t)n * sizeof *p.comm)};
    double *fixed[2] = {mt_arena_memdup(&arena, p.compute_fixed, (size_t)(p.nstages * p.nclasses) * sizeof(double)),
                        mt_arena_memdup(&arena, p.comm_fixed, (size_t)(p.nstages * p.nclasses) * sizeof(double))};
    for (int c = 0; larger && larger->kind != MT_BINDS_MEMORY && c < p.nclasses; c++) {
        int kind = larger->kind == MT_BINDS_COMM;
        if (!kind && c != larger->class) continue;
        fixed[kind][larger->stage * p.nclasses + c] *= less;
        for (int s = 0; s < p.nsplits; s++) {
            struct mt_share_curve *curve = &curves[kind][(larger->stage * p.nsplits + s) * p.nclasses + c];
            double *value = mt_new(&arena, double, curve->npoints);
            for (int i = 0; i < curve->npoints; i++) value[i] = curve->value[i] * less;
            curve->value = value;
        }
    }
    int64_t *limit = mt_arena_memdup(&arena, p.memory_limit, (size_t)p.nclasses * sizeof *limit);
    if (larger && larger->kind == MT_BINDS_MEMORY)
        limit[larger->class] += llround((double)limit[larger->class] * percent / 100);
    p.compute = curves[0], p.comm = curves[1], p.compute_fixed = fixed[0], p.comm_fixed = fixed[1];
    p.memory_limit = limit;
    struct balance b;
    struct balance_relaxed relaxed;
    CHECK_OK(mt_balance_prepare(&b, &p, &err), err);
    CHECK_OK(mt_balance_relax(&b, 1, &relaxed, &err), err);
    double bound_s = relaxed.bound_s;
    mt_arena_release(&b.arena);
    mt_arena_release(&arena);
    return bound_s;
}

/* What a binding says that a percent saves lies between what a little less costs and a little more saves. */
static void bindings_are_differences(void) {
    int checked[3] = {0};
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct mt_arena arena = MT_ARENA_INIT;
        struct draws d = {5000 + seed, 0};
        struct case_shape shape = {12, 3, 2, 2, 8, 400, 1, 0.8};
        struct mt_balance p;
        struct mt_balanced out;
        random_case(&arena, &d, &shape, &p);
        for (int c = 0; c < p.nclasses; c++) { /* fine bytes */
            ((int64_t *)p.memory_limit)[c] *= 1000000, ((int64_t *)p.memory_fixed)[c] *= 1000000;
            for (int s = 0; s < p.nsplits; s++)
                for (int i = 0; i < p.memory[s * p.nclasses + c].npoints; i++)
                    ((double *)p.memory[s * p.nclasses + c].value)[i] *= 1e6;
        }
        if (mt_balance_solve(&p, &out, &err)) {
            mt_arena_release(&arena);
            continue;
        }
        double base_s = bound_with(&p, NULL, 0), h = 0.02;
        for (int i = 0; i < out.nbindings; i++) {
            const struct mt_binding *binding = &out.bindings[i];
            CHECK(binding->dual > 0 && (!i || binding->dual <= out.bindings[i - 1].dual));
            double gain = (base_s - bound_with(&p, binding, h)) / h, loss = (bound_with(&p, binding, -h) - base_s) / h;
            double least = fmin(gain, loss), most = fmax(gain, loss), slack = 1e-3 * most + 1e-6 * base_s;
            CHECK(binding->dual >= least - slack && binding->dual <= most + slack, "seed %d, kind %d: %g, not %g to %g",
                  (int)seed, (int)binding->kind, binding->dual, least, most);
            checked[binding->kind]++;
        }
        mt_arena_release(&out.arena);
        mt_arena_release(&arena);
    }
    printf("bindings checked: %d compute, %d communication, %d memory\n", checked[0], checked[1], checked[2]);
    CHECK(checked[0] > 20 && checked[1] > 3 && checked[2] > 3);
}

/* Never worse than any start, also where nothing is proven; a start that is the best known comes back. */
static void starts(void) {
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct mt_arena arena = MT_ARENA_INIT;
        struct draws d = {9000 + seed, 0};
        struct case_shape shape = {20, 4, 2, 3, 16, 300, 3, 0};
        struct mt_balance p;
        struct mt_balanced out, again;
        random_case(&arena, &d, &shape, &p);
        int64_t *given[3];
        for (int i = 0; i < 3; i++) {
            given[i] = mt_new(&arena, int64_t, 2 * p.nranks);
            even_shares(&p, given[i]);
            for (int moves = 0; moves < 40; moves++) {
                int s = (int)below(&d, 2), from = (int)below(&d, p.nranks), to = (int)below(&d, p.nranks);
                int64_t *sizes = given[i] + s * p.nranks, unit = p.splits[s].align;
                if (sizes[from] >= unit) sizes[from] -= unit, sizes[to] += unit;
            }
        }
        p.nstarts = 2, p.starts = (const int64_t *const *)given;
        CHECK_OK(mt_balance_solve(&p, &out, &err), err);
        check_shares(&p, &out);
        for (int i = 0; i < 2; i++) CHECK(out.step_s <= mt_balance_time(&p, given[i], NULL));
        memcpy(given[2], out.sizes, 2 * (size_t)p.nranks * sizeof *out.sizes);
        p.nstarts = 3;
        CHECK_OK(mt_balance_solve(&p, &again, &err), err);
        CHECK(again.step_s <= out.step_s);
        mt_arena_release(&out.arena);
        mt_arena_release(&again.arena);
        mt_arena_release(&arena);
    }
}

static void refused(const struct mt_balance *p, const char *text) {
    struct mt_balanced out;
    CHECK_EQ(mt_balance_solve(p, &out, &err), MT_EINPUT);
    CHECK(strstr(err.text, text), "%s", err.text);
}

static void bad_input(void) {
    const int64_t at[2] = {0, 10}, back[2] = {0, 0}, none[1] = {0}, limit[1] = {1 << 20};
    double value[2] = {1, 2}, wrong[2] = {1, NAN}, bytes[2] = {0, 1 << 22}, zero[1] = {0};
    const char *const names[1] = {"only"};
    int class[2] = {0, 0};
    struct mt_share_curve compute = {2, at, value}, comm = {0}, memory = {2, at, bytes};
    struct mt_balance_split split = {"batch", 10, 4};
    struct mt_balance p = {2,     1,    1,    1,       class, &split, names, names, &compute,
                           &comm, zero, zero, &memory, none,  none,   0,     NULL,  10};
    struct mt_balanced out;
    CHECK_OK(mt_balance_solve(&p, &out, &err), err);
    CHECK(out.exact && out.sizes[0] == 6 && out.sizes[1] == 4, "%d %d", (int)out.sizes[0], (int)out.sizes[1]);
    mt_arena_release(&out.arena);
    p.memory_limit = limit;
    refused(&p, "class \"only\" needs 2.40 MiB, has 1.00 MiB and lacks 1.40 MiB");
    p.memory_limit = none;
    compute.value = wrong;
    refused(&p, "stage \"only\": the time of split \"batch\" on class \"only\" is nan at share 10");
    compute = (struct mt_share_curve){2, back, value};
    refused(&p, "shares must rise from 0");
    compute = (struct mt_share_curve){2, at, value};
    class[1] = 1;
    refused(&p, "rank 1 is of class 1");
    class[1] = 0;
    split.align = 0;
    refused(&p, "in multiples of 0");
    split.align = 4;
    static const struct {
        int64_t sizes[2];
        const char *text;
    } bad[] = {{{4, 4}, "sum to 8, not 10"},
               {{5, 5}, "2 shares of split \"batch\" are no multiples of 4"},
               {{-4, 14}, "rank 0 has a share of -4"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const int64_t *start = bad[i].sizes;
        p.nstarts = 1, p.starts = &start;
        refused(&p, bad[i].text);
    }
    p.nstarts = 0;
    p.nstages = 17;
    refused(&p, "17 stages");
}

int main(void) {
    struct mt_lp lp = MT_LP_INIT;
    struct mt_lp_solution s;
    if (mt_lp_solve(&lp, 1, &s, &err) == MT_EMISSING) {
        fprintf(stderr, "skipped: %s\n", err.text);
        return 77;
    }
    mt_lp_release(&lp);
    bad_input();
    against_brute_force();
    one_split_in_one_stage();
    scaling();
    bindings_are_differences();
    starts();
    return 0;
}

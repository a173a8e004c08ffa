/* Linear and integer programmes against solutions by hand, duals against differences, and everything that GLPK would
 * print or abort for. */
#include "planner/lp/lp.h"

#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/base/number/rng.h"
#include "planner/lp/module.h"
#include "tests/check.h"

static struct mt_err err;

static void the_example(void) {
    struct mt_lp lp = MT_LP_INIT;
    struct mt_lp_solution s;
    int x = mt_lp_col(&lp, "x", 0, INFINITY, 1.0, false);
    int row = mt_lp_row(&lp, "need", 3, INFINITY);
    mt_lp_set(&lp, row, x, 0.5);
    mt_lp_set(&lp, row, x, 1.5); /* adds up */
    CHECK_OK(mt_lp_solve(&lp, 5.0, &s, &err), err);
    CHECK_NEAR(s.x[x], 1.5, 1e-12);
    CHECK_NEAR(s.dual[row], 0.5, 1e-12);
    CHECK(s.optimal && s.bound == s.objective);
    mt_lp_release(&lp);
}

/* Hillier and Lieberman's Wyndor Glass: 3 x + 5 y at most, x <= 4, 2 y <= 12, 3 x + 2 y <= 18: (2, 6), 36. */
static void by_hand(void) {
    struct mt_lp lp = MT_LP_INIT;
    struct mt_lp_solution s;
    int x = mt_lp_col(&lp, "doors", 0, INFINITY, -3, false), y = mt_lp_col(&lp, "windows", 0, INFINITY, -5, false);
    int rows[3] = {mt_lp_row(&lp, "plant 1", -INFINITY, 4), mt_lp_row(&lp, "plant 2", -INFINITY, 12),
                   mt_lp_row(&lp, "plant 3", -INFINITY, 18)};
    mt_lp_set(&lp, rows[0], x, 1), mt_lp_set(&lp, rows[1], y, 2);
    mt_lp_set(&lp, rows[2], x, 3), mt_lp_set(&lp, rows[2], y, 2);
    CHECK_OK(mt_lp_solve(&lp, 5.0, &s, &err), err);
    CHECK_NEAR(s.objective, -36, 1e-9);
    CHECK_NEAR(s.x[x], 2, 1e-9);
    CHECK_NEAR(s.x[y], 6, 1e-9);
    static const double duals[3] = {0, -1.5, -1};
    for (int i = 0; i < 3; i++) CHECK_NEAR(s.dual[rows[i]], duals[i], 1e-9);
    mt_lp_release(&lp);
}

/* A random diet: costs at least, needs met; `shift` is added to the bound of row `shifted`. */
static double diet(uint64_t seed, int shifted, double shift, double *dual) {
    struct mt_lp lp = MT_LP_INIT;
    struct mt_lp_solution s;
    char name[32];
    for (int c = 0; c < 6; c++) {
        snprintf(name, sizeof name, "food %d", c);
        mt_lp_col(&lp, name, 0, 10, 1 + mt_random_uniform(seed, 0, (uint64_t)c), false);
    }
    for (int r = 0; r < 4; r++) {
        snprintf(name, sizeof name, "need %d", r);
        mt_lp_row(&lp, name, 1 + mt_random_uniform(seed, 1, (uint64_t)r) + (r == shifted ? shift : 0), INFINITY);
        for (int c = 0; c < 6; c++) mt_lp_set(&lp, r, c, mt_random_uniform(seed, 2, (uint64_t)(6 * r + c)));
    }
    CHECK_OK(mt_lp_solve(&lp, 5.0, &s, &err), err);
    if (dual) memcpy(dual, s.dual, 4 * sizeof *dual);
    mt_lp_release(&lp);
    return s.objective;
}

static void duals_are_differences(void) {
    for (uint64_t seed = 0; seed < 50; seed++) {
        double dual[4], h = 1e-6;
        double base = diet(seed, -1, 0, dual);
        for (int r = 0; r < 4; r++) CHECK_NEAR(dual[r], (diet(seed, r, h, NULL) - base) / h, 1e-6);
    }
}

/* Knapsacks against all subsets; bound and gap hold. */
static void knapsacks(void) {
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct mt_lp lp = MT_LP_INIT;
        struct mt_lp_solution s;
        double worth[10], weight[10], best = 0;
        int room = mt_lp_row(&lp, "room", -INFINITY, 20);
        for (int i = 0; i < 10; i++) {
            worth[i] = 1 + 9 * mt_random_uniform(seed, 3, (uint64_t)i);
            weight[i] = 1 + (double)mt_random_below(seed, 4, (uint64_t)i, 9);
            mt_lp_set(&lp, room, mt_lp_col(&lp, "item", -0.5, 1.5, -worth[i], true), weight[i]);
        }
        for (int set = 0; set < 1 << 10; set++) {
            double value = 0, load = 0;
            for (int i = 0; i < 10; i++)
                if (set >> i & 1) value += worth[i], load += weight[i];
            if (load <= 20 && value > best) best = value;
        }
        lp.gap = seed % 2 ? 0.1 : 0;
        CHECK_OK(mt_lp_solve(&lp, 10, &s, &err), err);
        CHECK(s.optimal && s.bound >= -best * (1 + lp.gap) - 1e-6 && s.bound <= -best + 1e-9 * best);
        CHECK(s.objective >= -best - 1e-9 && s.objective <= -best * (1 - lp.gap) + 1e-9, "%g %g", s.objective, -best);
        for (int i = 0; i < 10; i++) CHECK(s.x[i] == 0 || s.x[i] == 1);
        mt_lp_release(&lp);
    }
}

/* Market split (Cornuejols and Dawande): hard for branch and bound, soft by slack so that something is soon found. */
static void market(struct mt_lp *lp, bool soft) {
    char name[32];
    for (int c = 0; c < 40; c++) mt_lp_col(lp, "customer", 0, 1, 0, true);
    for (int r = 0; r < 5; r++) {
        int64_t sum = 0;
        snprintf(name, sizeof name, "product %d", r);
        int row = mt_lp_row(lp, name, 0, 0);
        for (int c = 0; c < 40; c++) {
            int64_t a = (int64_t)mt_random_below(7, (uint64_t)r, (uint64_t)c, 100);
            sum += a;
            mt_lp_set(lp, row, c, (double)a);
        }
        lp->rows[row].least = lp->rows[row].most = (double)(sum / 2);
        for (int sign = -1; soft && sign <= 1; sign += 2)
            mt_lp_set(lp, row, mt_lp_col(lp, "slack", 0, INFINITY, 1, false), sign);
    }
}

static void limits(void) {
    for (int by_nodes = 0; by_nodes < 2; by_nodes++) {
        struct mt_lp lp = MT_LP_INIT;
        struct mt_lp_solution s;
        market(&lp, true);
        if (by_nodes) lp.most_nodes = 500;
        CHECK_OK(mt_lp_solve(&lp, by_nodes ? 100 : 0.3, &s, &err), err);
        CHECK(!s.optimal && s.bound < s.objective && s.objective > 0, "%g %g", s.bound, s.objective);
        mt_lp_release(&lp);
    }
    struct mt_lp lp = MT_LP_INIT;
    struct mt_lp_solution s;
    market(&lp, false);
    lp.most_nodes = 50;
    CHECK_EQ(mt_lp_solve(&lp, 100, &s, &err), MT_ESTALL);
    mt_lp_release(&lp);
}

static void refused(struct mt_lp *lp, enum mt_status want, const char *text) {
    struct mt_lp_solution s;
    CHECK_EQ(mt_lp_solve(lp, 5, &s, &err), want);
    CHECK(strstr(err.text, text), "%s", err.text);
    mt_lp_release(lp);
}

static void no_solution(void) {
    struct mt_lp lp = MT_LP_INIT;
    int x = mt_lp_col(&lp, "x", 0, 1, 1, false), y = mt_lp_col(&lp, "y", 0, 1, 1, false);
    int row = mt_lp_row(&lp, "more than there is", 3, INFINITY);
    mt_lp_set(&lp, row, x, 1), mt_lp_set(&lp, row, y, 1);
    refused(&lp, MT_EINPUT, "\"more than there is\" must be at least 3");
    x = mt_lp_col(&lp, "x", 0, INFINITY, -1, false);
    mt_lp_set(&lp, mt_lp_row(&lp, "free", 0, INFINITY), x, 1);
    refused(&lp, MT_EINPUT, "unbounded");
    x = mt_lp_col(&lp, "x", 0, 10, 1, true);
    mt_lp_set(&lp, mt_lp_row(&lp, "odd", 5, 5), x, 2);
    refused(&lp, MT_EINPUT, "whole numbers");
    mt_lp_col(&lp, "x", 0.2, 0.8, 1, true);
    refused(&lp, MT_EINPUT, "no whole number");
    mt_lp_row(&lp, "of nothing", 1, 2);
    refused(&lp, MT_EINPUT, "of nothing");
    mt_lp_col(&lp, "x", 0, 1, NAN, false);
    refused(&lp, MT_EINPUT, "its cost is");
    mt_lp_col(&lp, "x", NAN, 1, 1, false);
    refused(&lp, MT_EINPUT, "its bounds are");
    mt_lp_row(&lp, "r", INFINITY, INFINITY);
    refused(&lp, MT_EINPUT, "its bounds are");
    mt_lp_row(&lp, "r", 2, 1);
    refused(&lp, MT_EINPUT, "row \"r\": must be at least 2 and at most 1");
    x = mt_lp_col(&lp, "x", 0, 1, 1, false);
    mt_lp_set(&lp, mt_lp_row(&lp, "r", 0, 1), x, INFINITY);
    refused(&lp, MT_EINPUT, "row \"r\", column \"x\": the coefficient is inf");
    struct mt_lp_solution s; /* nothing asked, nothing needed */
    CHECK_OK(mt_lp_solve(&lp, 5, &s, &err), err);
    CHECK(s.objective == 0 && s.optimal);
    mt_lp_col(&lp, "alone", -2, 5, 3, false);
    CHECK_OK(mt_lp_solve(&lp, 5, &s, &err), err);
    CHECK_NEAR(s.objective, -6, 1e-12);
    mt_lp_release(&lp);
}

/* What ends GLPK's process by default: an entry outside the matrix, past our own checks. */
static void fault_in_glpk(void) {
    struct mt_module glpk = MT_MODULE("motley_glpk.so", "mt_lp_module", MT_LP_SHAPE, "");
    const struct mt_lp_module *module = mt_module_load(&glpk, &err);
    CHECK(module, "%s", err.text);
    double x, dual;
    struct mt_lp_solution s = {.x = &x, .dual = &dual};
    for (int i = 0; i < 3; i++) {
        struct mt_lp lp = MT_LP_INIT;
        mt_lp_col(&lp, "x", 0, 1, 1, false);
        mt_lp_row(&lp, "r", 0, 1);
        mt_lp_set(&lp, 0, 0, 1);
        lp.entries[0].row = 5;
        CHECK_EQ(module->solve(&lp, 5, &s, &err), MT_EBUG);
        CHECK(strstr(err.text, "out of range"), "%s", err.text);
        mt_lp_release(&lp);
        the_example(); /* and the next is solved as ever */
    }
}

static void *many(void *unused) {
    (void)unused;
    for (uint64_t seed = 0; seed < 20; seed++) CHECK(diet(seed, -1, 0, NULL) > 0);
    return NULL;
}

static void missing(void) {
    pid_t child = fork();
    if (!child) {
        setenv("MOTLEY_MODULES", "/nowhere", 1);
        struct mt_lp lp = MT_LP_INIT;
        struct mt_lp_solution s;
        CHECK_EQ(mt_lp_solve(&lp, 1, &s, &err), MT_EMISSING);
        CHECK(strstr(err.text, "/nowhere") && strstr(err.hint, "libglpk-dev"), "%s: %s", err.text, err.hint);
        _exit(0);
    }
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

int main(void) {
    missing();
    struct mt_module glpk = MT_MODULE("motley_glpk.so", "mt_lp_module", MT_LP_SHAPE, "");
    if (!mt_module_load(&glpk, &err)) {
        fprintf(stderr, "skipped: %s\n", err.text);
        return 77;
    }
    /* GLPK must print nothing: standard output goes to a file for the while. */
    FILE *said = tmpfile();
    int out = dup(STDOUT_FILENO);
    CHECK(said && out >= 0 && dup2(fileno(said), STDOUT_FILENO) >= 0);
    the_example();
    by_hand();
    duals_are_differences();
    knapsacks();
    limits();
    no_solution();
    fault_in_glpk();
    pthread_t thread[4];
    for (int i = 0; i < 4; i++) CHECK_EQ(pthread_create(&thread[i], NULL, many, NULL), 0);
    for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
    fflush(NULL);
    struct stat file;
    CHECK(dup2(out, STDOUT_FILENO) >= 0 && fstat(fileno(said), &file) == 0);
    CHECK_EQ(file.st_size, 0);
    return 0;
}

/* What the search finds against brute force: small catalogues, of which every configuration within the limits is
 * judged here, by the judge and by prices alone. The best and every point of the frontier are found, or others that are
 * at most half a percent slower and are ties; rows are what the judge says; with more money nothing is worse. How
 * far the integer programme's proposals come, where few configurations are looked at one by one, is printed. */
#include <math.h>
#include <string.h>

#include "tests/planner/buy/given.h"

enum { MOST_ITEMS = 4, MOST_CONFIGURATIONS = 300 };

static struct mt_err err = MT_ERR_INIT;

struct problem {
    const char *items[MOST_ITEMS + 1], *jobs[3], *own;
    struct mt_purchase_limits limits;
};

#define SMALL "model=gpt2:layers=1,heads=2,embed=128,context=64,vocab=512 batch=64 steps=1k"
#define WIDE "model=gpt2:layers=1,heads=8,embed=1024,context=128,vocab=2048 batch=64 steps=500"
#define DEEP "model=gpt2:layers=2,heads=4,embed=256,context=128,vocab=512 batch=96 steps=2k"
#define LARGE "model=gpt2:layers=1,heads=16,embed=2048,context=128,vocab=1024 batch=128 steps=100"
#define H100 "name=h100 price=30k net=100G"
#define H100X2 "name=h100x2 based_on=h100 devices=2 price=58k net=100G"
#define A100 "name=a100 based_on=a100-40 price=12k net=50G"
#define L4 "name=l4 price=3k net=25G"
#define L4X2 "name=l4x2 based_on=l4 devices=2 price=7k net=25G"
#define A10 "name=a10 price=2500 net=10G"
#define T4 "name=t4 price=900 net=10G"
#define SLOW_START "name=x memory=40GiB f32=100T streaming=2TB/s overhead=200us price=1k most=5 net=10G"
#define QUICK_START "name=y memory=40GiB f32=20T streaming=2TB/s overhead=2us price=5k net=10G"
#define RENT_H100 "name=h100 per_hour=3.5 net=100G"
#define RENT_A10 "name=a10 per_hour=0.6 net=25G"
#define RENT_L4 "name=l4 per_hour=0.5 net=25G"

/* By default those that differ in what limits them (`usual`); all with `test_buy all`. */
static const struct problem problems[] = {
    {{H100, L4}, {WIDE}, NULL, {.budget = 100e3}},
    {{H100, A100, L4}, {LARGE}, NULL, {.budget = 62e3}},
    {{A10, T4}, {DEEP}, NULL, {.budget = 12e3}},
    {{H100X2, A100, L4X2}, {WIDE}, NULL, {.budget = 90e3}},
    {{H100, A100, L4, T4}, {LARGE}, NULL, {.budget = 32e3, .nodes = 5}},
    {{RENT_H100, RENT_A10, RENT_L4}, {LARGE}, NULL, {.budget_per_hour = 5}},
    {{RENT_H100, RENT_L4}, {WIDE, DEEP}, NULL, {.budget_per_hour = 11}},
    {{H100, L4}, {SMALL}, NULL, {.budget = 70e3}},
    {{L4, A10}, {WIDE}, "l4:1x2 net=25G", {.budget = 14e3}},
    {{H100, L4}, {LARGE}, "a10:1", {.budget = 65e3}},
    {{A100, L4}, {LARGE, WIDE}, NULL, {.budget = 50e3}},
    {{H100, A100, L4}, {LARGE}, NULL, {.budget = 200e3, .power_W = 1300}},
    {{H100X2, L4X2}, {LARGE}, NULL, {.budget = 150e3, .devices = 7}},
    {{H100, "name=free based_on=l4 price=0 most=3 net=10G"}, {WIDE}, NULL, {.budget = 95e3}},
    {{"name=h100 price=30k rack_units=4", "name=l4 price=3k rack_units=1"},
     {LARGE},
     NULL,
     {.budget = 80e3, .rack_units = 11}},
    {{"name=a100 based_on=a100-40 price=12k per_hour=0.2", RENT_H100},
     {LARGE},
     NULL,
     {.budget = 50e3, .budget_per_hour = 8}},
    {{H100, L4}, {LARGE " deadline=40s"}, NULL, {.budget = 100e3}},
    {{A10, L4, T4}, {DEEP, SMALL " deadline=60s"}, NULL, {.budget = 9e3}},
    {{"name=own memory=3GiB f32=40T bf16=80T streaming=1TB/s link=pcie price=5k", L4}, {WIDE}, NULL, {.budget = 25e3}},
    {{"name=tiny memory=200MiB f32=60T streaming=1TB/s price=1k", A100}, {LARGE}, NULL, {.budget = 26e3, .nodes = 12}},
    /* What is fastest in all is late with the first job. */
    {{SLOW_START, QUICK_START}, {SMALL " deadline=2s", LARGE}, NULL, {.budget = 6e3}},
};
/* A budget; nodes; money by the hour; what is owned; power; devices; what costs nothing; racks; both kinds of money;
 * two jobs, with a deadline; hardware of the catalogue's own; what is late. */
static const int usual[] = {0, 4, 5, 8, 11, 12, 13, 14, 15, 17, 18, 20};
/* Of 120 to 300 configurations: with `test_buy all`. */
static const struct problem large_problems[] = {
    {{H100, A100, L4, T4}, {LARGE}, NULL, {.budget = 21e3}},
    {{H100, L4}, {LARGE}, NULL, {.budget = 190e3}},
    {{A100, L4, A10}, {WIDE}, NULL, {.budget = 34e3}},
    {{H100X2, A100, L4X2}, {LARGE}, NULL, {.budget = 130e3}},
    {{RENT_H100, RENT_A10, RENT_L4}, {LARGE}, NULL, {.budget_per_hour = 7.5}},
    {{RENT_H100, RENT_L4}, {WIDE, DEEP}, NULL, {.budget_per_hour = 20}},
    {{H100, L4}, {LARGE}, "a10:1", {.budget = 180e3}},
    {{A10, T4}, {LARGE}, NULL, {.budget = 24e3}},
    {{A100, L4}, {LARGE, WIDE}, NULL, {.budget = 90e3}},
    {{H100, A100, L4}, {LARGE}, NULL, {.budget = 900e3, .power_W = 2000}},
    {{SLOW_START, QUICK_START}, {SMALL " deadline=2s", LARGE}, NULL, {.budget = 150e3, .nodes = 40}},
    {{A10, L4, T4}, {DEEP}, NULL, {.budget = 15e3}},
    {{A10, L4, T4}, {LARGE}, "l4:1x2 net=25G", {.budget = 15e3}},
    {{H100, A100}, {LARGE}, NULL, {.budget = 350e3}},
    {{A10, L4, T4}, {DEEP, SMALL " deadline=60s"}, NULL, {.budget = 16e3}},
    {{H100X2, L4X2}, {LARGE}, NULL, {.budget = 900e3, .devices = 32}},
    {{"name=h100 price=30k rack_units=4", "name=l4 price=3k rack_units=1"},
     {LARGE},
     NULL,
     {.budget = 9e5, .rack_units = 40}},
    {{H100, A100, L4, A10}, {WIDE}, NULL, {.budget = 5e5, .nodes = 5}},
    {{"name=tiny memory=200MiB f32=60T streaming=1TB/s price=1k", A100}, {LARGE}, NULL, {.budget = 60e3, .nodes = 45}},
    {{"name=a100 based_on=a100-40 price=12k per_hour=0.2", RENT_H100, RENT_L4},
     {LARGE},
     NULL,
     {.budget = 60e3, .budget_per_hour = 7}},
};
enum {
    NPROBLEMS = sizeof problems / sizeof problems[0],
    NLARGE = sizeof large_problems / sizeof large_problems[0],
    NUSUAL = sizeof usual / sizeof usual[0]
};

/* Everything within the limits, judged. */
struct brute {
    const struct mt_buy *buy;
    int count;
    struct mt_buy_config configs[MOST_CONFIGURATIONS];
    double price[MOST_CONFIGURATIONS], per_hour[MOST_CONFIGURATIONS], cost[MOST_CONFIGURATIONS];
    bool late[MOST_CONFIGURATIONS];
};

static bool within(const struct mt_buy *buy, const int64_t *counts, double *price, double *per_hour, int *devices) {
    double power = 0, units = 0, nodes = 0;
    *price = *per_hour = 0;
    *devices = buy->owned ? buy->owned->ndevices : 0;
    for (int i = 0; i < buy->nitems; i++) {
        const struct mt_purchase_item *item = &buy->items[i].shown;
        double n = (double)counts[i];
        *price += n * item->price, *per_hour += n * item->per_hour;
        power += n * item->power_W, units += n * item->rack_units, nodes += n;
        *devices += (int)counts[i] * item->devices;
        if (item->most && counts[i] > item->most) return false;
    }
    const struct mt_purchase_limits *l = &buy->limits;
    return (!(l->budget > 0) || *price <= l->budget) &&
           (!(l->budget_per_hour > 0) || *per_hour <= l->budget_per_hour) &&
           (!(l->power_W > 0) || power <= l->power_W) && (!(l->rack_units > 0) || units <= l->rack_units) &&
           (!l->nodes || nodes <= l->nodes) && (!l->devices || *devices <= l->devices);
}

static void judge_all(struct brute *b, int64_t *counts, int item) {
    double price, per_hour;
    int devices;
    if (!within(b->buy, counts, &price, &per_hour, &devices)) return;
    if (item < b->buy->nitems) {
        for (; within(b->buy, counts, &price, &per_hour, &devices); counts[item]++) judge_all(b, counts, item + 1);
        counts[item] = 0;
        return;
    }
    if (!devices) return;
    CHECK(b->count < MOST_CONFIGURATIONS, "more than %d configurations", MOST_CONFIGURATIONS);
    struct mt_buy_config *c = &b->configs[b->count];
    enum mt_status st = mt_buy_judge(b->buy, counts, c, &err);
    skip_without_glpk(st, &err);
    CHECK_OK(st, err);
    b->price[b->count] = price, b->per_hour[b->count] = per_hour;
    b->cost[b->count] = price + per_hour * c->time_s / 3600;
    for (int j = 0; j < b->buy->njobs && !c->refused; j++) b->late[b->count] |= c->jobs[j].late;
    b->count++;
}

static int find(const struct brute *b, const int64_t *counts) {
    for (int i = 0; i < b->count; i++)
        if (!memcmp(b->configs[i].counts, counts, (size_t)b->buy->nitems * sizeof *counts)) return i;
    CHECK(false, "a row that is not within the limits");
    return -1;
}

/* The least time of what costs at most so much; -1: none. */
static int fastest(const struct brute *b, double money, bool late) {
    int best = -1;
    for (int i = 0; i < b->count; i++) {
        double needs = b->buy->limits.budget > 0 ? b->price[i] : b->per_hour[i];
        if (b->configs[i].refused || needs > money || b->late[i] != late) continue;
        if (best < 0 || b->configs[i].time_s < b->configs[best].time_s) best = i;
    }
    return best;
}

static bool on_frontier(const struct brute *b, int x) {
    if (b->configs[x].refused || b->late[x]) return false;
    for (int i = 0; i < b->count; i++) {
        if (b->configs[i].refused || b->late[i] || b->cost[i] > b->cost[x]) continue;
        double time_s = b->configs[i].time_s;
        if (time_s < b->configs[x].time_s || (b->cost[i] < b->cost[x] && time_s == b->configs[x].time_s)) return false;
    }
    return true;
}

/* How much slower than brute force; *ties: it is no tie with it, where it is another. */
static double slower(const struct brute *b, int mine, int best) {
    const struct mt_buy_config *c = &b->configs[mine], *d = &b->configs[best];
    if (mine != best && c->time_s > d->time_s)
        CHECK(mt_errors_tie(&c->errors, &d->errors, c->time_s / d->time_s), "%g s is no tie with %g s", c->time_s,
              d->time_s);
    return c->time_s / d->time_s - 1;
}

struct worst {
    double best, frontier;
    int64_t judged, all;
};

static void check_rows(const struct brute *b, const struct mt_purchase *p, double within_part, struct worst *worst) {
    int best = fastest(b, INFINITY, false);
    if (best < 0) best = fastest(b, INFINITY, true);
    CHECK(best >= 0 && p->nrows > 0, "rows");
    double more = slower(b, find(b, p->rows[0].counts), best);
    worst->best = fmax(worst->best, more);
    CHECK(more <= within_part, "the best is %.3f%% slower than brute force's", 100 * more);
    for (int i = 0; i < p->nrows; i++) {
        int x = find(b, p->rows[i].counts);
        CHECK_NEAR(p->rows[i].time_s, b->configs[x].time_s, 1e-12 * p->rows[i].time_s);
        CHECK_NEAR(p->rows[i].cost, b->cost[x], 1e-9 * (1 + b->cost[x]));
        CHECK_EQ(p->rows[i].late, b->late[x]);
    }
    for (int x = 0; x < b->count; x++) {
        if (!on_frontier(b, x)) continue;
        double time_s = INFINITY;
        for (int i = 0; i < p->nrows; i++)
            if (p->rows[i].frontier && p->rows[i].cost <= b->cost[x] * (1 + within_part) + 1e-9)
                time_s = fmin(time_s, p->rows[i].time_s);
        double lacks = time_s / b->configs[x].time_s - 1;
        worst->frontier = fmax(worst->frontier, lacks);
        CHECK(lacks <= within_part, "at a cost of %g the frontier is %.3f%% slower than brute force's", b->cost[x],
              100 * lacks);
    }
    CHECK(p->judged <= b->count, "%lld of %d are judged", (long long)p->judged, b->count);
    worst->judged += p->judged, worst->all += b->count;
    CHECK_EQ((int)p->configurations, b->count);
}

/* With more money nothing is worse, up to the whole budget, with which the best takes least_s (0: it is late); and the
 * best with a part of it is that of brute force: with three fifths, in `test_buy all` with two and with four. */
static void check_budgets(struct given *g, const struct brute *b, double within_part, bool every, double least_s) {
    double *budget = g->buy.limits.budget > 0 ? &g->buy.limits.budget : &g->buy.limits.budget_per_hour;
    double all = *budget, last = INFINITY;
    for (int part = every ? 2 : 3; part <= 4; part += 2) {
        struct mt_purchase *p;
        *budget = all * part / 5;
        enum mt_status st = mt_buy_search(&g->buy, &p, &err);
        int best = fastest(b, *budget, false);
        if (st == MT_EINPUT) {
            CHECK(best < 0 && fastest(b, *budget, true) < 0, "%s", err.text);
            continue;
        }
        CHECK_OK(st, err);
        if (!p->rows[0].late) {
            CHECK(p->rows[0].time_s <= last, "%g s with more money, %g with less", p->rows[0].time_s, last);
            last = p->rows[0].time_s;
            CHECK(slower(b, find(b, p->rows[0].counts), best) <= within_part, "with %g", *budget);
        }
        mt_purchase_free(p);
    }
    CHECK(least_s <= last, "%g s with all the money, %g with less", least_s, last);
    *budget = all;
}

static void test_problem(const struct problem *problem, bool every, struct worst *exact, struct worst *proposed) {
    static struct brute b;
    struct given g;
    struct mt_purchase *p;
    int64_t counts[MOST_ITEMS] = {0};
    given_init(&g, problem->items, problem->jobs, problem->own);
    g.buy.limits = problem->limits;
    b = (struct brute){.buy = &g.buy};
    judge_all(&b, counts, 0);
    enum mt_status st = mt_buy_search(&g.buy, &p, &err);
    CHECK_OK(st, err);
    check_rows(&b, p, 0.005, exact);
    printf("  %-60s %3d configurations, %3lld judged\n", p->rows[0].what, b.count, (long long)p->judged);
    double least_s = p->rows[0].late ? 0 : p->rows[0].time_s;
    mt_purchase_free(p);
    check_budgets(&g, &b, 0.005, every, least_s);
    g.buy.exact = 12;
    CHECK_OK(mt_buy_search(&g.buy, &p, &err), err);
    int best = fastest(&b, INFINITY, p->rows[0].late), mine = find(&b, p->rows[0].counts);
    proposed->best = fmax(proposed->best, b.configs[mine].time_s / b.configs[best].time_s - 1);
    proposed->judged += p->judged, proposed->all += b.count;
    printf("  %-60s %+.2f%%, %3lld judged\n", "  with proposals",
           100 * (b.configs[mine].time_s / b.configs[best].time_s - 1), (long long)p->judged);
    mt_purchase_free(p);
    for (int i = 0; i < b.count; i++) mt_buy_config_release(&b.configs[i], g.buy.njobs);
    given_release(&g);
}

/* How many threads judge makes no difference. */
static void test_threads(void) {
    struct given g;
    struct mt_purchase *one, *four;
    given_init(&g, problems[1].items, problems[1].jobs, NULL);
    g.buy.limits = problems[1].limits;
    g.buy.nnext = 1, g.buy.next[0] = 20e3;
    g.buy.threads = 1;
    CHECK_OK(mt_buy_search(&g.buy, &one, &err), err);
    g.buy.threads = 4;
    CHECK_OK(mt_buy_search(&g.buy, &four, &err), err);
    CHECK_TEXT(one->hash, four->hash);
    CHECK(one->nnext == 1 && one->next[0].row.time_s <= one->rows[0].time_s, "more money");
    mt_purchase_free(one), mt_purchase_free(four);
    given_release(&g);
}

/* Three of 0.1 are within 0.3; a budget that limits nothing is refused; where a further node makes nothing faster,
 * money does not bind. */
static void test_money(void) {
    static const char *const rent[] = {"name=l4 per_hour=0.1 net=25G", NULL}, *const jobs[] = {SMALL, NULL},
                             *const buy[] = {"name=l4 price=0.1 net=25G", NULL};
    struct given g;
    struct mt_purchase *p;
    given_init(&g, rent, jobs, NULL);
    g.buy.limits.budget_per_hour = 0.3;
    g.buy.nnext = 1, g.buy.next[0] = 0.4;
    CHECK_OK(mt_buy_search(&g.buy, &p, &err), err);
    CHECK_EQ((int)p->configurations, 3);
    CHECK(p->judged <= 3, "%lld are judged", (long long)p->judged);
    CHECK_EQ((int)p->rows[0].counts[0], 2);
    CHECK(!p->next[0].better && p->dual == 0 && !p->binds[0] && p->next[0].estimate_s == 0, "%s binds", p->binds);
    mt_purchase_free(p);
    g.buy.limits.budget = 10;
    CHECK_EQ(mt_buy_search(&g.buy, &p, &err), MT_EINPUT);
    CHECK(strstr(err.text, "nothing of the catalogue is bought"), "%s", err.text);
    given_release(&g);
    given_init(&g, buy, jobs, NULL);
    g.buy.limits.budget_per_hour = 10;
    CHECK_EQ(mt_buy_search(&g.buy, &p, &err), MT_EINPUT);
    CHECK(strstr(err.text, "nothing of the catalogue is paid by the hour"), "%s", err.text);
    given_release(&g);
}

/* What is left out says why, and wrong requests are refused. */
static void test_excluded(void) {
    static const char *const items[] = {H100,
                                        "name=a10",
                                        "name=t4 price=900",
                                        "name=cpu-8t price=1",
                                        "name=own memory=8GiB f32=1T streaming=1T price=1",
                                        NULL};
    static const char *const jobs[] = {SMALL " precision=bf16", NULL}, *const nothing[] = {"name=a10", NULL};
    struct given g;
    struct mt_purchase *p;
    given_init(&g, items, jobs, NULL);
    g.buy.limits.budget = 60e3;
    CHECK_OK(mt_buy_search(&g.buy, &p, &err), err);
    CHECK_EQ(p->nitems, 1);
    static const char *const why[][2] = {{"a10", "it has no price"},
                                         {"t4", "it cannot run job 1: t4: has compute capability 7.5"},
                                         {"cpu-8t", "it is of kind cpu among devices of kind cuda"},
                                         {"own", "it has no rate for job 1, in bf16"},
                                         {"p100", "known hardware, without a price"}};
    for (size_t i = 0; i < sizeof why / sizeof why[0]; i++) {
        CHECK_TEXT(p->excluded[i].name, why[i][0]);
        CHECK(!strncmp(p->excluded[i].why, why[i][1], strlen(why[i][1])), "%s: %s", why[i][0], p->excluded[i].why);
    }
    mt_purchase_free(p);
    g.buy.limits.budget = 20e3; /* none within it */
    CHECK_EQ(mt_buy_search(&g.buy, &p, &err), MT_EINPUT);
    CHECK(strstr(err.text, "no configuration is within the limits"), "%s", err.text);
    g.buy.limits.budget = -1;
    CHECK_EQ(mt_buy_search(&g.buy, &p, &err), MT_EINPUT);
    CHECK(strstr(err.text, "the limit of budget: is -1"), "%s", err.text);
    given_release(&g);
    given_init(&g, nothing, jobs, NULL);
    CHECK_EQ(mt_buy_search(&g.buy, &p, &err), MT_EINPUT);
    CHECK(strstr(err.text, "nothing of the catalogue can be bought: a10: it has no price"), "%s", err.text);
    given_release(&g);
}

int main(int argc, char **argv) {
    bool every = argc > 1 && !strcmp(argv[1], "all");
    struct worst exact = {.best = 0}, proposed = {.best = 0};
#ifdef __SANITIZE_ADDRESS__
    const int step = 4; /* ten times as long: the others run without */
#else
    const int step = 1;
#endif
    int tried = 0;
    for (int i = 0; i < (every ? NPROBLEMS : NUSUAL); i += every ? 1 : step) {
        int which = every ? i : usual[i];
        tried++;
        printf("%d\n", which);
        test_problem(&problems[which], every, &exact, &proposed);
    }
    for (int i = 0; i < (every ? NLARGE : 0); i++) {
        tried++;
        printf("large %d\n", i);
        fflush(stdout);
        test_problem(&large_problems[i], every, &exact, &proposed);
    }
    printf("%d problems: the best is at most %.3f%% slower than brute force's, the frontier %.3f%%; %lld of %lld "
           "configurations judged\n",
           tried, 100 * exact.best, 100 * exact.frontier, (long long)exact.judged, (long long)exact.all);
    printf("with proposals: the best is at most %.3f%% slower; %lld judged\n", 100 * proposed.best,
           (long long)proposed.judged);
    test_threads();
    test_money();
    test_excluded();
    return 0;
}

/* What is made of GPUs' own words: the links between them, and what the user should know. */
#include "profiler/assemble/assemble.h"
#include "tests/check.h"

enum { NRANKS = 4 };

static const char *const buses[NRANKS] = {"0000:1b:00.0", "0000:43:00.0", "0000:1b:00.0", "0000:43:00.0"};

/* Ranks 0 and 1 on a, 2 and 3 on b; each GPU sees the other of its host. */
static void make(struct mt_profile *p, struct mt_pair_times *pairs) {
    *p = (struct mt_profile){.gpu = true, .nranks = NRANKS, .nnodes = 2, .nclasses = 1, .pairs = pairs};
    p->places = mt_new(&p->arena, struct mt_place, NRANKS);
    p->egress_Bps = mt_new(&p->arena, double, 2), p->ingress_Bps = mt_new(&p->arena, double, 2);
    for (int n = 0; n < 2; n++) p->egress_Bps[n] = p->ingress_Bps[n] = 3e11;
    for (int r = 0; r < NRANKS; r++) {
        struct mt_place *place = &p->places[r];
        struct mt_device_facts *facts = &place->facts;
        place->node = r / 2;
        snprintf(place->topology.host, sizeof place->topology.host, "%c", 'a' + r / 2);
        snprintf(place->topology.nics, sizeof place->topology.nics, "eth%d", r / 2);
        snprintf(place->model, sizeof place->model, "NVIDIA H200");
        snprintf(facts->bus, sizeof facts->bus, "%s", buses[r]);
        snprintf(facts->driver, sizeof facts->driver, "580.95.05");
        facts->multiprocessors = facts->computing = 132;
        facts->memory_bytes = (int64_t)140 << 30;
        facts->npeers = 1;
        facts->peers[0] = (struct mt_device_peer){.nvlink = true, .access = true};
        snprintf(facts->peers[0].bus, sizeof facts->peers[0].bus, "%s", buses[r ^ 1]);
        for (int q = r + 1; q < NRANKS; q++) {
            struct mt_interval time = {1e-5, 1e-5, 1e-5}, rate = {3e11, 3e11, 3e11};
            struct mt_pair_times *pair = &pairs[p->npairs++];
            *pair = (struct mt_pair_times){.a = r, .b = q, .between = q / 2 != r / 2, .latency = time};
            pair->bandwidth = pair->reverse = rate;
            if (pair->between) continue;
            pair->copy_Bps = 4e11;
            pair->puts = (struct mt_cluster_puts){2e-6, 3.6e11, 1.5e-6 + r * 1e-6, 0.08, 0};
        }
    }
}

/* Both directions of pairs, and of nodes. */
static void test_directions(void) {
    struct mt_pair_times pairs[NRANKS * NRANKS];
    struct mt_profile p;
    make(&p, pairs);
    p.egress_Bps[1] = 3e10;
    for (int i = 0; i < p.npairs; i++) {
        if (!pairs[i].between) continue;
        if (pairs[i].a == 0) pairs[i].reverse = (struct mt_interval){3e10, 2.97e10, 3.03e10};
        if (pairs[i].a == 1) pairs[i].reverse = (struct mt_interval){2.8e11, 2.7e11, 2.9e11}; /* within a tenth */
    }
    struct mt_cluster *c = mt_cluster_new();
    c->ndevices = NRANKS;
    mt_assemble_links(&p, c);
    CHECK_NEAR(c->nodes[1].egress_Bps, 3e10, 0);
    CHECK_NEAR(c->nodes[1].ingress_Bps, 3e11, 0);
    for (int i = 0; i < c->npairs; i++) {
        const struct mt_cluster_pair *pair = &c->pairs[i];
        bool slow = pair->a == 0 && pair->b >= 2, alike = pair->a == 1 && pair->b >= 2;
        CHECK_NEAR(pair->bandwidth_Bps, alike ? 2.8e11 : 3e11, 0);
        CHECK_NEAR(pair->reverse_Bps, slow ? 3e10 : 0, 0);
        CHECK_NEAR(pair->reverse_error, slow ? 0.01 : 0, 1e-9);
    }
    CHECK_NEAR(c->links[c->network].bandwidth_Bps, 2.8e11, 0); /* what is typical */
    CHECK_NEAR(c->links[c->network].shared_Bps, 3e11, 0);
    mt_cluster_free(c);
    mt_arena_release(&p.arena);
}

static struct mt_cluster *links_of(const struct mt_profile *p) {
    struct mt_cluster *c = mt_cluster_new();
    c->ndevices = NRANKS;
    mt_assemble_links(p, c);
    return c;
}

static void test_links(void) {
    struct mt_pair_times pairs[NRANKS * NRANKS];
    struct mt_profile p;
    make(&p, pairs);
    CHECK_EQ(mt_profile_sharing(&p, 0), 1); /* each has its memory */
    struct mt_cluster *c = links_of(&p);
    CHECK_EQ(c->nlinks, 2); /* equal nodes share one */
    CHECK_TEXT(c->links[0].name, "nvlink");
    CHECK_NEAR(c->links[0].copy_Bps, 4e11, 1);
    CHECK_NEAR(c->links[0].puts.signal_s, 2.5e-6, 1e-12); /* of 1.5 and 3.5 us */
    CHECK_NEAR(c->links[0].puts.blocks_Bps, 3.6e11, 1);
    CHECK_NEAR(c->links[0].puts.compute_slowdown, 0.08, 1e-12);
    CHECK(!mt_cluster_has_puts(&c->links[c->network]), "puts go to GPUs of one host");
    CHECK_TEXT(c->links[c->network].name, "net");
    CHECK_NEAR(c->links[c->network].copy_Bps, 0, 0);
    CHECK_TEXT(c->nodes[1].driver, "580.95.05");
    CHECK_TEXT(c->nodes[1].nics, "eth1");
    mt_cluster_free(c);
    for (int i = 0; i < p.npairs; i++) /* one pair that cannot put does not count, two leave nothing */
        if (pairs[i].a == 0) pairs[i].puts = (struct mt_cluster_puts){0};
    c = links_of(&p);
    CHECK_NEAR(c->links[0].puts.signal_s, 3.5e-6, 1e-12);
    mt_cluster_free(c);
    for (int i = 0; i < p.npairs; i++) pairs[i].puts = (struct mt_cluster_puts){0};
    c = links_of(&p);
    CHECK(!mt_cluster_has_puts(&c->links[0]), "no puts were measured");
    mt_cluster_free(c);
    p.places[1].facts.peers[0].nvlink = false; /* one of two ways is enough to say no */
    c = links_of(&p);
    CHECK_TEXT(c->links[c->nodes[0].inside].name, "pcie");
    mt_cluster_free(c);
    p.places[0].facts.npeers = p.places[1].facts.npeers = 0; /* without NVML nobody knows */
    c = links_of(&p);
    CHECK_TEXT(c->links[c->nodes[0].inside].name, "pcie");
    mt_cluster_free(c);
    mt_arena_release(&p.arena);
}

/* How many warnings there are, and that the only one begins so. */
static void check_warning(const struct mt_profile *p, const struct mt_device_figures *figures, const char *text) {
    struct mt_cluster *c = mt_cluster_new();
    mt_assemble_warnings(p, figures, c);
    CHECK_EQ(c->nwarnings, text ? 1 : 0);
    if (text) CHECK(!strncmp(c->warnings[0], text, strlen(text)), "%s", c->warnings[0]);
    mt_cluster_free(c);
}

static void test_warnings(void) {
    struct mt_pair_times pairs[NRANKS * NRANKS];
    struct mt_profile p;
    make(&p, pairs);
    struct mt_device_figures figures[NRANKS] = {0};
    for (int r = 0; r < NRANKS; r++)
        figures[r].health = (struct mt_device_health){.known = true,
                                                      .sm_clock_Hz = 1.98e9,
                                                      .sm_clock_most_Hz = 1.98e9,
                                                      .power_W = 300,
                                                      .power_limit_W = 700,
                                                      .temperature_C = 50,
                                                      .throttled = MT_THROTTLED_POWER};
    check_warning(&p, figures, NULL); /* at its limit: usual */
    p.places[1].facts.health.others_bytes = (int64_t)30 << 30;
    check_warning(&p, figures, "rank 1 on a: other processes hold 32.21 GB of its GPU's 150.3 GB: stop them");
    p.places[1].facts.health.others_bytes = 0;
    figures[2].health.ecc_uncorrected = 3;
    check_warning(&p, figures, "rank 2 on b: its GPU's memory had 3 errors that could not be corrected");
    figures[2].health.ecc_uncorrected = 0;
    figures[2].health.ecc_corrected = 1000; /* were corrected */
    check_warning(&p, figures, NULL);
    figures[0].health.throttled = MT_THROTTLED_HEAT, figures[0].health.sm_clock_Hz = 1.2e9;
    check_warning(&p, figures,
                  "rank 0 on a: its GPU is too hot at 50 C and 300 W: it runs at 1200 of at most 1980 MHz");
    figures[0].health.throttled = MT_THROTTLED_HARDWARE;
    check_warning(&p, figures, "rank 0 on a: its GPU is slowed by a hardware brake");
    figures[0].health.throttled = 0;
    figures[3].health.power_limit_W = 500;
    check_warning(&p, figures, "rank 3 on b: its GPU's power is limited to 500 W, that of rank 0 to 700 W");
    figures[3].health.power_limit_W = 690;
    check_warning(&p, figures, NULL);
    CPU_SET(0, &p.places[1].topology.set);
    CPU_SET(5, &p.places[1].topology.near);
    p.places[1].topology.near_cores = 1;
    snprintf(p.places[1].topology.mask, sizeof p.places[1].topology.mask, "0");
    snprintf(p.places[1].topology.near_text, sizeof p.places[1].topology.near_text, "5");
    check_warning(&p, figures, "rank 1 on a: its cores (0) are far from its GPU, whose are 5: bind it there");
    CPU_SET(5, &p.places[1].topology.set);
    check_warning(&p, figures, NULL);
    snprintf(p.places[1].facts.bus, sizeof p.places[1].facts.bus, "%s", buses[0]);
    check_warning(&p, figures, "rank 1 on a: it shares its GPU with rank 0");
    mt_arena_release(&p.arena);
}

/* CPUs, of which nothing is known that is worth a word; then emulation that is less exact than it is to be. */
static void test_emulation(void) {
    struct mt_pair_times pairs[NRANKS * NRANKS];
    struct mt_profile p;
    make(&p, pairs);
    struct mt_device_figures figures[NRANKS] = {0};
    p.gpu = false;
    for (int r = 0; r < NRANKS; r++) {
        struct mt_topology *t = &p.places[r].topology;
        CPU_ZERO(&t->set);
        CPU_SET((size_t)r, &t->set);
        t->cores = NRANKS / 2, t->mask_cores = t->mask_numa = p.places[r].threads = 1;
        p.places[r].emulated_exact_s = MT_EMULATED_EXACT_S;
    }
    check_warning(&p, figures, NULL);
    p.places[2].emulated_exact_s = 80e-6;
    check_warning(&p, figures, "rank 2 on b: its emulated speed is exact to 10% for operators of 80 us or more only");
    mt_arena_release(&p.arena);
}

/* Memory: what was left, and what the process itself took; of another process that ended, nothing. */
static void test_devices(void) {
    struct mt_pair_times pairs[NRANKS * NRANKS];
    struct mt_profile p;
    make(&p, pairs);
    struct mt_device_figures figures[NRANKS] = {0};
    double times_s[6] = {1e-3, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3};
    struct mt_op_times op = {.shape = {.kind = MT_OP_gelu, .type = MT_F32, .rows = 100, .dim = {1, 1}, .bytes = 800},
                             .series = {times_s, 6, 6}};
    struct mt_rank_ops ops[NRANKS] = {{1, &op}, {1, &op}, {1, &op}, {1, &op}};
    for (int r = 0; r < NRANKS; r++) {
        struct mt_device_facts *facts = &p.places[r].facts;
        snprintf(p.places[r].kind, sizeof p.places[r].kind, "cuda");
        facts->capability = 90, facts->computing = p.places[r].threads = r == 1 ? 66 : 132;
        p.places[r].class = r == 1;
        facts->context_bytes = 500 << 20, facts->opened_bytes = facts->memory_bytes - facts->context_bytes;
        figures[r] = (struct mt_device_figures){.copy_Bps = {1e12, 1e12, 1e12}, .emulated = r == 1 ? 0.5 : 1};
        figures[r].free_bytes = facts->opened_bytes - (70 << 20);
        figures[r].health.power_limit_W = 700;
        figures[r].host_Bps[1] = 9e9;
    }
    p.nclasses = 2;
    p.places[3].facts.health.others_bytes = (int64_t)2 << 30; /* gone at the end */
    p.places[3].facts.opened_bytes -= (int64_t)2 << 30;
    struct mt_cluster *c = mt_cluster_new();
    mt_assemble_devices(&p, figures, ops, c);
    CHECK_TEXT(c->classes[0].kind, "cuda");
    CHECK_TEXT(c->classes[0].name, "h200");
    CHECK_TEXT(c->classes[1].name, "h200-66sm");
    CHECK_EQ(c->classes[1].threads, 66);
    CHECK_EQ(c->classes[1].capability, 90);
    for (int r = 0; r < NRANKS; r++) {
        const struct mt_cluster_device *device = &c->devices[r];
        CHECK_EQ(device->class, r == 1);
        CHECK_EQ(device->memory_bytes, figures[r].free_bytes);
        CHECK_EQ(device->gpu->reserved_bytes, 570 << 20);
        CHECK_TEXT(device->gpu->bus, buses[r]);
        CHECK_TEXT(device->mask, "");
        CHECK_NEAR(device->gpu->to_host_Bps, 9e9, 0);
        CHECK_NEAR(device->gpu->power_limit_W, 700, 0);
        CHECK_NEAR(device->speed, 1, 1e-9); /* a part of a GPU is a class of its own */
    }
    mt_cluster_free(c);
    mt_arena_release(&p.arena);
}

/* A device's speed is by what its operators took against those of its class's reference. */
static void test_speeds(void) {
    struct mt_pair_times pairs[NRANKS * NRANKS];
    struct mt_profile p;
    make(&p, pairs);
    p.gpu = false, p.nclasses = 1;
    struct mt_device_figures figures[NRANKS] = {0};
    struct mt_op_times op[NRANKS];
    struct mt_rank_ops ops[NRANKS];
    double times_s[NRANKS][6];
    for (int r = 0; r < NRANKS; r++) {
        snprintf(p.places[r].kind, sizeof p.places[r].kind, "cpu");
        p.places[r].class = 0, p.places[r].threads = 1;
        figures[r] = (struct mt_device_figures){.copy_Bps = {1e10, 1e10, 1e10}, .emulated = r == 2 ? 0.25 : 1};
        for (int i = 0; i < 6; i++) times_s[r][i] = r == 2 ? 4e-3 : 1e-3;
        op[r] = (struct mt_op_times){
            .shape = {.kind = MT_OP_gelu, .type = MT_F32, .rows = 100, .dim = {1, 1}, .bytes = 800},
            .series = {times_s[r], 6, 6}};
        ops[r] = (struct mt_rank_ops){1, &op[r]};
    }
    struct mt_cluster *c = mt_cluster_new();
    mt_assemble_devices(&p, figures, ops, c);
    for (int r = 0; r < NRANKS; r++) {
        CHECK_NEAR(c->devices[r].speed, r == 2 ? 0.25 : 1, 1e-9);
        CHECK_NEAR(c->devices[r].emulated, r == 2 ? 0.25 : 1, 0);
    }
    mt_cluster_free(c);
    mt_arena_release(&p.arena);
}

/* Two equal CPUs; the second is emulated at 0.6. Others had 47% of the first's time, none of the second's, which sleeps
 * while they run: by total times they are as fast (1.13, in fact). */
static void test_disturbed(void) {
    enum { SAMPLES = 40 };
    const double stolen = 0.47, alone_s = 1e-3;
    struct mt_profile p = {.nranks = 2, .nnodes = 1, .nclasses = 1};
    struct mt_device_figures figures[2];
    struct mt_op_times op[2];
    struct mt_rank_ops ops[2];
    double times_s[2][SAMPLES];
    p.places = mt_new(&p.arena, struct mt_place, 2);
    for (int quota = 0; quota < 2; quota++) {
        for (int r = 0; r < 2; r++) {
            snprintf(p.places[r].kind, sizeof p.places[r].kind, "cpu");
            snprintf(p.places[r].model, sizeof p.places[r].model, "Test CPU");
            p.places[r].threads = 1;
            figures[r] = (struct mt_device_figures){.copy_Bps = {1e10, 1e10, 1e10}, .emulated = r ? 0.6 : 1};
            if (!r)
                figures[r].load =
                    quota ? (struct mt_load_report){.throttled = stolen} : (struct mt_load_report){.stolen = stolen};
            for (int i = 0; i < SAMPLES; i++) times_s[r][i] = alone_s / (r ? 0.6 : 1 - stolen);
            op[r] = (struct mt_op_times){
                .shape = {.kind = MT_OP_gelu, .type = MT_F32, .rows = 100, .dim = {1, 1}, .bytes = 800},
                .series = {times_s[r], SAMPLES, SAMPLES}};
            ops[r] = (struct mt_rank_ops){1, &op[r]};
        }
        struct mt_cluster *c = mt_cluster_new();
        mt_assemble_devices(&p, figures, ops, c);
        CHECK_NEAR(c->devices[0].speed, 1, 0); /* the reference is the one that is not emulated */
        if (quota) {                           /* a quota stays: the emulated one is faster */
            CHECK_NEAR(c->devices[1].speed, 0.6 / (1 - stolen), 1e-9);
            CHECK_NEAR(c->classes[0].curves[0].error[0], 0, 1e-9);
        } else {
            CHECK_NEAR(c->devices[1].speed, 0.6, 1e-9);
            CHECK_NEAR(c->classes[0].curves[0].error[0], stolen, 1e-9); /* what was seen is in the figures */
            CHECK_NEAR(c->classes[0].memory_error, stolen, 1e-9);
        }
        figures[1].load.stolen = 0.2;
        struct mt_cluster *other = mt_cluster_new();
        mt_assemble_devices(&p, figures, ops, other);
        CHECK_NEAR(other->devices[1].speed_error, hypot(c->devices[1].speed_error, 0.2), 1e-9);
        mt_cluster_free(other);
        mt_cluster_free(c);
    }
    mt_arena_release(&p.arena);
}

int main(void) {
    test_disturbed();
    test_speeds();
    test_devices();
    test_links();
    test_directions();
    test_warnings();
    test_emulation();
    return 0;
}

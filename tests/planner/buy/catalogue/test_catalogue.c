/* Catalogues: CSV, JSON and lines say the same; prices of 0 are kept, negative ones refused; what is refused is named.
 */
#include "planner/buy/catalogue/catalogue.h"

#include <stdlib.h>
#include <string.h>

#include "planner/buy/catalogue/jobs.h"
#include "profiler/describe/describe.h"
#include "profiler/describe/join.h"
#include "tests/check.h"

static struct mt_err err = MT_ERR_INIT;

static void check_items(const struct mt_catalogue *c) {
    CHECK_EQ(c->count, 3);
    const struct mt_catalogue_item *dgx = &c->items[0], *l4 = &c->items[1], *own = &c->items[2];
    CHECK_TEXT(dgx->shown.name, "dgx");
    CHECK_TEXT(dgx->shown.based_on, "h100");
    CHECK_TEXT(dgx->row.name, "h100"); /* so a measured class of that name is its class */
    CHECK_EQ(dgx->shown.devices, 8);
    CHECK_NEAR(dgx->shown.price, 280e3, 0);
    CHECK_NEAR(dgx->shown.power_W, 10200, 0);
    CHECK_TEXT(dgx->shown.power_source, "the catalogue");
    CHECK_NEAR(dgx->shown.net_bps, 400e9, 0);
    CHECK_TEXT(dgx->shown.link, "nvlink");
    CHECK_NEAR(dgx->shown.link_Bps, 450e9, 0);
    CHECK_TEXT(l4->shown.based_on, "l4"); /* by its own name */
    CHECK(l4->priced && l4->shown.price == 0 && l4->shown.devices == 1 && l4->shown.most == 3, "l4");
    CHECK_NEAR(l4->shown.power_W, 72, 0); /* NVIDIA L4 data sheet */
    CHECK(strstr(l4->shown.power_source, "NVIDIA L4"), "%s", l4->shown.power_source);
    CHECK_TEXT(own->shown.based_on, "");
    CHECK_TEXT(own->row.name, "z1");
    CHECK_EQ(own->shown.memory_bytes, 48ll << 30);
    CHECK_NEAR(own->row.tflops[MT_BF16], 500, 1e-9);
    CHECK_NEAR(own->row.memory_GBps, 2000, 1e-9);
    CHECK_NEAR(own->shown.link_Bps, 50e9, 0);
    CHECK(!own->priced && own->shown.power_W == 0, "own");
}

static void test_same(void) {
    static const char *const csv = "# devices that we may buy\r\n"
                                   "name,based_on,devices,price,power,net,most,memory,bf16,streaming,link\r\n"
                                   "dgx,H100,8,280k,10.2kW,400Gbps,,,,,\r\n"
                                   "l4, , ,0, , ,3,,,,\n"
                                   "\n"
                                   "\"z1\",,4,,,,,48GiB,500T,2TB/s,\"pcie=50GB/s\"\n";
    static const char *const json =
        "{\"items\": [{\"name\": \"dgx\", \"based_on\": \"h100\", \"devices\": 8, \"price\": 280000, \"power\": 10200,"
        "\"net\": \"400G\"}, {\"name\": \"l4\", \"price\": 0, \"most\": 3, \"based_on\": null}, {\"name\": \"z1\","
        "\"devices\": \"4\", \"memory\": 51539607552, \"bf16\": 5e14, \"streaming\": 2e12, \"link\": \"pcie=50G\"}]}";
    static const char *const lines[] = {"name=dgx based_on=h100 devices=8 price=280000 power=10200W net=400G",
                                        "name=l4 price=0 most=3",
                                        "name=z1 devices=4 memory=48GiB bf16=500T streaming=2T link=pcie=400Gbps"};
    struct mt_catalogue c = {.count = 0};
    CHECK_OK(mt_catalogue_parse("a.csv", csv, strlen(csv), &c, &err), err);
    check_items(&c);
    mt_catalogue_release(&c);
    CHECK_OK(mt_catalogue_parse("a.json", json, strlen(json), &c, &err), err);
    check_items(&c);
    mt_catalogue_release(&c);
    for (int i = 0; i < 3; i++) CHECK_OK(mt_catalogue_line(lines[i], &c, &err), err);
    check_items(&c);
    mt_catalogue_release(&c);
}

static void test_refusals(void) {
    static const struct {
        const char *text, *message;
    } wrong[] = {
        {"", "a.csv: has no row"},
        {"name,price\n", "a.csv: has no row"},
        {"name,prize\nh100,3\n", "a.csv:1: there is no column \"prize\""},
        {"name,price,name\n", "a.csv:1: has two columns \"name\""},
        {"name,price\nh100,-1\n", "a.csv:2: price: must be 0 or more, not \"-1\""},
        {"name,per_hour\nh100,-0.01\n", "a.csv:2: per_hour: must be 0 or more, not \"-0.01\""},
        {"name,price\nh100,$5\n", "a.csv:2: price: must be a sum of money"},
        {"name,price\nh100,1e13\n", "a.csv:2: price: must be at most 1e12"},
        {"name,price\nh100,1e-323\n", "a.csv:2: price: must be 0, or at least 1e-6"},
        {"name,price\nh100\n", "a.csv:2: has 1 cells, but there are 2 columns"},
        {"name,price\nh100,1,2\n", "a.csv:2: has 3 cells"},
        {"name,price\n\"h100,1\n", "a.csv:2: a quote is not closed"},
        {"name,price\n\"h100\"x,1\n", "a.csv:2: a comma must follow a cell in quotes"},
        {"name,price\nh100,1\nH100,2\n", "a.csv:3: name: \"H100\" is in the catalogue already"},
        {"name,price\n,2\n", "a.csv:2: has no name"},
        {"name,price\nmy gpu,2\n", "a.csv:2: name: must be at most 40 letters"},
        {"name,price\nz1,2\n", "a.csv:2: \"z1\" is no known hardware, and has no rate"},
        {"name,f16\nz1,9T\n", "a.csv:2: \"z1\" is no known hardware, and has no memory"},
        {"name,based_on\nz1,a100\n", "a.csv:2: based_on: must be a row of the known hardware, not \"a100\""},
        {"name,devices\nh100,0\n", "a.csv:2: devices: must be from 1 to 4096"},
        {"name,devices\nh100,8000\n", "a.csv:2: devices: must be from 1 to 4096"},
        {"name,power\nh100,0\n", "a.csv:2: power: must be watts"},
        {"name,net\nh100,50gb/s\n", "a.csv:2: net: must be a rate in bits a second"},
        {"name,link\nh100,net=3G\n", "a.csv:2: link: must be a link within a node"},
        {"name,memory\nh100,80G\n", "a.csv:2: memory: must be a number of bytes"},
        {"name,kind\nh100,cpu\n", "a.csv:2: kind: must be that of the row it is based on"},
        {"name,reached\nh100,1.5\n", "a.csv:2: reached: must be a fraction"},
        {"name,price\nh\t100,1\n", "a.csv:2: has a control character"},
        {"{\"items\": []}", "a.csv: items: has no row"},
        {"{\"items\": [{\"price\": 3}]}", "a.csv: items[0]: has no name"},
        {"{\"items\": [{\"name\": \"h100\", \"price\": -3}]}", "a.csv: items[0]: price: must be 0 or more, not \"-3\""},
        {"{\"items\": [{\"name\": \"h100\", \"price\": true}]}", "a.csv: items[0].price: must be a text or a number"},
        {"{\"items\": [{\"nam\": \"h100\"}]}", "a.csv: items[0]: there is no column \"nam\""}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct mt_catalogue c = {.count = 0};
        CHECK_EQ(mt_catalogue_parse("a.csv", wrong[i].text, strlen(wrong[i].text), &c, &err), MT_EINPUT);
        CHECK(!strncmp(err.text, wrong[i].message, strlen(wrong[i].message)), "\"%s\", not \"%s\"", err.text,
              wrong[i].message);
        mt_catalogue_release(&c);
    }
}

/* What joins is what a line describes. */
static void test_join(void) {
    static const struct {
        const char *line;
        int counts[3];
    } cases[] = {{"h100:2x8 nvlink=450G net=400G", {2, 0, 0}},
                 {"h100:1x8 nvlink=450G net=400G + l4:3 net=25G", {1, 3, 0}},
                 {"l4:2 net=25G + a10:1x4 pcie=31.5G net=100G", {0, 2, 1}},
                 {"h100:1x8 nvlink=450G + l4:1", {1, 1, 0}}};
    static const char *const names[] = {"h100", "l4", "a10"};
    struct mt_joining joining[3];
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        bool given = strstr(cases[k].line, "net=") != NULL;
        for (int i = 0; i < 3; i++) {
            joining[i] = (struct mt_joining){.nodes = cases[k].counts[i], .net_bps = 25e9};
            CHECK(mt_hardware_find(names[i], &joining[i].row), "%s", names[i]);
            joining[i].link_Bps = joining[i].row.link_GBps * 1e9;
        }
        joining[0].devices = 8, joining[1].devices = 1, joining[2].devices = 4;
        if (given) joining[0].net_bps = 400e9, joining[2].net_bps = 100e9;
        struct mt_cluster *joined, *described;
        CHECK_OK(mt_cluster_join(NULL, joining, 3, &joined, &err), err);
        CHECK_OK(mt_cluster_describe(cases[k].line, NULL, &described, &err), err);
        joined->description = described->description;
        char hash[33];
        mt_cluster_hash(joined, hash);
        CHECK_TEXT(hash, described->hash);
        mt_cluster_free(joined);
        mt_cluster_free(described);
    }
}

/* To a cluster that is there: its rows come first, its class is taken, and its network is everyone's. */
static void test_join_owned(void) {
    struct mt_cluster *owned, *joined;
    CHECK_OK(mt_cluster_describe("h100:2x4 net=200G", NULL, &owned, &err), err);
    owned->classes[0].flops[MT_BF16] = 500e12; /* as measured */
    owned->classes[0].nominal = false;
    struct mt_joining joining[2] = {{.nodes = 1, .devices = 8, .link_Bps = 450e9, .net_bps = 400e9},
                                    {.nodes = 2, .devices = 1, .link_Bps = 31.5e9, .net_bps = 25e9}};
    CHECK(mt_hardware_find("h100", &joining[0].row) && mt_hardware_find("l4", &joining[1].row), "hardware");
    CHECK_OK(mt_cluster_join(owned, joining, 2, &joined, &err), err);
    CHECK_EQ(joined->nnodes, 5);
    CHECK_EQ(joined->ndevices, 18);
    CHECK_EQ(joined->nclasses, 2);
    CHECK_EQ(joined->devices[8].class, 0);
    CHECK_NEAR(joined->classes[0].flops[MT_BF16], 500e12, 0);
    CHECK_NEAR(joined->links[joined->network].bandwidth_Bps, 0.94 * 25e9, 1);
    CHECK_NEAR(joined->nodes[2].egress_Bps, 0, 0); /* faster than the network */
    CHECK_NEAR(joined->nodes[3].egress_Bps, 0.94 * 25e9 / 8, 1);
    CHECK_NEAR(joined->nodes[4].ingress_Bps, 0.94 * 25e9 / 8, 1);
    mt_cluster_free(joined);
    joining[0].nodes = 4000;
    CHECK_EQ(mt_cluster_join(owned, joining, 2, &joined, &err), MT_EINPUT);
    CHECK(strstr(err.text, "a cluster has from 1 to 4096"), "%s", err.text);
    mt_cluster_free(owned);
}

static void test_jobs(void) {
    struct mt_buy_jobs jobs = {.count = 0};
    CHECK_OK(mt_buy_jobs_line("model=gpt2:124m batch=512 tokens=300G deadline=30d precision=bf16", &jobs, &err), err);
    CHECK_NEAR(jobs.items[0].steps, 572205, 0); /* 300e9 / (512 * 1024) = 572204.6, rounded up */
    CHECK_NEAR(jobs.items[0].tokens, 572205.0 * 512 * 1024, 0);
    CHECK_NEAR(jobs.items[0].deadline_s, 30 * 86400, 0);
    CHECK(jobs.items[0].job.precision == MT_BF16 && !jobs.automatic[0], "bf16");
    CHECK_OK(mt_buy_jobs_line("  steps=10 model=gpt2:char  precision=f16", &jobs, &err), err);
    CHECK(jobs.items[1].job.loss_scale > 0 && jobs.items[1].job.seq == 64, "f16");
    static const struct {
        const char *line, *message;
    } wrong[] = {{"batch=4 steps=1", "job \"batch=4 steps=1\": has no model"},
                 {"model=gpt2:124m", "job \"model=gpt2:124m\": must have either tokens or steps"},
                 {"model=gpt2:char steps=1 tokens=1G",
                  "job \"model=gpt2:char steps=1 tokens=1G\": must have either tokens or steps"},
                 {"model=gpt2:char steps=0", "job \"model=gpt2:char steps=0\": steps: must be a number"},
                 {"model=gpt2:char steps=1 batch=0", "job \"model=gpt2:char steps=1 batch=0\": batch: must be"},
                 {"model=gpt2:char steps=1 deadline=-1d", "job \"model=gpt2:char steps=1 deadline=-1d\": deadline: "},
                 {"model=gpt2:char steps=1 step=2", "job \"model=gpt2:char steps=1 step=2\": \"step\" must be KEY"},
                 {"model=gpt2:char steps=1 steps=2", "job \"model=gpt2:char steps=1 steps=2\": has two of steps"},
                 {"model=gpt9 steps=1", "job \"model=gpt9 steps=1\": "},
                 {"model=gpt2:char steps=1\033", "a job: has a control character"}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        CHECK_EQ(mt_buy_jobs_line(wrong[i].line, &jobs, &err), MT_EINPUT);
        CHECK(!strncmp(err.text, wrong[i].message, strlen(wrong[i].message)), "\"%s\", not \"%s\"", err.text,
              wrong[i].message);
        CHECK_EQ(jobs.count, 2);
    }
    mt_buy_jobs_release(&jobs);
}

int main(void) {
    test_same();
    test_refusals();
    test_join();
    test_join_owned();
    test_jobs();
    return 0;
}

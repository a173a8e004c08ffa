/* The catalogue: what may be bought or rented, a node with its devices in each row. Rows are the user's own; the rows
 * of hardware.def, which have no prices, are what they may be based on.
 *
 *     struct mt_catalogue catalogue = {0};
 *     if ((st = mt_catalogue_read("catalogue.csv", &catalogue, err)) ||
 *         (st = mt_catalogue_line("name=dgx based_on=h100 devices=8 price=280k", &catalogue, err))) goto out;
 *     mt_catalogue_release(&catalogue);
 *
 * A file is CSV, whose first line names its columns in any order, or JSON, {"items": [{column: value}]}, whose values
 * are texts or numbers. A line is the words COLUMN=VALUE. What is empty, or null, is not given. Columns:
 *
 *     name         of the row: letters, digits, '.', '-' and '_'
 *     based_on     a row of hardware.def, whose rates it has unless it says others; by default that of its own name
 *     devices      of a node                                        [1]
 *     price        of a node, to buy, once: 280000 or 280k; 0 is a price
 *     per_hour     of a node, while jobs run; with a price both are paid. A row without either is left out, by name
 *     power        of a node in watts, as 10.2kW                    [devices times the public figure of based_on]
 *     rack_units   of a node; where they are limited, a row without them is left out, by name
 *     most         nodes that can be had                            [any number]
 *     net          of a node's network: 400G or 400Gbps             [the assumed network's]
 *     link         within a node: nvlink=450GB/s, pcie=63G, or a name alone, with the rate of hardware.def
 *     memory       of a device: 80GiB
 *     kind         cuda or cpu                                      [cuda]
 *     f64 f32 bf16 f16   peak rates of dense GEMM of a device: 989T
 *     streaming    memory bandwidth of a device: 3350GB/s
 *     reached      the fraction of these that is reached            [0.75]
 *     overhead     of launching an operator: 4us                    [4us]
 *
 * Without based_on, memory, streaming and a rate must be given. */
#ifndef MT_PLANNER_BUY_CATALOGUE_H
#define MT_PLANNER_BUY_CATALOGUE_H

#include "planner/buy/document/purchase.h"
#include "profiler/describe/hardware.h"

struct mt_catalogue_item {
    struct mt_purchase_item shown;
    struct mt_hardware row; /* of its devices; the name is their class's: that of based_on where its rates are */
    bool priced, placed;    /* a price, rack units are given */
};
struct mt_catalogue {
    struct mt_arena arena;
    int count, capacity;
    struct mt_catalogue_item *items;
};

/* Add rows. MT_EINPUT with the file's line or row, and the column. */
enum mt_status mt_catalogue_read(const char *path, struct mt_catalogue *catalogue, struct mt_err *err);
enum mt_status mt_catalogue_parse(const char *name, const char *text, size_t length, struct mt_catalogue *catalogue,
                                  struct mt_err *err);
enum mt_status mt_catalogue_line(const char *line, struct mt_catalogue *catalogue, struct mt_err *err);
void mt_catalogue_release(struct mt_catalogue *catalogue);

/* The most that a device of that row of hardware.def draws, and who says so; 0 and "" where there is no figure. */
double mt_power_of(const char *hardware, const char **source);

#endif

/* The document for those who edit it: what rows and splits may say. */
#include "planner/plan/plan.h"

static const char text[] =
    "The plan is a JSON document. Edit \"splits\", \"micro_batch\", \"rules\", \"storage\", \"gradients\", "
    "\"collectives\" and\n"
    "\"overlapped\", then have it checked and signed: `motley plan --check edited.json -o plan.json`. `motley show "
    "graph` lists the "
    "names\n"
    "of operators and parameters, and the labels of their axes: batch, seq, embed, heads, ffn, vocab, ...\n"
    "\n"
    "splits: how the extent of a label is divided, in whole numbers, with zeros where somebody has nothing of it\n"
    "  {\"name\": \"batch\", \"label\": \"batch\", \"align\": 1, \"sizes\": [6, 4, 1, 1]}\n"
    "      over all ranks: a number for each, which sum to the extent\n"
    "  {\"name\": \"batch\", \"label\": \"batch\", \"align\": 1, \"over\": \"host\", \"sizes\": [10, 2]}\n"
    "      over hosts, in order of their first ranks (\"host\" in \"ranks\"); all ranks of a host have what the host "
    "has\n"
    "  {\"name\": \"heads\", \"label\": \"heads\", \"align\": 1, \"over\": \"device\", \"sizes\": [3, 1, 2, 2]}\n"
    "      over the ranks of each host: a number for each rank; those of one host sum to the extent, or to the host's\n"
    "      share where the row splits the same axis over hosts\n"
    "  Names are free, but for \"batch\", which divides the samples (over all ranks or hosts; in the latter case a "
    "split\n"
    "  of samples over devices may divide each host's), and \"storage:LABEL\", which divides what storage rows without "
    "a\n"
    "  split of their own store in shares. All sizes but one are multiples of \"align\". A rank that \"order\" does "
    "not list is idle and has 0.\n"
    "\n"
    "micro_batch: samples that each rank computes at once; ranks that have the same samples must have the same. Ranks "
    "that\n"
    "  exchange values in every micro-batch must have as many of them.\n"
    "\n"
    "rules: how operators with samples run; the first row whose pattern (* and ?) matches the operator's name, and of\n"
    "whose splits the operator has the labels, applies; without one every rank computes everything\n"
    "  {\"pattern\": \"*.ln_?\", \"rule\": \"replicate\"}\n"
    "      every rank computes everything\n"
    "  {\"pattern\": \"*\", \"rule\": \"split\", \"split\": \"batch\"}\n"
    "      divided by that split; inputs are gathered, and sums reduced, as it takes\n"
    "  {\"pattern\": \"*.attn*\", \"rule\": \"split\", \"split\": \"batch\", \"inner\": \"heads\"}\n"
    "      two levels: \"split\" over hosts, and each host's work over its devices. \"split\": \"\" (or none): all "
    "hosts do the\n"
    "      same; \"inner\": \"\": the ranks of a host do the same; \"inner\": [\"heads\", \"\"]: hosts differ, in "
    "order\n"
    "  \"split\": \"linear\", or \"inner\": \"linear\"\n"
    "      inputs in which the operator is linear stay partial sums, and so do its outputs\n"
    "  {\"pattern\": \"*/grad_w\", \"rule\": \"replicate\"}, or \"split\": \"storage:hidden\"\n"
    "      before a row that splits the batch: the two factors of a weight's gradient are gathered, and the sum over "
    "samples\n"
    "      is computed by every rank, or by each in the shares that it stores, instead of being reduced. Where state "
    "is\n"
    "      replicated, all ranks need devices of one class (\"class\" in \"ranks\")\n"
    "  \"occurrence\": 2, \"inner_occurrence\": 2\n"
    "      of an operator's axes with the split's label that can be divided, the second (a weight of embed x embed)\n"
    "\n"
    "storage: how parameters, and their optimizer state, are kept; the first row that matches the parameter's name\n"
    "  {\"pattern\": \"*.ln_?.*\", \"layout\": \"replicated\"}\n"
    "  {\"pattern\": \"*\", \"layout\": \"split\"}\n"
    "      in shares of the split \"storage:LABEL\" of its storage axis; with that over devices, every host has all\n"
    "  {\"pattern\": \"*.mlp.c_fc.*\", \"layout\": \"split\", \"split\": \"ffn\"}\n"
    "      in shares of this split, of which the parameter has the label; \"inner\", \"occurrence\", "
    "\"inner_occurrence\" as\n"
    "      above, of the parameter's axes. Where compute divides a weight in the same way, nothing is gathered.\n"
    "\n"
    "gradients: decisions on messages; those left out have the first value\n";

static void print_decision(const struct mt_decision *row, FILE *file) {
    fprintf(file, "  \"%s\":", row->name);
    int first = row->omitted < 0 ? 0 : row->omitted;
    fprintf(file, " \"%s\"", row->words[first]);
    for (int w = 0; w < row->nwords; w++)
        if (w != first) fprintf(file, ", \"%s\"", row->words[w]);
    fprintf(file, "%s; see %s\n", row->omitted < 0 ? " (never left out)" : "", row->flag);
}

static const char overlapped[] =
    "\n"
    "overlapped: how GEMMs run with their collectives, a row a shape; GEMMs without one run as the device does. "
    "\"gradients\"\n"
    "  says for which forms: \"overlapped\" there. `motley show` lists the plan's GEMMs, `motley bench overlap --plan` "
    "measures\n"
    "  which rows are fastest\n"
    "  {\"form\": \"scatter\", \"m\": 3072, \"columns\": 768, \"k\": 49152, \"by\": \"fused\", \"tile\": [128, "
    "256]}\n"
    "      form: gather (AllGather and GEMM), scatter (GEMM and ReduceScatter) or reduce (GEMM and AllReduce), of m by "
    "k "
    "by\n"
    "      columns over all ranks of its group\n"
    "      by: any (as the device does, and all that CPUs have), chunks (copy engines and GEMMs), fused (one kernel), "
    "nccl "
    "(NCCL\n"
    "      and GEMMs), or apart, one after the other; then nothing follows\n"
    "      tile: rows and columns that are multiplied at a time, at most\n"
    "  \"put_rows\": 512\n"
    "      of a gather, never left out: rows that are sent at a time, at most\n"
    "  \"groups\": [1024, 512]\n"
    "      rows of the tiles of each share one after the other, the last again and again, at most the tile's\n"
    "  \"slabs\": 4, \"engines\": true, \"joint\": true\n"
    "      of a gather, by any or fused: K is sent in so many parts; copy engines send (fused alone); a tile has rows "
    "of "
    "all\n"
    "      ranks (without the others)\n"
    "  \"mix\": 2\n"
    "      of scatter and reduce: after so many tiles for others comes one of the rank's own; 0: those come last\n"
    "  \"direct\": true\n"
    "      of a reduce: every rank adds all rows, which is less latency and more bytes\n";

void mt_plan_print_document(FILE *file) {
    fputs(text, file);
    for (int i = 0; i < MT_NDECISIONS; i++) print_decision(&mt_decision_table[i], file);
    fputs("  \"bucket_bytes\": of values in one message; 0: one each\n", file);
    fputs(overlapped, file);
}

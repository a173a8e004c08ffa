/* Values of flags that are one of several words, by the tables that parse them. */
#include <string.h>

#include "launcher/flags/flags.h"
#include "launcher/install/page.h"
#include "launcher/report/report.h"
#include "planner/divide/strategy.h"
#include "synth/job/decisions.h"
#include "synth/job/job.h"
#include "synth/models/model.h"

static const char *const wires[] = {"f32", "bf16", "f16"}, *const uses[] = {"auto", "all"};

static const struct {
    const char *flag;
    const char *const *names;
    int count;
} tables[] = {{"device", mt_device_kinds, MT_NDEVICE_KINDS},
              {"precision", mt_precision_names, MT_NPRECISIONS},
              {"optimizer", mt_optimizer_names, MT_NOPTIMIZERS},
              {"schedule", mt_schedule_names, MT_NSCHEDULES},
              {"recompute", mt_recompute_names, MT_NRECOMPUTE},
              {"storage", mt_state_names, MT_NSTATE},
              {"gradient-wire", wires, 3},
              {"use", uses, 2},
              {"format", mt_report_formats, MT_REPORT_NFORMATS}};

static const char **copy(const char *const *names, int count, struct mt_arena *arena) {
    const char **words = mt_new(arena, const char *, count);
    for (int i = 0; i < count; i++) words[i] = names[i];
    return words;
}

/* "gpt2", "gpt2:124m", ... */
static const char **model_words(struct mt_arena *arena, int *count) {
    int nclasses, n = 0;
    const struct mt_model_class *const *classes = mt_model_classes(&nclasses);
    for (int pass = 0;; pass++) {
        const char **words = pass ? mt_new(arena, const char *, *count) : NULL;
        n = 0;
        for (int c = 0; c < nclasses; c++) {
            if (words) words[n] = classes[c]->name;
            n++;
            for (const char *const *size = classes[c]->named; *size; size += 2, n++)
                if (words) words[n] = mt_arena_printf(arena, "%s:%s", classes[c]->name, *size);
        }
        *count = n;
        if (words) return words;
    }
}

static const char **strategy_words(struct mt_arena *arena, int *count) {
    const char **words = mt_new(arena, const char *, MT_NSTRATEGIES + 1);
    for (int i = 0; i < MT_NSTRATEGIES; i++) words[i] = mt_strategies[i].name;
    words[MT_NSTRATEGIES] = "list";
    *count = MT_NSTRATEGIES + 1;
    return words;
}

const char **mt_page_words(const char *flag, struct mt_arena *arena, int *count) {
    if (!strcmp(flag, "model")) return model_words(arena, count);
    if (!strcmp(flag, "strategy")) return strategy_words(arena, count);
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        if (!strcmp(flag, tables[t].flag)) return copy(tables[t].names, *count = tables[t].count, arena);
    for (int d = 0; d < MT_NDECISIONS; d++) {
        const struct mt_decision *row = &mt_decision_table[d];
        if (!strcmp(flag, row->flag + 2)) return copy(row->words, *count = row->nwords, arena);
    }
    *count = 0;
    return NULL;
}

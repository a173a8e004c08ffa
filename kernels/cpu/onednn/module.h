/* What the oneDNN module and the program that loads it agree on. The module exports one symbol, `mt_onednn_module`;
 * it is used only if what it says of itself is what the program says of itself. The few functions of the program
 * that the module calls are listed in module.c. */
#ifndef MT_ONEDNN_MODULE_H
#define MT_ONEDNN_MODULE_H

#include "kernels/base/module.h"
#include "kernels/op/op.h"

struct mt_onednn_module {
    struct mt_module_head head; /* shape: the sizes of struct mt_call, mt_tensor and mt_attr, and how many operators */
    struct mt_backend backend;
};

#define MT_ONEDNN_SHAPE                                                                                                \
    { (int64_t)sizeof(struct mt_call), (int64_t)sizeof(struct mt_tensor), (int64_t)sizeof(struct mt_attr), MT_NOPS }

#endif

/* The interface of the oneDNN module (kernels/base/module.h): it exports one symbol, `mt_onednn_module`.
 * kernels/cpu/module.c loads it, and refers to the functions of the program that the module calls. */
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

/* The oneDNN module, loaded when a CPU device is first opened. */
#include "kernels/base/number/rng.h"
#include "kernels/cpu/onednn/module.h"

/* The functions that the module calls. These references link them into every program that can load it. */
static const struct {
    enum mt_status (*fail)(struct mt_err *, enum mt_status, const char *, ...);
    const char *(*type_name)(enum mt_type);
    int64_t (*type_size)(enum mt_type);
    void (*philox_blocks)(uint64_t, uint64_t, uint64_t, int64_t, uint32_t *);
    const struct mt_op_epilogue *(*op_epilogue)(enum mt_op_kind);
} called __attribute__((used)) = {mt_fail, mt_type_name, mt_type_size, mt_philox_blocks, mt_op_epilogue};

const struct mt_backend *mt_backend_onednn(struct mt_err *err) {
    static struct mt_module onednn =
        MT_MODULE("motley_onednn.so", "mt_onednn_module", MT_ONEDNN_SHAPE,
                  "install libdnnl-dev, configure and build again; or set MOTLEY_MODULES to the module's folder. "
                  "Without it, GEMMs are plain C, and slow");
    const struct mt_onednn_module *module = mt_module_load(&onednn, err);
    return module ? &module->backend : NULL;
}

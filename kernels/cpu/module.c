/* The oneDNN module, loaded when a CPU device is first opened. */
#include "kernels/cpu/onednn/module.h"

const struct mt_backend *mt_backend_onednn(struct mt_err *err) {
    static struct mt_module onednn =
        MT_MODULE("motley_onednn.so", "mt_onednn_module", MT_ONEDNN_SHAPE,
                  "install libdnnl-dev, configure and build again; or set MOTLEY_MODULES to the module's folder. "
                  "Without it, GEMMs are plain C, and slow");
    const struct mt_onednn_module *module = mt_module_load(&onednn, err);
    return module ? &module->backend : NULL;
}

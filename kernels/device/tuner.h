/* The choice of kernels for a call by measurement, for devices that do this (mt_device_tuner). They also tune by
 * themselves when a call is first queued.
 *
 *     const struct mt_tuner *tuner = mt_device_tuner(device);       // null: there is nothing to tune
 *     tuner->key(device, &call, key);
 *     if (!tuner->find(device, key, &tuning)) st = tuner->tune(stream, &call, err);
 *
 * Results are kept between runs. Devices of equal classes can exchange them as text, by export and import. */
#ifndef MT_KERNELS_DEVICE_TUNER_H
#define MT_KERNELS_DEVICE_TUNER_H

#include "kernels/op/op.h"

struct mt_device;
struct mt_stream;

enum { MT_TUNING_KEY = 1024, MT_TUNING_CHOICE = 240 };

struct mt_tuning {
    double tuned_s, default_s;     /* of one call with cold caches */
    double vendor_s;               /* with the vendor's library alone; 0: none, or not known */
    double error;                  /* norm(tuned - default) / norm(default) of the results */
    char choice[MT_TUNING_CHOICE]; /* what was chosen, for people; may be "" */
};

struct mt_tuner {
    /* Equal for devices that may share results: model, multiprocessors in use, versions. */
    void (*class)(struct mt_device *device, char text[MT_TUNING_KEY]);
    /* The key of a call: its shapes, and the alignment of its memory (data is not read). Equal on devices of one
     * class. */
    void (*key)(struct mt_device *device, const struct mt_call *call, char text[MT_TUNING_KEY]);
    bool (*find)(struct mt_device *device, const char *key, struct mt_tuning *tuning);
    /* Measure all kernels that such a call needs, and keep the results; waits for the stream, and allocates memory.
     * Does nothing if MOTLEY_TUNE is "off". */
    enum mt_status (*tune)(struct mt_stream *stream, const struct mt_call *call, struct mt_err *err);
    /* All results for the device's class: as text (the caller's to free), as a hash. Import: for each key the first
     * text that has it wins, before the device's own result. MT_EINPUT for a text that is damaged or of another class;
     * then nothing is imported. */
    char *(*export)(struct mt_device *device, size_t *length);
    uint64_t (*hash)(struct mt_device *device);
    enum mt_status (*import)(struct mt_device *device, int count, const char *const *texts, const size_t *lengths,
                             struct mt_err *err);
};

/* Null: nothing is tuned. */
const struct mt_tuner *mt_device_tuner(struct mt_device *device);

#endif

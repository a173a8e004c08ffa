/* Which kernels run a call: what a device that measures it provides (mt_device_tuner), beside doing so by itself when a
 * call is first queued.
 *
 *     const struct mt_tuner *tuner = mt_device_tuner(device);       // null: there is nothing to tune
 *     tuner->key(device, &call, key);
 *     if (!tuner->find(device, key, &tuning)) st = tuner->tune(stream, &call, err);
 *
 * Results are kept between runs. Devices of equal classes may take each other's: as text, from export to import. */
#ifndef MT_KERNELS_DEVICE_TUNER_H
#define MT_KERNELS_DEVICE_TUNER_H

#include "kernels/op/op.h"

struct mt_device;
struct mt_stream;

enum { MT_TUNING_KEY = 1024, MT_TUNING_CHOICE = 240 };

struct mt_tuning {
    double tuned_s, default_s;     /* of one call, its operands in no cache */
    double vendor_s;               /* by the vendor's library alone; 0: there is none, or it is not known */
    double error;                  /* of the tuned result against the default's, relative in norm */
    char choice[MT_TUNING_CHOICE]; /* what was chosen, for people; may be "" */
};

struct mt_tuner {
    /* Equal for devices that may share results: model, multiprocessors in use, versions. */
    void (*class)(struct mt_device *device, char text[MT_TUNING_KEY]);
    /* A name for a call, by its shapes and by how its memory is aligned (data is not looked into). Equal on devices of
     * one class. */
    void (*key)(struct mt_device *device, const struct mt_call *call, char text[MT_TUNING_KEY]);
    bool (*find)(struct mt_device *device, const char *key, struct mt_tuning *tuning);
    /* Measure all that such a call needs, and keep it; waits for the stream, and takes memory of its own. Nothing where
     * MOTLEY_TUNE is "off". */
    enum mt_status (*tune)(struct mt_stream *stream, const struct mt_call *call, struct mt_err *err);
    /* All results for the device's class: as text (the caller's to free), as a hash. Of several texts, and of
     * them and what is here, the first that has a result is right; MT_EINPUT for text that is damaged or of another
     * class, and nothing is taken then. */
    char *(*export)(struct mt_device *device, size_t *length);
    uint64_t (*hash)(struct mt_device *device);
    enum mt_status (*import)(struct mt_device *device, int count, const char *const *texts, const size_t *lengths,
                             struct mt_err *err);
};

/* Null: the device has nothing to tune. */
const struct mt_tuner *mt_device_tuner(struct mt_device *device);

#endif

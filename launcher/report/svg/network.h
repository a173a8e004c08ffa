/* A cluster's topology: boxes of equal nodes with their devices, and the links among them, as thick as their bandwidth
 * is large (on a logarithmic scale), an arrow for each direction. */
#ifndef MT_LAUNCHER_REPORT_SVG_NETWORK_H
#define MT_LAUNCHER_REPORT_SVG_NETWORK_H

#include "launcher/report/svg/svg.h"

enum { MT_NETWORK_DEVICES = 8 };

struct mt_network_devices { /* equal devices of a node */
    int count;
    const char *name, *note; /* "h100", "80.0 GiB" */
};
struct mt_network_node { /* equal nodes */
    int count;
    const char *name, *note;
    int ndevices;
    struct mt_network_devices devices[MT_NETWORK_DEVICES];
    const char *inside; /* "nvlink: 450 GB/s"; "" : it has one device */
    double inside_Bps;
    double egress_Bps, ingress_Bps; /* to and from the network */
    const char *egress, *ingress;   /* "12.5 GB/s" */
};
struct mt_network {
    const char *name; /* "net: 12.5 GB/s a pair"; "": there is one node */
    int nnodes;
    const struct mt_network_node *nodes;
};
void mt_network_draw(const void *network, struct mt_svg *svg);

/* The width of a link's line, in pixels, 1.5 to 12: 1 GB/s is 3, and ten times as much 3 more. */
double mt_network_stroke(double Bps);

#endif
